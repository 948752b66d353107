package io.github.braidb.streams;

import static io.github.braidb.streams.FakeContext.CHANGELOG;
import static io.github.braidb.streams.KeyValues.get;
import static io.github.braidb.streams.KeyValues.open;
import static io.github.braidb.streams.KeyValues.put;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.braidb.BraidDb;
import io.github.braidb.BraidException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.TaskId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The database that the stores of an application share: opens, closes, clean-ups and failures, beside those of other applications. */
final class SpaceTest {
    private static final TaskId TASK = new TaskId(0, 1);

    /** Threads that open and close stores of one application, and how often each of them does. */
    private static final int THREADS = 4;

    private static final int ROUNDS = 10;

    private final ExecutorService threads = Executors.newCachedThreadPool();

    @TempDir
    private Path dir;

    @AfterEach
    void endThreads() {
        threads.shutdownNow();
    }

    private FakeContext context() {
        return new FakeContext(dir, TASK);
    }

    private FakeContext other() {
        return new FakeContext(dir.resolve("elsewhere"), TASK);
    }

    private Path marker() {
        return dir.resolve("application/0_1/braidb.store.slot");
    }

    /** Uses the other application from its open to its close. */
    private void useOther() {
        BraidKeyValueStore store = open(other());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        store.space().cleanUp();
        store.close();
    }

    @Test
    void anApplicationWaitsForNoSlowOpenOfAnotherOne() throws Exception {
        Path database = Files.createDirectories(dir.resolve("application/braidb"));
        BraidDb holder = BraidDb.open(database);
        // The open waits up to 10 s for the holder.
        Future<BraidKeyValueStore> slow = threads.submit(() -> open(context()));
        try {
            assertTrue(Await.comesTrue(() -> Await.isIn("join")), "the open has begun");
            useOther();
            assertFalse(slow.isDone(), "the other application has waited until the open failed");
        } finally {
            holder.close();
        }
        slow.get().close();
    }

    @Test
    void anApplicationWaitsForNoSlowCleanUpOfAnotherOne() throws Exception {
        BraidKeyValueStore store = open(context());
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch going = new CountDownLatch(1);
        store.space().watch(store.slot(), () -> {
            begun.countDown();
            assertTrue(Await.comesTrue(() -> going.getCount() == 0), "the other application has waited");
            return BraidSpace.Expired.NOTHING;
        });
        Future<?> cleaning = threads.submit(() -> store.space().cleanUp());
        begun.await();
        useOther();
        going.countDown();
        cleaning.get();
        store.close();
    }

    @Test
    void storesThatOpenAndCloseTogetherShareOneDatabase() throws Exception {
        List<Callable<Void>> uses = new ArrayList<>();
        for (int thread = 0; thread < THREADS; thread++) {
            String name = "store-" + thread;
            uses.add(() -> {
                for (int round = 0; round < ROUNDS; round++) {
                    BraidKeyValueStore store = open(context(), name, Format.PLAIN);
                    String before = round == 0 ? null : Integer.toString(round - 1);
                    assertEquals(before, get(store, "a"));
                    put(store, "a", Integer.toString(round));
                    store.commit(Map.of(CHANGELOG, (long) round));
                    store.close();
                }
                return null;
            });
        }
        for (Future<Void> use : threads.invokeAll(uses)) {
            use.get();
        }
    }

    @Test
    void aMarkerThatComesBackWhileItsSlotGoesLeadsNowhere() throws Exception {
        try (BraidDb db = BraidDb.open(dir.resolve("braidb"))) {
            SlotTable table = new SlotTable(db, dir);
            Slot slot = table.open(dir.resolve("marker"), "layout");
            String text = Files.readString(slot.marker());
            Files.delete(slot.marker());
            SlotTable.Garbage garbage = table.find(Set.of());
            assertEquals(List.of(slot.number()), garbage.dead());
            Files.writeString(slot.marker(), text);
            assertEquals(new SlotTable.Garbage(List.of(), true), table.find(Set.of()));
            Slot other = table.open(slot.marker(), "layout");
            assertNotEquals(slot.number(), other.number());
            table.remove(garbage);
            assertEquals(other.number(), table.open(slot.marker(), "layout").number());
        }
    }

    /** Another process could have made the file in the place of the deleted one, and so open the database too. */
    @Test
    void aCleanUpThatIsRefusedForGoodStopsAllStores() throws Exception {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.commit(Map.of(CHANGELOG, 7L));
        BraidKeyValueStore transactional = open(context().transactional(), "kept", Format.PLAIN);
        put(transactional, "a", "1");
        store.close();
        Files.delete(marker());
        Path lock = dir.resolve("application/braidb/LOCK");
        Files.delete(lock);
        Files.createFile(lock);
        BraidException error = assertThrows(BraidException.class, () -> transactional.space().cleanUp());
        assertEquals(BraidException.Code.POISONED, error.code());
        // Writes of transactional stores stay in memory, so the database itself would refuse the commit alone.
        ProcessorStateException refused =
                assertThrows(ProcessorStateException.class, () -> put(transactional, "b", "2"));
        assertEquals(error, refused.getCause());
        assertThrows(ProcessorStateException.class, () -> transactional.commit(Map.of(CHANGELOG, 7L)));
        assertThrows(ProcessorStateException.class, () -> open(context()));
        transactional.close();
        BraidKeyValueStore again = open(context(), "kept", Format.PLAIN);
        assertNull(get(again, "a"));
        again.close();
    }

    @Test
    void noStoreJoinsAFailedDatabase() {
        BraidKeyValueStore store = open(context());
        store.space().fail(new IllegalStateException("a test has failed it"));
        assertThrows(ProcessorStateException.class, () -> open(context(), "other", Format.PLAIN));
        store.close();
        BraidKeyValueStore other = open(context(), "other", Format.PLAIN);
        put(other, "a", "1");
        other.close();
    }

    @Test
    void aDatabaseThatIsNoneTellsWhatToDo() throws Exception {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        store.close();
        Path database = dir.resolve("application/braidb");
        try (var files = Files.list(database)) {
            for (Path file : files.filter(Files::isRegularFile).filter(file -> !file.endsWith("LOCK")).toList()) {
                byte[] bytes = Files.readAllBytes(file);
                java.util.Arrays.fill(bytes, (byte) 0x55);
                Files.write(file, bytes);
            }
        }
        ProcessorStateException error = assertThrows(ProcessorStateException.class, () -> open(context()));
        assertTrue(error.getMessage().contains("delete the directory " + database), error.getMessage());
    }

    @Test
    void theLastStoreTakesAnEmptyDatabaseAlong() throws Exception {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1");
        Path log = dir.resolve("application/braidb");
        Files.delete(marker());
        store.close();
        assertTrue(Await.comesTrue(() -> files(log) == 1), "only LOCK stays");
        BraidKeyValueStore again = open(context());
        assertNull(get(again, "a"));
        again.close();
    }

    @Test
    void aClosedDatabaseHasItsEntriesInTables() throws Exception {
        BraidKeyValueStore store = open(context());
        put(store, "a", "1".repeat(10_000));
        store.commit(Map.of(CHANGELOG, 7L));
        store.close();
        long bytesOfLogs = 0;
        try (Stream<Path> files = Files.list(dir.resolve("application/braidb"))) {
            for (Path log : files.filter(file -> file.toString().endsWith(".log")).toList()) {
                bytesOfLogs += Files.size(log);
            }
        }
        assertTrue(bytesOfLogs < 1_000, "logs have " + bytesOfLogs + " bytes");
        BraidKeyValueStore again = open(context());
        assertEquals(10_000, get(again, "a").length());
        again.close();
    }

    @Test
    void aDatabaseLingersUnlessItsDirectoryIsGone() throws Exception {
        BraidKeyValueStore store = open(context().with(BraidConfig.LINGER_MS_CONFIG, 600_000));
        put(store, "a", "1");
        var first = store.db();
        store.close();
        assertFalse(first.isClosed());
        BraidKeyValueStore second = open(context().with(BraidConfig.LINGER_MS_CONFIG, 600_000));
        assertEquals(first, second.db());
        second.close();
        try (var files = Files.walk(dir.resolve("application"))) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
        BraidKeyValueStore third = open(context());
        assertTrue(first.isClosed());
        assertNotEquals(first, third.db());
        assertNull(get(third, "a"));
        put(third, "a", "2");
        third.close();
        BraidKeyValueStore fourth = open(context());
        assertEquals("2", get(fourth, "a"));
        fourth.close();
    }

    @Test
    void aDatabaseLingersAfterACleanUpThatOutlivesItsStores() throws Exception {
        BraidKeyValueStore store = open(context().with(BraidConfig.LINGER_MS_CONFIG, 600_000));
        BraidSpace space = store.space();
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch going = new CountDownLatch(1);
        space.watch(store.slot(), () -> new BraidSpace.Expired(List.of(store.slot().allData()), () -> {
            begun.countDown();
            assertTrue(Await.comesTrue(() -> going.getCount() == 0), "the store was closed");
        }));
        Future<?> cleaning = threads.submit(() -> space.cleanUp());
        begun.await();
        store.close();
        going.countDown();
        cleaning.get();
        assertFalse(space.db().isClosed());
        space.db().close();
    }

    @Test
    void aStoreIsOpenOnce() {
        BraidKeyValueStore store = open(context());
        assertThrows(ProcessorStateException.class, () -> open(context()));
        put(store, "a", "1");
        store.close();
    }

    private static long files(Path dir) {
        return dir.toFile().list().length;
    }
}
