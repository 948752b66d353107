package io.github.braidb;

import java.util.function.LongSupplier;

/**
 * Staged writes over a database and its families. Reads of the overlay see them over what the database holds. The database does not see them
 * until {@link #commit()} writes them together, in one batch. An overlay takes new writes then. After an error all is still staged.
 *
 * <p>Any threads may read and write an overlay. Threads that read while another one commits see the staged writes until the database shows
 * them. An overlay finds no conflicts: a commit overwrites what others wrote meanwhile. {@link Transaction} finds them. Staged writes lie in
 * native memory, and take about 190 bytes besides key and value. A scan shows the moment when it was made, also after the overlay is closed.
 */
public final class Overlay extends StagedWrites {
    Overlay(Family defaultFamily, LongSupplier make) {
        super(defaultFamily, false, make, "the overlay was closed; make another one");
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
     * The native memory that the staged writes take, about. A commit takes the bytes of their keys and values once more while it runs.
     *
     * @return the number of bytes, 0 if nothing is staged
     * @throws BraidException {@code CLOSED}
     */
    public long memoryBytes() {
        return staged.memoryBytes();
    }
}
