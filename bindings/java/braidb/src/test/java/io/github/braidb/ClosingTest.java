package io.github.braidb;

import static io.github.braidb.Check.b;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** Closes, which race calls of other threads. */
final class ClosingTest {
    /** Threads that call while another one closes. */
    private static final int THREADS = 8;

    /** How often each race is run. */
    private static final int ROUNDS = 8;

    private ClosingTest() {}

    static void allObjectsOfAClosedDatabaseSaySo() {
        BraidDb db = Check.db();
        Family users = db.family("users");
        db.put(b("a"), b("1"));
        Cursor cursor = db.cursor();
        Snapshot snapshot = db.snapshot();
        Overlay overlay = db.overlay();
        overlay.put(b("b"), b("2"));
        Transaction transaction = db.transaction();
        Scan scan = overlay.scan(users, Range.all());
        Check.that(!db.isClosed(), "it is open");
        db.close();
        db.close();
        Check.that(db.isClosed(), "it is closed");
        List<Runnable> calls = List.of(
                () -> db.put(b("a"), b("1")),
                () -> db.get(b("a")),
                () -> db.contains(b("a")),
                () -> db.delete(b("a")),
                () -> db.getMany(List.of(b("a"))),
                () -> db.write(new WriteBatch().put(b("a"), b("1"))),
                () -> db.family("users"),
                () -> db.families(),
                () -> db.cursor(),
                () -> db.snapshot(),
                () -> db.overlay(),
                () -> db.transaction(),
                () -> db.flush(),
                () -> db.persist(Durability.SYNC),
                () -> db.settle(),
                () -> db.compact(),
                () -> db.compactRange(Range.all()),
                () -> db.excise(Range.all()),
                () -> db.estimate(Range.all()),
                () -> db.stats(),
                () -> db.verify(),
                () -> db.checkpoint(Check.dir().resolve("copy")),
                () -> users.get(b("a")),
                () -> cursor.next(),
                () -> cursor.seek(b("a")),
                () -> snapshot.get(b("a")),
                () -> snapshot.cursor(Range.all()),
                () -> overlay.get(b("b")),
                () -> overlay.commit(),
                () -> overlay.count(),
                () -> transaction.put(b("a"), b("1")),
                () -> transaction.commit(),
                () -> scan.next());
        for (Runnable call : calls) {
            Check.fails(BraidException.Code.CLOSED, call);
        }
        cursor.close();
        snapshot.close();
        scan.close();
        overlay.close();
        transaction.close();
        try (BraidDb again = BraidDb.open(db.path())) {
            Check.bytes("1", again.get(b("a")));
        }
    }

    static void closedObjectsOfAnOpenDatabaseSaySo() {
        try (BraidDb db = Check.db()) {
            Cursor cursor = db.cursor();
            cursor.close();
            cursor.close();
            Check.fails(BraidException.Code.CLOSED, cursor::next);
            Check.fails(BraidException.Code.CLOSED, cursor::first);
            Check.throwsA(IllegalStateException.class, cursor::key);
            Overlay overlay = db.overlay();
            Scan scan = overlay.scan(db.defaultFamily(), Range.all());
            scan.close();
            Check.fails(BraidException.Code.CLOSED, scan::next);
            overlay.close();
            Check.fails(BraidException.Code.CLOSED, () -> overlay.put(b("a"), b("1")));
            Transaction transaction = db.transaction();
            transaction.close();
            Check.fails(BraidException.Code.CLOSED, () -> transaction.get(b("a")));
        }
    }

    /** Runs a call on 8 threads until it says that its object was closed. Closes meanwhile. */
    private static void race(Runnable call, Runnable close) throws InterruptedException {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        AtomicInteger calls = new AtomicInteger();
        CountDownLatch begun = new CountDownLatch(THREADS);
        List<Thread> threads = new ArrayList<>();
        for (int index = 0; index < THREADS; index++) {
            Thread thread = new Thread(() -> {
                begun.countDown();
                try {
                    while (true) {
                        call.run();
                        calls.incrementAndGet();
                    }
                } catch (BraidException error) {
                    if (error.code() != BraidException.Code.CLOSED) {
                        failure.set(error);
                    }
                } catch (Throwable error) {
                    failure.set(error);
                }
            });
            threads.add(thread);
            thread.start();
        }
        begun.await();
        while (calls.get() < 2 * THREADS && failure.get() == null) {
            Thread.onSpinWait();
        }
        close.run();
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure.get() != null) {
            throw new AssertionError("a call failed otherwise than by the close", failure.get());
        }
    }

    private static void fill(BraidDb db) {
        for (int number = 0; number < 500; number++) {
            db.put(b(String.format("%04d", number)), new byte[100]);
        }
    }

    static void closesOfDatabasesRaceCalls() throws InterruptedException {
        for (int round = 0; round < ROUNDS; round++) {
            BraidDb db = Check.db();
            fill(db);
            race(
                    () -> {
                        db.put(b("a"), b("1"));
                        db.get(b("0007"));
                        try (Cursor cursor = db.cursor(); Snapshot snapshot = db.snapshot()) {
                            cursor.seek(b("0100"));
                            snapshot.get(b("0007"));
                        }
                        db.write(new WriteBatch().put(b("b"), b("2")));
                    },
                    db::close);
        }
    }

    static void closesOfSnapshotsRaceCalls() throws InterruptedException {
        try (BraidDb db = Check.db()) {
            fill(db);
            for (int round = 0; round < ROUNDS; round++) {
                Snapshot snapshot = db.snapshot();
                race(
                        () -> {
                            Check.same(100, snapshot.get(b("0007")).length);
                            snapshot.cursor(Range.all()).close();
                        },
                        snapshot::close);
            }
            Check.same(0L, db.stats().get("open_snapshots"));
        }
    }

    static void closesOfOverlaysRaceCalls() throws InterruptedException {
        try (BraidDb db = Check.db()) {
            fill(db);
            for (int round = 0; round < ROUNDS; round++) {
                Overlay overlay = db.overlay();
                race(
                        () -> {
                            overlay.put(b("0007"), b("staged"));
                            Check.bytes("staged", overlay.get(b("0007")));
                            try (Scan scan = overlay.scan(db.defaultFamily(), Range.from(b("0400")))) {
                                Check.that(scan.next(), "there are entries");
                            }
                        },
                        overlay::close);
            }
        }
    }

    /** A cursor is for one thread at a time. Several get wrong entries or exceptions of Java, and touch no memory that was freed. */
    private static void misuse(Cursor cursor) {
        try {
            cursor.seek(b("0007"));
        } catch (IndexOutOfBoundsException | NegativeArraySizeException | IllegalArgumentException error) {
            // Two threads changed the page of the cursor.
        }
    }

    static void closesOfCursorsRaceCalls() throws InterruptedException {
        try (BraidDb db = Check.db()) {
            fill(db);
            for (int round = 0; round < ROUNDS; round++) {
                Cursor cursor = db.cursor();
                race(() -> misuse(cursor), cursor::close);
            }
        }
    }
}
