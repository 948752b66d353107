package io.github.braidb;

import java.util.function.LongSupplier;

/** Writes that wait for their commit, and reads that see them over the database: an {@link Overlay} or a {@link Transaction}. */
public abstract sealed class StagedWrites implements AutoCloseable permits Overlay, Transaction {
    final Staged staged;

    StagedWrites(Family defaultFamily, boolean isTransaction, LongSupplier make, String closed) {
        staged = new Staged(defaultFamily, isTransaction, make, closed);
    }

    /**
     * Stages a put in the default family.
     *
     * @param key the key
     * @param value the value
     * @throws BraidException {@code TOO_LARGE}: key, value or all staged writes are over the limits, and nothing was staged; {@code CLOSED}
     */
    public final void put(byte[] key, byte[] value) {
        put(staged.defaultFamily, key, value);
    }

    /**
     * Stages a put.
     *
     * @param family the family
     * @param key the key
     * @param value the value
     * @throws BraidException as {@link #put(byte[], byte[])}; {@code FOREIGN}: the family belongs to another database
     */
    public final void put(Family family, byte[] key, byte[] value) {
        staged.put(family, key, value);
    }

    /**
     * Stages a delete in the default family.
     *
     * @param key the key
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public final void delete(byte[] key) {
        delete(staged.defaultFamily, key);
    }

    /**
     * Stages a delete.
     *
     * @param family the family
     * @param key the key
     * @throws BraidException as {@link #put(Family, byte[], byte[])}
     */
    public final void delete(Family family, byte[] key) {
        staged.delete(family, key);
    }

    /**
     * The value of a key of the default family: the staged one, or else the database's.
     *
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException as {@link Family#get}; {@code CONFLICT}: in a transaction, the key was excised since it began
     */
    public final byte[] get(byte[] key) {
        return get(staged.defaultFamily, key);
    }

    /**
     * The value of a key: the staged one, or else the database's.
     *
     * @param family the family
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException as {@link #get(byte[])}; {@code FOREIGN}
     */
    public final byte[] get(Family family, byte[] key) {
        return staged.get(family, key);
    }

    /**
     * Whether a key of the default family has a value.
     *
     * @param key the key
     * @return whether it has one
     * @throws BraidException as {@link #get(byte[])}
     */
    public final boolean contains(byte[] key) {
        return contains(staged.defaultFamily, key);
    }

    /**
     * Whether a key has a value.
     *
     * @param family the family
     * @param key the key
     * @return whether it has one
     * @throws BraidException as {@link #get(Family, byte[])}
     */
    public final boolean contains(Family family, byte[] key) {
        return staged.contains(family, key);
    }

    /**
     * The entries of a range, in key order.
     *
     * @param family the family
     * @param range the range
     * @return a scan, which the caller closes
     * @throws BraidException {@code CLOSED}, {@code FOREIGN}; movements of a transaction's scan throw {@code CONFLICT} where keys were excised
     */
    public final Scan scan(Family family, Range range) {
        return staged.scan(family, range, false);
    }

    /**
     * The entries of a range, against key order.
     *
     * @param family the family
     * @param range the range
     * @return a scan, which the caller closes
     * @throws BraidException as {@link #scan}
     */
    public final Scan scanBackward(Family family, Range range) {
        return staged.scan(family, range, true);
    }

    /**
     * Writes all that is staged, in one batch with the durability of the options. A transaction has ended then, after an error too.
     *
     * @throws BraidException as {@link BraidDb#write(WriteBatch)}; {@code CONFLICT}: another write changed what the transaction had read, and
     *     nothing was written
     */
    public final void commit() {
        staged.commit(Durability.OF_OPTIONS);
    }

    /**
     * Writes all that is staged, in one batch. A transaction has ended then, after an error too.
     *
     * @param durability what the writes survive once this method has returned
     * @throws BraidException as {@link #commit()}
     */
    public final void commit(Durability durability) {
        staged.commit(durability.ordinal());
    }

    /**
     * Drops all that is staged. An overlay takes new writes then, and a transaction has ended. Does nothing after the commit of a transaction.
     *
     * @throws BraidException {@code CLOSED}: this object or its database was closed
     */
    public final void rollBack() {
        staged.rollBack();
    }

    /** Drops all that is staged, ends scans of a transaction, and frees the native memory. A second close does nothing. */
    @Override
    public final void close() {
        staged.close();
    }
}
