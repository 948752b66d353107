package io.github.braidb;

import java.lang.ref.Reference;

/**
 * The entries of a range as an {@link Overlay} or a {@link Transaction} sees them, in one order.
 *
 * <p>A scan of an overlay shows the moment when it was made. A scan of a transaction shows the transaction's writes so far, and what it has
 * returned counts as read.
 */
public final class Scan implements Entries {
    /** The native memory of a scan, about: that of a cursor, and an entry from each side. */
    private static final long BYTES = 8 << 10;

    private final Handle handle;
    private final Page page = new Page();
    private boolean hasEnded;

    Scan(long pointer) {
        handle = Handle.of(this, pointer, Native::freeScan, BYTES, "the scan was closed; make another one");
    }

    @Override
    public boolean next() {
        long pointer = handle.acquire();
        try {
            if (hasEnded) {
                return false;
            }
            boolean isOn = page.step()
                    || page.fill(false, (bytes, room, again) -> Native.scanFill(pointer, bytes, room));
            hasEnded = !isOn;
            return isOn;
        } finally {
            handle.release();
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public byte[] key() {
        return page.key();
    }

    @Override
    public byte[] value() {
        return page.value();
    }

    @Override
    public void close() {
        page.clear();
        handle.close();
    }
}
