package io.github.braidb.bench;

import java.util.function.ObjLongConsumer;

/** A store that is measured. All writes go to its log, and none is synced. */
interface Store extends AutoCloseable {
    void put(byte[] key, byte[] value);

    /** Writes entries together. {@code fill} sets key and value of each, by its number from {@code first} on. */
    void putAll(long first, int count, byte[] value, ObjLongConsumer<byte[]> fill);

    byte[] get(byte[] key);

    /** Reads up to {@code count} entries from a key on. Returns the sum of the lengths of their values. */
    long scan(byte[] key, int count);

    /** Calls a method that does nothing behind the border. */
    void cross();

    /** Waits until no background work is left. */
    void settle();

    @Override
    void close();
}
