package io.github.braidb.streams;

import java.util.List;
import java.util.Objects;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/** A key-value store. The bytes of its values are those of the layers above it. */
class BraidKeyValueStore extends BraidStore implements KeyValueStore<Bytes, byte[]> {
    private final KeyValueReads reads = new KeyValueReads(this, IsolationLevel.READ_UNCOMMITTED);

    private BraidKeyValueStore(String name, Format format) {
        super(name, "key-value/" + format);
    }

    static BraidKeyValueStore of(String name, Format format) {
        return switch (format) {
            case PLAIN -> new BraidKeyValueStore(name, format);
            case TIMESTAMPED -> new Timestamped(name);
            case HEADERS -> new WithHeaders(name);
        };
    }

    /** Its values have a timestamp. Kafka Streams asks for the interface. */
    private static final class Timestamped extends BraidKeyValueStore implements TimestampedBytesStore {
        Timestamped(String name) {
            super(name, Format.TIMESTAMPED);
        }
    }

    /** Its values have a timestamp and headers. Kafka Streams asks for the interface. */
    private static final class WithHeaders extends BraidKeyValueStore implements HeadersBytesStore {
        WithHeaders(String name) {
            super(name, Format.HEADERS);
        }
    }

    @Override
    boolean restore(byte[] key, byte[] value, Ledger.Sink sink) {
        sink.put(slot().data(key), value);
        return true;
    }

    @Override
    public void put(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        write(slot().data(key.get()), value);
    }

    @Override
    public byte[] putIfAbsent(Bytes key, byte[] value) {
        byte[] before = get(key);
        if (before == null && value != null) {
            put(key, value);
        }
        return before;
    }

    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        checkOpen();
        writeAll(entries.stream()
                .map(entry -> new KeyValue<>(
                        slot().data(Objects.requireNonNull(entry.key, "key cannot be null").get()), entry.value))
                .toList());
    }

    @Override
    public byte[] delete(Bytes key) {
        byte[] before = get(key);
        put(key, null);
        return before;
    }

    @Override
    public byte[] get(Bytes key) {
        return reads.get(Objects.requireNonNull(key, "key cannot be null"));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return reads.range(from, to);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return reads.reverseRange(from, to);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return reads.all();
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return reads.reverseAll();
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, PS prefixKeySerializer) {
        return reads.prefixScan(prefix, prefixKeySerializer);
    }

    @Override
    public long approximateNumEntries() {
        return reads.approximateNumEntries();
    }

    /** Asked for by Kafka Streams 4.4: the reads of an isolation level. */
    @Override
    public ReadOnlyKeyValueStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        return new KeyValueReads(this, level);
    }
}
