package io.github.braidb.streams;

import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;

/** What tests of topologies, which the driver of Kafka Streams runs without a broker, have in common. */
final class Topologies {
    private Topologies() {}

    /** The configuration of an application whose state is in a directory. */
    static Properties properties(Path dir) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "words");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
        properties.put(BraidConfig.LINGER_MS_CONFIG, 0);
        return properties;
    }

    /** The largest value of a metric. */
    static long metric(TopologyTestDriver driver, String name) {
        return driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals(name))
                .mapToLong(metric -> (Long) metric.getValue().metricValue())
                .max()
                .orElseThrow();
    }
}
