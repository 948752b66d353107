package io.github.braidb.streams;

import io.github.braidb.BraidDb;
import io.github.braidb.Range;
import java.util.Objects;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** The reads of a key-value store at an isolation level. */
final class KeyValueReads implements ReadOnlyKeyValueStore<Bytes, byte[]> {
    private final BraidStore store;
    private final IsolationLevel level;

    KeyValueReads(BraidStore store, IsolationLevel level) {
        this.store = store;
        this.level = Objects.requireNonNull(level, "isolationLevel cannot be null");
    }

    @Override
    public byte[] get(Bytes key) {
        View view = store.view(level);
        byte[] data = store.slot().data(key.get());
        return store.guarded(() -> view.get(data));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return range(from, to, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return range(from, to, true);
    }

    private KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to, boolean isBackward) {
        if (Ranges.isReversed(from, to)) {
            return Ranges.none();
        }
        return entries(bytes(from), bytes(to), true, isBackward);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return entries(null, null, true, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return entries(null, null, true, true);
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix, PS prefixKeySerializer) {
        Objects.requireNonNull(prefix, "prefix cannot be null");
        Objects.requireNonNull(prefixKeySerializer, "prefixKeySerializer cannot be null");
        byte[] low = prefixKeySerializer.serialize(null, prefix);
        return entries(low, Ranges.behindPrefix(low), false, false);
    }

    private BraidIterator entries(byte[] low, byte[] high, boolean isHighIncluded, boolean isBackward) {
        View view = store.view(level);
        return BraidIterator.of(store, view, store.slot().data(low, high, isHighIncluded), isBackward);
    }

    @Override
    public long approximateNumEntries() {
        store.view(level);
        BraidDb db = store.db();
        Range entries = store.slot().allData();
        return store.guarded(() -> {
            var estimate = db.estimate(entries);
            // A tombstone is one of the entries of the estimate, and so is the older entry that it hides.
            return Math.max(0, estimate.entries() - 2 * estimate.tombstones());
        });
    }

    private static byte[] bytes(Bytes key) {
        return key == null ? null : key.get();
    }
}
