package io.github.braidb.streams;

import io.github.braidb.Range;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.LongFunction;
import java.util.function.Predicate;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueIterator;

/** The reads of a store of windows or sessions at an isolation level. Times are milliseconds since the epoch, and belong to ranges. */
final class SegmentedReads {
    private final BraidSegmentedStore store;
    private final IsolationLevel level;
    private final SegmentKeys keys;

    SegmentedReads(BraidSegmentedStore store, IsolationLevel level) {
        this.store = store;
        this.level = level;
        this.keys = store.keys();
    }

    /** The value of an entry, or null if there is none, or none that has not expired. */
    byte[] get(byte[] key) {
        View view = store.view(level);
        long time = keys.timestamp(key);
        if (time < store.firstVisible()) {
            return null;
        }
        byte[] data = store.data(key);
        return store.guarded(() -> view.get(data));
    }

    /** The entries of a record's key that are within times, as {@link SegmentKeys#isWithin}. */
    KeyValueIterator<Bytes, byte[]> ofKey(Bytes key, long from, long to, boolean isBackward) {
        byte[] bytes = key.get();
        long first = Math.max(from, store.firstVisible());
        Predicate<byte[]> filter = found -> isOf(found, bytes) && keys.isWithin(found, first, to);
        return entries(first, to, isBackward, filter, segment -> {
            long start = segment * store.segmentMs();
            byte[] low = keys.lowSuffix(Math.max(Math.max(first, start), 0));
            byte[] high = keys.highSuffix(to, last(segment));
            return range(segment, Ranges.joined(bytes, bytes.length, low), Ranges.joined(bytes, bytes.length, high));
        });
    }

    /** The entries of the keys between two that are within times. A key that is null is no bound. */
    KeyValueIterator<Bytes, byte[]> ofKeys(Bytes keyFrom, Bytes keyTo, long from, long to, boolean isBackward) {
        if (Ranges.isReversed(keyFrom, keyTo)) {
            return Ranges.none();
        }
        byte[] least = keyFrom == null ? null : keyFrom.get();
        byte[] most = keyTo == null ? null : keyTo.get();
        long first = Math.max(from, store.firstVisible());
        if (store.isIndexed() && least == null && most == null && keys == SegmentKeys.WINDOW) {
            return byTime(first, to, isBackward);
        }
        Predicate<byte[]> filter = found -> keys.isWithin(found, first, to)
                && (least == null || compare(found, least) >= 0)
                && (most == null || compare(found, most) <= 0);
        return entries(first, to, isBackward, filter, segment -> {
            byte[] high = most == null ? null : Ranges.largest(most, keys.highSuffix(to, last(segment)));
            return range(segment, least, high);
        });
    }

    /**
     * The sessions that end between two times, in the order of segments and keys. Those that have expired are there too as long as their
     * segment is: the topology emits sessions by this call once they are closed.
     */
    KeyValueIterator<Bytes, byte[]> endingIn(long earliest, long latest) {
        if (store.isIndexed()) {
            return byTime(earliest, latest, false);
        }
        View view = store.view(level);
        return BraidIterator.of(
                store, view, store.segments(earliest, latest).stream().map(segment -> range(segment, null, null)).iterator(),
                false, BraidSegmentedStore.HEAD_BYTES,
                found -> keys.timestamp(found) >= earliest && keys.timestamp(found) <= latest, null);
    }

    /** The entries of all keys between two times, in the order of times and keys. The store has an index. */
    private KeyValueIterator<Bytes, byte[]> byTime(long earliest, long latest, boolean isBackward) {
        View view = store.view(level);
        long first = Math.max(earliest, store.firstKept());
        if (first > latest) {
            return Ranges.none();
        }
        byte[] high = BraidSegmentedStore.packed(latest == Long.MAX_VALUE ? -1 : latest + 1);
        Range range = store.slot().index(BraidSegmentedStore.packed(first), high);
        return BraidIterator.of(
                store, view, List.of(range).iterator(), isBackward, BraidSegmentedStore.HEAD_BYTES, found -> true,
                found -> view.get(store.data(found)));
    }

    private KeyValueIterator<Bytes, byte[]> entries(
            long first, long to, boolean isBackward, Predicate<byte[]> filter, LongFunction<Range> range) {
        View view = store.view(level);
        if (keys == SegmentKeys.WINDOW && to < first) {
            return Ranges.none();
        }
        // A session that starts in time may end at any time.
        List<Long> segments =
                new ArrayList<>(store.segments(first, keys == SegmentKeys.WINDOW ? to : Long.MAX_VALUE));
        if (isBackward) {
            Collections.reverse(segments);
        }
        return BraidIterator.of(
                store, view, segments.stream().map(range::apply).iterator(), isBackward,
                BraidSegmentedStore.HEAD_BYTES, filter, null);
    }

    /** The last time of a segment. */
    private long last(long segment) {
        long last = segment * store.segmentMs() + store.segmentMs() - 1;
        return last < 0 ? Long.MAX_VALUE : last;
    }

    private Range range(long segment, byte[] low, byte[] high) {
        byte[] from = low == null ? BraidSegmentedStore.packed(segment) : BraidSegmentedStore.inSegment(segment, low);
        return high == null
                ? store.slot().data(from, BraidSegmentedStore.packed(segment + 1), false)
                : store.slot().data(from, BraidSegmentedStore.inSegment(segment, high), true);
    }

    /** Whether an entry is one of a record's key. */
    private boolean isOf(byte[] found, byte[] key) {
        return found.length == key.length + keys.suffixBytes && compare(found, key) == 0;
    }

    /** Compares the record's key of an entry with another one. */
    private int compare(byte[] found, byte[] key) {
        return Arrays.compareUnsigned(found, 0, found.length - keys.suffixBytes, key, 0, key.length);
    }
}
