package io.github.braidb.streams;

import io.github.braidb.BraidException;
import io.github.braidb.Stats;
import io.github.braidb.streams.internals.KafkaInternals;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.Supplier;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.StateStoreContext;

/** Numbers of the database and of a store among the metrics of Kafka Streams. Most metrics of a store come from the layers above it. */
final class BraidMetrics {
    /** The statistics of the database that the client shows, as {@code braidb-} and the name with hyphens. */
    private static final List<String> OF_DATABASE = List.of(
            "memory_bytes", "space_bytes", "cache_bytes", "cache_hits_total", "cache_misses_total", "written_bytes_total",
            "stall_us_total", "is_poisoned");

    /** How long a look at all statistics serves, 1 s: one report of the metrics asks for each of them. */
    private static final long FRESH_NANOS = 1_000_000_000;

    private final BraidSpace space;

    /** The clients that show the numbers of the database. The first store of a client adds them. */
    private final Set<StreamsMetrics> clients = Collections.newSetFromMap(new WeakHashMap<>());

    private Stats last;
    private long lastNanos;

    BraidMetrics(BraidSpace space) {
        this.space = space;
    }

    /** Adds the numbers of a store, and those of the database unless the client shows them. */
    void add(StateStoreContext context, BraidStore store) {
        if (isNew(context.metrics())) {
            Path dir = space.dir();
            for (String name : OF_DATABASE) {
                KafkaInternals.addClientGauge(
                        context, "braidb-" + name.replace('_', '-'), "The statistic " + name + " of the database of all stores",
                        () -> BraidSpace.statistic(dir, name));
            }
        }
        KafkaInternals.addGauge(
                context, BraidStore.METRICS_SCOPE, store.name(), "braidb-slot-bytes",
                "About the bytes of the store in memory and on disk", whileOpen(store::slotBytes));
        KafkaInternals.addGauge(
                context, BraidStore.METRICS_SCOPE, store.name(), "braidb-uncommitted-bytes",
                "About the bytes of the store that no commit has", whileOpen(store::approximateNumUncommittedBytes));
    }

    private synchronized boolean isNew(StreamsMetrics client) {
        return clients.add(client);
    }

    /** A number of a store, or 0 where the store was closed meanwhile or has failed: a report of all metrics must not end there. */
    static Supplier<Long> whileOpen(Supplier<Long> number) {
        return () -> {
            try {
                return number.get();
            } catch (KafkaException error) {
                return 0L;
            }
        };
    }

    /** A statistic, at most a second old. The database may be closed meanwhile, and then it is 0. */
    synchronized long statistic(String name) {
        long now = System.nanoTime();
        try {
            if (last == null || now - lastNanos > FRESH_NANOS) {
                last = space.db().stats();
                lastNanos = now;
            }
            return last.get(name);
        } catch (BraidException error) {
            return 0;
        }
    }
}
