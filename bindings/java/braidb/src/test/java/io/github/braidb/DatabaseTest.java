package io.github.braidb;

import static io.github.braidb.Check.b;

import java.io.IOException;
import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Options, families, and what concerns a whole database. */
final class DatabaseTest {
    private DatabaseTest() {}

    static void familiesAreMapsOfTheirOwn() {
        Path path = Check.dir().resolve("db");
        try (BraidDb db = BraidDb.open(path)) {
            Family users = db.family("users");
            Check.same("users", users.name());
            users.put(b("ada"), b("1815"));
            Check.bytes(null, db.get(b("ada")));
            Check.bytes("1815", db.existingFamily("users").get(b("ada")));
            Check.same(List.of("default", "users"), db.families());
            BraidException error = Check.fails(BraidException.Code.MISSING_FAMILY, () -> db.existingFamily("usres"));
            Check.that(error.getMessage().contains("`db.family(name)`"), error.getMessage());
            Check.fails(BraidException.Code.INVALID, () -> db.family(""));
            db.defaultFamily().put(b("ada"), b("the default family"));
            Check.bytes("the default family", db.get(b("ada")));
        }
        try (BraidDb db = BraidDb.open(path)) {
            Check.bytes("1815", db.family("users").get(b("ada")));
        }
    }

    static void optionsAreCheckedAtTheOpen() {
        Path path = Check.dir().resolve("db");
        BraidException unknown =
                Check.fails(BraidException.Code.INVALID, () -> BraidDb.open(path, new Options().set("memtable", "1")));
        Check.that(unknown.getMessage().contains("`memtable`"), unknown.getMessage());
        Check.fails(BraidException.Code.INVALID, () -> BraidDb.open(path, new Options().set("open_files", "many")));
        Check.that(Options.names().containsAll(List.of("memtable_bytes", "guards", "durability")), "names are there");
        Options options = new Options()
                .createNew(true)
                .memtableBytes(1 << 20)
                .blockCacheBytes(1 << 20)
                .durability(Durability.SYNC)
                .waitForLock(Duration.ofMillis(5))
                .set("open_files", "100");
        try (BraidDb db = BraidDb.open(path, options)) {
            long before = db.stats().get("log_syncs_total");
            db.put(b("a"), b("1"));
            Check.that(db.stats().get("log_syncs_total") > before, "the durability of the options holds");
        }
        Check.fails(BraidException.Code.EXISTS, () -> BraidDb.open(path, options));
        try (BraidDb db = BraidDb.open(path, new Options().memoryLimit(64 << 20))) {
            Check.bytes("1", db.get(b("a")));
        }
    }

    static void aMissingDatabaseIsToldInTheWordsOfJava() {
        Path path = Check.dir().resolve("db");
        BraidException error =
                Check.fails(BraidException.Code.MISSING, () -> BraidDb.open(path, new Options().createIfMissing(false)));
        Check.that(error.getMessage().contains("Options.createIfMissing(false)"), error.getMessage());
        Check.same(path, error.path().orElseThrow());
        Check.fails(BraidException.Code.MISSING, () -> BraidDb.openReadOnly(path, new Options()));
    }

    static void aSecondOpenIsRefused() {
        Path path = Check.dir().resolve("db");
        try (BraidDb db = BraidDb.open(path)) {
            BraidException error = Check.fails(BraidException.Code.LOCKED, () -> BraidDb.open(path));
            Check.that(error.getMessage().contains("close that one first"), error.getMessage());
            Check.same(path, error.path().orElseThrow());
            Check.same(path, db.path());
        }
    }

    static void slowPathsBecomeTiers() {
        Path dir = Check.dir();
        try (BraidDb db = BraidDb.open(dir.resolve("db"), new Options().slowPath(dir.resolve("slow")))) {
            Check.that(Files.exists(dir.resolve("slow").resolve("TIER")), "the directory is a tier");
            Check.that(db.stats().json().contains("\"tiers\":[{"), db.stats().json());
        }
        Check.fails(BraidException.Code.TIER, () -> {
            try (var files = Files.list(dir.resolve("slow"))) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            } catch (IOException error) {
                throw new AssertionError(error);
            }
            BraidDb.open(dir.resolve("db"));
        });
    }

    static void readersChangeNothing() {
        Path path = Check.dir().resolve("db");
        try (BraidDb db = BraidDb.open(path)) {
            db.put(b("a"), b("1"));
        }
        try (BraidDb one = BraidDb.openReadOnly(path, new Options()); BraidDb two = BraidDb.openReadOnly(path, new Options())) {
            Check.bytes("1", one.get(b("a")));
            Check.bytes("1", two.get(b("a")));
            BraidException error = Check.fails(BraidException.Code.READ_ONLY, () -> one.put(b("a"), b("2")));
            Check.that(error.getMessage().contains("`BraidDb.open`"), error.getMessage());
        }
    }

    static void aPathOfUnicodeIsOpened() {
        Path path = Check.dir().resolve("pflaume-\u00fc");
        try (BraidDb db = BraidDb.open(path)) {
            db.put(b("a"), b("1"));
        }
        Check.that(Files.exists(path.resolve("LOCK")), "the database lies where the path says");
    }

    static void statisticsCountWhatHappened() {
        try (BraidDb db = Check.db()) {
            db.put(b("plum"), b("blue"));
            Stats stats = db.stats();
            Check.same(8L, stats.get("user_bytes_total"));
            Check.that(stats.figures().size() > 20, "there are many statistics");
            Check.that(stats.json().startsWith("{") && stats.json().contains("\"families\""), stats.json());
            Check.throwsA(IllegalArgumentException.class, () -> stats.get("plums"));
            Check.throwsA(UnsupportedOperationException.class, () -> stats.figures().clear());
        }
    }

    static void aCheckpointIsADatabase() {
        Path dir = Check.dir();
        try (BraidDb db = BraidDb.open(dir.resolve("db"))) {
            db.put(b("a"), b("1"));
            db.flush();
            Checkpoint report = db.checkpoint(dir.resolve("copy"));
            Check.that(report.files() > 0 && report.linkedBytes() + report.copiedBytes() > 0, report.toString());
            db.put(b("a"), b("2"));
            Check.throwsA(BraidException.class, () -> db.checkpoint(dir.resolve("copy")));
        }
        try (BraidDb copy = BraidDb.open(dir.resolve("copy"))) {
            Check.bytes("1", copy.get(b("a")));
        }
    }

    static void anExciseTakesRangesAway() {
        try (BraidDb db = Check.db()) {
            for (String day : List.of("monday", "tuesday", "wednesday")) {
                for (int number = 0; number < 100; number++) {
                    db.put(b(day + number), b("event"));
                }
            }
            try (Snapshot before = db.snapshot()) {
                db.excise(Range.prefix(b("monday")), Range.prefix(b("wednesday")));
                Check.bytes("event", db.get(b("tuesday7")));
                Check.bytes(null, db.get(b("monday7")));
                Check.fails(BraidException.Code.EXCISED, () -> before.get(b("monday7")));
                Check.bytes("event", before.get(b("tuesday7")));
                Check.fails(BraidException.Code.EXCISED, () -> before.cursor(Range.all()).next());
            }
        }
    }

    static void estimatesAndCompactionsFollowTheData() {
        try (BraidDb db = Check.db()) {
            for (int number = 0; number < 10_000; number++) {
                db.put(b(String.format("%05d", number)), new byte[100]);
            }
            Estimate all = db.estimate(Range.all());
            Estimate half = db.estimate(Range.before(b("05000")));
            Check.that(all.entries() >= 10_000 && all.bytes() > 1_000_000, all.toString());
            Check.that(half.entries() > 4_000 && half.entries() < 6_000, half.toString());
            for (int number = 0; number < 10_000; number++) {
                db.delete(b(String.format("%05d", number)));
            }
            db.compactRange(Range.all());
            Check.same(0L, db.estimate(Range.all()).entries());
            db.compact();
            db.settle();
        }
    }

    static void snapshotsReadTheirMoment() {
        try (BraidDb db = Check.db()) {
            Family users = db.family("users");
            db.put(b("a"), b("old"));
            users.put(b("ada"), b("old"));
            Snapshot before = db.snapshot();
            db.put(b("a"), b("new"));
            users.delete(b("ada"));
            Check.bytes("old", before.get(b("a")));
            Check.bytes("old", before.get(users, b("ada")));
            Check.that(before.contains(b("a")) && before.contains(users, b("ada")), "both were there");
            byte[][] values = before.getMany(users, List.of(b("bob"), b("ada")));
            Check.bytes(null, values[0]);
            Check.bytes("old", values[1]);
            Check.same(1L, db.stats().get("open_snapshots"));
            before.close();
            before.close();
            Check.same(0L, db.stats().get("open_snapshots"));
            Check.fails(BraidException.Code.CLOSED, () -> before.get(b("a")));
            try (BraidDb other = Check.db(); Snapshot now = db.snapshot()) {
                Check.fails(BraidException.Code.FOREIGN, () -> now.get(other.defaultFamily(), b("a")));
            }
        }
    }

    static void aDatabaseIsVerifiedAndDestroyed() throws IOException {
        Path path = Check.dir().resolve("db");
        try (BraidDb db = BraidDb.open(path)) {
            db.put(b("a"), new byte[10_000]);
            db.flush();
            db.persist(Durability.SYNC);
            Check.that(db.verify().contains("\"damages\":[]"), db.verify());
            Check.fails(BraidException.Code.LOCKED, () -> BraidDb.destroy(path));
        }
        Check.that(BraidDb.verify(path, new Options()).contains("\"damages\":[]"), "all is well");
        BraidDb.destroy(path);
        try (var files = Files.list(path)) {
            Check.same(List.of("LOCK"), files.map(file -> file.getFileName().toString()).toList());
        }
    }

    static void damageIsToldWithItsPlace() throws IOException {
        Path path = Check.dir().resolve("db");
        try (BraidDb db = BraidDb.open(path)) {
            for (int number = 0; number < 1_000; number++) {
                db.put(b(String.format("%05d", number)), new byte[100]);
            }
            db.compact();
        }
        Path table;
        try (var files = Files.list(path)) {
            table = files.filter(file -> file.toString().endsWith(".table")).findFirst().orElseThrow();
        }
        byte[] bytes = Files.readAllBytes(table);
        bytes[bytes.length / 3] ^= 1;
        Files.write(table, bytes);
        try (BraidDb db = BraidDb.open(path); Cursor cursor = db.cursor()) {
            BraidException error = Check.fails(BraidException.Code.CORRUPTION, () -> {
                while (cursor.next()) {
                    cursor.value();
                }
            });
            Check.same(table, error.path().orElseThrow());
            Check.that(error.offset() > 0, "the offset of the block");
            Check.throwsA(IllegalStateException.class, cursor::next);
            Check.that(cursor.first(), "a jump mends the cursor");
        }
    }

    static void aPathOfAnotherFileSystemIsRefused() throws IOException {
        Path dir = Check.dir();
        URI zip = URI.create("jar:" + dir.resolve("files.zip").toUri());
        try (FileSystem files = FileSystems.newFileSystem(zip, Map.of("create", "true"))) {
            Path path = files.getPath(dir.resolve("db").toString());
            Check.fails(BraidException.Code.INVALID, () -> BraidDb.open(path));
            Check.fails(BraidException.Code.INVALID, () -> BraidDb.destroy(path));
            Check.fails(BraidException.Code.INVALID, () -> new Options().slowPath(path));
        }
        Check.that(!Files.exists(dir.resolve("db")), "no database was made on the disk");
    }
}
