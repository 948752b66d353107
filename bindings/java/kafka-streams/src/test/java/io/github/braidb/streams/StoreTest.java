package io.github.braidb.streams;

import static io.github.braidb.streams.FakeContext.CHANGELOG;
import static io.github.braidb.streams.KeyValues.bytes;
import static io.github.braidb.streams.KeyValues.entries;
import static io.github.braidb.streams.KeyValues.get;
import static io.github.braidb.streams.KeyValues.key;
import static io.github.braidb.streams.KeyValues.open;
import static io.github.braidb.streams.KeyValues.put;
import static io.github.braidb.streams.KeyValues.record;
import static io.github.braidb.streams.KeyValues.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.errors.TaskMigratedException;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Commits, restores, aborts and wipes of a store. A store that is closed without a commit leaves what a kill leaves. */
final class StoreTest {
    private static final TaskId TASK = new TaskId(0, 1);

    @TempDir
    private Path dir;

    private FakeContext context() {
        return new FakeContext(dir, TASK);
    }

    private Path marker() {
        return dir.resolve("application/0_1/braidb.store.slot");
    }

    @Test
    void aCommitKeepsEntriesOffsetAndPosition() {
        FakeContext context = context();
        BraidKeyValueStore store = open(context);
        assertNull(store.committedOffset(CHANGELOG));
        context.process("input", 1, 41);
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        assertEquals(7, store.committedOffset(CHANGELOG));
        store.close();

        BraidKeyValueStore again = open(context());
        assertEquals("1", get(again, "a"));
        assertEquals(7, again.committedOffset(CHANGELOG));
        assertEquals(Map.of(1, 41L), again.getPosition().getPartitionPositions("input"));
        again.close();
    }

    @Test
    void offsetsAreRemovedOneByOneAndAltogether() {
        TopicPartition other = new TopicPartition("other", 2);
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L, other, 8L));
        Map<TopicPartition, Long> removal = new java.util.HashMap<>();
        removal.put(CHANGELOG, null);
        store.commit(removal);
        assertNull(store.committedOffset(CHANGELOG));
        assertEquals(8, store.committedOffset(other));
        store.close();
        BraidKeyValueStore again = open(context());
        assertEquals(8, again.committedOffset(other));
        again.commit(Map.of());
        assertNull(again.committedOffset(other));
        again.close();
    }

    @Test
    void atLeastOnceEntriesMayBeAheadOfTheOffset() {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        put(store, "a", "2");
        store.close();
        BraidKeyValueStore again = open(context());
        assertEquals("2", get(again, "a"));
        assertEquals(7, again.committedOffset(CHANGELOG));
        again.close();
    }

    @Test
    void aRestoreAloneCorruptsNothing() {
        FakeContext context = context().exactlyOnce();
        BraidKeyValueStore store = open(context);
        context.restore(List.of(record(3, "a", "1"), record(5, "b", "2")));
        store.close();
        BraidKeyValueStore again = open(context().exactlyOnce());
        assertEquals(5, again.committedOffset(CHANGELOG));
        assertEquals(List.of("a=1", "b=2"), entries(again.all()));
        again.close();
    }

    @Test
    void aRestoreDeletesAndGoesOn() {
        FakeContext context = context();
        BraidKeyValueStore store = open(context);
        context.restore(List.of(record(3, "a", "1"), record(4, "b", "2"), record(5, "a", null)));
        assertEquals(List.of("b=2"), entries(store.all()));
        context.restore(List.of(record(6, "c", "3")));
        assertEquals(6, store.committedOffset(CHANGELOG));
        context.restore(List.of());
        store.close();
    }

    /** Batches that went to the log since the database was opened. */
    private static long batches(BraidKeyValueStore store) {
        return store.db().stats().get("log_groups_total");
    }

    @Test
    void commitsAndRestoresAreOneBatchEach() {
        for (FakeContext context : List.of(context(), context().exactlyOnce(), context().transactional())) {
            BraidKeyValueStore store = open(context);
            context.process("input", 1, 41);
            put(store, "a", "1");
            put(store, "b", "2");
            long before = batches(store);
            store.commit(Map.of(CHANGELOG, 7L));
            assertEquals(before + 1, batches(store));
            context.restore(List.of(record(8, "a", "3"), record(9, "b", null)));
            assertEquals(before + 2, batches(store));
            store.commit(Map.of(CHANGELOG, 9L));
            store.commit(Map.of(CHANGELOG, 9L));
            assertEquals(before + 2, batches(store), "nothing has changed");
            store.close();
        }
    }

    @Test
    void aDroppedDirectoryDropsTheSlot() throws Exception {
        BraidKeyValueStore kept = open(context(), "kept", Format.PLAIN);
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        int number = store.slot().number();
        store.close();
        Files.delete(marker());
        BraidKeyValueStore again = open(context());
        assertNotEquals(number, again.slot().number());
        assertNull(get(again, "a"));
        assertNull(again.committedOffset(CHANGELOG));
        again.space().cleanUp();
        assertEquals(0, again.db().estimate(Slot.whole(number)).entries());
        again.close();
        kept.close();
    }

    @Test
    void noNumberIsGivenTwice() throws Exception {
        java.util.Set<Integer> numbers = new java.util.HashSet<>();
        for (int time = 0; time < 5; time++) {
            BraidKeyValueStore store = open(context());
            assertTrue(numbers.add(store.slot().number()), numbers.toString());
            BraidKeyValueStore other = open(context(), "other", Format.PLAIN);
            numbers.add(other.slot().number());
            other.close();
            store.close();
            Files.delete(marker());
        }
        assertEquals(6, numbers.size());
    }

    @Test
    void aMarkerOfAnotherDatabaseLeadsNowhere() throws Exception {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.close();
        String foreign = Files.readString(marker()).replaceAll("(?m)^........-", "00000000-");
        Files.writeString(marker(), foreign);
        BraidKeyValueStore again = open(context());
        assertNull(get(again, "a"));
        again.close();
    }

    @Test
    void entriesOfAnotherFormatAreNotRead() {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        store.close();
        BraidKeyValueStore timestamped = open(context(), "store", Format.TIMESTAMPED);
        assertNull(get(timestamped, "a"));
        assertNull(timestamped.committedOffset(CHANGELOG));
        timestamped.close();
    }

    @Test
    void offsetsThatAnotherStoreLeftAreNotTaken() throws Exception {
        FakeContext context = context();
        Files.writeString(context.stateDir().toPath().resolve(".checkpoint"), "0\n1\ntopic 1 7\n");
        BraidKeyValueStore store = open(context);
        store.commit(Map.of(CHANGELOG, 7L));
        assertNull(store.committedOffset(CHANGELOG));
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 8L));
        assertEquals(8, store.committedOffset(CHANGELOG));
        store.close();
    }

    /** Has Kafka Streams hand over offsets as at its start, when it finds its old file, and delete the file. */
    private void migrate(BraidKeyValueStore store, Map<TopicPartition, Long> offsets) throws Exception {
        Path file = dir.resolve("application/0_1/.checkpoint");
        Files.writeString(file, "0\n0\n");
        store.commit(offsets);
        Files.delete(file);
    }

    @Test
    void offsetsThatAnotherStoreLeftDoNotReplaceThoseOfAnOldSlot() throws Exception {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 100L));
        store.close();
        Map<TopicPartition, Long> unknown = new java.util.HashMap<>();
        unknown.put(CHANGELOG, null);
        for (Map<TopicPartition, Long> offsets : List.of(Map.of(CHANGELOG, 500L), Map.of(CHANGELOG, 100L), unknown)) {
            BraidKeyValueStore again = open(context());
            migrate(again, offsets);
            assertEquals(100, again.committedOffset(CHANGELOG));
            assertEquals("1", get(again, "a"));
            again.close();
        }
        BraidKeyValueStore last = open(context());
        migrate(last, Map.of(CHANGELOG, 500L));
        last.commit(Map.of(CHANGELOG, 101L));
        assertEquals(101, last.committedOffset(CHANGELOG));
        last.close();
    }

    @Test
    void offsetsThatAnotherStoreLeftAreNotTakenForEntriesWithoutOffset() throws Exception {
        Map<TopicPartition, Long> unknown = new java.util.HashMap<>();
        unknown.put(CHANGELOG, null);
        for (Map<TopicPartition, Long> offsets : List.of(Map.of(CHANGELOG, 500L), unknown)) {
            BraidKeyValueStore store = open(context());
            put(store, "a", "1");
            store.commit(Map.of());
            store.close();
            BraidKeyValueStore again = open(context());
            migrate(again, offsets);
            assertNull(again.committedOffset(CHANGELOG));
            assertNull(get(again, "a"));
            again.close();
        }
    }

    @Test
    void entriesWithoutOffsetGoBeforeARestoreFromTheStart() {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        store.commit(Map.of());
        store.close();
        FakeContext context = context();
        BraidKeyValueStore again = open(context);
        assertEquals("1", get(again, "a"));
        assertNull(again.committedOffset(CHANGELOG));
        assertNull(get(again, "a"));
        context.restore(List.of(record(3, "b", "2")));
        assertEquals(List.of("b=2"), entries(again.all()));
        again.close();
    }

    /** An optimized topology reads another topic in place of the changelog. */
    @Test
    void entriesOfAnotherChangelogGoBeforeARestoreFromTheStart() {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        store.close();
        BraidKeyValueStore again = open(context());
        assertNull(again.committedOffset(new TopicPartition("input", 1)));
        assertEquals(List.of(), entries(again.all()));
        again.close();
    }

    @Test
    void aGlobalStoreKeepsTheOffsetsThatItIsTold() {
        FakeContext context = new FakeContext(dir, new TaskId(-1, -1)).transactional();
        BraidKeyValueStore store = open(context);
        context.restore(List.of(record(3, "a", "1")));
        assertNull(store.committedOffset(CHANGELOG));
        assertEquals("1", text(store.readOnly(IsolationLevel.READ_COMMITTED).get(key("a"))));
        store.commit(Map.of(CHANGELOG, 4L));
        put(store, "b", "2");
        store.close();
        BraidKeyValueStore again = open(new FakeContext(dir, new TaskId(-1, -1)).transactional());
        assertEquals(4, again.committedOffset(CHANGELOG));
        assertEquals(List.of("a=1", "b=2"), entries(again.all()));
        again.close();
    }

    @Test
    void aClosedStoreRefuses() {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        KeyValueIterator<Bytes, byte[]> iterator = store.all();
        store.close();
        store.close();
        assertFalse(store.isOpen());
        assertThrows(InvalidStateStoreException.class, () -> get(store, "a"));
        assertThrows(InvalidStateStoreException.class, () -> put(store, "a", "2"));
        assertThrows(InvalidStateStoreException.class, store::all);
        assertThrows(InvalidStateStoreException.class, () -> store.committedOffset(CHANGELOG));
        assertThrows(InvalidStateStoreException.class, iterator::hasNext);
        assertThrows(InvalidStateStoreException.class, store::approximateNumEntries);
        assertThrows(InvalidStateStoreException.class, store::db);
        assertEquals(0, store.slotBytes());
        assertEquals(0, BraidMetrics.whileOpen(() -> store.db().estimate(Slot.whole(1)).bytes()).get());
        store.commit(Map.of(CHANGELOG, 7L));
        store.init(context(), store);
        assertEquals("1", get(store, "a"));
        assertNull(store.committedOffset(CHANGELOG));
        store.close();
    }

    @Test
    void aWriteThatFailsEndsAllWrites() {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        Bytes large = Bytes.wrap(new byte[1 << 17]);
        assertThrows(ProcessorStateException.class, () -> store.put(large, new byte[0]));
        assertThrows(ProcessorStateException.class, () -> put(store, "b", "2"));
        assertThrows(ProcessorStateException.class, () -> store.commit(Map.of(CHANGELOG, 7L)));
        assertEquals("1", get(store, "a"));
        store.close();
    }

    @Test
    void damagedEntriesAreLeftBehind() throws Exception {
        BraidKeyValueStore damaged = damaged(TASK);
        assertEquals(7, damaged.committedOffset(CHANGELOG));
        assertThrows(TaskCorruptedException.class, () -> entries(damaged.all()));
        assertThrows(TaskCorruptedException.class, () -> put(damaged, "a", "1"));
        damaged.commit(Map.of(CHANGELOG, 8L));
        assertEquals(7, damaged.committedOffset(CHANGELOG));
        damaged.close();
        BraidKeyValueStore again = open(context());
        assertNull(again.committedOffset(CHANGELOG));
        assertEquals(List.of(), entries(again.all()));
        again.close();
    }

    /** Kafka Streams ends the thread if a restore or a commit throws beside it. */
    @Test
    void theNextReadTellsARestoreOfDamage() throws Exception {
        damaged(TASK).close();
        FakeContext context = context();
        BraidKeyValueStore store = open(context);
        assertThrows(TaskCorruptedException.class, () -> entries(store.all()));
        context.restore(List.of(record(8, "a", "1")));
        store.commit(Map.of(CHANGELOG, 8L));
        assertEquals(7, store.committedOffset(CHANGELOG));
        assertThrows(TaskCorruptedException.class, () -> get(store, "a"));
        store.close();
    }

    /** A task that begins has sent nothing, whatever other tasks of its thread have. */
    @Test
    void damageThatATaskFindsAtItsBeginIsOfThisTaskAlone() throws Exception {
        BraidKeyValueStore other = open(context(), "other", Format.PLAIN);
        fill(other, 1_000);
        BraidKeyValueStore store = open(context());
        fill(store, 2_000);
        other.close();
        store.db().compact();
        store.close();
        damage(".table");
        FakeProducer producer = new FakeProducer();
        producer.send();
        assertThrows(TaskCorruptedException.class, () -> open(context().exactlyOnce().with(producer)));
    }

    /** A store whose entries have no offset looks for one of them when Kafka Streams asks for the offset. */
    @Test
    void damageThatATaskFindsAtItsOffsetIsOfThisTaskAlone() throws Exception {
        BraidKeyValueStore filled = open(context());
        put(filled, "a", "value ".repeat(10_000));
        filled.commit(Map.of(CHANGELOG, 7L));
        filled.db().compact();
        filled.close();
        damage(".values");
        FakeProducer producer = new FakeProducer();
        producer.send();
        BraidKeyValueStore store = open(context().exactlyOnce().with(producer));
        TopicPartition other = new TopicPartition("other", 1);
        assertThrows(TaskCorruptedException.class, () -> store.committedOffset(other));
        // The task has begun.
        assertThrows(TaskMigratedException.class, () -> get(store, "a"));
        store.close();
    }

    /** Kafka Streams commits what a task has sent before it restores the task, and has it read the records again. */
    @Test
    void damageAbortsTheTransaction() throws Exception {
        damaged(TASK).close();
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().exactlyOnce().with(producer));
        producer.send();
        for (int time = 0; time < 2; time++) {
            RuntimeException error = assertThrows(TaskMigratedException.class, () -> entries(store.all()));
            assertEquals(TaskCorruptedException.class, error.getCause().getClass());
        }
        producer.abort();
        assertThrows(TaskCorruptedException.class, () -> put(store, "a", "1"));
        store.close();
    }

    @Test
    void theNextStartRestoresADamagedGlobalStore() throws Exception {
        TaskId global = new TaskId(-1, -1);
        BraidKeyValueStore damaged = damaged(global);
        assertThrows(ProcessorStateException.class, () -> entries(damaged.all()));
        assertThrows(ProcessorStateException.class, () -> put(damaged, "a", "1"));
        damaged.close();
        BraidKeyValueStore again = open(new FakeContext(dir, global));
        assertNull(again.committedOffset(CHANGELOG));
        assertEquals(List.of(), entries(again.all()));
        again.close();
    }

    @Test
    void versionsWhoseStoresTrustFilesAreKnown() {
        for (String version : List.of("0.10.0", "2.3", "3.9", "4.0", "4.2")) {
            assertTrue(BraidConfig.areOffsetsWrittenForOldStores(Map.of("upgrade.from", version)), version);
        }
        for (String version : List.of("4.3", "5.0", "", "none")) {
            assertFalse(BraidConfig.areOffsetsWrittenForOldStores(Map.of("upgrade.from", version)), version);
        }
        assertFalse(BraidConfig.areOffsetsWrittenForOldStores(Map.of()));
    }

    /** The filter waits until the thread that closes the iterator waits for the thread that searches. */
    @Test
    void aCloseEndsALongSearch() {
        BraidKeyValueStore store = open(context());
        for (int entry = 0; entry < 10; entry++) {
            put(store, "key " + entry, "1");
        }
        java.util.concurrent.atomic.AtomicInteger seen = new java.util.concurrent.atomic.AtomicInteger();
        BraidIterator[] iterator = new BraidIterator[1];
        iterator[0] = BraidIterator.of(
                store, store.view(IsolationLevel.READ_UNCOMMITTED),
                List.of(store.slot().allData(), store.slot().allData()).iterator(), false, Slot.HEAD_BYTES,
                key -> {
                    if (seen.getAndIncrement() == 0) {
                        Thread closing = new Thread(iterator[0]::close);
                        closing.start();
                        while (closing.getState() != Thread.State.BLOCKED) {
                            Thread.onSpinWait();
                        }
                    }
                    return false;
                },
                null);
        assertFalse(iterator[0].hasNext());
        assertEquals(1, seen.get());
        store.close();
    }

    /** A store of a task whose table of 2,000 entries is damaged. */
    private BraidKeyValueStore damaged(TaskId task) throws Exception {
        BraidKeyValueStore store = open(new FakeContext(dir, task));
        fill(store, 2_000);
        store.db().compact();
        store.close();
        damage(".table");
        return open(new FakeContext(dir, task));
    }

    private static void fill(BraidKeyValueStore store, int entries) {
        for (int entry = 0; entry < entries; entry++) {
            put(store, String.format("%06d", entry), "value of " + entry);
        }
        store.commit(Map.of(CHANGELOG, 7L));
    }

    /** Changes bytes in the first half of the largest file of a kind, where entries are. */
    private void damage(String ending) throws Exception {
        Path largest;
        try (var files = Files.walk(dir.resolve("application/braidb"))) {
            largest = files.filter(file -> file.toString().endsWith(ending))
                    .max(java.util.Comparator.comparingLong(file -> file.toFile().length()))
                    .orElseThrow();
        }
        byte[] bytes = Files.readAllBytes(largest);
        for (int at = bytes.length / 8; at < bytes.length / 2; at += 64) {
            bytes[at] ^= 0x55;
        }
        Files.write(largest, bytes);
    }

    @Test
    void prefixesAndRangesEndWhereTheyShould() {
        BraidKeyValueStore store = open(context());
        for (String name : List.of("a", "b", "ba", "bz", "c")) {
            put(store, name, "1");
        }
        store.put(Bytes.wrap(new byte[] {(byte) 0xFF, (byte) 0xFF}), bytes("2"));
        BraidKeyValueStore next = open(context(), "next", Format.PLAIN);
        put(next, "b", "3");
        assertEquals(List.of("b=1", "ba=1", "bz=1"), entries(store.prefixScan("b", (topic, text) -> bytes(text))));
        byte[] last = {(byte) 0xFF};
        assertEquals(1, entries(store.prefixScan(last, (topic, prefix) -> prefix)).size());
        assertEquals(List.of("ba=1", "bz=1"), entries(store.range(key("ba"), key("bz"))));
        assertEquals(List.of("b=1", "a=1"), entries(store.reverseRange(null, key("b"))));
        assertEquals(6, entries(store.all()).size());
        assertEquals(6, store.approximateNumEntries());
        assertEquals(List.of(), entries(store.range(key("c"), key("b"))));
        next.close();
        store.close();
    }
}
