package io.github.braidb.streams;

import java.time.Instant;
import java.util.Objects;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlySessionStore;

/** The reads of a session store at an isolation level. */
final class SessionReads implements ReadOnlySessionStore<Bytes, byte[]> {
    private final SegmentedReads reads;

    SessionReads(BraidSessionStore store, IsolationLevel level) {
        reads = new SegmentedReads(store, Objects.requireNonNull(level, "isolationLevel cannot be null"));
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> find(Bytes key, long earliestEnd, long latestStart, boolean isBackward) {
        Objects.requireNonNull(key, "key cannot be null");
        return WindowedEntries.ofSessions(reads.ofKey(key, earliestEnd, latestStart, isBackward));
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> find(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart, boolean isBackward) {
        return WindowedEntries.ofSessions(reads.ofKeys(keyFrom, keyTo, earliestEnd, latestStart, isBackward));
    }

    /** The sessions of all keys that end between two times. */
    KeyValueIterator<Windowed<Bytes>, byte[]> ending(long earliest, long latest) {
        return WindowedEntries.ofSessions(reads.endingIn(earliest, latest));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long earliestEnd, long latestStart) {
        return find(key, earliestEnd, latestStart, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, Instant earliestEnd, Instant latestStart) {
        return find(key, earliestEnd.toEpochMilli(), latestStart.toEpochMilli(), false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes key, long earliestEnd, long latestStart) {
        return find(key, earliestEnd, latestStart, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes key, Instant earliestEnd, Instant latestStart) {
        return find(key, earliestEnd.toEpochMilli(), latestStart.toEpochMilli(), true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart) {
        return find(keyFrom, keyTo, earliestEnd, latestStart, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes keyFrom, Bytes keyTo, Instant earliestEnd, Instant latestStart) {
        return find(keyFrom, keyTo, earliestEnd.toEpochMilli(), latestStart.toEpochMilli(), false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart) {
        return find(keyFrom, keyTo, earliestEnd, latestStart, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes keyFrom, Bytes keyTo, Instant earliestEnd, Instant latestStart) {
        return find(keyFrom, keyTo, earliestEnd.toEpochMilli(), latestStart.toEpochMilli(), true);
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        return reads.get(SegmentKeys.ofSession(key.get(), start, end));
    }

    @Override
    public byte[] fetchSession(Bytes key, Instant start, Instant end) {
        return fetchSession(key, start.toEpochMilli(), end.toEpochMilli());
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return find(key, 0, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return find(key, 0, Long.MAX_VALUE, true);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo) {
        return find(keyFrom, keyTo, 0, Long.MAX_VALUE, false);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo) {
        return find(keyFrom, keyTo, 0, Long.MAX_VALUE, true);
    }
}
