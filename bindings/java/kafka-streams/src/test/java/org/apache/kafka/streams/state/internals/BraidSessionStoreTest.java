package org.apache.kafka.streams.state.internals;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.Test;

/** Kafka's own tests of session stores, on ours. */
public class BraidSessionStoreTest extends AbstractSessionBytesStoreTest {
    /** Some tests open a second store beside the first one, and a store of one name is open once. */
    private int stores;

    boolean isTransactional() {
        return false;
    }

    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retentionPeriod, Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.sessionStoreBuilder(
                        Suppliers.sessionStore("session-store-" + ++stores, retentionPeriod, isTransactional()),
                        keySerde, valueSerde)
                .build();
    }

    /** The built-in kind that finds the sessions of all keys by their end, as ours does. */
    @Override
    StoreType storeType() {
        return StoreType.RocksDBTimeOrderedSessionStoreWithIndex;
    }

    /** Kafka's test reads and restores a closed store, which ours refuses: a reader would take it for an empty one. */
    @Override
    @Test
    public void shouldRestore() {
        Windowed<String> session = new Windowed<>("a", new SessionWindow(10, 20));
        List<KeyValue<byte[], byte[]>> changelog = List.of(new KeyValue<>(
                SessionKeySchema.toBinary(org.apache.kafka.common.utils.Bytes.wrap("a".getBytes()), 10, 20).get(),
                java.nio.ByteBuffer.allocate(Long.BYTES).putLong(7).array()));
        context.restore(sessionStore.name(), changelog);
        try (KeyValueIterator<Windowed<String>, Long> found = sessionStore.fetch("a")) {
            assertEquals(KeyValue.pair(session, 7L), found.next());
        }
        sessionStore.close();
        assertThrows(InvalidStateStoreException.class, () -> sessionStore.fetch("a"));
    }
}
