package io.github.braidb.streams;

import static io.github.braidb.streams.FakeContext.CHANGELOG;
import static io.github.braidb.streams.FakeContext.record;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.braidb.streams.internals.KafkaInternals;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Windows and sessions: what expires when, what a crash leaves of the stream time, and ranges of odd keys. */
final class SegmentedStoreTest {
    private static final long RETENTION_MS = 120_000;
    private static final long WINDOW_MS = 1_000;
    private static final long SEGMENT_MS = 60_000;

    @TempDir
    private Path dir;

    private FakeContext context() {
        return new FakeContext(dir, new TaskId(0, 1));
    }

    private static BraidWindowStore windows(FakeContext context) {
        return windows(context, false, false);
    }

    private static BraidWindowStore windows(FakeContext context, boolean retainsDuplicates, boolean isFinal) {
        BraidWindowStore store = BraidWindowStore.of(
                WindowSupplier.of("store", Format.PLAIN, RETENTION_MS, WINDOW_MS, retainsDuplicates, isFinal));
        store.init(context, store);
        return store;
    }

    private static BraidSessionStore sessions(FakeContext context, boolean isFinal) {
        BraidSessionStore store = BraidSessionStore.of(SessionSupplier.of("store", Format.PLAIN, RETENTION_MS, isFinal));
        store.init(context, store);
        return store;
    }

    private static Bytes key(int... bytes) {
        byte[] key = new byte[bytes.length];
        for (int index = 0; index < bytes.length; index++) {
            key[index] = (byte) bytes[index];
        }
        return Bytes.wrap(key);
    }

    private static List<String> entries(KeyValueIterator<Windowed<Bytes>, byte[]> iterator) {
        List<String> entries = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                KeyValue<Windowed<Bytes>, byte[]> entry = iterator.next();
                entries.add(shown(entry.key.key().get(), entry.key.window().start()) + Arrays.toString(entry.value));
            }
        }
        return entries;
    }

    private static String shown(byte[] key, long start) {
        return Arrays.toString(key) + "@" + start;
    }

    private static long stored(BraidSegmentedStore store) {
        long count = 0;
        try (View.Walk walk = new View.OfDatabase(store.db()).walk(store.slot().allData(), false)) {
            while (walk.next()) {
                count++;
            }
        }
        return count;
    }

    /** Kafka Streams 4.4 restores no entries that have expired, for stores that tell how long they keep them. */
    @Test
    void kafkaLearnsHowLongEntriesAreKept() throws ReflectiveOperationException {
        assumeTrue(KafkaInternals.asksForRetention(), "Kafka Streams before 4.4 restores all entries");
        Method asked = Class.forName("org.apache.kafka.streams.state.internals.WithRetentionPeriod")
                .getMethod("resolveRetentionPeriod", StateStore.class);
        for (Format format : Format.values()) {
            WindowSupplier windows = WindowSupplier.of("store", format, RETENTION_MS, WINDOW_MS, false, false);
            assertEquals(RETENTION_MS, asked.invoke(null, windows.get()));
            assertEquals(RETENTION_MS, asked.invoke(null, Stores.windowStoreBuilder(windows, null, null).build()));
            SessionSupplier sessions = SessionSupplier.of("store", format, RETENTION_MS, false);
            assertEquals(RETENTION_MS, asked.invoke(null, sessions.get()));
            assertEquals(RETENTION_MS, asked.invoke(null, Stores.sessionStoreBuilder(sessions, null, null).build()));
        }
    }

    @Test
    void whatExpiresIsUnseenAtOnceAndGoesWithTheNextCleanUp() {
        BraidWindowStore store = windows(context());
        store.put(key(1), new byte[] {1}, 0);
        store.put(key(1), new byte[] {2}, SEGMENT_MS);
        store.put(key(1), new byte[] {3}, 4 * SEGMENT_MS);
        assertNull(store.fetch(key(1), SEGMENT_MS));
        assertEquals(List.of("[1]@240000[3]"), entries(store.all()));
        assertEquals(3, stored(store));
        // A crash may take the stream time back, so nothing goes before the commit.
        store.space().cleanUp();
        assertEquals(3, stored(store));
        store.commit(Map.of(CHANGELOG, 7L));
        store.space().cleanUp(1L << 30);
        assertEquals(3, stored(store), "far less than 1 GiB has expired");
        // A clean-up that fails leaves the entries to the next one.
        assertEquals(1, store.expired().ranges().size());
        store.space().cleanUp();
        assertEquals(1, stored(store));
        assertEquals(List.of(), store.expired().ranges());
        store.close();
    }

    /** The clean-up in turn comes 60 s after the opening, and the test waits 30 s. */
    @Test
    void manyExpiredBytesWaitForNoCleanUpInTurn() {
        BraidWindowStore store = windows(context());
        for (int index = 0; index < 9; index++) {
            store.put(key(index), new byte[8 << 20], 0);
        }
        store.put(key(1), new byte[] {2}, 4 * SEGMENT_MS);
        store.commit(Map.of(CHANGELOG, 7L));
        assertTrue(Await.comesTrue(() -> stored(store) == 1), "72 MiB have expired");
        // Until the clean-up ends it uses the space, and would close the database behind the test.
        assertTrue(Await.comesTrue(() -> !Await.isIn("cleanUpInTurn")), "the clean-up has ended");
        store.close();
    }

    /** A topic with a name that is too long for a key makes the batch fail. */
    @Test
    void aCommitThatFailsIsNoneForCleanUpsAndQueries() {
        TopicPartition tooLong = new TopicPartition("t".repeat(1 << 17), 0);
        FakeContext other = new FakeContext(dir, new TaskId(0, 2)).transactional();
        for (FakeContext context : List.of(context(), other)) {
            BraidWindowStore store = windows(context);
            store.put(key(1), new byte[] {1}, 0);
            store.commit(Map.of(CHANGELOG, 7L));
            store.put(key(1), new byte[] {2}, 4 * SEGMENT_MS);
            assertThrows(ProcessorStateException.class, () -> store.commit(Map.of(CHANGELOG, 8L, tooLong, 1L)));
            assertEquals(7, store.committedOffset(CHANGELOG));
            assertNull(store.committedOffset(tooLong));
            assertEquals(0, store.committedStreamTime());
            assertEquals(List.of(), store.expired().ranges());
            store.close();
        }
    }

    @Test
    void theStreamTimeOfTheCommitOutlivesTheStore() {
        BraidWindowStore store = windows(context());
        store.put(key(1), new byte[] {1}, 0);
        store.put(key(1), new byte[] {2}, 4 * SEGMENT_MS);
        store.commit(Map.of(CHANGELOG, 7L));
        store.close();
        BraidWindowStore again = windows(context());
        again.put(key(1), new byte[] {3}, 0);
        assertEquals(List.of("[1]@240000[2]"), entries(again.all()));
        again.close();
    }

    @Test
    void anAbortTakesTheStreamTimeBack() {
        BraidWindowStore store = windows(context().transactional());
        store.put(key(1), new byte[] {1}, 0);
        store.commit(Map.of(CHANGELOG, 7L));
        store.put(key(1), new byte[] {2}, 4 * SEGMENT_MS);
        assertEquals(List.of("[1]@240000[2]"), entries(store.all()));
        store.space().cleanUp();
        store.close();
        BraidWindowStore again = windows(context().transactional());
        assertEquals(List.of("[1]@0[1]"), entries(again.all()));
        again.put(key(1), new byte[] {3}, SEGMENT_MS);
        assertEquals(List.of("[1]@0[1]"), entries(again.readOnly(IsolationLevel.READ_COMMITTED).all()));
        again.close();
    }

    @Test
    void segmentsThatNoCommitKnowsAreFoundAgain() {
        BraidWindowStore store = windows(context());
        store.put(key(1), new byte[] {1}, 1_000_000_000_000L);
        store.put(key(1), new byte[] {2}, 1_000_000_000_000L + SEGMENT_MS);
        store.close();
        BraidWindowStore again = windows(context());
        assertEquals(2, entries(again.all()).size());
        assertEquals(2, entries(again.backwardFetch(null, null, 0, Long.MAX_VALUE)).size());
        again.close();
    }

    @Test
    void aRestoreLeavesOutWhatItsLaterRecordsExpire() {
        FakeContext context = context();
        BraidWindowStore store = windows(context);
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int index = 0; index < 5; index++) {
            records.add(record(index, SegmentKeys.ofWindow(new byte[] {1}, index * SEGMENT_MS, 0), new byte[] {9}));
        }
        context.restore(records);
        assertEquals(3, stored(store));
        assertEquals(4, store.committedOffset(CHANGELOG));
        store.close();
        BraidWindowStore again = windows(context());
        assertEquals(4 * SEGMENT_MS, again.streamTime());
        again.close();
    }

    @Test
    void duplicatesOfAWindowAreKeptApart() {
        BraidWindowStore store = windows(context(), true, false);
        store.put(key(1), new byte[] {1}, 5);
        store.put(key(1), new byte[] {2}, 5);
        store.put(key(1), null, 5);
        assertEquals(List.of("[1]@5[1]", "[1]@5[2]"), entries(store.all()));
        store.close();
    }

    @Test
    void sessionsEndAndStartInTheirTimes() {
        BraidSessionStore store = sessions(context(), false);
        store.put(new Windowed<>(key(1), new SessionWindow(10, 20)), new byte[] {1});
        store.put(new Windowed<>(key(1), new SessionWindow(30, 40)), new byte[] {2});
        store.put(new Windowed<>(key(2), new SessionWindow(35, SEGMENT_MS + 5)), new byte[] {3});
        assertEquals(List.of("[1]@10[1]", "[1]@30[2]"), entries(store.findSessions(key(1), 20, 30)));
        assertEquals(List.of("[1]@30[2]"), entries(store.findSessions(key(1), 21, 30)));
        assertEquals(List.of("[1]@10[1]"), entries(store.findSessions(key(1), 20, 29)));
        assertEquals(List.of("[2]@35[3]"), entries(store.findSessions(key(1), key(2), 41, 35)));
        assertEquals(List.of("[1]@30[2]", "[2]@35[3]"), entries(store.findSessions(40, SEGMENT_MS + 5)));
        assertEquals(List.of("[2]@35[3]", "[1]@30[2]", "[1]@10[1]"), entries(store.backwardFetch(null, null)));
        assertEquals(2, store.fetchSession(key(1), 30, 40)[0]);
        store.remove(new Windowed<>(key(1), new SessionWindow(30, 40)));
        assertNull(store.fetchSession(key(1), 30, 40));
        store.close();
    }

    @Test
    void windowsAreFoundByTimeWhereTheyAreEmittedAtTheirClose() {
        BraidWindowStore store = windows(context().transactional(), false, true);
        store.put(key(2), new byte[] {1}, 10);
        store.put(key(1), new byte[] {2}, 20);
        store.put(key(1), new byte[] {3}, 10);
        store.put(key(1), new byte[] {4}, 10);
        store.put(key(3), new byte[] {5}, 15);
        store.put(key(3), null, 15);
        store.put(key(1), new byte[] {6}, RETENTION_MS + 10);
        assertEquals(List.of("[1]@10[4]", "[2]@10[1]", "[1]@20[2]"), entries(store.fetchAll(0, 20)));
        assertEquals(List.of("[1]@20[2]", "[2]@10[1]", "[1]@10[4]"), entries(store.backwardFetchAll(10, 20)));
        assertEquals(List.of("[1]@20[2]"), entries(store.fetchAll(11, 20)));
        store.commit(Map.of(CHANGELOG, 7L));
        store.put(key(1), new byte[] {7}, RETENTION_MS + SEGMENT_MS);
        assertEquals(List.of(), entries(store.fetchAll(0, 20)));
        store.commit(Map.of(CHANGELOG, 8L));
        store.space().cleanUp();
        assertEquals(2, stored(store));
        assertEquals(2, store.db().estimate(Slot.whole(store.slot().number())).entries() - 2 - 3);
        store.close();
    }

    @Test
    void sessionsAreFoundByTimeWhereTheyAreEmittedAtTheirClose() {
        FakeContext context = context();
        BraidSessionStore store = sessions(context, true);
        context.restore(List.of(
                record(0, SegmentKeys.ofSession(new byte[] {2}, 10, 20), new byte[] {1}),
                record(1, SegmentKeys.ofSession(new byte[] {1}, 10, 30), new byte[] {2}),
                record(2, SegmentKeys.ofSession(new byte[] {3}, 10, 30), null)));
        assertEquals(List.of("[2]@10[1]", "[1]@10[2]"), entries(store.findSessions(0, 30)));
        assertEquals(List.of("[1]@10[2]"), entries(store.findSessions(21, 30)));
        store.remove(new Windowed<>(key(1), new SessionWindow(10, 30)));
        assertEquals(List.of("[2]@10[1]"), entries(store.findSessions(0, 30)));
        assertEquals(List.of("[2]@10[1]"), entries(store.fetch(key(2))));
        store.close();
    }

    /** Keys that are prefixes of one another, and bytes that sort behind and before those of times. */
    @Test
    void rangesOfOddKeysAreThoseOfAModel() {
        Random random = new Random(1);
        for (boolean isTransactional : new boolean[] {false, true}) {
            FakeContext context = isTransactional ? context().transactional() : context();
            BraidWindowStore store = windows(context);
            TreeMap<Bytes, TreeMap<Long, Byte>> model = new TreeMap<>();
            for (int write = 0; write < 300; write++) {
                Bytes key = oddKey(random);
                long start = random.nextInt((int) RETENTION_MS);
                byte value = (byte) write;
                if (random.nextInt(4) == 0) {
                    store.put(key, null, start);
                    model.getOrDefault(key, new TreeMap<>()).remove(start);
                } else {
                    store.put(key, new byte[] {value}, start);
                    model.computeIfAbsent(key, bytes -> new TreeMap<>()).put(start, value);
                }
                if (random.nextInt(50) == 0) {
                    store.commit(Map.of(CHANGELOG, (long) write));
                }
            }
            for (int read = 0; read < 300; read++) {
                compare(store, model, random);
            }
            store.close();
        }
    }

    private static Bytes oddKey(Random random) {
        int[] bytes = new int[random.nextInt(4)];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = new int[] {0, 1, 0x7F, 0x80, 0xFF}[random.nextInt(5)];
        }
        return key(bytes);
    }

    private static void compare(BraidWindowStore store, TreeMap<Bytes, TreeMap<Long, Byte>> model, Random random) {
        Bytes low = random.nextInt(5) == 0 ? null : oddKey(random);
        Bytes high = random.nextInt(5) == 0 ? null : oddKey(random);
        if (low != null && high != null && low.compareTo(high) > 0) {
            Bytes swap = low;
            low = high;
            high = swap;
        }
        long from = random.nextInt((int) RETENTION_MS);
        long to = from + random.nextInt((int) RETENTION_MS);
        List<String> expected = new ArrayList<>();
        for (Map.Entry<Bytes, TreeMap<Long, Byte>> key : model.entrySet()) {
            boolean isIn = (low == null || key.getKey().compareTo(low) >= 0)
                    && (high == null || key.getKey().compareTo(high) <= 0);
            if (isIn) {
                key.getValue().subMap(from, true, to, true).forEach((start, value) ->
                        expected.add(shown(key.getKey().get(), start) + "[" + value + "]"));
            }
        }
        List<String> found = entries(store.fetch(low, high, from, to));
        List<String> backward = entries(store.backwardFetch(low, high, from, to));
        java.util.Collections.reverse(backward);
        assertEquals(found, backward);
        found.sort(null);
        expected.sort(null);
        assertEquals(expected, found);
        if (low != null) {
            TreeMap<Long, Byte> windows = model.getOrDefault(low, new TreeMap<>());
            try (var ofKey = store.fetch(low, from, to)) {
                for (long start : windows.subMap(from, true, to, true).keySet()) {
                    assertTrue(ofKey.hasNext());
                    assertEquals(start, ofKey.next().key);
                }
                assertFalse(ofKey.hasNext());
            }
        }
    }
}
