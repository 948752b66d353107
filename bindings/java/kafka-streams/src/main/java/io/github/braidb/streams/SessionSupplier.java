package io.github.braidb.streams;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;

/** Makes a session store for each task. Times are milliseconds. */
class SessionSupplier extends SegmentedSupplier implements SessionBytesStoreSupplier {
    private SessionSupplier(String name, Format format, long retentionMs, boolean isFinal) {
        super(name, format, retentionMs, isFinal);
    }

    /**
     * A supplier.
     *
     * @param isFinal whether the topology emits sessions once they are closed, for which it reads them by time
     */
    static SessionSupplier of(String name, Format format, long retentionMs, boolean isFinal) {
        if (retentionMs < 0) {
            throw new IllegalArgumentException(
                    "The session store " + name + " keeps sessions " + retentionMs + " ms; the time must not be negative");
        }
        return format == Format.HEADERS
                ? new WithHeaders(name, retentionMs, isFinal)
                : new SessionSupplier(name, Format.PLAIN, retentionMs, isFinal);
    }

    /** Kafka Streams asks for the interface. */
    private static final class WithHeaders extends SessionSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(String name, long retentionMs, boolean isFinal) {
            super(name, Format.HEADERS, retentionMs, isFinal);
        }
    }

    @Override
    public SessionStore<Bytes, byte[]> get() {
        return BraidSessionStore.of(this);
    }
}
