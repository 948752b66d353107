package io.github.braidb;

/**
 * Entries of a range, one after the other. A new object stands on no entry; {@link #next} moves it to the first one.
 *
 * <p>One thread at a time uses it. It holds native memory and keeps files from being deleted, so close it, best by {@code try (…)}. After a
 * close of the database it may still show entries that it had fetched, at most 64 KiB.
 */
public sealed interface Entries extends AutoCloseable permits Cursor, Scan {
    /**
     * Moves to the next entry.
     *
     * @return whether there is one
     * @throws BraidException {@code IO}, {@code CORRUPTION}: an entry could not be read; {@code CLOSED}
     */
    boolean next();

    /**
     * The key of the entry on which this object stands.
     *
     * @return a copy of the key
     * @throws IllegalStateException if it stands on no entry
     */
    byte[] key();

    /**
     * The value of the entry on which this object stands.
     *
     * @return a copy of the value
     * @throws IllegalStateException if it stands on no entry
     */
    byte[] value();

    /** Lets the moment go, and frees the native memory. A second close does nothing. */
    @Override
    void close();
}
