package io.github.braidb.streams;

import io.github.braidb.Range;
import io.github.braidb.streams.internals.KafkaInternals;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.List;
import java.util.NavigableSet;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * What stores of windows and sessions have in common: entries that expire, in segments of a span of time each.
 *
 * <p>The number of a segment stands in front of a key, so what has expired is one range. Reads do not see it from the moment when the stream
 * time has passed it. {@link BraidSpace} takes it away later, as far as the stream time of the last commit has passed it: a crash may take
 * the stream time back to there.
 */
abstract class BraidSegmentedStore extends BraidStore implements BraidSpace.Expiring {
    /** Bytes in front of the store's own key. */
    static final int HEAD_BYTES = Slot.HEAD_BYTES + Long.BYTES;

    private final SegmentKeys keys;
    private final long retentionMs;
    private final long segmentMs;
    private final long graceMs;

    /** The segments that may have live entries. */
    private final NavigableSet<Long> segments = new ConcurrentSkipListSet<>();

    /** The latest time of an entry, those of no commit included. */
    private volatile long streamTime = Ledger.NO_TIME;

    /** No entry is in a smaller segment. */
    private volatile long lowest = Long.MAX_VALUE;

    private Runnable droppedRecords;

    /**
     * A store.
     *
     * @param graceMs how long reads see an entry beyond the retention: 1 ms where the topology emits windows once they are closed, as in the
     *     built-in stores
     */
    BraidSegmentedStore(
            String name, SegmentKeys keys, Format format, long retentionMs, long segmentMs, long graceMs) {
        super(name, keys.name().toLowerCase(java.util.Locale.ROOT) + "/" + format + "/" + segmentMs);
        this.keys = keys;
        this.retentionMs = retentionMs;
        this.segmentMs = segmentMs;
        this.graceMs = graceMs;
    }

    @Override
    final void opened(View view, Ledger ledger) {
        droppedRecords = KafkaInternals.droppedRecords(context());
        streamTime = ledger.streamTime();
        segments.clear();
        lowest = Long.MAX_VALUE;
        Long next = nextSegment(view, 0);
        while (next != null) {
            addSegment(next);
            next = nextSegment(view, next + 1);
        }
        dropSegments();
        space().watch(slot(), this);
    }

    /** The first segment from {@code from} on that has an entry, or null. */
    private Long nextSegment(View view, long from) {
        try (View.Walk walk = view.walk(slot().data(packed(from), null, false), false)) {
            return walk.next() ? ByteBuffer.wrap(walk.key()).getLong(Slot.HEAD_BYTES) : null;
        }
    }

    @Override
    final long streamTime() {
        return streamTime;
    }

    /** The earliest time of an entry that reads see. */
    final long firstVisible() {
        return streamTime - retentionMs + 1 - graceMs;
    }

    final long segmentMs() {
        return segmentMs;
    }

    final SegmentKeys keys() {
        return keys;
    }

    /** The segments between two times that may have entries. */
    final List<Long> segments(long from, long to) {
        long first = segment(from);
        long last = segment(to);
        return first > last ? List.of() : List.copyOf(segments.subSet(first, true, last, true));
    }

    long segment(long time) {
        return time / segmentMs;
    }

    /** The first segment whose entries are kept at a stream time. */
    private long firstLive(long time) {
        return segment(time - retentionMs);
    }

    private void addSegment(long segment) {
        segments.add(segment);
        lowest = Math.min(lowest, segment);
    }

    private void dropSegments() {
        segments.headSet(firstLive(streamTime), false).clear();
    }

    /** The key in the slot of an entry, or null if the entry has expired. Makes room for its segment. */
    private byte[] live(byte[] key) {
        long segment = segment(keys.timestamp(key));
        if (segment < firstLive(streamTime)) {
            return null;
        }
        addSegment(segment);
        dropSegments();
        return slot().data(inSegment(segment, key));
    }

    static byte[] inSegment(long segment, byte[] key) {
        return ByteBuffer.allocate(Long.BYTES + key.length).putLong(segment).put(key).array();
    }

    static byte[] packed(long segment) {
        return ByteBuffer.allocate(Long.BYTES).putLong(segment).array();
    }

    /** Sets an entry, or deletes it if the value is null. Counts it as dropped if it has expired. */
    final void set(byte[] key, byte[] value) {
        checkOpen();
        streamTime = Math.max(streamTime, keys.timestamp(key));
        byte[] live = live(key);
        if (live == null) {
            droppedRecords.run();
        } else {
            write(live, value);
        }
    }

    /** Deletes an entry. Nothing is counted if it has expired. */
    final void unset(byte[] key) {
        checkOpen();
        streamTime = Math.max(streamTime, keys.timestamp(key));
        byte[] live = live(key);
        if (live != null) {
            write(live, null);
        }
    }

    @Override
    final void beforeRestore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            streamTime = Math.max(streamTime, keys.timestamp(record.key()));
        }
    }

    @Override
    final byte[] restoredKey(byte[] key) {
        return live(key);
    }

    @Override
    public final Range expired() {
        long time = committedStreamTime();
        long firstLive = firstLive(time);
        if (time == Ledger.NO_TIME || firstLive <= lowest) {
            return null;
        }
        lowest = firstLive;
        return slot().data(packed(0), packed(firstLive), false);
    }
}
