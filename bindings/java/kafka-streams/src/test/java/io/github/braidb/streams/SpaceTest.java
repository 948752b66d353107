package io.github.braidb.streams;

import static io.github.braidb.streams.KeyValues.get;
import static io.github.braidb.streams.KeyValues.open;
import static io.github.braidb.streams.KeyValues.put;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.TaskId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The database that the stores of an application share: opens, closes, clean-ups and failures. */
final class SpaceTest {
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
    void noStoreJoinsAFailedDatabase() {
        BraidKeyValueStore store = open(context());
        store.space().fail();
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
