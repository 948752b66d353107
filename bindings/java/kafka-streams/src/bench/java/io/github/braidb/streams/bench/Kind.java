package io.github.braidb.streams.bench;

import io.github.braidb.streams.BraidConfig;
import io.github.braidb.streams.BraidStores;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** Whose stores are measured. */
enum Kind {
    BRAIDB {
        @Override
        void limit(Map<String, Object> configs, long bytes) {
            configs.put(BraidConfig.MEMORY_BYTES_CONFIG, bytes);
            configs.put(BraidConfig.LINGER_MS_CONFIG, 0);
        }

        @Override
        KeyValueBytesStoreSupplier keyValues(String name) {
            return BraidStores.keyValueStore(name);
        }

        @Override
        KeyValueBytesStoreSupplier timestampedKeyValues(String name) {
            return BraidStores.timestampedKeyValueStore(name);
        }

        @Override
        WindowBytesStoreSupplier windows(String name, Duration retention, Duration window) {
            return BraidStores.timestampedWindowStore(name, retention, window, false);
        }
    },

    ROCKSDB {
        @Override
        void limit(Map<String, Object> configs, long bytes) {
            BoundedMemory.limit(bytes);
            configs.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, BoundedMemory.class);
        }

        @Override
        KeyValueBytesStoreSupplier keyValues(String name) {
            return Stores.persistentKeyValueStore(name);
        }

        @Override
        KeyValueBytesStoreSupplier timestampedKeyValues(String name) {
            return Stores.persistentTimestampedKeyValueStore(name);
        }

        @Override
        WindowBytesStoreSupplier windows(String name, Duration retention, Duration window) {
            return Stores.persistentTimestampedWindowStore(name, retention, window, false);
        }
    };

    /** Sets what bounds the native memory of all stores together. */
    abstract void limit(Map<String, Object> configs, long bytes);

    abstract KeyValueBytesStoreSupplier keyValues(String name);

    abstract KeyValueBytesStoreSupplier timestampedKeyValues(String name);

    abstract WindowBytesStoreSupplier windows(String name, Duration retention, Duration window);
}
