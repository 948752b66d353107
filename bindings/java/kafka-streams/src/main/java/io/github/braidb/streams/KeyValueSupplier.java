package io.github.braidb.streams;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/** Makes a key-value store for each task. */
class KeyValueSupplier implements KeyValueBytesStoreSupplier {
    private final String name;
    private final Format format;

    private KeyValueSupplier(String name, Format format) {
        this.name = name;
        this.format = format;
    }

    static KeyValueSupplier of(String name, Format format) {
        return format == Format.HEADERS ? new WithHeaders(name) : new KeyValueSupplier(name, format);
    }

    /** Kafka Streams asks for the interface. */
    private static final class WithHeaders extends KeyValueSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(String name) {
            super(name, Format.HEADERS);
        }
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public KeyValueStore<Bytes, byte[]> get() {
        return BraidKeyValueStore.of(name, format);
    }

    @Override
    public String metricsScope() {
        return BraidStore.METRICS_SCOPE;
    }
}
