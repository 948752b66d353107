package io.github.braidb;

import java.util.function.LongSupplier;

/**
 * Staged writes over a database and its families. Reads of the overlay see them over what the database holds. The database does not see them
 * until {@link #commit()} writes them together, in one batch.
 *
 * <p>Any threads may read and write an overlay. Threads that read while another one commits see the staged writes until the database shows
 * them. An overlay finds no conflicts: a commit overwrites what others wrote meanwhile. {@link Transaction} finds them. Staged writes lie in
 * native memory, and take about 150 bytes besides key and value.
 */
public final class Overlay implements AutoCloseable {
    private final Staged staged;

    Overlay(Family defaultFamily, LongSupplier make) {
        staged = new Staged(defaultFamily, false, make, "the overlay was closed; make another one");
    }

    /**
     * Stages a put in the default family.
     *
     * @param key the key
     * @param value the value
     * @throws BraidException {@code TOO_LARGE}: key, value or all staged writes are over the limits, and nothing was staged; {@code CLOSED}
     */
    public void put(byte[] key, byte[] value) {
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
    public void put(Family family, byte[] key, byte[] value) {
        staged.put(family, key, value);
    }

    /**
     * Stages a delete in the default family.
     *
     * @param key the key
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public void delete(byte[] key) {
        delete(staged.defaultFamily, key);
    }

    /**
     * Stages a delete.
     *
     * @param family the family
     * @param key the key
     * @throws BraidException as {@link #put(Family, byte[], byte[])}
     */
    public void delete(Family family, byte[] key) {
        staged.delete(family, key);
    }

    /**
     * The value of a key of the default family: the staged one, or else the database's.
     *
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException as {@link Family#get}
     */
    public byte[] get(byte[] key) {
        return get(staged.defaultFamily, key);
    }

    /**
     * The value of a key: the staged one, or else the database's.
     *
     * @param family the family
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException as {@link Family#get}; {@code FOREIGN}
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
     * The entries of a range at this moment, in key order.
     *
     * @param family the family
     * @param range the range
     * @return a scan, which the caller closes; it shows nothing that is staged or committed later
     * @throws BraidException {@code CLOSED}, {@code FOREIGN}
     */
    public Scan scan(Family family, Range range) {
        return staged.scan(family, range, false);
    }

    /**
     * The entries of a range at this moment, against key order.
     *
     * @param family the family
     * @param range the range
     * @return a scan, which the caller closes; it shows nothing that is staged or committed later
     * @throws BraidException as {@link #scan}
     */
    public Scan scanBackward(Family family, Range range) {
        return staged.scan(family, range, true);
    }

    /**
     * The number of keys that are staged.
     *
     * @return the number
     * @throws BraidException {@code CLOSED}
     */
    public long count() {
        return staged.with(staged.defaultFamily, Native::overlayCount);
    }

    /**
     * The bytes that the staged writes will take in the log, about.
     *
     * @return the number of bytes
     * @throws BraidException {@code CLOSED}
     */
    public long bytes() {
        return staged.with(staged.defaultFamily, Native::overlayBytes);
    }

    /**
     * Writes all that is staged, in one batch with the durability of the options. The overlay takes new writes then.
     *
     * @throws BraidException as {@link BraidDb#write(WriteBatch)}; all is still staged then
     */
    public void commit() {
        staged.commit(Durability.OF_OPTIONS);
    }

    /**
     * Writes all that is staged, in one batch. The overlay takes new writes then.
     *
     * @param durability what the writes survive once this method has returned
     * @throws BraidException as {@link #commit()}
     */
    public void commit(Durability durability) {
        staged.commit(durability.ordinal());
    }

    /**
     * Drops all that is staged. The overlay takes new writes then.
     *
     * @throws BraidException {@code CLOSED}
     */
    public void rollBack() {
        staged.rollBack();
    }

    /** Drops all that is staged, and frees the native memory. Scans show what they showed. A second close does nothing. */
    @Override
    public void close() {
        staged.close();
    }
}
