import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends a text to {@link WordCounts}, and compares its counts with those of the text. Line {@code n} of the text has the time {@code n} seconds
 * after the first line, so a window has at most 60 lines. Brokers delete lines older than 7 days, and refuse those that come more than an hour early.
 *
 * <p>The arguments are the address of a broker, then {@code topics}, or {@code send FIRST SECONDS FILE...}, or {@code check FIRST FILE...}.
 * {@code FIRST} is the time of the first line in seconds since 1970-01-01T00:00Z, and {@code SECONDS} the time that sending takes.
 */
public final class Text {
    private static final int PARTITIONS = 6;
    private static final int MS_OF_LINE = 1_000;

    /** 300 s: how long the broker may take to start beside other work of the machine. */
    private static final int START_MS = 300_000;

    /** 20 s without a new count, after which the counts are final: the transaction of a killed instance ends after 10 s. */
    private static final long QUIET_MS = 20_000;

    /** 3 s without a new count, once the counts are those of the text: a word that is counted twice would come by then. */
    private static final long SETTLED_MS = 3_000;

    /** How many differences are printed. */
    private static final int SHOWN = 10;

    private Text() {}

    public static void main(String[] arguments) throws Exception {
        String broker = arguments[0];
        switch (arguments[1]) {
            case "topics" -> makeTopics(broker);
            case "send" -> send(broker, lines(arguments, 4), ms(arguments[2]), ms(arguments[3]));
            case "check" -> System.exit(isExact(broker, lines(arguments, 3), ms(arguments[2])) ? 0 : 1);
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static long ms(String seconds) {
        return Long.parseLong(seconds) * 1_000;
    }

    private static List<String> lines(String[] arguments, int firstFile) throws IOException {
        List<String> lines = new ArrayList<>();
        for (String file : Arrays.asList(arguments).subList(firstFile, arguments.length)) {
            lines.addAll(Files.readAllLines(Path.of(file)));
        }
        return lines;
    }

    private static void makeTopics(String broker) throws InterruptedException, ExecutionException {
        try (Admin admin = Admin.create(Map.of(
                AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, broker, AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, START_MS))) {
            admin.createTopics(List.of(
                            new NewTopic(WordCounts.LINES, PARTITIONS, (short) 1),
                            new NewTopic(WordCounts.COUNTS, PARTITIONS, (short) 1)))
                    .all().get();
        }
    }

    /** Sends the lines evenly over some time. */
    private static void send(String broker, List<String> lines, long firstMs, long durationMs)
            throws InterruptedException, ExecutionException {
        Map<String, Object> settings = Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, broker, ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        long startMs = System.currentTimeMillis();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<Integer, String> producer =
                new KafkaProducer<>(settings, new IntegerSerializer(), new StringSerializer())) {
            for (int line = 0; line < lines.size(); line++) {
                long waitMs = startMs + durationMs * line / lines.size() - System.currentTimeMillis();
                if (waitMs > 0) {
                    Thread.sleep(waitMs);
                }
                long timeMs = firstMs + (long) line * MS_OF_LINE;
                sent.add(producer.send(new ProducerRecord<>(WordCounts.LINES, null, timeMs, line, lines.get(line))));
            }
        }
        for (Future<RecordMetadata> line : sent) {
            line.get();
        }
    }

    /** The counts of a text, by the keys of the topic. */
    private static Map<String, Long> counted(List<String> lines, long firstMs) {
        Map<String, Long> counts = new HashMap<>();
        for (int line = 0; line < lines.size(); line++) {
            long timeMs = firstMs + (long) line * MS_OF_LINE;
            for (String word : WordCounts.words(lines.get(line))) {
                counts.merge(WordCounts.key(word, timeMs), 1L, Long::sum);
            }
        }
        return counts;
    }

    /** Reads counts until no more come. Says what differs. */
    private static boolean isExact(String broker, List<String> lines, long firstMs) {
        Map<String, Long> expected = counted(lines, firstMs);
        if (expected.isEmpty()) {
            throw new IllegalArgumentException("the text has no words");
        }
        Map<String, Long> found = new HashMap<>();
        int steps = 0;
        int stepsBack = 0;
        Map<String, Object> settings = Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, broker,
                ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        try (KafkaConsumer<String, Long> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(WordCounts.COUNTS).stream()
                    .map(one -> new TopicPartition(one.topic(), one.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long lastMs = System.currentTimeMillis();
            while (System.currentTimeMillis() - lastMs < (found.equals(expected) ? SETTLED_MS : QUIET_MS)) {
                for (ConsumerRecord<String, Long> count : consumer.poll(Duration.ofMillis(200))) {
                    Long before = found.put(count.key(), count.value());
                    stepsBack += before != null && before >= count.value() ? 1 : 0;
                    steps++;
                    lastMs = System.currentTimeMillis();
                }
            }
        }
        long words = expected.values().stream().mapToLong(Long::longValue).sum();
        System.out.println(lines.size() + " lines, " + words + " words, " + expected.size() + " counts, raised in " + steps + " steps");
        TreeSet<String> wrong = new TreeSet<>(expected.keySet());
        wrong.addAll(found.keySet());
        wrong.removeIf(key -> expected.getOrDefault(key, 0L).equals(found.getOrDefault(key, 0L)));
        System.out.println("wrong " + (wrong.size() + stepsBack));
        if (wrong.isEmpty() && stepsBack == 0) {
            System.out.println("EXACT: each count is that of the text, and none ever went back");
            return true;
        }
        System.out.println("WRONG: " + wrong.size() + " counts differ, and " + stepsBack + " steps went back");
        wrong.stream().limit(SHOWN).forEach(key -> System.out.println(
                "  " + key + " is " + found.getOrDefault(key, 0L) + ", and the text has " + expected.getOrDefault(key, 0L)));
        return false;
    }
}
