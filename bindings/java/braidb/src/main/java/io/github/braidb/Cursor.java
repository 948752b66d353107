package io.github.braidb;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.function.LongSupplier;

/**
 * A place among the entries of a range at one moment, which moves both ways.
 *
 * <p>A new cursor stands on no entry: {@link #next} moves it to the first one, and {@link #prev} to the last. A cursor that ran over an end
 * comes back by a movement the other way. Movements in one direction are cheap, since entries come in pages of up to 64 KiB; a turn costs
 * about as much as a seek. After a movement that threw, only {@link #first}, {@link #last} and the seeks move the cursor.
 */
public final class Cursor implements Entries {
    /** The native memory of a cursor, about: its place in each of several runs, and a block for each. */
    private static final long BYTES = 8 << 10;

    // The movements of the native library.
    private static final int NEXT = 0;
    private static final int PREV = 1;
    private static final int FIRST = 2;
    private static final int LAST = 3;
    private static final int SEEK = 4;
    private static final int SEEK_FOR_PREV = 5;
    private static final int AFTER = 6;
    private static final int BEFORE = 7;

    /** Where the cursor stands. */
    private enum Place {
        /** It has not moved yet. */
        NEW,
        /** On an entry of a page in key order. */
        FORWARD,
        /** On an entry of a page against key order. */
        BACKWARD,
        BEFORE_FIRST,
        BEHIND_LAST,
        /** A movement failed. */
        LOST
    }

    private final Handle handle;
    private final Page page = new Page();
    private Place place = Place.NEW;

    Cursor(LongSupplier make) {
        handle = Handle.of(this, make, Native::freeCursor, BYTES, "the cursor was closed; make another one");
    }

    /**
     * Moves to the next entry in key order.
     *
     * @return whether there is one
     * @throws BraidException {@code IO}, {@code CORRUPTION}: an entry could not be read; {@code CLOSED}; {@code EXCISED}: the cursor is one of
     *     a snapshot, and keys of its range were excised since
     */
    @Override
    public boolean next() {
        check();
        return switch (place) {
            case FORWARD -> page.step() || fill(NEXT, null);
            case BACKWARD -> fill(AFTER, page.key());
            case NEW, BEFORE_FIRST -> fill(FIRST, null);
            case BEHIND_LAST -> false;
            case LOST -> throw lost();
        };
    }

    /**
     * Moves to the next entry against key order.
     *
     * @return whether there is one
     * @throws BraidException as {@link #next}
     */
    public boolean prev() {
        check();
        return switch (place) {
            case BACKWARD -> page.step() || fill(PREV, null);
            case FORWARD -> fill(BEFORE, page.key());
            case NEW, BEHIND_LAST -> fill(LAST, null);
            case BEFORE_FIRST -> false;
            case LOST -> throw lost();
        };
    }

    /**
     * Moves to the first entry.
     *
     * @return whether there is one
     * @throws BraidException as {@link #next}
     */
    public boolean first() {
        return fill(FIRST, null);
    }

    /**
     * Moves to the last entry.
     *
     * @return whether there is one
     * @throws BraidException as {@link #next}
     */
    public boolean last() {
        return fill(LAST, null);
    }

    /**
     * Moves to the first entry whose key is {@code key} or larger.
     *
     * @param key the key
     * @return whether there is one
     * @throws BraidException as {@link #next}
     */
    public boolean seek(byte[] key) {
        return fill(SEEK, java.util.Objects.requireNonNull(key, "key"));
    }

    /**
     * Moves to the last entry whose key is {@code key} or smaller.
     *
     * @param key the key
     * @return whether there is one
     * @throws BraidException as {@link #next}
     */
    public boolean seekForPrev(byte[] key) {
        return fill(SEEK_FOR_PREV, java.util.Objects.requireNonNull(key, "key"));
    }

    @Override
    public byte[] key() {
        return open().key();
    }

    @Override
    public byte[] value() {
        return open().value();
    }

    /**
     * The key of the entry on which the cursor stands, without a copy.
     *
     * @return a buffer that means nothing any more after the next movement
     * @throws IllegalStateException if the cursor stands on no entry
     */
    public ByteBuffer keyBuffer() {
        return open().keyBuffer();
    }

    /**
     * The value of the entry on which the cursor stands, without a copy.
     *
     * @return a buffer that means nothing any more after the next movement
     * @throws IllegalStateException if the cursor stands on no entry
     */
    public ByteBuffer valueBuffer() {
        return open().valueBuffer();
    }

    @Override
    public void close() {
        handle.close();
    }

    /** The page, unless the cursor was closed. A close leaves the page alone, since another thread may read it. */
    private Page open() {
        if (handle.isClosed()) {
            throw new IllegalStateException("the cursor was closed, so it stands on no entry; make another one");
        }
        return page;
    }

    private void check() {
        if (handle.isClosed()) {
            handle.acquire();
        }
    }

    /** Fetches a page that begins with a movement, and moves to its first entry. */
    private boolean fill(int movement, byte[] key) {
        boolean isBackward = movement == PREV || movement == LAST || movement == SEEK_FOR_PREV || movement == BEFORE;
        place = Place.LOST;
        long pointer = handle.acquire();
        try {
            boolean isJump = movement != NEXT && movement != PREV;
            boolean isOn = page.fill(isJump, (bytes, room, again) -> Native.cursorFill(
                    pointer, again ? (isBackward ? PREV : NEXT) : movement, again ? null : key, bytes, room));
            if (isOn) {
                place = isBackward ? Place.BACKWARD : Place.FORWARD;
            } else {
                place = isBackward ? Place.BEFORE_FIRST : Place.BEHIND_LAST;
            }
            return isOn;
        } finally {
            handle.release();
            Reference.reachabilityFence(this);
        }
    }

    private static IllegalStateException lost() {
        return new IllegalStateException("the last movement failed, so the cursor has no place; seek first");
    }
}
