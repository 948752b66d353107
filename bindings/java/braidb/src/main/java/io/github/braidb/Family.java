package io.github.braidb;

import java.lang.ref.Reference;
import java.util.List;
import java.util.function.LongSupplier;

/**
 * A column family: one of several sorted maps that share the log, the memory and the batches of a database.
 *
 * <p>Any threads may use it. It needs no close, and does not keep {@link BraidDb#close} from closing the database. While it is reachable, the
 * collector does not close a database that was leaked.
 */
public final class Family {
    /** Frees a home once its family is unreachable. */
    private static final class FreeHome implements Runnable {
        /** 0 until the home is made. */
        private volatile long home;

        @Override
        public void run() {
            if (home != 0) {
                Native.freeHome(home);
            }
        }
    }

    private final String name;

    /** The native part. It stays until this object is unreachable, so a close of the database cannot race a call. */
    private final long home;

    /** A family with the home that {@code make} makes. It is made when all is ready to free it, so an error on the way leaks nothing. */
    Family(String name, LongSupplier make) {
        this.name = name;
        FreeHome free = new FreeHome();
        Reaper.registerSlow(this, free);
        free.home = make.getAsLong();
        home = free.home;
        Reference.reachabilityFence(this);
    }

    /** The native part, for a call during which this object stays reachable. */
    long home() {
        return home;
    }

    /**
     * The name of the family.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Sets a key, with the durability of the options.
     *
     * @param key the key
     * @param value the value
     * @throws BraidException {@code POISONED}: the log could not be written, and the write is undecided. After any other error nothing was
     *     written: {@code TOO_LARGE}, {@code FULL}, {@code READ_ONLY}, {@code CLOSED}, {@code IO}
     */
    public void put(byte[] key, byte[] value) {
        put(key, value, Durability.OF_OPTIONS);
    }

    /**
     * Sets a key.
     *
     * @param key the key
     * @param value the value
     * @param durability what the write survives once this method has returned
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public void put(byte[] key, byte[] value, Durability durability) {
        put(key, value, durability.ordinal());
    }

    private void put(byte[] key, byte[] value, int durability) {
        try {
            Native.put(home, notNull(key), notNull(value), durability);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Removes a key, with the durability of the options. A missing key is no error.
     *
     * @param key the key
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public void delete(byte[] key) {
        delete(key, Durability.OF_OPTIONS);
    }

    /**
     * Removes a key. A missing key is no error.
     *
     * @param key the key
     * @param durability what the delete survives once this method has returned
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public void delete(byte[] key, Durability durability) {
        delete(key, durability.ordinal());
    }

    private void delete(byte[] key, int durability) {
        try {
            Native.delete(home, notNull(key), durability);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * The value of a key.
     *
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException {@code IO}, {@code CORRUPTION}: the value could not be read; {@code CLOSED}
     */
    public byte[] get(byte[] key) {
        try {
            return Native.get(home, notNull(key));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * The values of keys, all of one moment. Many keys take less time than as many gets.
     *
     * @param keys the keys
     * @return the values in the order of the keys, with null for a key that has none
     * @throws BraidException as {@link #get}; {@code INVALID}: the values have 2 GiB or more together
     */
    public byte[][] getMany(List<byte[]> keys) {
        try {
            return Packed.values(Native.getMany(home, Packed.list(keys)), keys.size());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Whether a key has a value.
     *
     * @param key the key
     * @return whether it has one
     * @throws BraidException as {@link #get}
     */
    public boolean contains(byte[] key) {
        try {
            return Native.contains(home, notNull(key));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * A cursor over all entries at this moment.
     *
     * @return a cursor, which the caller closes
     * @throws BraidException {@code CLOSED}
     */
    public Cursor cursor() {
        return cursor(Range.all());
    }

    /**
     * A cursor over the entries of a range at this moment.
     *
     * @param range the range
     * @return a cursor, which the caller closes
     * @throws BraidException {@code CLOSED}
     */
    public Cursor cursor(Range range) {
        try {
            byte[] packed = range.packed();
            return new Cursor(() -> Native.cursor(home, 0, packed));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * About how much a range holds.
     *
     * @param range the range
     * @return the estimate
     * @throws BraidException as {@link #get}
     */
    public Estimate estimate(Range range) {
        try {
            long[] numbers = Native.estimate(home, range.packed());
            return new Estimate(numbers[0], numbers[1], numbers[2], numbers[3]);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Takes all entries of whole ranges away, and gives their space back. Takes about as long as a flush, however much it takes away.
     * Snapshots from before fail with {@code EXCISED} where they touch a range. For single keys a delete is better.
     *
     * @param ranges the ranges
     * @throws BraidException as {@link BraidDb#flush}; {@code CORRUPTION}: a table cannot be cut
     */
    public void excise(Range... ranges) {
        try {
            Native.excise(home, Range.packed(ranges));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Merges the entries of a range into their last level, so that deletes and overwritten values take no space any more.
     *
     * @param range the range
     * @throws BraidException as {@link BraidDb#flush}
     */
    public void compactRange(Range range) {
        try {
            Native.compactRange(home, range.packed());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public String toString() {
        return "Family " + name;
    }

    private static byte[] notNull(byte[] bytes) {
        return java.util.Objects.requireNonNull(bytes, "keys and values are not null");
    }
}
