package io.github.braidb.streams;

import io.github.braidb.BraidDb;
import io.github.braidb.Cursor;
import io.github.braidb.Entries;
import io.github.braidb.Overlay;
import io.github.braidb.Range;
import io.github.braidb.Scan;

/** What reads see: the database, or staged writes over it. Any threads may use it. */
interface View {
    /** The value of a key, or null. */
    byte[] get(byte[] key);

    /** The entries of a range at this moment. The caller closes it. */
    Walk walk(Range range, boolean isBackward);

    /** Entries in one order, as {@link Entries}. */
    interface Walk extends AutoCloseable {
        boolean next();

        byte[] key();

        byte[] value();

        @Override
        void close();
    }

    /** The database alone. */
    record OfDatabase(BraidDb db) implements View {
        @Override
        public byte[] get(byte[] key) {
            return db.get(key);
        }

        @Override
        public Walk walk(Range range, boolean isBackward) {
            return new CursorWalk(db.cursor(range), isBackward);
        }
    }

    /** Staged writes over the database. */
    record OfOverlay(BraidDb db, Overlay overlay) implements View {
        @Override
        public byte[] get(byte[] key) {
            return overlay.get(key);
        }

        @Override
        public Walk walk(Range range, boolean isBackward) {
            return new ScanWalk(
                    isBackward
                            ? overlay.scanBackward(db.defaultFamily(), range)
                            : overlay.scan(db.defaultFamily(), range));
        }
    }

    /** A cursor that moves one way. */
    record CursorWalk(Cursor cursor, boolean isBackward) implements Walk {
        @Override
        public boolean next() {
            return isBackward ? cursor.prev() : cursor.next();
        }

        @Override
        public byte[] key() {
            return cursor.key();
        }

        @Override
        public byte[] value() {
            return cursor.value();
        }

        @Override
        public void close() {
            cursor.close();
        }
    }

    /** A scan of an overlay. */
    record ScanWalk(Scan scan) implements Walk {
        @Override
        public boolean next() {
            return scan.next();
        }

        @Override
        public byte[] key() {
            return scan.key();
        }

        @Override
        public byte[] value() {
            return scan.value();
        }

        @Override
        public void close() {
            scan.close();
        }
    }
}
