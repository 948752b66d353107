package io.github.braidb;

import static io.github.braidb.Check.b;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Objects that are never closed. The property {@code braidb.test.leaks} says how many: a million in long runs, and fewer by default.
 *
 * <p>The collector runs on its own, so these tests wait for it, and fail after a minute.
 */
final class LeaksTest {
    private static final int LEAKS = Integer.getInteger("braidb.test.leaks", 5_000);

    /** How far the counted bytes may exceed the bound: a collection may find objects still in use on stacks. */
    private static final long SLACK_BYTES = 1 << 20;

    /** How far the memory of the process may exceed the bound, for the heap, whose limit is 128 MiB, and memory that malloc keeps. */
    private static final long PROCESS_SLACK_BYTES = 192L << 20;

    private static final long PATIENCE_NANOS = 60_000_000_000L;

    private LeaksTest() {}

    /** The memory of this process in bytes, where the system tells it. */
    private static long residentBytes() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return 1024 * Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        throw new AssertionError("/proc/self/status has no VmRSS");
    }

    /** Runs the collector until a condition holds. */
    private static void collectUntil(java.util.function.BooleanSupplier condition, String what) {
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (!condition.getAsBoolean()) {
            Check.that(System.nanoTime() - end < 0, what);
            System.gc();
            Thread.yield();
        }
    }

    static void leakedCursorsComeBackWithinTheBound() throws IOException {
        try (BraidDb db = Check.db()) {
            for (int number = 0; number < 2_000; number++) {
                db.put(b(String.format("%04d", number)), new byte[100]);
            }
            db.flush();
            long before = residentBytes();
            long most = 0;
            for (int leak = 0; leak < LEAKS; leak++) {
                Check.that(db.cursor().next(), "there are entries");
                most = Math.max(most, BraidDb.nativeBytes());
            }
            Check.that(most <= NativeMemory.BOUND + SLACK_BYTES, most + " bytes were held at once");
            long grown = residentBytes() - before;
            Check.that(grown <= NativeMemory.BOUND + PROCESS_SLACK_BYTES, "the process grew by " + grown + " bytes");
            collectUntil(() -> BraidDb.nativeBytes() == 0, "all leaked cursors come back");
        }
    }

    static void leakedSnapshotsAndOverlaysComeBack() {
        try (BraidDb db = Check.db()) {
            for (int leak = 0; leak < 1_000; leak++) {
                db.snapshot();
                db.overlay().put(b("key"), new byte[1_000]);
                db.transaction().put(b("key"), new byte[1_000]);
            }
            collectUntil(() -> BraidDb.nativeBytes() == 0, "all leaked objects come back");
            Check.same(0L, db.stats().get("open_snapshots"));
        }
    }

    static void stagedWritesAreCountedUntilTheyAreCommitted() {
        try (BraidDb db = Check.db()) {
            collectUntil(() -> BraidDb.nativeBytes() == 0, "earlier tests hold nothing");
            try (Overlay overlay = db.overlay()) {
                long empty = BraidDb.nativeBytes();
                overlay.put(b("key"), new byte[100_000]);
                Check.that(BraidDb.nativeBytes() - empty >= 100_000, "the staged write is counted");
                overlay.put(b("key"), new byte[100_000]);
                Check.that(BraidDb.nativeBytes() - empty < 200_000, "a write that took the place of another one is counted once");
                overlay.commit();
                Check.same(empty, BraidDb.nativeBytes());
                overlay.put(b("key"), new byte[100_000]);
                overlay.rollBack();
                Check.same(empty, BraidDb.nativeBytes());
                overlay.put(b("key"), new byte[100_000]);
            }
            try (Transaction transaction = db.transaction()) {
                long empty = BraidDb.nativeBytes();
                transaction.get(b("key"));
                transaction.put(b("key"), new byte[100_000]);
                db.put(b("key"), b("another"));
                Check.fails(BraidException.Code.CONFLICT, transaction::commit);
                Check.same(empty, BraidDb.nativeBytes());
            }
            Check.same(0L, BraidDb.nativeBytes());
        }
    }

    private static Path leakADatabase() {
        BraidDb db = Check.db();
        db.put(b("a"), b("1"));
        db.family("users").put(b("ada"), b("1815"));
        return db.path();
    }

    static void aLeakedDatabaseIsClosed() {
        Path path = leakADatabase();
        collectUntil(
                () -> {
                    try (BraidDb again = BraidDb.open(path)) {
                        Check.bytes("1815", again.family("users").get(b("ada")));
                        return true;
                    } catch (BraidException error) {
                        Check.same(BraidException.Code.LOCKED, error.code());
                        return false;
                    }
                },
                "the directory becomes free");
    }
}
