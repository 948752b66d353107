package io.github.braidb;

import java.lang.ref.Reference;
import java.util.List;
import java.util.Objects;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;

/**
 * The database as it was at one moment, over all column families. Old versions stay until the snapshot is closed.
 *
 * <p>Any threads may use it. After {@link Family#excise} its reads in the range fail with {@code EXCISED}.
 */
public final class Snapshot implements AutoCloseable {
    /** The native memory of a snapshot, about. What it keeps of the database is shared, and is not counted. */
    private static final long BYTES = 1 << 10;

    private final Family defaultFamily;
    private final Handle handle;

    Snapshot(Family defaultFamily, LongSupplier make) {
        this.defaultFamily = defaultFamily;
        handle = Handle.of(this, make, Native::freeSnapshot, BYTES, "the snapshot was closed; take another one");
    }

    /**
     * The value of a key of the default family.
     *
     * @param key the key
     * @return the value, or null if the key had none
     * @throws BraidException as {@link Family#get}; {@code EXCISED}
     */
    public byte[] get(byte[] key) {
        return get(defaultFamily, key);
    }

    /**
     * The value of a key.
     *
     * @param family the family
     * @param key the key
     * @return the value, or null if the key had none
     * @throws BraidException as {@link Family#get}; {@code EXCISED}; {@code FOREIGN}: the family belongs to another database
     */
    public byte[] get(Family family, byte[] key) {
        Objects.requireNonNull(key, "key");
        return with(family, pointer -> Native.snapshotGet(pointer, family.home(), key));
    }

    /**
     * The values of keys.
     *
     * @param family the family
     * @param keys the keys
     * @return the values in the order of the keys, with null for a key that had none
     * @throws BraidException as {@link #get(Family, byte[])}
     */
    public byte[][] getMany(Family family, List<byte[]> keys) {
        byte[] packed = Packed.list(keys);
        return with(family, pointer ->
                Packed.values(Native.snapshotGetMany(pointer, family.home(), packed), keys.size()));
    }

    /**
     * Whether a key of the default family had a value.
     *
     * @param key the key
     * @return whether it had one
     * @throws BraidException as {@link #get(byte[])}
     */
    public boolean contains(byte[] key) {
        return contains(defaultFamily, key);
    }

    /**
     * Whether a key had a value.
     *
     * @param family the family
     * @param key the key
     * @return whether it had one
     * @throws BraidException as {@link #get(Family, byte[])}
     */
    public boolean contains(Family family, byte[] key) {
        Objects.requireNonNull(key, "key");
        return with(family, pointer -> Native.snapshotContains(pointer, family.home(), key));
    }

    /**
     * A cursor over the entries of a range of the default family.
     *
     * @param range the range
     * @return a cursor, which the caller closes; it may outlive the snapshot
     * @throws BraidException {@code CLOSED}; the cursor's movements throw {@code EXCISED}
     */
    public Cursor cursor(Range range) {
        return cursor(defaultFamily, range);
    }

    /**
     * A cursor over the entries of a range.
     *
     * @param family the family
     * @param range the range
     * @return a cursor, which the caller closes; it may outlive the snapshot
     * @throws BraidException {@code CLOSED}, {@code FOREIGN}; the cursor's movements throw {@code EXCISED}
     */
    public Cursor cursor(Family family, Range range) {
        byte[] packed = range.packed();
        return with(family, pointer -> new Cursor(() -> Native.cursor(family.home(), pointer, packed)));
    }

    /** Lets the moment go. Calls under way end as before. A second close does nothing. */
    @Override
    public void close() {
        handle.close();
    }

    private <T> T with(Family family, LongFunction<T> call) {
        long pointer = handle.acquire();
        try {
            return call.apply(pointer);
        } finally {
            handle.release();
            Reference.reachabilityFence(family);
            Reference.reachabilityFence(this);
        }
    }
}
