package io.github.braidb.streams;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** Makes a window store for each task. Times are milliseconds. */
class WindowSupplier extends SegmentedSupplier implements WindowBytesStoreSupplier {
    private final long windowMs;
    private final boolean retainsDuplicates;

    private WindowSupplier(
            String name, Format format, long retentionMs, long windowMs, boolean retainsDuplicates, boolean isFinal) {
        super(name, format, retentionMs, isFinal);
        this.windowMs = windowMs;
        this.retainsDuplicates = retainsDuplicates;
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

    @Override
    public WindowStore<Bytes, byte[]> get() {
        return BraidWindowStore.of(this);
    }

    @Override
    public long windowSize() {
        return windowMs;
    }

    @Override
    public boolean retainDuplicates() {
        return retainsDuplicates;
    }
}
