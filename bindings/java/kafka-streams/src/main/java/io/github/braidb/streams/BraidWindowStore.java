package io.github.braidb.streams;

import io.github.braidb.streams.internals.KafkaInternals;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** A window store. The bytes of its values are those of the layers above it. */
class BraidWindowStore extends BraidSegmentedStore implements WindowStore<Bytes, byte[]> {
    private final long windowMs;
    private final boolean retainsDuplicates;
    private final WindowReads reads;

    /** Tells duplicates apart. Always 0 where there are none. */
    private int number;

    BraidWindowStore(WindowSupplier supplier) {
        super(supplier, SegmentKeys.WINDOW);
        windowMs = supplier.windowSize();
        retainsDuplicates = supplier.retainDuplicates();
        reads = new WindowReads(this, IsolationLevel.READ_UNCOMMITTED);
    }

    static BraidWindowStore of(WindowSupplier supplier) {
        if (KafkaInternals.asksForRetention()) {
            return RetainingStores.of(supplier);
        }
        return switch (supplier.format()) {
            case PLAIN -> new BraidWindowStore(supplier);
            case TIMESTAMPED -> new Timestamped(supplier);
            case HEADERS -> new WithHeaders(supplier);
        };
    }

    /** Its values have a timestamp. Kafka Streams asks for the interface. */
    private static final class Timestamped extends BraidWindowStore implements TimestampedBytesStore {
        Timestamped(WindowSupplier supplier) {
            super(supplier);
        }
    }

    /** Its values have a timestamp and headers. Kafka Streams asks for the interfaces. */
    private static final class WithHeaders extends BraidWindowStore implements TimestampedBytesStore, HeadersBytesStore {
        WithHeaders(WindowSupplier supplier) {
            super(supplier);
        }
    }

    long windowMs() {
        return windowMs;
    }

    /** The key of a window, or of the last duplicate that was put. */
    byte[] key(Bytes key, long start) {
        return SegmentKeys.ofWindow(key.get(), start, number);
    }

    @Override
    public void put(Bytes key, byte[] value, long start) {
        if (value == null && retainsDuplicates) {
            return;
        }
        if (retainsDuplicates) {
            number = (number + 1) & Integer.MAX_VALUE;
        }
        set(key(key, start), value);
    }

    @Override
    public byte[] fetch(Bytes key, long time) {
        return reads.fetch(key, time);
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
        return reads.fetch(key, from, to, false);
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long from, long to) {
        return reads.fetch(key, from, to, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo, long from, long to) {
        return reads.fetch(keyFrom, keyTo, from, to, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo, long from, long to) {
        return reads.fetch(keyFrom, keyTo, from, to, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return reads.all();
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return reads.backwardAll();
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long from, long to) {
        return reads.fetch(null, null, from, to, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long from, long to) {
        return reads.fetch(null, null, from, to, true);
    }

    /** Asked for by Kafka Streams 4.4: the reads of an isolation level. */
    @Override
    public ReadOnlyWindowStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        return new WindowReads(this, level);
    }
}
