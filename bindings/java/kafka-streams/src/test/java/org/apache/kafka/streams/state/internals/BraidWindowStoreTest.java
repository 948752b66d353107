package org.apache.kafka.streams.state.internals;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Kafka's own tests of window stores, on ours. */
public class BraidWindowStoreTest extends AbstractWindowBytesStoreTest {
    /** Some tests open a second store beside the first one, and a store of one name is open once. */
    private int stores;

    boolean isTransactional() {
        return false;
    }

    @Override
    <K, V> WindowStore<K, V> buildWindowStore(
            long retentionPeriod, long windowSize, boolean retainDuplicates, Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.windowStoreBuilder(
                        Suppliers.windowStore(
                                "window-store-" + ++stores, retentionPeriod, windowSize, retainDuplicates, isTransactional()),
                        keySerde, valueSerde)
                .build();
    }
}
