package org.apache.kafka.streams.state.internals;

import io.github.braidb.streams.BraidStores;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;

/** Kafka's own tests of session stores, on ours. */
public class BraidSessionStoreTest extends AbstractSessionBytesStoreTest {
    /** Some tests open a second store beside the first one, and a store of one name is open once. */
    private int stores;

    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retentionPeriod, Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.sessionStoreBuilder(
                        BraidStores.sessionStore("session-store-" + ++stores, Duration.ofMillis(retentionPeriod)), keySerde, valueSerde)
                .build();
    }

    /** The built-in kind that finds the sessions of all keys by their end, as ours does. */
    @Override
    StoreType storeType() {
        return StoreType.RocksDBTimeOrderedSessionStoreWithIndex;
    }
}
