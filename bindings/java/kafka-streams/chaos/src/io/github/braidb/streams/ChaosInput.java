package io.github.braidb.streams;

import java.util.HashMap;
import java.util.Map;

/**
 * The input of a chaos run, and what the application must make of it. Record {@code n} follows from the seed, and its time from {@code n}.
 *
 * @param seed the seed
 * @param baseMs the time of record 0, in milliseconds since the epoch
 * @param stepMs milliseconds between two records
 */
record ChaosInput(long seed, long baseMs, long stepMs) {
    static final String TOPIC = "events";

    /** The partitions of all topics. */
    static final int PARTITIONS = 6;

    static final long WINDOW_MS = 60_000;
    static final long SESSION_GAP_MS = 120_000;

    /** 10 minutes: windows and sessions expire during a run. */
    static final long RETENTION_MS = 600_000;

    /** 5,000 keys, of which small ones come more often. */
    private static final int KEYS = 5_000;

    private static final int CATEGORIES = 50;

    private long random(long record, int draw) {
        long mixed = (seed * 0x9E37_79B9_7F4A_7C15L) ^ (record * 4 + draw);
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58_476D_1CE4_E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D0_49BB_1331_11EBL;
        return (mixed ^ (mixed >>> 31)) >>> 1;
    }

    String key(long record) {
        double share = random(record, 0) / (double) Long.MAX_VALUE;
        return "k" + (int) (share * share * KEYS);
    }

    long amount(long record) {
        return 1 + random(record, 1) % 100;
    }

    long timeMs(long record) {
        return baseMs + record * stepMs;
    }

    /** The category of a key, which lies in another partition than the key. */
    static String category(String key) {
        return "c" + Integer.parseInt(key.substring(1)) % CATEGORIES;
    }

    /** What the topics of the application's output say in the end: the last value of each key, by topic. */
    Map<String, Map<String, String>> expected(long records) {
        Map<String, Long> counts = new HashMap<>();
        Map<String, Long> totals = new HashMap<>();
        Map<String, Long> sums = new HashMap<>();
        Map<String, Long> windows = new HashMap<>();
        Map<String, long[]> sessions = new HashMap<>();
        Map<String, String> ended = new HashMap<>();
        for (long record = 0; record < records; record++) {
            String key = key(record);
            long timeMs = timeMs(record);
            counts.merge(key, 1L, Long::sum);
            totals.merge(key, amount(record), Long::sum);
            sums.merge(category(key), amount(record), Long::sum);
            windows.merge(key + "@" + timeMs / WINDOW_MS * WINDOW_MS, 1L, Long::sum);
            long[] session = sessions.get(key);
            if (session == null || timeMs - session[1] > SESSION_GAP_MS) {
                put(ended, key, session);
                sessions.put(key, new long[] {timeMs, timeMs, 1});
            } else {
                session[1] = timeMs;
                session[2]++;
            }
        }
        sessions.forEach((key, session) -> put(ended, key, session));
        Map<String, String> joined = new HashMap<>();
        counts.forEach((key, count) -> joined.put(key, count + ":" + totals.get(key)));
        return Map.of(
                "out-counts", text(counts), "out-joined", joined, "out-sums", text(sums), "out-windows", text(windows),
                "out-sessions", ended);
    }

    private static void put(Map<String, String> sessions, String key, long[] session) {
        if (session != null) {
            sessions.put(key + "@" + session[0] + "-" + session[1], Long.toString(session[2]));
        }
    }

    private static Map<String, String> text(Map<String, Long> numbers) {
        Map<String, String> texts = new HashMap<>();
        numbers.forEach((key, number) -> texts.put(key, number.toString()));
        return texts;
    }
}
