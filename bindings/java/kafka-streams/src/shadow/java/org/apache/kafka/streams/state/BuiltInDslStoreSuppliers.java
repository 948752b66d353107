package org.apache.kafka.streams.state;

import io.github.braidb.streams.BraidDslStoreSuppliers;

/**
 * Stands in front of the class of Kafka Streams on the class path of tests, so that Kafka's own tests of the DSL, unchanged, use the stores
 * of BraidDB where they would use RocksDB.
 */
public class BuiltInDslStoreSuppliers {
    public static final DslStoreSuppliers ROCKS_DB = new RocksDBDslStoreSuppliers();
    public static final DslStoreSuppliers IN_MEMORY = new InMemoryDslStoreSuppliers();

    /** The default of Kafka Streams. */
    public static class RocksDBDslStoreSuppliers implements DslStoreSuppliers {
        private final BraidDslStoreSuppliers ours = new BraidDslStoreSuppliers();

        @Override
        public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
            return ours.keyValueStore(params);
        }

        @Override
        public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
            return ours.windowStore(params);
        }

        @Override
        public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
            return ours.sessionStore(params);
        }
    }

    /** As in Kafka Streams. */
    public static class InMemoryDslStoreSuppliers implements DslStoreSuppliers {
        @Override
        public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
            return Stores.inMemoryKeyValueStore(params.name());
        }

        @Override
        public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
            return Stores.inMemoryWindowStore(
                    params.name(), params.retentionPeriod(), params.windowSize(), params.retainDuplicates());
        }

        @Override
        public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
            return Stores.inMemorySessionStore(params.name(), params.retentionPeriod());
        }
    }
}
