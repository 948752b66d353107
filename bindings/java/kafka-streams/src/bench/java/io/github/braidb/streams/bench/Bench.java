package io.github.braidb.streams.bench;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.IntFunction;
import java.util.function.LongConsumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Measures stores of one kind as an application has them, without a broker: the layers that Kafka Streams builds, caches and changelogs off,
 * one thread, a store in each of four tasks.
 *
 * <p>Arguments: {@code braidb} or {@code rocksdb}; {@code put}, {@code count}, {@code window} or {@code restore}; an empty directory; the
 * number of records; then {@code transactional} if stores stage what is not committed, with Kafka Streams 4.4, and {@code unbounded} if
 * stores take the memory that they take by default. Prints a name and a number a line: records a second by the name of what was done, {@code
 * settled} for records a second until no background work was left, processor time in {@code cpu-us} a record, and bytes of {@code disk},
 * {@code memory} (the most of this process) and {@code written}.
 */
public final class Bench {
    private static final int TASKS = 4;

    /** Native memory of all stores, 256 MiB: the default of {@code braidb.memory.bytes}. */
    private static final long MEMORY_BYTES = 256L << 20;

    /** Records between two commits of all tasks, 100,000: about twice a second. */
    private static final long COMMIT_RECORDS = 100_000;

    /** Records that the compilers of the JVM see before a measurement, 100,000. */
    private static final long WARM_UP = 100_000;

    /** Records of a changelog that the store gets at once, 1,000: {@code max.poll.records} of a consumer. */
    private static final int RESTORE_RECORDS = 1_000;

    /** Counted keys, 1,000,000. */
    private static final int COUNTED_KEYS = 1_000_000;

    /** Keys with windows, 50,000. */
    private static final int WINDOWED_KEYS = 50_000;

    private static final Duration WINDOW = Duration.ofMinutes(1);
    private static final Duration RETENTION = Duration.ofHours(1);

    /** The time of all records with windows together: 6 segments of 30 minutes, of which 3 or 4 are alive at the end. */
    private static final Duration SPAN = Duration.ofHours(3);

    /** The part of the time that a fetch of windows reads. */
    private static final Duration FETCHED = Duration.ofMinutes(10);

    /** How long stores with windows stay open at least, in ns: expired windows of BraidDB go once a minute. */
    private static final long OPEN_NS = 65_000_000_000L;

    /** A key is that of a record in the input or of one of the warm-up. */
    private static final long OF_WARM_UP = 1L << 40;

    private final Kind kind;
    private final Path dir;
    private final long records;
    private final Map<String, Object> properties = new HashMap<>();
    private final long begin = System.nanoTime();

    private Bench(Kind kind, Path dir, long records, List<String> flags) {
        this.kind = kind;
        this.dir = dir;
        this.records = records;
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, Task.APPLICATION);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
        if (flags.contains("transactional")) {
            properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
            properties.put("enable.transactional.statestores", true);
        }
        if (!flags.contains("unbounded")) {
            kind.limit(properties, MEMORY_BYTES);
        }
    }

    private <S extends StateStore> List<Task<S>> tasks(IntFunction<StoreBuilder<S>> builder) {
        List<Task<S>> tasks = new ArrayList<>();
        for (int partition = 0; partition < TASKS; partition++) {
            tasks.add(new Task<>(partition, properties, builder.apply(partition)));
        }
        return tasks;
    }

    private static void tell(String name, double number) {
        System.out.printf(Locale.ROOT, "%s %.3f%n", name, number);
    }

    private static double rate(long count, long beginNs) {
        return count / ((System.nanoTime() - beginNs) / 1e9);
    }

    /** Processes records, with commits, and tells how many a second. */
    private static <S extends StateStore> void process(
            String name, List<Task<S>> tasks, long count, LongConsumer operation) {
        long processor = Machine.processorNs();
        long begin = System.nanoTime();
        for (long number = 0; number < count; number++) {
            operation.accept(number);
            if ((number + 1) % COMMIT_RECORDS == 0) {
                tasks.forEach(Task::commitStore);
            }
        }
        tasks.forEach(Task::commitStore);
        tell(name, rate(count, begin));
        tell(name + "-cpu-us", (Machine.processorNs() - processor) / 1e3 / count);
    }

    private static <S extends StateStore> Task<S> of(List<Task<S>> tasks, long key) {
        return tasks.get((int) (key % TASKS));
    }

    /** Tells what the stores take once they are quiet, and closes them. */
    private <S extends StateStore> void end(List<Task<S>> tasks, long count, long beginNs, Runnable looks) throws Exception {
        long settled = Machine.settle();
        tell("settled", count / ((settled - beginNs) / 1e9));
        looks.run();
        tasks.forEach(Task::close);
        tell("disk", Machine.diskBytes(dir));
        tell("written", Machine.writtenBytes());
        tell("memory", Machine.peakBytes());
    }

    private static void check(boolean isRight, String what) {
        if (!isRight) {
            throw new AssertionError(what);
        }
    }

    /** Checks that a store has a key. */
    private static void look(Task<KeyValueStore<byte[], byte[]>> task, long key) {
        byte[] found = task.store().get(Records.key(key));
        check(found != null && Records.number(found) == key, "an entry is missing");
    }

    /** Sets keys that are drawn evenly from as many as there are records. */
    private void put() throws Exception {
        List<Task<KeyValueStore<byte[], byte[]>>> tasks = tasks(partition ->
                Stores.keyValueStoreBuilder(kind.keyValues("puts"), Serdes.ByteArray(), Serdes.ByteArray()));
        SplittableRandom random = new SplittableRandom(7);
        LongConsumer put = key -> of(tasks, key).process().store().put(Records.key(key), Records.value(key));
        for (long key = 0; key < WARM_UP; key++) {
            put.accept(OF_WARM_UP + key);
        }
        long begin = System.nanoTime();
        process("put", tasks, records, number -> put.accept(random.nextLong(records)));
        SplittableRandom again = new SplittableRandom(7);
        end(tasks, records, begin, () -> {
            for (int looks = 0; looks < WARM_UP && looks < records; looks++) {
                long key = again.nextLong(records);
                look(of(tasks, key), key);
            }
        });
    }

    /** Counts skewed keys: a get and a put of a value with a timestamp for each record. */
    private void count() throws Exception {
        List<Task<TimestampedKeyValueStore<byte[], Long>>> tasks = tasks(partition -> Stores.timestampedKeyValueStoreBuilder(
                kind.timestampedKeyValues("counts"), Serdes.ByteArray(), Serdes.Long()));
        int[] drawn = Records.skewed((int) records, COUNTED_KEYS, new SplittableRandom(8));
        LongConsumer count = key -> {
            TimestampedKeyValueStore<byte[], Long> store = of(tasks, key).process().store();
            byte[] bytes = Records.key(key);
            ValueAndTimestamp<Long> before = store.get(bytes);
            store.put(bytes, ValueAndTimestamp.make(before == null ? 1 : before.value() + 1, key));
        };
        for (long key = 0; key < WARM_UP; key++) {
            count.accept(OF_WARM_UP + key % 1_000);
        }
        long begin = System.nanoTime();
        process("count", tasks, records, number -> count.accept(drawn[(int) number]));
        end(tasks, records, begin, () -> {
            long sum = 0;
            for (int key = 0; key < COUNTED_KEYS; key++) {
                ValueAndTimestamp<Long> found = of(tasks, key).store().get(Records.key(key));
                sum += found == null ? 0 : found.value();
            }
            check(sum == records, "the counts have the sum " + sum);
        });
    }

    /** Sets windows of drawn keys while time goes on, and then fetches windows. */
    private void window() throws Exception {
        List<Task<TimestampedWindowStore<byte[], byte[]>>> tasks = tasks(partition -> Stores.timestampedWindowStoreBuilder(
                kind.windows("windows", RETENTION, WINDOW), Serdes.ByteArray(), Serdes.ByteArray()));
        SplittableRandom random = new SplittableRandom(9);
        long span = SPAN.toMillis();
        for (long number = 0; number < WARM_UP; number++) {
            long key = OF_WARM_UP + number % 1_000;
            TimestampedWindowStore<byte[], byte[]> store = of(tasks, key).process().store();
            store.put(Records.key(key), ValueAndTimestamp.make(Records.value(key), 0), 0);
            fetch(store, key, 0);
        }
        long begin = System.nanoTime();
        process("put", tasks, records, number -> {
            long time = number * span / records;
            long key = random.nextLong(WINDOWED_KEYS);
            of(tasks, key).process().store().put(
                    Records.key(key), ValueAndTimestamp.make(Records.value(key), time), time - time % WINDOW.toMillis());
        });
        long[] found = new long[1];
        long live = RETENTION.toMillis() - FETCHED.toMillis() - WINDOW.toMillis();
        process("fetch", tasks, records / 4, number -> {
            long key = random.nextLong(WINDOWED_KEYS);
            found[0] += fetch(of(tasks, key).store(), key, span - random.nextLong(live));
        });
        double expected = records / 4.0 * records * FETCHED.toMillis() / span / WINDOWED_KEYS;
        check(found[0] > expected / 2, "windows are missing: " + found[0]);
        process("fetch-one", tasks, records / 4, number -> {
            long key = random.nextLong(WINDOWED_KEYS);
            long time = span - random.nextLong(live);
            found[0] += of(tasks, key).store().fetch(Records.key(key), time - time % WINDOW.toMillis()) == null ? 0 : 1;
        });
        while (System.nanoTime() - this.begin < OPEN_NS) {
            Thread.sleep(100);
        }
        end(tasks, records, begin, () -> {});
    }

    /** The number of windows of a key that begin in the time up to a moment. */
    private static long fetch(TimestampedWindowStore<byte[], byte[]> store, long key, long to) {
        long count = 0;
        try (WindowStoreIterator<ValueAndTimestamp<byte[]>> windows =
                store.fetch(Records.key(key), to - FETCHED.toMillis(), to)) {
            while (windows.hasNext()) {
                check(Records.number(windows.next().value.value()) == key, "a window is that of another key");
                count++;
            }
        }
        return count;
    }

    /** Restores keys in no order, as the reader of changelogs hands them over. */
    private void restore() throws Exception {
        List<Task<KeyValueStore<byte[], byte[]>>> tasks = tasks(partition ->
                Stores.keyValueStoreBuilder(kind.keyValues("restored"), Serdes.ByteArray(), Serdes.ByteArray()));
        restore(tasks, OF_WARM_UP, WARM_UP);
        long processor = Machine.processorNs();
        long begin = System.nanoTime();
        restore(tasks, 0, records);
        tasks.forEach(Task::commitStore);
        tell("restore", rate(records, begin));
        tell("restore-cpu-us", (Machine.processorNs() - processor) / 1e3 / records);
        SplittableRandom random = new SplittableRandom(11);
        end(tasks, records, begin, () -> {
            for (int looks = 0; looks < WARM_UP; looks++) {
                long key = random.nextLong(records / RESTORE_RECORDS * RESTORE_RECORDS);
                look(tasks.get((int) (key / RESTORE_RECORDS % TASKS)), key);
            }
        });
    }

    private static <S extends StateStore> void restore(List<Task<S>> tasks, long first, long count) {
        for (long batch = 0; batch < count / RESTORE_RECORDS; batch++) {
            Task<S> task = tasks.get((int) (batch % TASKS));
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>(RESTORE_RECORDS);
            for (long index = 0; index < RESTORE_RECORDS; index++) {
                long key = first + batch * RESTORE_RECORDS + index;
                records.add(new ConsumerRecord<>(
                        task.changelog().topic(), task.changelog().partition(), task.lastOffset() + 1 + index, Records.key(key),
                        Records.value(key)));
            }
            task.restore(records);
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<String> flags = List.of(arguments).subList(4, arguments.length);
        Bench bench = new Bench(
                Kind.valueOf(arguments[0].toUpperCase(Locale.ROOT)), Path.of(arguments[2]).toAbsolutePath(),
                Long.parseLong(arguments[3]), flags);
        switch (arguments[1]) {
            case "put" -> bench.put();
            case "count" -> bench.count();
            case "window" -> bench.window();
            case "restore" -> bench.restore();
            default -> throw new IllegalArgumentException("there is no workload " + arguments[1]);
        }
    }
}
