package io.github.braidb;

import static io.github.braidb.Check.b;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** Puts, gets and deletes of single keys. */
final class EntriesTest {
    private EntriesTest() {}

    static void putsAreReadAndDeletesRemove() {
        try (BraidDb db = Check.db()) {
            Check.bytes(null, db.get(b("plum")));
            db.put(b("plum"), b("blue"));
            Check.bytes("blue", db.get(b("plum")));
            Check.that(db.contains(b("plum")), "plum is there");
            db.put(b("plum"), b("yellow"));
            Check.bytes("yellow", db.get(b("plum")));
            db.delete(b("plum"));
            db.delete(b("plum"));
            Check.bytes(null, db.get(b("plum")));
            Check.that(!db.contains(b("plum")), "plum is gone");
        }
    }

    static void emptyKeysAndValuesAreEntries() {
        try (BraidDb db = Check.db()) {
            db.put(new byte[0], new byte[0]);
            Check.same(0, db.get(new byte[0]).length);
            db.put(b("k"), new byte[0]);
            Check.same(0, db.get(b("k")).length);
        }
    }

    static void allSizesComeBack() {
        try (BraidDb db = Check.db()) {
            Random random = new Random(17);
            for (int size : new int[] {1, 511, 512, 513, 1023, 1024, 4096, 65_536, 3_000_000}) {
                byte[] value = Check.random(random, size);
                byte[] key = Arrays.copyOf(value, Math.min(size, 65_536));
                db.put(key, value);
                Check.sameBytes(value, db.get(key));
            }
        }
    }

    static void keysOverTheLimitAreRefused() {
        try (BraidDb db = Check.db()) {
            BraidException error = Check.fails(
                    BraidException.Code.TOO_LARGE, () -> db.put(new byte[65_537], b("v")));
            Check.that(error.getMessage().contains("65537"), error.getMessage());
        }
    }

    static void nullIsRefused() {
        try (BraidDb db = Check.db()) {
            Check.throwsA(NullPointerException.class, () -> db.put(null, b("v")));
            Check.throwsA(NullPointerException.class, () -> db.put(b("k"), null));
            Check.throwsA(NullPointerException.class, () -> db.get(null));
            Check.throwsA(NullPointerException.class, () -> db.contains(null));
            Check.throwsA(NullPointerException.class, () -> db.delete(null));
            Check.throwsA(NullPointerException.class, () -> db.cursor().seek(null));
        }
    }

    static void manyKeysAreReadAtOnce() {
        try (BraidDb db = Check.db()) {
            db.put(b("a"), b("1"));
            db.put(b("empty"), new byte[0]);
            byte[][] values = db.getMany(List.of(b("a"), b("missing"), b("empty")));
            Check.same(3, values.length);
            Check.bytes("1", values[0]);
            Check.bytes(null, values[1]);
            Check.bytes("", values[2]);
            Check.same(0, db.getMany(List.of()).length);
        }
    }

    static void writesSurviveACloseInEachDurability() {
        Path path = Check.dir().resolve("db");
        try (BraidDb db = BraidDb.open(path)) {
            for (Durability durability : Durability.values()) {
                db.put(b(durability.name()), b("here"), durability);
                db.put(b("gone"), b("here"), durability);
                db.delete(b("gone"), durability);
            }
        }
        try (BraidDb db = BraidDb.open(path)) {
            for (Durability durability : Durability.values()) {
                Check.bytes("here", db.get(b(durability.name())));
            }
            Check.bytes(null, db.get(b("gone")));
        }
    }

    static void aSyncedPutIsCountedAsASync() {
        try (BraidDb db = Check.db()) {
            long before = db.stats().get("log_syncs_total");
            db.put(b("a"), b("1"), Durability.BUFFER);
            Check.same(before, db.stats().get("log_syncs_total"));
            db.put(b("a"), b("1"), Durability.SYNC);
            Check.that(db.stats().get("log_syncs_total") > before, "a put with SYNC syncs the log");
        }
    }
}
