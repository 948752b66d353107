package io.github.braidb.streams;

import io.github.braidb.streams.internals.KafkaInternals;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/**
 * Stores of windows and sessions that tell Kafka Streams 4.4 how long they keep entries. A restore then begins behind what has expired.
 *
 * <p>The classes load only where {@link KafkaInternals#asksForRetention} holds, since they implement an interface of Kafka Streams 4.4.
 */
final class RetainingStores {
    private RetainingStores() {}

    static BraidWindowStore of(WindowSupplier supplier) {
        return switch (supplier.format()) {
            case PLAIN -> new Windows(supplier);
            case TIMESTAMPED -> new TimestampedWindows(supplier);
            case HEADERS -> new WindowsWithHeaders(supplier);
        };
    }

    static BraidSessionStore of(SessionSupplier supplier) {
        return supplier.format() == Format.HEADERS ? new SessionsWithHeaders(supplier) : new Sessions(supplier);
    }

    private static class Windows extends BraidWindowStore implements KafkaInternals.Retaining {
        Windows(WindowSupplier supplier) {
            super(supplier);
        }
    }

    private static final class TimestampedWindows extends Windows implements TimestampedBytesStore {
        TimestampedWindows(WindowSupplier supplier) {
            super(supplier);
        }
    }

    private static final class WindowsWithHeaders extends Windows implements TimestampedBytesStore, HeadersBytesStore {
        WindowsWithHeaders(WindowSupplier supplier) {
            super(supplier);
        }
    }

    private static class Sessions extends BraidSessionStore implements KafkaInternals.Retaining {
        Sessions(SessionSupplier supplier) {
            super(supplier);
        }
    }

    private static final class SessionsWithHeaders extends Sessions implements HeadersBytesStore {
        SessionsWithHeaders(SessionSupplier supplier) {
            super(supplier);
        }
    }
}
