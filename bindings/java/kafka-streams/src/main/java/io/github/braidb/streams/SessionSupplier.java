package io.github.braidb.streams;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;

/** Makes a session store for each task. Times are milliseconds. */
class SessionSupplier implements SessionBytesStoreSupplier {
    private final String name;
    private final Format format;
    private final long retentionMs;

    private SessionSupplier(String name, Format format, long retentionMs) {
        this.name = name;
        this.format = format;
        this.retentionMs = retentionMs;
    }

    static SessionSupplier of(String name, Format format, long retentionMs) {
        if (retentionMs < 0) {
            throw new IllegalArgumentException(
                    "The session store " + name + " keeps sessions " + retentionMs + " ms; the time must not be negative");
        }
        return format == Format.HEADERS
                ? new WithHeaders(name, retentionMs)
                : new SessionSupplier(name, Format.PLAIN, retentionMs);
    }

    /** Kafka Streams asks for the interface. */
    private static final class WithHeaders extends SessionSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(String name, long retentionMs) {
            super(name, Format.HEADERS, retentionMs);
        }
    }

    Format format() {
        return format;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public SessionStore<Bytes, byte[]> get() {
        return BraidSessionStore.of(this);
    }

    @Override
    public String metricsScope() {
        return BraidStore.METRICS_SCOPE;
    }

    @Override
    public long segmentIntervalMs() {
        return WindowSupplier.segmentMs(retentionMs);
    }

    @Override
    public long retentionPeriod() {
        return retentionMs;
    }
}
