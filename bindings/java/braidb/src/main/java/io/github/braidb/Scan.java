package io.github.braidb;

import java.lang.ref.Reference;
import java.util.function.LongSupplier;

/**
 * The entries of a range as an {@link Overlay} or a {@link Transaction} sees them, in one order.
 *
 * <p>A scan of an overlay shows the moment when it was made. A scan of a transaction shows the transaction's writes so far, and ends with the
 * transaction. What it has returned counts as read, and what it has read ahead: as many entries again, at most 64. After {@link #next} threw
 * an exception, it throws {@link IllegalStateException}.
 */
public final class Scan implements Entries {
    /** The native memory of a scan, about: that of a cursor, and an entry from each side. */
    private static final long BYTES = 8 << 10;

    private final Handle handle;
    private final Page page = new Page();
    private boolean hasEnded;

    /** The transaction or overlay, which stays reachable with the scan: a transaction that is freed ends its scans. */
    private final Staged staged;

    /** The number of the transaction's writes that the page shows. */
    private int seen;

    /** A movement failed, so what follows is unknown. */
    private boolean isLost;

    Scan(Staged staged, LongSupplier make) {
        this.staged = staged;
        handle = Handle.of(this, make, Native::freeScan, BYTES, "the scan was closed; make another one");
    }

    @Override
    public boolean next() {
        long pointer = handle.acquire();
        try {
            if (hasEnded) {
                return false;
            }
            if (isLost) {
                throw new IllegalStateException("an earlier movement failed, so the scan has no place; make another scan");
            }
            int writes = staged.writesToShow();
            byte[] behind = writes != seen && page.isOn() ? page.key() : null;
            if (behind == null && page.step()) {
                return true;
            }
            isLost = true;
            hasEnded = !page.fill(false, (bytes, room, again) -> Native.scanFill(pointer, behind, bytes, room));
            isLost = false;
            seen = writes;
            return !hasEnded;
        } finally {
            handle.release();
            Reference.reachabilityFence(staged);
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public byte[] key() {
        return open().key();
    }

    @Override
    public byte[] value() {
        return open().value();
    }

    @Override
    public void close() {
        handle.close();
    }

    /** The page, unless the scan was closed. A close leaves the page alone, since another thread may read it. */
    private Page open() {
        if (handle.isClosed()) {
            throw new IllegalStateException("the scan was closed, so it stands on no entry; make another one");
        }
        return page;
    }
}
