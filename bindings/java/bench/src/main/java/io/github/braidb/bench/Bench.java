package io.github.braidb.bench;

import java.nio.file.Path;
import java.util.SplittableRandom;
import java.util.function.LongConsumer;

/**
 * Measures one store. Arguments: {@code braidb} or {@code rocksdb}, an empty directory, the number of entries. Prints a name and a number a
 * line: operations a second, and for {@code crossing-ns} nanoseconds a call.
 */
public final class Bench {
    /** Keys are numbers in big-endian, behind zeros. */
    static final int KEY_BYTES = 16;

    private static final int VALUE_BYTES = 100;
    private static final int BATCH_ENTRIES = 1_000;
    private static final int SCAN_ENTRIES = 1_000;
    private static final long CACHE_BYTES = 1L << 30;

    /** Calls that the compilers of the JVM see before a measurement: enough for the second one. */
    private static final int WARM_UP = 20_000;

    private static final int CROSSINGS = 10_000_000;

    private Bench() {}

    private static void fill(byte[] key, long number) {
        for (int index = 0; index < Long.BYTES; index++) {
            key[KEY_BYTES - 1 - index] = (byte) (number >>> (8 * index));
        }
    }

    private static void measure(String name, long operations, LongConsumer operation) {
        long begin = System.nanoTime();
        for (long number = 0; number < operations; number++) {
            operation.accept(number);
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        System.out.printf("%s %.0f%n", name, operations / seconds);
    }

    private static void gets(String name, Store store, long entries) {
        SplittableRandom random = new SplittableRandom(7);
        byte[] key = new byte[KEY_BYTES];
        measure(name, entries / 2, number -> {
            fill(key, random.nextLong(entries));
            if (store.get(key).length != VALUE_BYTES) {
                throw new AssertionError("a value is missing");
            }
        });
    }

    private static void scans(String name, Store store, long entries) {
        SplittableRandom random = new SplittableRandom(8);
        byte[] key = new byte[KEY_BYTES];
        measure(name, 2_000, number -> {
            fill(key, random.nextLong(entries - SCAN_ENTRIES));
            if (store.scan(key, SCAN_ENTRIES) != (long) SCAN_ENTRIES * VALUE_BYTES) {
                throw new AssertionError("a scan is short");
            }
        });
    }

    private static void run(Store store, long entries) {
        SplittableRandom random = new SplittableRandom(9);
        byte[] key = new byte[KEY_BYTES];
        byte[] value = new byte[VALUE_BYTES];
        random.nextBytes(value);
        for (long number = 0; number < WARM_UP; number++) {
            fill(key, number);
            store.put(key, value);
            store.get(key);
        }
        measure("put", entries, number -> {
            fill(key, number);
            store.put(key, value);
        });
        store.settle();
        gets("warm-up", store, entries / 4);
        gets("get", store, entries);
        scans("scan", store, entries);
        measure("overwrite", entries, number -> {
            fill(key, random.nextLong(entries));
            store.put(key, value);
        });
        gets("get-overwritten", store, entries);
        scans("scan-overwritten", store, entries);
        long begin = System.nanoTime();
        for (long batch = 0; batch < entries / BATCH_ENTRIES; batch++) {
            store.putAll(entries + batch * BATCH_ENTRIES, BATCH_ENTRIES, value, Bench::fill);
        }
        System.out.printf("batch %.0f%n", entries / ((System.nanoTime() - begin) / 1e9));
        for (int round = 0; round < WARM_UP; round++) {
            store.cross();
        }
        begin = System.nanoTime();
        for (int crossing = 0; crossing < CROSSINGS; crossing++) {
            store.cross();
        }
        System.out.printf("crossing-ns %.0f%n", (System.nanoTime() - begin) / (double) CROSSINGS);
    }

    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[1]);
        long entries = Long.parseLong(arguments[2]);
        try (Store store = arguments[0].equals("braidb") ? new BraidStore(dir, CACHE_BYTES) : new RocksStore(dir, CACHE_BYTES)) {
            run(store, entries);
        }
    }
}
