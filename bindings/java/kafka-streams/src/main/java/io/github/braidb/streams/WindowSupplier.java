package io.github.braidb.streams;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** Makes a window store for each task. Times are milliseconds. */
class WindowSupplier implements WindowBytesStoreSupplier {
    /** The shortest span of a segment, 60,000 ms, as in the built-in stores. */
    static final long LEAST_SEGMENT_MS = 60_000;

    private final String name;
    private final Format format;
    private final long retentionMs;
    private final long windowMs;
    private final boolean retainsDuplicates;
    private final boolean isFinal;

    private WindowSupplier(
            String name, Format format, long retentionMs, long windowMs, boolean retainsDuplicates, boolean isFinal) {
        this.name = name;
        this.format = format;
        this.retentionMs = retentionMs;
        this.windowMs = windowMs;
        this.retainsDuplicates = retainsDuplicates;
        this.isFinal = isFinal;
    }

    /**
     * A supplier.
     *
     * @param isFinal whether the topology emits windows once they are closed, for which it reads them by time
     */
    static WindowSupplier of(
            String name, Format format, long retentionMs, long windowMs, boolean retainsDuplicates, boolean isFinal) {
        if (windowMs < 0 || retentionMs < windowMs) {
            throw new IllegalArgumentException("The window store " + name + " has windows of " + windowMs
                    + " ms and keeps them " + retentionMs + " ms; it must keep them at least as long as they are");
        }
        return format == Format.HEADERS
                ? new WithHeaders(name, retentionMs, windowMs, retainsDuplicates, isFinal)
                : new WindowSupplier(name, format, retentionMs, windowMs, retainsDuplicates, isFinal);
    }

    /** Kafka Streams asks for the interface. */
    private static final class WithHeaders extends WindowSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(String name, long retentionMs, long windowMs, boolean retainsDuplicates, boolean isFinal) {
            super(name, Format.HEADERS, retentionMs, windowMs, retainsDuplicates, isFinal);
        }
    }

    /** The span of a segment: half of the retention, as in the built-in stores, so that a store has about three. */
    static long segmentMs(long retentionMs) {
        return Math.max(retentionMs / 2, LEAST_SEGMENT_MS);
    }

    Format format() {
        return format;
    }

    boolean isFinal() {
        return isFinal;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public WindowStore<Bytes, byte[]> get() {
        return BraidWindowStore.of(this);
    }

    @Override
    public String metricsScope() {
        return BraidStore.METRICS_SCOPE;
    }

    @Override
    public long segmentIntervalMs() {
        return segmentMs(retentionMs);
    }

    @Override
    public long windowSize() {
        return windowMs;
    }

    @Override
    public boolean retainDuplicates() {
        return retainsDuplicates;
    }

    @Override
    public long retentionPeriod() {
        return retentionMs;
    }
}
