package io.github.braidb.streams;

import io.github.braidb.Range;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;

/** A store's part of the shared database: all keys that begin with one number. */
final class Slot {
    /** Bytes in front of a store's own key: the number, in big-endian, and the kind of the key. */
    static final int HEAD_BYTES = Integer.BYTES + 1;

    /** The kind of keys that hold offsets, position, stream time and status. */
    static final byte META = 0;

    /** The kind of keys that hold the store's entries. */
    static final byte DATA = 1;

    /** The kind of keys that list entries by their time, where a topology reads them so. */
    static final byte INDEX = 2;

    private final int number;
    private final Path marker;
    private final boolean isNew;
    private final byte[] dataHead;

    Slot(int number, Path marker, boolean isNew) {
        this.number = number;
        this.marker = marker;
        this.isNew = isNew;
        dataHead = key(number, DATA, new byte[0]);
    }

    int number() {
        return number;
    }

    /** The file that ties the slot to the directory of a task. */
    Path marker() {
        return marker;
    }

    /** Whether the slot was made for this opening of the store. */
    boolean isNew() {
        return isNew;
    }

    byte[] data(byte[] key) {
        byte[] whole = Arrays.copyOf(dataHead, HEAD_BYTES + key.length);
        System.arraycopy(key, 0, whole, HEAD_BYTES, key.length);
        return whole;
    }

    byte[] meta(byte[] key) {
        return key(number, META, key);
    }

    byte[] index(byte[] key) {
        return key(number, INDEX, key);
    }

    /** The keys of the index from {@code low}, which belongs to the range, to {@code high}, which does not. */
    Range index(byte[] low, byte[] high) {
        return Range.between(index(low), index(high));
    }

    Range allMeta() {
        return Range.prefix(key(number, META, new byte[0]));
    }

    Range allData() {
        return Range.prefix(dataHead);
    }

    /**
     * The entries from {@code low} to {@code high}.
     *
     * @param low the smallest key, or null for no bound
     * @param high the largest key, or null for no bound
     * @param isHighIncluded whether {@code high} belongs to the range
     */
    Range data(byte[] low, byte[] high, boolean isHighIncluded) {
        byte[] from = low == null ? dataHead : data(low);
        if (high == null) {
            return Range.between(from, key(number, (byte) (DATA + 1), new byte[0]));
        }
        return isHighIncluded ? Range.closed(from, data(high)) : Range.between(from, data(high));
    }

    /** All keys of the slot with a number. */
    static Range whole(int number) {
        return Range.prefix(ByteBuffer.allocate(Integer.BYTES).putInt(number).array());
    }

    static byte[] key(int number, byte kind, byte[] key) {
        return ByteBuffer.allocate(HEAD_BYTES + key.length).putInt(number).put(kind).put(key).array();
    }
}
