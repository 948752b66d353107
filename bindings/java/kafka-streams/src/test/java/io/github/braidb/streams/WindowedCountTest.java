package io.github.braidb.streams;

import static io.github.braidb.streams.Topologies.metric;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A topology of the DSL that counts words in all kinds of stores, by one property. */
final class WindowedCountTest {
    @TempDir
    private Path dir;

    private Properties properties() {
        Properties properties = Topologies.properties(dir);
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BraidDslStoreSuppliers.class);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(BraidConfig.MEMORY_BYTES_CONFIG, 128 << 20);
        return properties;
    }

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.stream("words", Consumed.with(Serdes.String(), Serdes.String()));
        words.groupByKey().count(Materialized.as("totals"))
                .toStream().to("totals", Produced.with(Serdes.String(), Serdes.Long()));
        words.groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofMinutes(1)))
                .count(Materialized.as("windows"));
        words.groupByKey().windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofSeconds(5)))
                .count(Materialized.as("sessions"));
        return builder.build();
    }

    @Test
    void countsAreThoseOfTheInput() throws Exception {
        TreeMap<String, Long> totals = new TreeMap<>();
        TreeMap<String, Long> windows = new TreeMap<>();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(), properties())) {
            TestInputTopic<String, String> words =
                    driver.createInputTopic("words", new StringSerializer(), new StringSerializer());
            for (int index = 0; index < 500; index++) {
                String word = "word-" + index * 7 % 13;
                long time = index * 100L;
                words.pipeInput(word, "", Instant.ofEpochMilli(time));
                totals.merge(word, 1L, Long::sum);
                windows.merge(word + "@" + time / 10_000 * 10_000, 1L, Long::sum);
            }
            TestOutputTopic<String, Long> output =
                    driver.createOutputTopic("totals", new StringDeserializer(), new LongDeserializer());
            assertEquals(totals, new TreeMap<>(output.readKeyValuesToMap()));
            assertEquals(windows, windows(driver.getTimestampedWindowStore("windows")));
            assertEquals(500, sessions(driver));
            assertEquals(500, totals.values().stream().mapToLong(count -> count).sum());
            // One database has all three.
            assertTrue(Files.exists(dir.resolve("words/braidb/LOCK")));
            assertEquals(3, markers());
            assertTrue(metric(driver, "braidb-memory-bytes") > 0);
            assertTrue(metric(driver, "braidb-space-bytes") > 0);
            assertEquals(0, metric(driver, "braidb-is-poisoned"));
            assertTrue(metric(driver, "braidb-slot-bytes") > 0);
            assertEquals(0, metric(driver, "braidb-uncommitted-bytes"));
        }
    }

    private long markers() throws Exception {
        try (var files = Files.list(dir.resolve("words/0_0"))) {
            return files.filter(file -> file.getFileName().toString().endsWith(".slot")).count();
        }
    }

    private static TreeMap<String, Long> windows(ReadOnlyWindowStore<String, ValueAndTimestamp<Long>> store) {
        TreeMap<String, Long> counts = new TreeMap<>();
        try (KeyValueIterator<Windowed<String>, ValueAndTimestamp<Long>> all = store.all()) {
            while (all.hasNext()) {
                KeyValue<Windowed<String>, ValueAndTimestamp<Long>> entry = all.next();
                counts.put(entry.key.key() + "@" + entry.key.window().start(), entry.value.value());
            }
        }
        return counts;
    }

    private static long sessions(TopologyTestDriver driver) {
        long count = 0;
        for (int word = 0; word < 13; word++) {
            try (KeyValueIterator<Windowed<String>, Long> all =
                    driver.<String, Long>getSessionStore("sessions").fetch("word-" + word)) {
                while (all.hasNext()) {
                    count += all.next().value;
                }
            }
        }
        return count;
    }
}
