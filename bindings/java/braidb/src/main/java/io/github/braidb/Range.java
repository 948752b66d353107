package io.github.braidb;

import java.util.Arrays;

/** A range of keys. Ranges never change. */
public final class Range {
    private static final byte NO_BOUND = 0;
    private static final byte INCLUDED = 1;
    private static final byte EXCLUDED = 2;
    private static final Range ALL = new Range(null, NO_BOUND, null, NO_BOUND);

    /** The range as the native library takes it: lower and upper bound, each a kind, a length and the key. */
    private final byte[] packed;

    private Range(byte[] low, byte lowKind, byte[] high, byte highKind) {
        int keys = (low == null ? 0 : low.length) + (high == null ? 0 : high.length);
        Packed edges = new Packed(2 * (1 + Integer.BYTES) + keys);
        addEdge(edges, low, lowKind);
        addEdge(edges, high, highKind);
        packed = edges.bytes();
    }

    private static void addEdge(Packed edges, byte[] key, byte kind) {
        edges.add(kind);
        edges.add(key == null ? 0 : key.length);
        if (key != null) {
            edges.add(key);
        }
    }

    /**
     * All keys.
     *
     * @return the range
     */
    public static Range all() {
        return ALL;
    }

    /**
     * The keys from {@code low} on, which belongs to the range.
     *
     * @param low the smallest key
     * @return the range
     */
    public static Range from(byte[] low) {
        return new Range(low.clone(), INCLUDED, null, NO_BOUND);
    }

    /**
     * The keys behind {@code low}, which does not belong to the range.
     *
     * @param low the key in front of the range
     * @return the range
     */
    public static Range after(byte[] low) {
        return new Range(low.clone(), EXCLUDED, null, NO_BOUND);
    }

    /**
     * The keys before {@code high}, which does not belong to the range.
     *
     * @param high the key behind the range
     * @return the range
     */
    public static Range before(byte[] high) {
        return new Range(null, NO_BOUND, high.clone(), EXCLUDED);
    }

    /**
     * The keys from {@code low}, which belongs to the range, up to {@code high}, which does not. A range that ends before its start is
     * empty.
     *
     * @param low the smallest key
     * @param high the key behind the range
     * @return the range
     */
    public static Range between(byte[] low, byte[] high) {
        return new Range(low.clone(), INCLUDED, high.clone(), EXCLUDED);
    }

    /**
     * The keys from {@code low} to {@code high}, which both belong to the range.
     *
     * @param low the smallest key
     * @param high the largest key
     * @return the range
     */
    public static Range closed(byte[] low, byte[] high) {
        return new Range(low.clone(), INCLUDED, high.clone(), INCLUDED);
    }

    /**
     * The keys that start with {@code prefix}.
     *
     * @param prefix the first bytes of the keys; all keys start with an empty one
     * @return the range
     */
    public static Range prefix(byte[] prefix) {
        int last = prefix.length - 1;
        while (last >= 0 && prefix[last] == (byte) 0xFF) {
            last--;
        }
        if (last < 0) {
            return from(prefix);
        }
        byte[] high = Arrays.copyOf(prefix, last + 1);
        high[last]++;
        return between(prefix, high);
    }

    byte[] packed() {
        return packed;
    }

    /** Ranges as the native library takes them. */
    static byte[] packed(Range... ranges) {
        Packed all = new Packed(0);
        for (Range range : ranges) {
            all.reserve(range.packed.length);
            all.add(range.packed);
        }
        return all.toArray();
    }
}
