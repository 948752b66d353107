package io.github.braidb.streams;

import java.time.Duration;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Single stores, for {@code Materialized.as}, {@code StreamJoined} and the builders of {@code Stores}.
 *
 * <pre>{@code
 * builder.addStateStore(Stores.keyValueStoreBuilder(BraidStores.keyValueStore("seen"), Serdes.String(), Serdes.Long()));
 * }</pre>
 *
 * <p>A store whose values have a timestamp belongs to the builders and methods whose name says so, as with the built-in stores. Durations
 * count in milliseconds.
 */
public final class BraidStores {
    private BraidStores() {}

    /**
     * A key-value store.
     *
     * @param name the name of the store
     * @return what makes it
     */
    public static KeyValueBytesStoreSupplier keyValueStore(String name) {
        return KeyValueSupplier.of(name, Format.PLAIN);
    }

    /**
     * A key-value store whose values have a timestamp.
     *
     * @param name the name of the store
     * @return what makes it
     */
    public static KeyValueBytesStoreSupplier timestampedKeyValueStore(String name) {
        return KeyValueSupplier.of(name, Format.TIMESTAMPED);
    }

    /**
     * A key-value store whose values have a timestamp and headers.
     *
     * @param name the name of the store
     * @return what makes it
     */
    public static KeyValueBytesStoreSupplier timestampedKeyValueStoreWithHeaders(String name) {
        return KeyValueSupplier.of(name, Format.HEADERS);
    }

    /**
     * A window store.
     *
     * @param name the name of the store
     * @param retention how long windows are kept, at least as long as they are
     * @param window the length of a window
     * @param retainDuplicates whether a key may have several values in a window
     * @return what makes it
     * @throws IllegalArgumentException if windows are kept for a shorter time than they are long
     */
    public static WindowBytesStoreSupplier windowStore(
            String name, Duration retention, Duration window, boolean retainDuplicates) {
        return WindowSupplier.of(name, Format.PLAIN, retention.toMillis(), window.toMillis(), retainDuplicates, false);
    }

    /**
     * A window store whose values have a timestamp.
     *
     * @param name the name of the store
     * @param retention how long windows are kept, at least as long as they are
     * @param window the length of a window
     * @param retainDuplicates whether a key may have several values in a window
     * @return what makes it
     * @throws IllegalArgumentException if windows are kept for a shorter time than they are long
     */
    public static WindowBytesStoreSupplier timestampedWindowStore(
            String name, Duration retention, Duration window, boolean retainDuplicates) {
        return WindowSupplier.of(name, Format.TIMESTAMPED, retention.toMillis(), window.toMillis(), retainDuplicates, false);
    }

    /**
     * A window store whose values have a timestamp and headers.
     *
     * @param name the name of the store
     * @param retention how long windows are kept, at least as long as they are
     * @param window the length of a window
     * @param retainDuplicates whether a key may have several values in a window
     * @return what makes it
     * @throws IllegalArgumentException if windows are kept for a shorter time than they are long
     */
    public static WindowBytesStoreSupplier timestampedWindowStoreWithHeaders(
            String name, Duration retention, Duration window, boolean retainDuplicates) {
        return WindowSupplier.of(name, Format.HEADERS, retention.toMillis(), window.toMillis(), retainDuplicates, false);
    }

    /**
     * A session store.
     *
     * @param name the name of the store
     * @param retention how long sessions are kept
     * @return what makes it
     * @throws IllegalArgumentException if the duration is negative
     */
    public static SessionBytesStoreSupplier sessionStore(String name, Duration retention) {
        return SessionSupplier.of(name, Format.PLAIN, retention.toMillis(), false);
    }

    /**
     * A session store whose values have headers.
     *
     * @param name the name of the store
     * @param retention how long sessions are kept
     * @return what makes it
     * @throws IllegalArgumentException if the duration is negative
     */
    public static SessionBytesStoreSupplier sessionStoreWithHeaders(String name, Duration retention) {
        return SessionSupplier.of(name, Format.HEADERS, retention.toMillis(), false);
    }
}
