package io.github.braidb;

import static io.github.braidb.Check.b;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

/** Cursors and ranges. */
final class CursorTest {
    private CursorTest() {}

    private static List<String> keys(Entries entries) {
        List<String> keys = new ArrayList<>();
        try (entries) {
            while (entries.next()) {
                keys.add(new String(entries.key(), StandardCharsets.ISO_8859_1));
            }
        }
        return keys;
    }

    private static void fruit(BraidDb db) {
        for (String name : List.of("apple", "lemon", "pear", "plum")) {
            db.put(b(name), b(name.substring(0, 1)));
        }
    }

    static void rangesHaveTheirBounds() {
        try (BraidDb db = Check.db()) {
            fruit(db);
            Check.same(List.of("apple", "lemon", "pear", "plum"), keys(db.cursor()));
            Check.same(List.of("pear", "plum"), keys(db.cursor(Range.prefix(b("p")))));
            Check.same(List.of("lemon", "pear"), keys(db.cursor(Range.between(b("lemon"), b("plum")))));
            Check.same(List.of("lemon", "pear", "plum"), keys(db.cursor(Range.closed(b("lemon"), b("plum")))));
            Check.same(List.of("pear", "plum"), keys(db.cursor(Range.after(b("lemon")))));
            Check.same(List.of("lemon", "pear", "plum"), keys(db.cursor(Range.from(b("lemon")))));
            Check.same(List.of("apple"), keys(db.cursor(Range.before(b("lemon")))));
            Check.same(List.of(), keys(db.cursor(Range.between(b("plum"), b("apple")))));
            Check.same(4, keys(db.cursor(Range.prefix(new byte[0]))).size());
        }
    }

    static void prefixesThatEndInFf() {
        try (BraidDb db = Check.db()) {
            db.put(b("a\u00ff"), b(""));
            db.put(b("a\u00ff\u00ff"), b(""));
            db.put(b("b"), b(""));
            db.put(b("\u00ff\u00ff"), b(""));
            Check.same(List.of("a\u00ff", "a\u00ff\u00ff"), keys(db.cursor(Range.prefix(b("a\u00ff")))));
            Check.same(List.of("\u00ff\u00ff"), keys(db.cursor(Range.prefix(b("\u00ff")))));
        }
    }

    static void aCursorComesBackFromItsEnds() {
        try (BraidDb db = Check.db()) {
            fruit(db);
            try (Cursor cursor = db.cursor()) {
                Check.throwsA(IllegalStateException.class, cursor::key);
                Check.that(cursor.prev(), "a new cursor moves back to the last entry");
                Check.bytes("plum", cursor.key());
                Check.that(!cursor.next() && !cursor.next(), "nothing lies behind plum");
                Check.throwsA(IllegalStateException.class, cursor::value);
                Check.that(cursor.prev(), "it comes back");
                Check.bytes("plum", cursor.key());
                Check.that(cursor.prev() && cursor.next(), "it turns");
                Check.bytes("plum", cursor.key());
                Check.that(cursor.first() && !cursor.prev() && cursor.next(), "it comes back from the front");
                Check.bytes("apple", cursor.key());
                Check.that(cursor.seek(b("m")), "pear is larger than m");
                Check.bytes("pear", cursor.key());
                Check.that(cursor.seekForPrev(b("m")), "lemon is smaller than m");
                Check.bytes("lemon", cursor.key());
                Check.that(!cursor.seek(b("z")) && cursor.prev(), "it stands behind the last entry");
                Check.bytes("plum", cursor.key());
                Check.that(!cursor.seekForPrev(b("a")) && cursor.next(), "it stands before the first entry");
                Check.bytes("apple", cursor.key());
            }
        }
    }

    static void buffersShowTheEntryWithoutACopy() {
        try (BraidDb db = Check.db()) {
            fruit(db);
            try (Cursor cursor = db.cursor(Range.from(b("pear")))) {
                cursor.next();
                Check.same(ByteBuffer.wrap(b("pear")), cursor.keyBuffer());
                Check.same(ByteBuffer.wrap(b("p")), cursor.valueBuffer());
                Check.that(cursor.keyBuffer().isReadOnly(), "the buffer is read-only");
            }
        }
    }

    static void aCursorShowsItsMoment() {
        try (BraidDb db = Check.db()) {
            fruit(db);
            try (Cursor cursor = db.cursor(); Snapshot snapshot = db.snapshot()) {
                db.put(b("zebra"), b(""));
                db.delete(b("apple"));
                Check.same(4, keys(cursor).size());
                Check.same(4, keys(snapshot.cursor(Range.all())).size());
                Check.same(List.of("lemon", "pear", "plum", "zebra"), keys(db.cursor()));
            }
        }
    }

    static void entriesLargerThanAPageAreRead() {
        try (BraidDb db = Check.db()) {
            int[] sizes = {10, 2_000, 70_000, 5, 300_000, 65_536, 1};
            byte[][] values = new byte[sizes.length][];
            Random random = new Random(18);
            for (int index = 0; index < sizes.length; index++) {
                values[index] = Check.random(random, sizes[index]);
                db.put(new byte[] {(byte) index}, values[index]);
            }
            try (Cursor cursor = db.cursor()) {
                for (int round = 0; round < 2; round++) {
                    for (int index = 0; index < sizes.length; index++) {
                        Check.that(cursor.next(), "entry " + index);
                        Check.sameBytes(values[index], cursor.value());
                    }
                    Check.that(!cursor.next(), "the end");
                    for (int index = sizes.length - 1; index >= 0; index--) {
                        Check.that(cursor.prev(), "entry " + index);
                        Check.sameBytes(values[index], cursor.value());
                    }
                    Check.that(!cursor.prev(), "the front");
                }
            }
        }
    }

    /** Moves a cursor and a model at random, over entries of which a page has between one and hundreds. */
    static void randomMovementsAgreeWithAModel() {
        Random random = new Random(56);
        TreeMap<String, byte[]> model = new TreeMap<>();
        try (BraidDb db = Check.db()) {
            for (int index = 0; index < 2_000; index++) {
                String key = String.format("%05d", random.nextInt(100_000));
                int size = random.nextInt(20) == 0 ? random.nextInt(5_000) : random.nextInt(40);
                byte[] value = Check.random(random, size);
                model.put(key, value);
                db.put(b(key), value);
            }
            db.flush();
            try (Cursor cursor = db.cursor()) {
                Map.Entry<String, byte[]> at = null;
                boolean isBehind = false;
                for (int step = 0; step < 20_000; step++) {
                    String key = String.format("%05d", random.nextInt(100_000));
                    int draw = random.nextInt(200);
                    boolean isOn;
                    if (draw == 0) {
                        isOn = cursor.seek(b(key));
                        at = model.ceilingEntry(key);
                        isBehind = true;
                    } else if (draw == 1) {
                        isOn = cursor.seekForPrev(b(key));
                        at = model.floorEntry(key);
                        isBehind = false;
                    } else if (draw % 40 > (step / 1_000) % 2 * 30 + 4) {
                        isOn = cursor.next();
                        at = at != null ? model.higherEntry(at.getKey()) : isBehind ? null : model.firstEntry();
                        isBehind = true;
                    } else {
                        isOn = cursor.prev();
                        at = at != null ? model.lowerEntry(at.getKey()) : isBehind || step == 0 ? model.lastEntry() : null;
                        isBehind = false;
                    }
                    Check.same(at != null, isOn);
                    if (at != null) {
                        Check.bytes(at.getKey(), cursor.key());
                        Check.sameBytes(at.getValue(), cursor.value());
                    }
                }
            }
        }
    }
}
