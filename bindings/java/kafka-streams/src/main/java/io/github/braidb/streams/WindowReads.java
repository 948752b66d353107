package io.github.braidb.streams;

import java.time.Instant;
import java.util.Objects;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** The reads of a window store at an isolation level. */
final class WindowReads implements ReadOnlyWindowStore<Bytes, byte[]> {
    private final BraidWindowStore store;
    private final SegmentedReads reads;

    WindowReads(BraidWindowStore store, IsolationLevel level) {
        this.store = store;
        reads = new SegmentedReads(store, Objects.requireNonNull(level, "isolationLevel cannot be null"));
    }

    WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to, boolean isBackward) {
        Objects.requireNonNull(key, "key cannot be null");
        return WindowedEntries.ofStarts(reads.ofKey(key, from, to, isBackward));
    }

    KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo, long from, long to, boolean isBackward) {
        return WindowedEntries.ofWindows(reads.ofKeys(keyFrom, keyTo, from, to, isBackward), store.windowMs());
    }

    @Override
    public byte[] fetch(Bytes key, long time) {
        return reads.get(store.key(key, time));
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, Instant from, Instant to) {
        return fetch(key, from.toEpochMilli(), to.toEpochMilli(), false);
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, Instant from, Instant to) {
        return fetch(key, from.toEpochMilli(), to.toEpochMilli(), true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo, Instant from, Instant to) {
        return fetch(keyFrom, keyTo, from.toEpochMilli(), to.toEpochMilli(), false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo, Instant from, Instant to) {
        return fetch(keyFrom, keyTo, from.toEpochMilli(), to.toEpochMilli(), true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return fetch(null, null, 0, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return fetch(null, null, 0, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(Instant from, Instant to) {
        return fetch(null, null, from.toEpochMilli(), to.toEpochMilli(), false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(Instant from, Instant to) {
        return fetch(null, null, from.toEpochMilli(), to.toEpochMilli(), true);
    }
}
