package io.github.braidb.streams;

import java.util.Arrays;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Bounds of keys. */
final class Ranges {
    private static final Logger LOG = LoggerFactory.getLogger(Ranges.class);

    /** The words in which all stores of Kafka Streams say it, which its tests expect. */
    private static final String REVERSED =
            "Returning empty iterator for fetch with invalid key range: from > to."
                    + " This may be due to range arguments set in the wrong order, or serdes that don't preserve ordering"
                    + " when lexicographically comparing the serialized bytes."
                    + " Note that the built-in numerical serdes do not follow this for negative numbers";

    private Ranges() {}

    /** Whether a range ends before its start, of which the log tells. */
    static boolean isReversed(Bytes from, Bytes to) {
        boolean isReversed = from != null && to != null && from.compareTo(to) > 0;
        if (isReversed) {
            LOG.warn(REVERSED);
        }
        return isReversed;
    }

    /** The first key behind all keys that begin with a prefix, or null if there is none. */
    static byte[] behindPrefix(byte[] prefix) {
        int last = prefix.length - 1;
        while (last >= 0 && prefix[last] == (byte) 0xFF) {
            last--;
        }
        if (last < 0) {
            return null;
        }
        byte[] behind = Arrays.copyOf(prefix, last + 1);
        behind[last]++;
        return behind;
    }

    /**
     * The largest of all keys that are a key up to {@code key}, and then a suffix up to {@code suffix}, which has one length.
     *
     * <p>A short key may sort behind a longer one by its suffix. So the largest key begins with {@code key} or with a prefix of it.
     */
    static byte[] largest(byte[] key, byte[] suffix) {
        byte[] largest = joined(key, 0, suffix);
        for (int length = 1; length <= key.length; length++) {
            int order = compare(key, length, suffix, largest);
            largest = order > 0 ? joined(key, length, suffix) : largest;
        }
        return largest;
    }

    /** Compares {@code length} bytes of {@code key} and {@code suffix} behind them with {@code other}. */
    private static int compare(byte[] key, int length, byte[] suffix, byte[] other) {
        int head = Arrays.compareUnsigned(key, 0, length, other, 0, Math.min(length, other.length));
        if (head != 0 || other.length <= length) {
            return head;
        }
        return Arrays.compareUnsigned(suffix, 0, suffix.length, other, length, other.length);
    }

    static byte[] joined(byte[] key, int length, byte[] suffix) {
        byte[] joined = Arrays.copyOf(key, length + suffix.length);
        System.arraycopy(suffix, 0, joined, length, suffix.length);
        return joined;
    }

    /** No entries. */
    static <K> KeyValueIterator<K, byte[]> none() {
        return new KeyValueIterator<>() {
            @Override
            public boolean hasNext() {
                return false;
            }

            @Override
            public KeyValue<K, byte[]> next() {
                throw new NoSuchElementException();
            }

            @Override
            public K peekNextKey() {
                throw new NoSuchElementException();
            }

            @Override
            public void close() {}
        };
    }
}
