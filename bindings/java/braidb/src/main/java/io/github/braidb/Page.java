package io.github.braidb;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Entries that the native library has written into one array: for each entry the lengths of key and value, then both.
 *
 * <p>A walk begins with an array of 1 KiB, since most walks end soon, and fetches four times as much each time, up to 64 KiB.
 */
final class Page {
    /** Bytes of the first page. */
    private static final int FIRST_BYTES = 1 << 10;

    /** Bytes of the largest page, unless one entry takes more. */
    private static final int MOST_BYTES = 64 << 10;

    /** How much larger each page is than the last one. */
    private static final int GROWTH = 4;

    /** What fills an array. */
    interface Filler {
        /**
         * Fills the first {@code room} bytes.
         *
         * @param again whether the last call found an entry that is longer than its array
         * @return the bytes that were used, or the bytes that the next entry takes, negated
         */
        int fill(byte[] bytes, int room, boolean again);
    }

    private byte[] bytes = new byte[0];
    private int room;
    private int end;
    private int next;
    private int key = -1;
    private int keyLength;
    private int valueLength;

    /**
     * Fetches a page, and moves to its first entry.
     *
     * @param isJump whether the page begins elsewhere than behind the last one
     * @return whether it has an entry
     */
    boolean fill(boolean isJump, Filler filler) {
        room = isJump || room == 0 ? FIRST_BYTES : Math.min(GROWTH * room, MOST_BYTES);
        if (bytes.length < room) {
            bytes = new byte[room];
        }
        clear();
        int used = filler.fill(bytes, room, false);
        if (used < 0) {
            if (bytes.length < -used) {
                bytes = new byte[-used];
            }
            used = filler.fill(bytes, -used, true);
        }
        end = used;
        return step();
    }

    /** Moves to the next entry of the page. Returns whether there is one. */
    boolean step() {
        if (next == end) {
            return false;
        }
        keyLength = (int) Packed.INT.get(bytes, next);
        valueLength = (int) Packed.INT.get(bytes, next + Integer.BYTES);
        key = next + 2 * Integer.BYTES;
        next = key + keyLength + valueLength;
        return true;
    }

    /** Whether there is an entry to stand on. */
    boolean isOn() {
        return key >= 0;
    }

    /** Leaves no entry to stand on. */
    void clear() {
        end = 0;
        next = 0;
        key = -1;
    }

    byte[] key() {
        check();
        return Arrays.copyOfRange(bytes, key, key + keyLength);
    }

    byte[] value() {
        check();
        return Arrays.copyOfRange(bytes, key + keyLength, next);
    }

    ByteBuffer keyBuffer() {
        check();
        return ByteBuffer.wrap(bytes, key, keyLength).slice().asReadOnlyBuffer();
    }

    ByteBuffer valueBuffer() {
        check();
        return ByteBuffer.wrap(bytes, key + keyLength, valueLength).slice().asReadOnlyBuffer();
    }

    private void check() {
        if (key < 0) {
            throw new IllegalStateException("it stands on no entry; a movement that returned true comes first");
        }
    }
}
