package io.github.braidb.streams;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The application of a chaos run, and beside it in the same process one with an empty topology, whose start is the measure for the first.
 *
 * <p>It prints a line for each event: {@code STATE name state ms}, with milliseconds since the start of the process, {@code ACTIVE} with the
 * tasks that it processes, {@code RESTORE store partition from to}, and {@code UNCAUGHT error}.
 */
public final class ChaosApp {
    static final String REAL = "chaos";
    static final String EMPTY = "empty";

    /** The topic and the store of the topology that {@code chaos.state} selects. */
    static final String STATE = "state";

    private static final Duration NO_GRACE = Duration.ZERO;
    private static final Duration RETENTION = Duration.ofMillis(ChaosInput.RETENTION_MS);
    private static final long LOOK_MS = 250;

    private ChaosApp() {}

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Long> events = builder.stream(ChaosInput.TOPIC, Consumed.with(Serdes.String(), Serdes.Long()));
        KGroupedStream<String, Long> byKey = events.groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));

        KTable<String, Long> counts = byKey.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()));
        send(counts.toStream().mapValues(count -> count.toString()), "out-counts");
        KTable<String, Long> totals = byKey.reduce(Long::sum, numbers("totals"));
        send(counts.join(totals, (count, total) -> count + ":" + total,
                        Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("joined")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(Serdes.String()))
                .toStream(), "out-joined");
        send(events.groupBy((key, amount) -> ChaosInput.category(key), Grouped.with("by-category", Serdes.String(), Serdes.Long()))
                .reduce(Long::sum, numbers("sums"))
                .toStream().mapValues(sum -> sum.toString()), "out-sums");
        send(byKey.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(ChaosInput.WINDOW_MS), NO_GRACE))
                .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows").withRetention(RETENTION))
                .toStream()
                .map((key, count) -> KeyValue.pair(key.key() + "@" + key.window().start(), count.toString())), "out-windows");
        send(byKey.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(ChaosInput.SESSION_GAP_MS), NO_GRACE))
                .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions").withRetention(RETENTION))
                .toStream()
                .map((key, count) -> KeyValue.pair(
                        key.key() + "@" + key.window().start() + "-" + key.window().end(), count == null ? null : count.toString())),
                "out-sessions");
        return builder.build();
    }

    private static Materialized<String, Long, KeyValueStore<Bytes, byte[]>> numbers(String store) {
        return Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(store)
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long());
    }

    private static void send(KStream<String, String> stream, String topic) {
        stream.to(topic, Produced.with(Serdes.String(), Serdes.String()));
    }

    /** One store with the records of a topic. */
    private static Topology stateTopology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.table(STATE, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()),
                Materialized.<byte[], byte[], KeyValueStore<Bytes, byte[]>>as(STATE));
        return builder.build();
    }

    private static Topology emptyTopology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(EMPTY, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).foreach((key, value) -> {});
        return builder.build();
    }

    /** Settings of both. The system properties with the prefix {@code streams.} overrule them. */
    private static Properties properties(String name, String[] arguments) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), "6000");
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), "1500");
        properties.put(StreamsConfig.producerPrefix(ProducerConfig.MAX_BLOCK_MS_CONFIG), "120000");
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BraidDslStoreSuppliers.class);
        System.getProperties().forEach((key, value) -> {
            if (key.toString().startsWith("streams.")) {
                properties.put(key.toString().substring("streams.".length()), value);
            }
        });
        return properties;
    }

    /** Prints a line at once, also if the process is killed right after. */
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static KafkaStreams started(String name, Topology topology, String[] arguments) {
        long startMs = ManagementFactory.getRuntimeMXBean().getStartTime();
        KafkaStreams streams = new KafkaStreams(topology, properties(name, arguments));
        streams.setStateListener((now, before) -> say("STATE " + name + " " + now + " " + (System.currentTimeMillis() - startMs)));
        streams.setUncaughtExceptionHandler(error -> {
            say("UNCAUGHT " + name + " " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
                say("RESTORE " + store + " " + partition.partition() + " " + from + " " + to);
            }

            @Override
            public void onBatchRestored(TopicPartition partition, String store, long last, long records) {}

            @Override
            public void onRestoreEnd(TopicPartition partition, String store, long records) {
                say("RESTORED " + store + " " + partition.partition() + " " + records);
            }
        });
        streams.start();
        return streams;
    }

    public static void main(String[] arguments) throws InterruptedException {
        KafkaStreams real = started(REAL, Boolean.getBoolean("chaos.state") ? stateTopology() : topology(), arguments);
        KafkaStreams empty = started(EMPTY, emptyTopology(), arguments);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            real.close();
            empty.close();
            say("CLOSED");
        }));
        TreeSet<String> before = new TreeSet<>();
        while (true) {
            TreeSet<String> active = new TreeSet<>();
            for (ThreadMetadata thread : real.metadataForLocalThreads()) {
                thread.activeTasks().forEach(task -> active.add(task.taskId().toString()));
            }
            if (!active.equals(before)) {
                say("ACTIVE " + String.join(" ", active));
                before = active;
            }
            Thread.sleep(LOOK_MS);
        }
    }
}
