package io.github.braidb.streams;

import io.github.braidb.streams.internals.KafkaInternals;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.SessionStore;

/** A session store. The bytes of its values are those of the layers above it. */
class BraidSessionStore extends BraidSegmentedStore implements SessionStore<Bytes, byte[]> {
    private final SessionReads reads;

    BraidSessionStore(SessionSupplier supplier) {
        super(supplier, SegmentKeys.SESSION);
        reads = new SessionReads(this, IsolationLevel.READ_UNCOMMITTED);
    }

    static BraidSessionStore of(SessionSupplier supplier) {
        if (KafkaInternals.asksForRetention()) {
            return RetainingStores.of(supplier);
        }
        return supplier.format() == Format.HEADERS ? new WithHeaders(supplier) : new BraidSessionStore(supplier);
    }

    /** Its values have headers. Kafka Streams asks for the interface. */
    private static final class WithHeaders extends BraidSessionStore implements HeadersBytesStore {
        WithHeaders(SessionSupplier supplier) {
            super(supplier);
        }
    }

    @Override
    public void put(Windowed<Bytes> session, byte[] value) {
        set(key(session), value);
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        unset(key(session));
    }

    private static byte[] key(Windowed<Bytes> session) {
        return SegmentKeys.ofSession(session.key().get(), session.window().start(), session.window().end());
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        return reads.fetchSession(key, start, end);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(long earliestEnd, long latestEnd) {
        return reads.ending(earliestEnd, latestEnd);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long earliestEnd, long latestStart) {
        return reads.findSessions(key, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes key, long earliestEnd, long latestStart) {
        return reads.backwardFindSessions(key, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart) {
        return reads.findSessions(keyFrom, keyTo, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes keyFrom, Bytes keyTo, long earliestEnd, long latestStart) {
        return reads.backwardFindSessions(keyFrom, keyTo, earliestEnd, latestStart);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return reads.fetch(key);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return reads.backwardFetch(key);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo) {
        return reads.fetch(keyFrom, keyTo);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo) {
        return reads.backwardFetch(keyFrom, keyTo);
    }

    /** Asked for by Kafka Streams 4.4: the reads of an isolation level. */
    @Override
    public ReadOnlySessionStore<Bytes, byte[]> readOnly(IsolationLevel level) {
        return new SessionReads(this, level);
    }
}
