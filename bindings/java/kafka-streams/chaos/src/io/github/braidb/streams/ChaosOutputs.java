package io.github.braidb.streams;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The committed outputs of the application, compared with those of the input. */
final class ChaosOutputs {
    /** 40 s without a new record, after which outputs that differ are final: transactions end, and tasks move, within 20 s. */
    private static final long QUIET_MS = 40_000;

    /** 3 s without a new record, once the outputs are as expected: a record that is processed twice would come by then. */
    private static final long SETTLED_MS = 3_000;

    private static final int TOLD = 5;

    private final String broker;
    private final Map<String, Map<String, String>> expected;
    private final Map<String, Map<String, String>> found = new HashMap<>();
    private final List<String> wrong = new ArrayList<>();
    private long records;
    private long stepsBack;

    ChaosOutputs(String broker, Map<String, Map<String, String>> expected) {
        this.broker = broker;
        this.expected = expected;
        expected.keySet().forEach(topic -> found.put(topic, new HashMap<>()));
    }

    /** Reads the topics until no more records come. */
    void read() {
        Map<String, Object> settings = Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, broker,
                ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (String topic : expected.keySet()) {
                for (int partition = 0; partition < ChaosInput.PARTITIONS; partition++) {
                    partitions.add(new TopicPartition(topic, partition));
                }
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long lastMs = System.currentTimeMillis();
            boolean isExact = false;
            while (System.currentTimeMillis() - lastMs < (isExact ? SETTLED_MS : QUIET_MS)) {
                boolean isNew = false;
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    take(record);
                    isNew = true;
                }
                if (isNew) {
                    lastMs = System.currentTimeMillis();
                    isExact = false;
                } else {
                    isExact = found.equals(expected);
                }
            }
        }
        expected.forEach((topic, values) -> wrong.addAll(differences("the topic " + topic, values, found.get(topic))));
        if (stepsBack > 0) {
            wrong.add(stepsBack + " counts were sent twice, or went back");
        }
    }

    private void take(ConsumerRecord<String, String> record) {
        records++;
        Map<String, String> values = found.get(record.topic());
        if (record.value() == null) {
            values.remove(record.key());
            return;
        }
        String before = values.put(record.key(), record.value());
        if (before != null && record.topic().equals("out-counts") && Long.parseLong(record.value()) <= Long.parseLong(before)) {
            stepsBack++;
        }
    }

    /** Says how two maps differ. */
    static List<String> differences(String what, Map<String, String> expected, Map<String, String> found) {
        TreeSet<String> keys = new TreeSet<>(expected.keySet());
        keys.addAll(found.keySet());
        keys.removeIf(key -> expected.get(key) != null && expected.get(key).equals(found.get(key)));
        List<String> texts = new ArrayList<>();
        keys.stream().limit(TOLD).forEach(
                key -> texts.add(what + " has " + key + " = " + found.get(key) + ", and the input says " + expected.get(key)));
        if (keys.size() > TOLD) {
            texts.add(what + " differs in " + keys.size() + " keys");
        }
        return texts;
    }

    List<String> wrong() {
        return wrong;
    }

    long records() {
        return records;
    }
}
