package io.github.braidb.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A topology whose stores are of several makes. The driver deletes the state at its end, as {@code KafkaStreams.cleanUp} does. */
final class MixedStoresTest {
    @TempDir
    private Path dir;

    private Properties properties(boolean isExactlyOnce, boolean isTransactional) {
        Properties properties = Topologies.properties(dir);
        if (isExactlyOnce) {
            properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        }
        if (isTransactional) {
            properties.put(BraidStore.TRANSACTIONAL_CONFIG, true);
        }
        return properties;
    }

    /** Counts words in a store of ours, in a built-in one on disk and in one in memory. */
    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.stream("words", Consumed.with(Serdes.String(), Serdes.String()));
        Grouped<String, String> grouped = Grouped.with(Serdes.String(), Serdes.String());
        words.groupByKey(grouped).count(Materialized.<String, Long>as(BraidStores.timestampedKeyValueStore("ours"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        words.groupByKey(grouped).count(Materialized.<String, Long>as(Stores.persistentTimestampedKeyValueStore("theirs"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        words.groupByKey(grouped).count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("memory"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        return builder.build();
    }

    private void count(Properties properties) {
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(), properties)) {
            TestInputTopic<String, String> words =
                    driver.createInputTopic("words", new StringSerializer(), new StringSerializer());
            assertEquals(0, value(driver, "ours"));
            for (int word = 0; word < 10; word++) {
                words.pipeInput("word", "");
            }
            assertEquals(10, value(driver, "ours"));
            assertEquals(10, value(driver, "theirs"));
            assertEquals(10, value(driver, "memory"));
            assertEquals(0, Topologies.metric(driver, "braidb-uncommitted-bytes"), "the driver commits after each record");
        }
    }

    private static long value(TopologyTestDriver driver, String store) {
        var value = driver.<String, Long>getTimestampedKeyValueStore(store).get("word");
        return value == null ? 0 : value.value();
    }

    @Test
    void countsAreRightAtLeastOnce() {
        count(properties(false, false));
        count(properties(false, false));
    }

    @Test
    void countsAreRightExactlyOnce() {
        count(properties(true, false));
        count(properties(true, false));
    }

    @Test
    void countsAreRightInTransactions() {
        boolean isTransactional = java.util.Arrays.stream(StateStore.class.getMethods())
                .anyMatch(method -> method.getName().equals("approximateNumUncommittedBytes"));
        assumeTrue(isTransactional, "Kafka Streams before 4.4 has no transactional stores");
        count(properties(true, true));
        count(properties(false, true));
    }
}
