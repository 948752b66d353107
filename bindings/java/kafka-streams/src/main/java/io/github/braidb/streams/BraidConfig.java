package io.github.braidb.streams;

import io.github.braidb.Options;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.streams.StreamsConfig;

/** The settings of the stores, which stand in the configuration of the Kafka Streams application. */
public final class BraidConfig {
    /** The native memory of all stores of the application in bytes: 268,435,456 (256 MiB) by default. */
    public static final String MEMORY_BYTES_CONFIG = "braidb.memory.bytes";

    /**
     * How long the database stays open after the last store was closed, in milliseconds: 2,000 by default, or the system property of this
     * name.
     */
    public static final String LINGER_MS_CONFIG = "braidb.linger.ms";

    /** In front of the name of any option in {@code docs/options.md}: {@code braidb.option.open_files}. */
    public static final String OPTION_PREFIX = "braidb.option.";

    /** 256 MiB: about what 5 stores of the default kind take, for an application with any number of them. */
    private static final long MEMORY_BYTES = 256L << 20;

    /** 2 s: Kafka Streams opens and closes all stores at its start, and opens them again after a rebalance. */
    private static final long LINGER_MS = 2_000;

    /** How long an open waits for a process that is about to end, 10 s: a restart may overlap the close of the last run. */
    private static final Duration WAIT_FOR_LOCK = Duration.ofSeconds(10);

    /** 4.2: the last version of Kafka Streams that keeps the offsets of stores in files. */
    private static final int LAST_MAJOR = 4;

    private static final int LAST_MINOR = 2;

    private BraidConfig() {}

    static long lingerMs(Map<String, ?> configs) {
        return number(configs, LINGER_MS_CONFIG, Long.getLong(LINGER_MS_CONFIG, LINGER_MS));
    }

    /** Whether Kafka Streams writes offsets at a close for stores of its version 4.2 or older, which no store of that version has. */
    static boolean areOffsetsWrittenForOldStores(Map<String, ?> configs) {
        Object from = configs.get(StreamsConfig.UPGRADE_FROM_CONFIG);
        String[] parts = from == null ? new String[0] : from.toString().trim().split("\\.");
        try {
            int major = parts.length < 2 ? Integer.MAX_VALUE : Integer.parseInt(parts[0]);
            return major < LAST_MAJOR || major == LAST_MAJOR && Integer.parseInt(parts[1]) <= LAST_MINOR;
        } catch (NumberFormatException error) {
            return false;
        }
    }

    static Options options(Map<String, ?> configs) {
        Options options = new Options()
                .memoryLimit(number(configs, MEMORY_BYTES_CONFIG, MEMORY_BYTES))
                .waitForLock(WAIT_FOR_LOCK);
        configs.forEach((name, value) -> {
            if (name.startsWith(OPTION_PREFIX) && value != null) {
                options.set(name.substring(OPTION_PREFIX.length()), value.toString());
            }
        });
        return options;
    }

    private static long number(Map<String, ?> configs, String name, long otherwise) {
        Object value = configs.get(name);
        if (value == null) {
            return otherwise;
        }
        try {
            return Long.parseLong(value.toString().trim());
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException(name + " is " + value + "; it must be a whole number", error);
        }
    }
}
