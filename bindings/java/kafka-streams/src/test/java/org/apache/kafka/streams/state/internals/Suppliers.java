package org.apache.kafka.streams.state.internals;

import io.github.braidb.streams.BraidStores;
import io.github.braidb.streams.Transactional;
import java.lang.reflect.Proxy;
import java.time.Duration;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** The suppliers that Kafka's own tests run on: the plain ones, or ones whose stores are transactional. */
final class Suppliers {
    private Suppliers() {}

    static KeyValueBytesStoreSupplier keyValueStore(String name, boolean isTransactional) {
        return of(BraidStores.keyValueStore(name), KeyValueBytesStoreSupplier.class, KeyValueStore.class, isTransactional);
    }

    static WindowBytesStoreSupplier windowStore(
            String name, long retentionMs, long windowMs, boolean retainDuplicates, boolean isTransactional) {
        WindowBytesStoreSupplier plain = BraidStores.windowStore(
                name, Duration.ofMillis(retentionMs), Duration.ofMillis(windowMs), retainDuplicates);
        return of(plain, WindowBytesStoreSupplier.class, WindowStore.class, isTransactional);
    }

    static SessionBytesStoreSupplier sessionStore(String name, long retentionMs, boolean isTransactional) {
        SessionBytesStoreSupplier plain = BraidStores.sessionStore(name, Duration.ofMillis(retentionMs));
        return of(plain, SessionBytesStoreSupplier.class, SessionStore.class, isTransactional);
    }

    /** The plain supplier, or one that passes all calls on and has the store be transactional. */
    private static <P extends StoreSupplier<?>, S extends StateStore> P of(
            P plain, Class<P> type, Class<S> store, boolean isTransactional) {
        if (!isTransactional) {
            return plain;
        }
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
            Object answer = Transactional.call(plain, method, arguments);
            return method.getName().equals("get") ? Transactional.of(store.cast(answer), store) : answer;
        }));
    }
}
