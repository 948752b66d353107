package io.github.braidb.streams;

import io.github.braidb.Range;
import io.github.braidb.streams.internals.KafkaInternals;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.List;
import java.util.NavigableSet;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.streams.KeyValue;

/**
 * What stores of windows and sessions have in common: entries that expire, in segments of a span of time each.
 *
 * <p>The number of a segment stands in front of a key, so what has expired is one range. Reads do not see it from the moment when the stream
 * time has passed it. {@link BraidSpace} takes it away later, as far as the stream time of the last commit has passed it: a crash may take
 * the stream time back to there.
 */
abstract class BraidSegmentedStore extends BraidStore implements BraidSpace.Expiring {
    /** The value of a key of the index. */
    private static final byte[] LISTED = new byte[0];

    /** Bytes in front of the store's own key: also in the index, where a time stands in the place of a segment. */
    static final int HEAD_BYTES = Slot.HEAD_BYTES + Long.BYTES;

    private final SegmentKeys keys;
    private final long retentionMs;
    private final long segmentMs;
    private final long graceMs;

    /** Whether a list of the entries by time is kept, since the topology emits them once they are closed. */
    private final boolean isIndexed;

    /** The segments that may have live entries. */
    private final NavigableSet<Long> segments = new ConcurrentSkipListSet<>();

    /** The latest time of an entry, those of no commit included. */
    private volatile long streamTime = Ledger.NO_TIME;

    /** No entry is in a smaller segment. */
    private volatile long lowest = Long.MAX_VALUE;

    /** The first segment that was live when the space was last told that entries have expired. The thread of the task has it. */
    private long toldLive;

    private Runnable droppedRecords;

    /** A store. Where the topology emits windows once they are closed, it reads them 1 ms beyond the retention, as in the built-in stores. */
    BraidSegmentedStore(SegmentedSupplier supplier, SegmentKeys keys) {
        super(supplier.name(), keys.name().toLowerCase(java.util.Locale.ROOT) + "/" + supplier.format() + "/"
                + supplier.segmentIntervalMs() + (supplier.isFinal() ? "/by-time" : ""));
        this.keys = keys;
        retentionMs = supplier.retentionPeriod();
        segmentMs = supplier.segmentIntervalMs();
        isIndexed = supplier.isFinal();
        graceMs = isIndexed && keys == SegmentKeys.WINDOW ? 1 : 0;
    }

    @Override
    final void opened(View view, Ledger ledger) {
        droppedRecords = KafkaInternals.droppedRecords(context());
        streamTime = ledger.streamTime();
        segments.clear();
        lowest = Long.MAX_VALUE;
        toldLive = Long.MIN_VALUE;
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

    /** Asked for by Kafka Streams 4.4 of stores that are {@link KafkaInternals.Retaining}: milliseconds for which entries are kept. */
    public final long retentionPeriod() {
        return retentionMs;
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

    /** The earliest time of an entry that is kept. */
    final long firstKept() {
        return Math.max(0, firstLive(streamTime) * segmentMs);
    }

    final boolean isIndexed() {
        return isIndexed;
    }

    /** The key in the slot of an entry. */
    final byte[] data(byte[] key) {
        return slot().data(inSegment(segment(keys.timestamp(key)), key));
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

    /** Whether an entry has not expired. Makes room for its segment then. */
    private boolean isLive(byte[] key) {
        long segment = segment(keys.timestamp(key));
        if (segment < firstLive(streamTime)) {
            return false;
        }
        addSegment(segment);
        dropSegments();
        return true;
    }

    private void change(byte[] key, byte[] value) {
        if (isIndexed) {
            writeAll(List.of(new KeyValue<>(data(key), value), new KeyValue<>(index(key), value == null ? null : LISTED)));
        } else {
            write(data(key), value);
        }
    }

    private byte[] index(byte[] key) {
        return slot().index(inSegment(keys.timestamp(key), key));
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
        if (isLive(key)) {
            change(key, value);
        } else {
            droppedRecords.run();
        }
    }

    /** Deletes an entry. Nothing is counted if it has expired. */
    final void unset(byte[] key) {
        checkOpen();
        streamTime = Math.max(streamTime, keys.timestamp(key));
        if (isLive(key)) {
            change(key, null);
        }
    }

    @Override
    final void beforeRestore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            streamTime = Math.max(streamTime, keys.timestamp(record.key()));
        }
    }

    @Override
    final boolean restore(byte[] key, byte[] value, Ledger.Sink sink) {
        if (!isLive(key)) {
            return false;
        }
        sink.put(data(key), value);
        if (isIndexed) {
            sink.put(index(key), value == null ? null : LISTED);
        }
        return true;
    }

    @Override
    final void committed() {
        long time = committedStreamTime();
        long firstLive = firstLive(time);
        if (time != Ledger.NO_TIME && firstLive > lowest && firstLive > toldLive) {
            toldLive = firstLive;
            space().hasExpired();
        }
    }

    @Override
    public final BraidSpace.Expired expired() {
        long time = committedStreamTime();
        long firstLive = firstLive(time);
        if (time == Ledger.NO_TIME || firstLive <= lowest) {
            return BraidSpace.Expired.NOTHING;
        }
        Range entries = slot().data(packed(0), packed(firstLive), false);
        List<Range> ranges =
                isIndexed ? List.of(entries, slot().index(packed(0), packed(firstLive * segmentMs))) : List.of(entries);
        return new BraidSpace.Expired(ranges, () -> lowest = firstLive);
    }
}
