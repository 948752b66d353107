package io.github.braidb;

import java.util.function.LongSupplier;

/**
 * Reads and writes that take effect together, at one moment, or not at all.
 *
 * <p>Transactions are serializable. All reads are of the moment when the transaction began, with its own writes over them. {@link #commit()}
 * writes all in one batch, unless another write has changed something that this transaction read, keys that were absent and ranges that
 * scans covered included. Then it fails with {@code CONFLICT}, and nothing is written. {@link BraidDb#transact} begins again. Close a
 * transaction soon: while it lives, it keeps old versions as a {@link Snapshot} does.
 */
public final class Transaction implements AutoCloseable {
    private final Staged staged;

    Transaction(Family defaultFamily, LongSupplier make) {
        staged = new Staged(defaultFamily, true, make, "the transaction was closed; begin another one");
    }

    /**
     * Sets a key of the default family when the transaction commits.
     *
     * @param key the key
     * @param value the value
     * @throws BraidException {@code TOO_LARGE}: key, value or all writes are over the limits, and nothing was staged; {@code CLOSED}
     */
    public void put(byte[] key, byte[] value) {
        put(staged.defaultFamily, key, value);
    }

    /**
     * Sets a key when the transaction commits.
     *
     * @param family the family
     * @param key the key
     * @param value the value
     * @throws BraidException as {@link #put(byte[], byte[])}; {@code FOREIGN}: the family belongs to another database
     */
    public void put(Family family, byte[] key, byte[] value) {
        staged.put(family, key, value);
    }

    /**
     * Removes a key of the default family when the transaction commits.
     *
     * @param key the key
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public void delete(byte[] key) {
        delete(staged.defaultFamily, key);
    }

    /**
     * Removes a key when the transaction commits.
     *
     * @param family the family
     * @param key the key
     * @throws BraidException as {@link #put(Family, byte[], byte[])}
     */
    public void delete(Family family, byte[] key) {
        staged.delete(family, key);
    }

    /**
     * The value of a key of the default family.
     *
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException as {@link Family#get}; {@code CONFLICT}: the key was excised since
     */
    public byte[] get(byte[] key) {
        return get(staged.defaultFamily, key);
    }

    /**
     * The value of a key.
     *
     * @param family the family
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException as {@link #get(byte[])}; {@code FOREIGN}
     */
    public byte[] get(Family family, byte[] key) {
        return staged.get(family, key);
    }

    /**
     * Whether a key of the default family has a value.
     *
     * @param key the key
     * @return whether it has one
     * @throws BraidException as {@link #get(byte[])}
     */
    public boolean contains(byte[] key) {
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
    public boolean contains(Family family, byte[] key) {
        return staged.contains(family, key);
    }

    /**
     * The entries of a range, in key order.
     *
     * @param family the family
     * @param range the range
     * @return a scan, which the caller closes; it ends with the transaction
     * @throws BraidException {@code CLOSED}, {@code FOREIGN}; the scan's movements throw {@code CONFLICT} where keys were excised
     */
    public Scan scan(Family family, Range range) {
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
    public Scan scanBackward(Family family, Range range) {
        return staged.scan(family, range, true);
    }

    /**
     * Writes all with the durability of the options, if all that was read is still true. The transaction has ended then, after an error too.
     *
     * @throws BraidException {@code CONFLICT}: another write changed what was read, and nothing was written; else as
     *     {@link BraidDb#write(WriteBatch)}
     */
    public void commit() {
        staged.commit(Durability.OF_OPTIONS);
    }

    /**
     * Writes all, if all that was read is still true. The transaction has ended then, after an error too.
     *
     * @param durability what the writes survive once this method has returned
     * @throws BraidException as {@link #commit()}
     */
    public void commit(Durability durability) {
        staged.commit(durability.ordinal());
    }

    /**
     * Drops all writes, and ends the transaction. Does nothing after a commit.
     *
     * @throws BraidException {@code CLOSED}: the transaction or its database was closed
     */
    public void rollBack() {
        staged.rollBack();
    }

    /** Drops what was not committed, ends scans of the transaction, and frees the native memory. A second close does nothing. */
    @Override
    public void close() {
        staged.close();
    }
}
