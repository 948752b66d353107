package io.github.braidb.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The committed records of all changelogs of the application: what its stores must hold at any offset. */
final class ChaosChangelogs implements AutoCloseable {
    /** A store of the application, and how its keys and values are made. */
    enum Store {
        COUNTS(null, true), TOTALS(null, true), JOINED(null, true), SUMS(null, true),
        WINDOWS(SegmentKeys.WINDOW, true), SESSIONS(SegmentKeys.SESSION, false);

        /** How the keys have times, or null. */
        final SegmentKeys keys;

        /** Whether values begin with the time of the record. */
        final boolean isTimestamped;

        Store(SegmentKeys keys, boolean isTimestamped) {
            this.keys = keys;
            this.isTimestamped = isTimestamped;
        }

        String storeName() {
            return name().toLowerCase(java.util.Locale.ROOT);
        }

        TopicPartition changelog(int partition) {
            return new TopicPartition(ChaosApp.REAL + "-" + storeName() + "-changelog", partition);
        }
    }

    /** A record. Its value is as in the store, and null if the record deletes the key. */
    private record Entry(long offset, ByteBuffer key, byte[] value) {}

    /** 2 minutes: how long the broker may take to answer after its start. */
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, List<Entry>> entries = new HashMap<>();

    /** One object for each key, since keys come often. */
    private final Map<ByteBuffer, ByteBuffer> keys = new HashMap<>();

    private final Map<String, Store> stores = new HashMap<>();

    ChaosChangelogs(String broker) {
        consumer = new KafkaConsumer<>(
                Map.of(
                        ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, broker,
                        ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                        ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
        for (Store store : Store.values()) {
            for (int partition = 0; partition < ChaosInput.PARTITIONS; partition++) {
                entries.put(store.changelog(partition), new ArrayList<>());
            }
            stores.put(store.changelog(0).topic(), store);
        }
        consumer.assign(entries.keySet());
        consumer.seekToBeginning(entries.keySet());
    }

    /** Reads all that is committed at this moment. */
    void catchUp() {
        Map<TopicPartition, Long> ends = consumer.endOffsets(entries.keySet(), PATIENCE);
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            poll();
        }
    }

    /**
     * Reads a changelog up to an offset. After a kill of the broker, a transaction that it has committed is not yet there: the broker writes
     * the markers of its end again.
     *
     * @return whether the offset is committed in time
     */
    boolean await(TopicPartition changelog, long offset) {
        long endMs = System.currentTimeMillis() + PATIENCE.toMillis();
        while (consumer.position(changelog) <= offset && System.currentTimeMillis() < endMs) {
            poll();
        }
        return consumer.position(changelog) > offset;
    }

    private void poll() {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
            Store store = stores.get(record.topic());
            byte[] value = record.value();
            if (value != null && store.isTimestamped) {
                value = ByteBuffer.allocate(Long.BYTES + value.length).putLong(record.timestamp()).put(value).array();
            }
            ByteBuffer key = keys.computeIfAbsent(ByteBuffer.wrap(record.key()), same -> same);
            entries.get(new TopicPartition(record.topic(), record.partition())).add(new Entry(record.offset(), key, value));
        }
    }

    /** The last value of each key up to an offset, which belongs to it. */
    Map<ByteBuffer, byte[]> contents(TopicPartition changelog, long offset) {
        Map<ByteBuffer, byte[]> contents = new HashMap<>();
        for (Entry entry : entries.get(changelog)) {
            if (entry.offset > offset) {
                break;
            }
            if (entry.value == null) {
                contents.remove(entry.key);
            } else {
                contents.put(entry.key, entry.value);
            }
        }
        return contents;
    }

    /** The latest time of a key up to an offset, or {@link Ledger#NO_TIME}. */
    long streamTime(TopicPartition changelog, SegmentKeys keys, long offset) {
        long latest = Ledger.NO_TIME;
        for (Entry entry : entries.get(changelog)) {
            if (entry.offset <= offset) {
                latest = Math.max(latest, keys.timestamp(entry.key.array()));
            }
        }
        return latest;
    }

    /**
     * The transactions behind an offset. The marker of each takes an offset, so a gap in the offsets of committed records ends one.
     *
     * @return transactions, and records in them
     */
    long[] behind(TopicPartition changelog, long offset) {
        long transactions = 0;
        long records = 0;
        long before = Long.MIN_VALUE;
        List<Entry> all = entries.get(changelog);
        for (int index = all.size() - 1; index >= 0 && all.get(index).offset > offset; index--) {
            long now = all.get(index).offset;
            transactions += before == now + 1 ? 0 : 1;
            before = now;
            records++;
        }
        return new long[] {transactions, records};
    }

    /** The offset of the last record, or -1. */
    long last(TopicPartition changelog) {
        List<Entry> all = entries.get(changelog);
        return all.isEmpty() ? -1 : all.get(all.size() - 1).offset;
    }

    /** What a store holds in the end by its changelogs, as texts that the topics of the output have. */
    Map<String, String> text(Store store) {
        Map<String, String> texts = new HashMap<>();
        for (int partition = 0; partition < ChaosInput.PARTITIONS; partition++) {
            contents(store.changelog(partition), Long.MAX_VALUE).forEach((key, value) -> texts.put(
                    text(store, key.array()), text(store, ByteBuffer.wrap(value, store.isTimestamped ? Long.BYTES : 0,
                            value.length - (store.isTimestamped ? Long.BYTES : 0)))));
        }
        return texts;
    }

    private static String text(Store store, byte[] key) {
        if (store.keys == null) {
            return new String(key, StandardCharsets.UTF_8);
        }
        ByteBuffer buffer = ByteBuffer.wrap(key);
        if (store.keys == SegmentKeys.WINDOW) {
            int end = key.length - Long.BYTES - Integer.BYTES;
            return new String(key, 0, end, StandardCharsets.UTF_8) + "@" + buffer.getLong(end);
        }
        int end = key.length - 2 * Long.BYTES;
        return new String(key, 0, end, StandardCharsets.UTF_8) + "@" + buffer.getLong(end + Long.BYTES) + "-" + buffer.getLong(end);
    }

    private static String text(Store store, ByteBuffer value) {
        return store == Store.JOINED
                ? StandardCharsets.UTF_8.decode(value).toString()
                : Long.toString(value.getLong(value.position()));
    }

    @Override
    public void close() {
        consumer.close();
    }
}
