package io.github.braidb;

import static io.github.braidb.Check.b;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Batches, overlays and transactions. */
final class WritesTest {
    private WritesTest() {}

    private static String pairs(Entries entries) {
        StringBuilder pairs = new StringBuilder();
        try (entries) {
            while (entries.next()) {
                pairs.append(new String(entries.key(), StandardCharsets.ISO_8859_1)).append('=');
                pairs.append(new String(entries.value(), StandardCharsets.ISO_8859_1)).append(' ');
            }
        }
        return pairs.toString();
    }

    static void aBatchWritesToAllItsFamiliesInOrder() {
        try (BraidDb db = Check.db()) {
            Family users = db.family("users");
            Family visits = db.family("visits");
            db.put(b("stale"), b("1"));
            WriteBatch batch = new WriteBatch().put(b("a"), b("1")).put(b("a"), b("2")).delete(b("stale"));
            batch.put(users, b("ada"), b("1815")).put(visits, b("ada"), b("9")).delete(users, b("ada"));
            Check.same(6, batch.count());
            Check.bytes(null, db.get(b("a")));
            db.write(batch);
            db.write(batch, Durability.SYNC);
            Check.bytes("2", db.get(b("a")));
            Check.bytes(null, db.get(b("stale")));
            Check.bytes(null, users.get(b("ada")));
            Check.bytes("9", visits.get(b("ada")));
            Check.same(6, batch.count());
            batch.clear();
            Check.same(0, batch.count());
            Check.same(0, batch.bytes());
            db.write(batch);
        }
    }

    static void aLargeBatchGrows() {
        try (BraidDb db = Check.db()) {
            WriteBatch batch = new WriteBatch();
            for (int number = 0; number < 20_000; number++) {
                batch.put(b("key" + number), b("value" + number));
            }
            db.write(batch);
            Check.bytes("value19999", db.get(b("key19999")));
            Check.bytes("value0", db.get(b("key0")));
        }
    }

    static void aRefusedBatchWritesNothing() {
        try (BraidDb db = Check.db(); BraidDb other = Check.db()) {
            WriteBatch foreign = new WriteBatch().put(b("a"), b("1")).put(other.family("users"), b("b"), b("2"));
            Check.fails(BraidException.Code.FOREIGN, () -> db.write(foreign));
            Check.fails(BraidException.Code.TOO_LARGE, () ->
                    db.write(new WriteBatch().put(b("a"), b("1")).put(new byte[65_537], b("2"))));
            Check.bytes(null, db.get(b("a")));
        }
    }

    static void anOverlayReadsItsOwnWrites() {
        try (BraidDb db = Check.db(); Overlay overlay = db.overlay()) {
            Family users = db.family("users");
            db.put(b("a"), b("1"));
            db.put(b("c"), b("3"));
            overlay.put(b("b"), b("2"));
            overlay.delete(b("a"));
            overlay.put(users, b("ada"), b("1815"));
            Check.bytes(null, overlay.get(b("a")));
            Check.bytes("2", overlay.get(b("b")));
            Check.bytes("3", overlay.get(b("c")));
            Check.that(overlay.contains(users, b("ada")) && !overlay.contains(b("a")), "own writes are seen");
            Check.same("b=2 c=3 ", pairs(overlay.scan(db.defaultFamily(), Range.all())));
            Check.same("c=3 b=2 ", pairs(overlay.scanBackward(db.defaultFamily(), Range.all())));
            Check.same("b=2 ", pairs(overlay.scan(db.defaultFamily(), Range.before(b("c")))));
            Check.same("a=1 c=3 ", pairs(db.cursor()));
            Check.same(3L, overlay.count());
            Check.that(overlay.bytes() > 0, "staged writes have bytes");
            overlay.commit(Durability.SYNC);
            Check.same(0L, overlay.count());
            Check.same("b=2 c=3 ", pairs(db.cursor()));
            Check.bytes("1815", users.get(b("ada")));
        }
    }

    static void anOverlayRollsBackAndGoesOn() {
        try (BraidDb db = Check.db(); Overlay overlay = db.overlay()) {
            overlay.put(b("a"), b("1"));
            Scan before = overlay.scan(db.defaultFamily(), Range.all());
            overlay.rollBack();
            Check.bytes(null, overlay.get(b("a")));
            Check.same("a=1 ", pairs(before));
            overlay.put(b("b"), b("2"));
            overlay.commit();
            Check.same("b=2 ", pairs(db.cursor()));
            overlay.put(b("c"), b("3"));
            overlay.close();
            Check.fails(BraidException.Code.CLOSED, overlay::commit);
            Check.same("b=2 ", pairs(db.cursor()));
        }
    }

    /** The memory that the process has in pages, in bytes. */
    private static long residentBytes() throws IOException {
        String[] pages = Files.readString(Path.of("/proc/self/statm")).split(" ");
        return Long.parseLong(pages[1]) * 4096;
    }

    private static void stage(Overlay overlay, int entries, int valueBytes) {
        byte[] key = new byte[16];
        byte[] value = new byte[valueBytes];
        for (int entry = 0; entry < entries; entry++) {
            ByteBuffer.wrap(key).putLong(entry * 0x9E37_79B9_7F4A_7C15L);
            overlay.put(key, value);
        }
    }

    /** The process grows by what an overlay says, within a quarter. The heap grows no more, since garbage has touched it before. */
    static void anOverlayTellsItsMemory() throws IOException {
        for (int index = 0; index < 256; index++) {
            Check.same(1 << 20, new byte[1 << 20].length);
        }
        try (BraidDb db = Check.db(); Overlay small = db.overlay(); Overlay large = db.overlay()) {
            Check.same(0L, small.memoryBytes());
            for (Overlay overlay : List.of(small, large)) {
                long before = residentBytes();
                stage(overlay, 200_000, overlay == small ? 8 : 200);
                long grown = residentBytes() - before;
                long told = overlay.memoryBytes();
                Check.that(told >= grown * 4 / 5 && told <= grown * 5 / 4, told + " bytes are told, and " + grown + " were taken");
            }
            small.rollBack();
            Check.same(0L, small.memoryBytes());
        }
    }

    static void aScanHasMorePagesThanOne() {
        try (BraidDb db = Check.db(); Overlay overlay = db.overlay()) {
            List<byte[]> values = new ArrayList<>();
            Random random = new Random(19);
            for (int index = 0; index < 1_000; index++) {
                int size = index % 100 == 7 ? 100_000 : index;
                byte[] value = Check.random(random, size);
                values.add(value);
                byte[] key = b(String.format("%04d", index));
                if (index % 2 == 0) {
                    db.put(key, value);
                } else {
                    overlay.put(key, value);
                }
            }
            try (Scan scan = overlay.scan(db.defaultFamily(), Range.all())) {
                for (byte[] value : values) {
                    Check.that(scan.next(), "an entry of " + value.length + " bytes");
                    Check.sameBytes(value, scan.value());
                }
                Check.that(!scan.next() && !scan.next(), "the end");
            }
        }
    }

    static void aTransactionConflictsWithOtherWrites() {
        try (BraidDb db = Check.db()) {
            db.put(b("seats"), b("1"));
            try (Transaction booking = db.transaction()) {
                Check.bytes("1", booking.get(b("seats")));
                booking.put(b("seats"), b("0"));
                Check.bytes("0", booking.get(b("seats")));
                Check.that(!booking.contains(b("guest")), "no guest yet");
                booking.put(b("guest"), b("ada"));
                db.put(b("seats"), b("0"));
                Check.fails(BraidException.Code.CONFLICT, booking::commit);
                Check.fails(BraidException.Code.CLOSED, booking::commit);
                booking.rollBack();
            }
            Check.bytes(null, db.get(b("guest")));
            try (Transaction lone = db.transaction()) {
                lone.put(b("guest"), b("ada"));
                lone.delete(b("seats"));
                lone.commit(Durability.SYNC);
            }
            Check.same("guest=ada ", pairs(db.cursor()));
        }
    }

    static void aScanOfATransactionCountsAsRead() {
        try (BraidDb db = Check.db(); Transaction transaction = db.transaction()) {
            db.put(b("before"), b(""));
            try (Transaction reader = db.transaction()) {
                reader.put(b("c"), b("own"));
                Check.same("before= c=own ", pairs(reader.scan(db.defaultFamily(), Range.all())));
                Check.same("c=own before= ", pairs(reader.scanBackward(db.defaultFamily(), Range.all())));
                db.put(b("d"), b("a phantom"));
                Check.fails(BraidException.Code.CONFLICT, reader::commit);
            }
            Check.same("", pairs(transaction.scan(db.defaultFamily(), Range.all())));
        }
    }

    static void aScanOfATransactionShowsItsLaterWrites() {
        try (BraidDb db = Check.db()) {
            List<byte[]> values = new ArrayList<>();
            Random random = new Random(20);
            for (int index = 0; index < 500; index++) {
                values.add(Check.random(random, index % 90 == 7 ? 70_000 : index));
                db.put(b(String.format("%04d", index)), values.get(index));
            }
            for (boolean isBackward : new boolean[] {false, true}) {
                try (Transaction transaction = db.transaction()) {
                    Family family = db.defaultFamily();
                    int first = isBackward ? 499 : 0;
                    int step = isBackward ? -1 : 1;
                    Scan scan = isBackward
                            ? transaction.scanBackward(family, Range.all())
                            : transaction.scan(family, Range.all());
                    for (int count = 0; count < 500; count++) {
                        int index = first + count * step;
                        Check.that(scan.next(), "entry " + index);
                        Check.bytes(String.format("%04d", index), scan.key());
                        if (count == 200) {
                            transaction.put(b(String.format("%04d", index + step)), b("own"));
                        }
                        Check.sameBytes(count == 201 ? b("own") : values.get(index), scan.value());
                    }
                    Check.that(!scan.next(), "the end");
                }
            }
        }
    }

    static void aScanOfATransactionReadsNoFartherAheadThanItHasRead() {
        try (BraidDb db = Check.db(); Transaction transaction = db.transaction()) {
            for (int index = 0; index < 9; index++) {
                db.put(b("k" + index), b(""));
            }
            try (Transaction reader = db.transaction()) {
                try (Scan scan = reader.scan(db.defaultFamily(), Range.all())) {
                    Check.that(scan.next(), "k0 is there");
                }
                reader.put(b("own"), b(""));
                db.put(b("k1"), b("changed"));
                reader.commit();
            }
            Check.that(!transaction.contains(b("own")), "it shows its own moment");
        }
    }

    static void aClosedTransactionEndsWithItsScans() {
        try (BraidDb db = Check.db()) {
            db.put(b("a"), b("1"));
            Transaction transaction = db.transaction();
            Scan scan = transaction.scan(db.defaultFamily(), Range.all());
            Check.same(1L, db.stats().get("open_snapshots"));
            transaction.close();
            Check.same(0L, db.stats().get("open_snapshots"));
            Check.fails(BraidException.Code.CLOSED, scan::next);
            scan.close();
        }
    }

    static void familiesOfOtherDatabasesAreRefusedAtOnce() {
        try (BraidDb db = Check.db(); BraidDb other = Check.db(); Snapshot snapshot = db.snapshot(); Overlay overlay = db.overlay()) {
            Family foreign = other.family("users");
            Check.fails(BraidException.Code.FOREIGN, () -> snapshot.cursor(foreign, Range.all()));
            Check.fails(BraidException.Code.FOREIGN, () -> overlay.scan(foreign, Range.all()));
        }
    }

    static void aBatchOfManyFamilyObjectsIsWritten() {
        try (BraidDb db = Check.db()) {
            WriteBatch batch = new WriteBatch();
            for (int number = 0; number < 3_000; number++) {
                batch.put(db.family("users" + number % 2), b("key" + number), b("value" + number));
            }
            db.write(batch);
            Check.bytes("value2999", db.family("users1").get(b("key2999")));
            Check.bytes(null, db.family("users0").get(b("key2999")));
        }
    }

    static void transactLosesNoUpdate() throws InterruptedException {
        try (BraidDb db = Check.db()) {
            db.put(b("count"), b("0"));
            List<Thread> threads = new ArrayList<>();
            for (int thread = 0; thread < 4; thread++) {
                threads.add(new Thread(() -> {
                    for (int round = 0; round < 50; round++) {
                        db.transact(transaction -> {
                            int count = Integer.parseInt(new String(transaction.get(b("count")), StandardCharsets.US_ASCII));
                            transaction.put(b("count"), b(Integer.toString(count + 1)));
                            return count;
                        });
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            Check.bytes("200", db.get(b("count")));
        }
    }

    static void anExceptionOfTheWorkDropsTheWrites() {
        try (BraidDb db = Check.db()) {
            Check.throwsA(IllegalArgumentException.class, () -> db.transact(transaction -> {
                transaction.put(b("a"), b("1"));
                throw new IllegalArgumentException("no");
            }));
            Check.bytes(null, db.get(b("a")));
        }
    }
}
