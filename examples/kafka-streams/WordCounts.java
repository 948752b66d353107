import io.github.braidb.streams.BraidConfig;
import io.github.braidb.streams.BraidDslStoreSuppliers;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Counts how often each word comes in each minute of the topic {@code lines}, exactly once. The topic {@code counts} has each new count of a
 * word, with the key {@code word@minute}.
 *
 * <p>The arguments are the address of a broker and a directory for the state.
 */
public final class WordCounts {
    static final String LINES = "lines";
    static final String COUNTS = "counts";
    static final Duration WINDOW = Duration.ofMinutes(1);

    /** 6 s: how long an instance may be silent before the others take its tasks. It is the least that a broker allows by default. */
    private static final String SESSION_TIMEOUT_MS = "6000";

    private WordCounts() {}

    /** The words of a line. */
    static String[] words(String line) {
        return Arrays.stream(line.toLowerCase(Locale.ROOT).split("[^\\p{L}\\p{N}]+"))
                .filter(word -> !word.isEmpty())
                .toArray(String[]::new);
    }

    /** The key of a count. */
    static String key(String word, long windowStartMs) {
        return word + "@" + windowStartMs / WINDOW.toMillis();
    }

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(LINES, Consumed.with(Serdes.Integer(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(words(line)))
                .groupBy((line, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                // Lines of different partitions overtake each other, so a window takes words that come up to a day late.
                .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, Duration.ofDays(1)))
                .count()
                .toStream()
                .map((word, count) -> KeyValue.pair(key(word.key(), word.window().start()), count))
                .to(COUNTS, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-counts");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        // Kafka Streams 4.4 then has stores keep their last commit through a kill. Otherwise it deletes them, and restores them in whole.
        properties.put("enable.transactional.statestores", true);
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), SESSION_TIMEOUT_MS);

        // The first line has all stores be in one BraidDB database. The second one bounds the native memory of all of them together.
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BraidDslStoreSuppliers.class);
        properties.put(BraidConfig.MEMORY_BYTES_CONFIG, 64L << 20);

        KafkaStreams streams = new KafkaStreams(topology(), properties);
        streams.setStateListener((now, before) -> System.out.println(now));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
