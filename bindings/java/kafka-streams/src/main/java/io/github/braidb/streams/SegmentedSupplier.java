package io.github.braidb.streams;

/** What suppliers of windows and sessions have in common. Times are milliseconds. */
abstract class SegmentedSupplier {
    /** The shortest span of a segment, 60,000 ms, as in the built-in stores. */
    private static final long LEAST_SEGMENT_MS = 60_000;

    private final String name;
    private final Format format;
    private final long retentionMs;
    private final boolean isFinal;

    SegmentedSupplier(String name, Format format, long retentionMs, boolean isFinal) {
        this.name = name;
        this.format = format;
        this.retentionMs = retentionMs;
        this.isFinal = isFinal;
    }

    final Format format() {
        return format;
    }

    /** Whether the topology emits entries once they are closed, for which it reads them by time. */
    final boolean isFinal() {
        return isFinal;
    }

    public final String name() {
        return name;
    }

    public final String metricsScope() {
        return BraidStore.METRICS_SCOPE;
    }

    /** The span of a segment: half of the retention, as in the built-in stores, so that a store has about three. */
    public final long segmentIntervalMs() {
        return Math.max(retentionMs / 2, LEAST_SEGMENT_MS);
    }

    public final long retentionPeriod() {
        return retentionMs;
    }
}
