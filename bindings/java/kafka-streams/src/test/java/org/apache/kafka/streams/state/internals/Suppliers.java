package org.apache.kafka.streams.state.internals;

import io.github.braidb.streams.BraidStores;
import io.github.braidb.streams.Transactional;
import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** The suppliers that Kafka's own tests run on: the plain ones, or ones whose stores are transactional. */
final class Suppliers {
    private Suppliers() {}

    static KeyValueBytesStoreSupplier keyValueStore(String name, boolean isTransactional) {
        KeyValueBytesStoreSupplier plain = BraidStores.keyValueStore(name);
        return !isTransactional ? plain : new KeyValueBytesStoreSupplier() {
            @Override
            public String name() {
                return plain.name();
            }

            @Override
            @SuppressWarnings("unchecked")
            public KeyValueStore<Bytes, byte[]> get() {
                return Transactional.of(plain.get(), KeyValueStore.class);
            }

            @Override
            public String metricsScope() {
                return plain.metricsScope();
            }
        };
    }

    static WindowBytesStoreSupplier windowStore(
            String name, long retentionMs, long windowMs, boolean retainDuplicates, boolean isTransactional) {
        WindowBytesStoreSupplier plain = BraidStores.windowStore(
                name, Duration.ofMillis(retentionMs), Duration.ofMillis(windowMs), retainDuplicates);
        return !isTransactional ? plain : new WindowBytesStoreSupplier() {
            @Override
            public String name() {
                return plain.name();
            }

            @Override
            @SuppressWarnings("unchecked")
            public WindowStore<Bytes, byte[]> get() {
                return Transactional.of(plain.get(), WindowStore.class);
            }

            @Override
            public String metricsScope() {
                return plain.metricsScope();
            }

            @Override
            public long segmentIntervalMs() {
                return plain.segmentIntervalMs();
            }

            @Override
            public long windowSize() {
                return plain.windowSize();
            }

            @Override
            public boolean retainDuplicates() {
                return plain.retainDuplicates();
            }

            @Override
            public long retentionPeriod() {
                return plain.retentionPeriod();
            }
        };
    }

    static SessionBytesStoreSupplier sessionStore(String name, long retentionMs, boolean isTransactional) {
        SessionBytesStoreSupplier plain = BraidStores.sessionStore(name, Duration.ofMillis(retentionMs));
        return !isTransactional ? plain : new SessionBytesStoreSupplier() {
            @Override
            public String name() {
                return plain.name();
            }

            @Override
            @SuppressWarnings("unchecked")
            public SessionStore<Bytes, byte[]> get() {
                return Transactional.of(plain.get(), SessionStore.class);
            }

            @Override
            public String metricsScope() {
                return plain.metricsScope();
            }

            @Override
            public long segmentIntervalMs() {
                return plain.segmentIntervalMs();
            }

            @Override
            public long retentionPeriod() {
                return plain.retentionPeriod();
            }
        };
    }
}
