package io.github.braidb.streams;

import static io.github.braidb.streams.FakeContext.CHANGELOG;
import static io.github.braidb.streams.KeyValues.entries;
import static io.github.braidb.streams.KeyValues.get;
import static io.github.braidb.streams.KeyValues.key;
import static io.github.braidb.streams.KeyValues.open;
import static io.github.braidb.streams.KeyValues.put;
import static io.github.braidb.streams.KeyValues.record;
import static io.github.braidb.streams.KeyValues.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.TaskId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What of a transaction a store commits, exactly-once. A store that is closed without a commit leaves what a kill leaves. */
final class TransactionTest {
    private static final TaskId TASK = new TaskId(0, 1);

    @TempDir
    private Path dir;

    private FakeContext context() {
        return new FakeContext(dir, TASK);
    }

    @Test
    void exactlyOnceEntriesOfNoCommitCorruptTheTask() {
        BraidKeyValueStore store = open(context().exactlyOnce());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        store.close();
        // All was committed, so the store goes on.
        BraidKeyValueStore second = open(context().exactlyOnce());
        assertEquals("1", get(second, "a"));
        put(second, "a", "2");
        second.close();
        TaskCorruptedException error =
                assertThrows(TaskCorruptedException.class, () -> open(context().exactlyOnce()));
        assertEquals(java.util.Set.of(TASK), error.corruptedTasks());
        // Even where the directory of the task stays, nothing of it is seen again.
        BraidKeyValueStore third = open(context().exactlyOnce());
        assertNull(get(third, "a"));
        assertNull(third.committedOffset(CHANGELOG));
        third.close();
    }

    @Test
    void anAtLeastOnceCrashIsNoticedAfterAChangeToExactlyOnce() {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.close();
        assertThrows(TaskCorruptedException.class, () -> open(context().exactlyOnce()));
    }

    @Test
    void transactionalEntriesAreSeenByTheTaskAloneUntilTheCommit() {
        FakeContext context = context().transactional();
        BraidKeyValueStore store = open(context);
        context.process("input", 1, 41);
        put(store, "a", "1");
        put(store, "b", "2");
        assertEquals("1", get(store, "a"));
        assertEquals(List.of("a=1", "b=2"), entries(store.all()));
        assertEquals(List.of("b=2", "a=1"), entries(store.reverseAll()));
        assertNull(store.readOnly(IsolationLevel.READ_COMMITTED).get(key("a")));
        assertEquals(List.of(), entries(store.readOnly(IsolationLevel.READ_COMMITTED).all()));
        store.commit(Map.of(CHANGELOG, 7L));
        assertEquals(0, store.approximateNumUncommittedBytes());
        assertEquals("1", text(store.readOnly(IsolationLevel.READ_COMMITTED).get(key("a"))));
        put(store, "a", null);
        assertNull(get(store, "a"));
        assertEquals(List.of("a=1", "b=2"), entries(store.readOnly(IsolationLevel.READ_COMMITTED).all()));
        store.close();
    }

    /** Small entries take several times their bytes in memory, and a key that is set again takes no more. */
    @Test
    void uncommittedBytesAreThoseOfTheMemory() {
        BraidKeyValueStore store = open(context().transactional());
        for (int entry = 0; entry < 1_000; entry++) {
            put(store, String.format("%06d", entry), "12");
        }
        long bytes = store.approximateNumUncommittedBytes();
        assertTrue(bytes >= 1_000 * (6 + 2 + 150) && bytes <= 1_000 * (6 + 2 + 250), Long.toString(bytes));
        for (int entry = 0; entry < 1_000; entry++) {
            put(store, "000000", "34");
            put(store, "000001", null);
        }
        assertTrue(store.approximateNumUncommittedBytes() <= bytes, Long.toString(store.approximateNumUncommittedBytes()));
        store.commit(Map.of(CHANGELOG, 7L));
        assertEquals(0, store.approximateNumUncommittedBytes());
        store.close();
    }

    @Test
    void anAbortLeavesTheLastCommit() {
        FakeContext context = context().transactional();
        BraidKeyValueStore store = open(context);
        context.process("input", 1, 41);
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        context.process("input", 1, 42);
        put(store, "a", "2");
        put(store, "b", "2");
        assertEquals(42, store.getPosition().getPartitionPositions("input").get(1));
        store.close();
        BraidKeyValueStore again = open(context().transactional());
        assertEquals(List.of("a=1"), entries(again.all()));
        assertEquals(7, again.committedOffset(CHANGELOG));
        assertEquals(Map.of(1, 41L), again.getPosition().getPartitionPositions("input"));
        again.close();
    }

    /** Kafka Streams 4.4 commits stores also after their transaction could not be committed, before it closes them. */
    @Test
    void aTransactionThatKafkaDidNotCommitIsNoneOfTheStore() throws Exception {
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().transactional().with(producer));
        put(store, "a", "1");
        producer.send();
        producer.commit();
        store.commit(Map.of(CHANGELOG, 7L));
        put(store, "a", "2");
        producer.send();
        producer.breakCommits();
        assertThrows(RuntimeException.class, producer::commit);
        store.commit(Map.of(CHANGELOG, 9L));
        assertEquals(7, store.committedOffset(CHANGELOG));
        assertEquals("1", text(store.readOnly(IsolationLevel.READ_COMMITTED).get(key("a"))));
        assertEquals("2", get(store, "a"));
        store.close();
        BraidKeyValueStore again = open(context().transactional());
        assertEquals("1", get(again, "a"));
        assertEquals(7, again.committedOffset(CHANGELOG));
        again.close();
    }

    /** Without transactions of stores, entries of an aborted transaction are in the database. The status must go on saying so. */
    @Test
    void aPlainStoreStaysOpenWithATransactionThatKafkaDidNotCommit() throws Exception {
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().exactlyOnce().with(producer));
        put(store, "a", "1");
        producer.send();
        producer.breakCommits();
        assertThrows(RuntimeException.class, producer::commit);
        store.commit(Map.of(CHANGELOG, 9L));
        store.close();
        assertThrows(TaskCorruptedException.class, () -> open(context().exactlyOnce()));
    }

    /** Kafka Streams closes the tasks of a failed transaction one after the other. The first one aborts it, and the others commit their stores. */
    @Test
    void aTransactionThatAnotherTaskHasAbortedIsNoneOfTheStore() throws Exception {
        for (boolean isTransactional : List.of(true, false)) {
            FakeProducer producer = new FakeProducer();
            FakeContext context = isTransactional ? context().transactional() : context().exactlyOnce();
            BraidKeyValueStore store = open(context.with(producer));
            put(store, "a", "1");
            producer.send();
            producer.commit();
            store.commit(Map.of(CHANGELOG, 7L));
            assertEquals(7, store.committedOffset(CHANGELOG));
            put(store, "a", "2");
            producer.send();
            producer.abort();
            store.commit(Map.of(CHANGELOG, 9L));
            assertEquals(7, store.committedOffset(CHANGELOG));
            store.close();
            if (isTransactional) {
                BraidKeyValueStore again = open(context().transactional());
                assertEquals("1", get(again, "a"));
                again.close();
            } else {
                assertThrows(TaskCorruptedException.class, () -> open(context().exactlyOnce()));
            }
        }
    }

    /** A store without a changelog writes without a transaction, or in that of other records. */
    @Test
    void aStoreWithoutChangelogCommitsUnlessItsTransactionWasAborted() throws Exception {
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().transactional().with(producer));
        put(store, "a", "1");
        store.commit(Map.of());
        assertEquals("1", text(store.readOnly(IsolationLevel.READ_COMMITTED).get(key("a"))));
        store.close();
        for (boolean isSentFirst : List.of(true, false)) {
            BraidKeyValueStore again = open(context().transactional().with(producer));
            if (isSentFirst) {
                producer.send();
            }
            put(again, "a", "2");
            producer.send();
            producer.abort();
            again.commit(Map.of());
            assertEquals("1", text(again.readOnly(IsolationLevel.READ_COMMITTED).get(key("a"))));
            again.close();
        }
    }

    /** A task without new records is committed where it is revoked, while records of another task are in a transaction. */
    @Test
    void theTransactionOfAnotherTaskIsNotThatOfTheStore() throws Exception {
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().exactlyOnce().with(producer));
        put(store, "a", "1");
        producer.send();
        producer.commit();
        producer.send();
        store.commit(Map.of(CHANGELOG, 7L));
        assertEquals(7, store.committedOffset(CHANGELOG));
        store.close();
        open(context().exactlyOnce()).close();
    }

    /** The task of another store was closed, and this one goes on. Its next transaction is committed. */
    @Test
    void entriesOfACommitThatWasLeftOutBelongToNoLaterOne() throws Exception {
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().transactional().with(producer));
        put(store, "a", "1");
        producer.send();
        producer.abort();
        store.commit(Map.of(CHANGELOG, 7L));
        producer.send();
        producer.commit();
        assertEquals("1", get(store, "a"));
        store.commit(Map.of(CHANGELOG, 8L));
        assertNull(store.committedOffset(CHANGELOG));
        assertThrows(TaskCorruptedException.class, () -> get(store, "a"));
        store.close();
    }

    /** A task that has only punctuated is committed at its revocation, which fails, and once more at a shutdown. */
    @Test
    void aTransactionalStoreKeepsItsLastCommitWhereASecondOneIsLeftOut() throws Exception {
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().transactional().with(producer));
        put(store, "a", "1");
        producer.send();
        producer.commit();
        store.commit(Map.of(CHANGELOG, 7L));
        put(store, "a", "2");
        producer.send();
        store.commit(Map.of(CHANGELOG, 8L));
        producer.abort();
        store.commit(Map.of(CHANGELOG, 9L));
        store.close();
        BraidKeyValueStore again = open(context().transactional());
        assertEquals(7, again.committedOffset(CHANGELOG));
        assertEquals(List.of("a=1"), entries(again.all()));
        again.close();
    }

    /** The task goes on as a standby instead. Its store misses records, whose deletions the changelog may forget. */
    @Test
    void aRefusedStoreThatMissesRecordsBeginsAnew() throws Exception {
        FakeProducer producer = new FakeProducer();
        FakeContext context = context().transactional().with(producer);
        BraidKeyValueStore store = BraidKeyValueStore.of("store", Format.PLAIN);
        store.init(context.internal(), store);
        put(store, "a", "1");
        producer.send();
        producer.commit();
        store.commit(Map.of(CHANGELOG, 7L));
        put(store, "a", "2");
        producer.send();
        store.commit(Map.of(CHANGELOG, 8L));
        producer.abort();
        store.commit(Map.of(CHANGELOG, 9L));
        context.becomeStandby();
        context.restore(List.of(record(10, "a", null)));
        store.close();
        BraidKeyValueStore again = open(context().transactional());
        assertNull(again.committedOffset(CHANGELOG));
        assertEquals(List.of(), entries(again.all()));
        again.close();
    }

    @Test
    void aWriteAfterACommitThatWasLeftOutFails() throws Exception {
        FakeProducer producer = new FakeProducer();
        BraidKeyValueStore store = open(context().exactlyOnce().with(producer));
        put(store, "a", "1");
        producer.send();
        producer.abort();
        store.commit(Map.of(CHANGELOG, 7L));
        assertThrows(TaskCorruptedException.class, () -> put(store, "b", "2"));
        store.close();
    }

    /** The entries of no commit are of a transaction of the thread, which may end either way. Kafka Streams takes them for restored. */
    @Test
    void entriesThatATaskLeavesToAStandbyOrARestoreAreRestored() throws Exception {
        for (boolean isRestored : List.of(false, true)) {
            for (boolean isTransactional : List.of(true, false)) {
                FakeProducer producer = new FakeProducer();
                FakeContext context = (isTransactional ? context().transactional() : context().exactlyOnce()).with(producer);
                BraidKeyValueStore store = BraidKeyValueStore.of("store", Format.PLAIN);
                store.init(context.internal(), store);
                put(store, "a", "0");
                producer.send();
                producer.commit();
                store.commit(Map.of(CHANGELOG, 5L));
                put(store, "a", "1");
                producer.send();
                store.commit(Map.of(CHANGELOG, 7L));
                assertEquals(5, store.committedOffset(CHANGELOG));
                if (isRestored) {
                    producer.abort();
                    context.restore(List.of(record(8, "b", "2")));
                } else {
                    context.becomeStandby();
                }
                store.commit(Map.of(CHANGELOG, 8L));
                assertEquals(5, store.committedOffset(CHANGELOG));
                assertThrows(TaskCorruptedException.class, () -> get(store, "a"));
                store.close();
                // The store has missed record 8, whose deletion the changelog may forget.
                BraidKeyValueStore again = open(isTransactional ? context().transactional() : context().exactlyOnce());
                assertNull(again.committedOffset(CHANGELOG));
                assertEquals(List.of(), entries(again.all()));
                again.close();
            }
        }
    }

    /** Kafka Streams 4.3 hands the setting on, and never commits such a store while it runs. */
    @Test
    void aVersionWithoutTransactionalStoresHasPlainOnes() {
        FakeContext context = context().transactional();
        BraidStore.canStage = false;
        BraidKeyValueStore store = open(context);
        BraidStore.canStage = true;
        put(store, "a", "1");
        assertEquals(0, store.approximateNumUncommittedBytes());
        assertEquals("1", text(store.readOnly(IsolationLevel.READ_COMMITTED).get(key("a"))));
        store.close();
    }

    @Test
    void entriesOfNoCommitGoBeforeTransactionsBegin() {
        BraidKeyValueStore store = open(context().exactlyOnce());
        put(store, "a", "1");
        store.close();
        BraidKeyValueStore again = open(context().transactional());
        assertEquals(List.of(), entries(again.all()));
        assertNull(again.committedOffset(CHANGELOG));
        again.close();
    }
}
