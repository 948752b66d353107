package io.github.braidb.streams;

import static io.github.braidb.streams.FakeContext.CHANGELOG;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.TaskId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Kills a process with SIGKILL while its store commits, and looks what is left. */
final class CrashTest {
    private static final TaskId TASK = new TaskId(0, 1);

    /** Keys that each commit of the process sets, all to the commit's number. */
    private static final int KEYS = 16;

    /** Kills for each mode. The property {@code braidb.test.kills} has another number. */
    private static final int KILLS = Integer.getInteger("braidb.test.kills", 1);

    @TempDir
    private Path dir;

    /** The process: it commits as fast as it can, and prints the number of each commit when it has returned. */
    public static void main(String[] arguments) {
        FakeContext context = context(Path.of(arguments[0]), arguments[1]);
        BraidKeyValueStore store = BraidKeyValueStore.of("store", Format.PLAIN);
        store.init(context, store);
        Long begun = store.committedOffset(CHANGELOG);
        for (long commit = begun == null ? 1 : begun + 1; ; commit++) {
            for (int key = 0; key < KEYS; key++) {
                context.process("input", 1, commit);
                store.put(key(key), ByteBuffer.allocate(Long.BYTES).putLong(commit).array());
            }
            store.commit(Map.of(CHANGELOG, commit));
            System.out.println(commit);
        }
    }

    private static FakeContext context(Path dir, String mode) {
        FakeContext context = new FakeContext(dir, TASK);
        return switch (mode) {
            case "transactional" -> context.transactional();
            case "exactly-once" -> context.exactlyOnce();
            default -> context;
        };
    }

    private static Bytes key(int key) {
        return Bytes.wrap(new byte[] {(byte) key});
    }

    private static long number(BraidKeyValueStore store, int key) {
        return ByteBuffer.wrap(store.get(key(key))).getLong();
    }

    /** Runs the process until it has printed a number of commits, and kills it. Returns the last commit that it printed. */
    private long kill(String mode, int commits) throws Exception {
        Process process = new ProcessBuilder(List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-XX:TieredStopAtLevel=1",
                        "-XX:+UseSerialGC", "-Xmx64m",
                        "-Dbraidb.library.path=" + System.getProperty("braidb.library.path"), "-cp",
                        System.getProperty("java.class.path"), CrashTest.class.getName(), dir.toString(), mode))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        long last = 0;
        try (BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            int seen = 0;
            for (String line = out.readLine(); line != null; line = out.readLine()) {
                if (line.matches("[0-9]+")) {
                    last = Long.parseLong(line);
                    seen++;
                }
                if (seen == commits) {
                    // The process itself would close the stream, and lose what is in it.
                    process.toHandle().destroyForcibly();
                }
            }
        }
        process.waitFor();
        assertTrue(last > 0, "the process has committed nothing");
        return last;
    }

    @Test
    void aTransactionalStoreHasTheLastCommitAndNothingElse() throws Exception {
        Random random = new Random(2);
        for (int kill = 0; kill < KILLS; kill++) {
            long printed = kill("transactional", 1 + random.nextInt(200));
            BraidKeyValueStore store = BraidKeyValueStore.of("store", Format.PLAIN);
            store.init(context(dir, "transactional"), store);
            long offset = store.committedOffset(CHANGELOG);
            assertTrue(offset == printed || offset == printed + 1, offset + " after " + printed);
            for (int key = 0; key < KEYS; key++) {
                assertEquals(offset, number(store, key));
            }
            assertEquals(offset, store.getPosition().getPartitionPositions("input").get(1));
            store.close();
        }
    }

    @Test
    void anAtLeastOnceStoreIsNeverBehindItsOffset() throws Exception {
        Random random = new Random(3);
        for (int kill = 0; kill < KILLS; kill++) {
            long printed = kill("at-least-once", 1 + random.nextInt(200));
            BraidKeyValueStore store = BraidKeyValueStore.of("store", Format.PLAIN);
            store.init(context(dir, "at-least-once"), store);
            long offset = store.committedOffset(CHANGELOG);
            assertTrue(offset >= printed, offset + " after " + printed);
            for (int key = 0; key < KEYS; key++) {
                assertTrue(number(store, key) >= offset && number(store, key) <= offset + 1);
            }
            store.close();
        }
    }

    @Test
    void anExactlyOnceStoreWithEntriesOfNoCommitIsDropped() throws Exception {
        Random random = new Random(4);
        for (int kill = 0; kill < KILLS; kill++) {
            kill("exactly-once", 1 + random.nextInt(200));
            BraidKeyValueStore store = BraidKeyValueStore.of("store", Format.PLAIN);
            try {
                store.init(context(dir, "exactly-once"), store);
                // The kill came between a commit and the next put.
                long offset = store.committedOffset(CHANGELOG);
                for (int key = 0; key < KEYS; key++) {
                    assertEquals(offset, number(store, key));
                }
            } catch (TaskCorruptedException error) {
                store.init(context(dir, "exactly-once"), store);
                assertEquals(null, store.committedOffset(CHANGELOG));
                assertEquals(null, store.get(key(0)));
            }
            store.close();
        }
    }
}
