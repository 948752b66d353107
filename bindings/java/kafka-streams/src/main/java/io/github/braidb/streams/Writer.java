package io.github.braidb.streams;

import io.github.braidb.BraidDb;
import io.github.braidb.Overlay;
import io.github.braidb.WriteBatch;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.query.Position;

/**
 * How a store writes its slot. Whatever the kind, a commit is one batch: the entries that are not in the database yet, offsets, position and
 * stream time. One thread writes.
 *
 * <p>The ledger tells what a batch says once the batch is in the database. If a write fails with {@code POISONED}, the database may be ahead of
 * the ledger. The caller closes the store then, and the next opening reads the ledger anew.
 */
abstract class Writer {
    /** When entries reach the database. */
    enum Kind {
        /**
         * At once, behind a status that says so. After a crash entries may be ahead of the offsets: at-least-once, the changelog writes them
         * again; exactly-once, they have to go.
         */
        STRAIGHT,
        /** At the commit. After a crash the last commit is there. */
        STAGED
    }

    final BraidDb db;
    final Ledger ledger;

    private Writer(BraidDb db, Ledger ledger) {
        this.db = db;
        this.ledger = ledger;
    }

    static Writer of(Kind kind, BraidDb db, Ledger ledger) {
        return switch (kind) {
            case STRAIGHT -> new Straight(db, ledger);
            case STAGED -> new Staged(db, ledger, db.overlay());
        };
    }

    /** What the store's own reads see. */
    abstract View view();

    /** Sets a key, or deletes it if the value is null. */
    abstract void put(byte[] key, byte[] value);

    /** Sets or deletes keys together. */
    abstract void putAll(List<KeyValue<byte[], byte[]>> entries);

    /** Whether there are entries of no commit, in memory or in the database. */
    abstract boolean hasUncommitted();

    /** The memory of what a crash would lose, about, in bytes. A commit takes the bytes of keys and values once more while it runs. */
    long uncommittedBytes() {
        return 0;
    }

    /** Writes entries straight to the database, with what the ledger says of them. Those of a changelog belong to a commit already. */
    final void write(WriteBatch batch, Ledger.Change change) {
        if (batch.count() > 0) {
            db.write(batch);
        }
        change.publish();
    }

    /**
     * Makes all that was written so far one commit.
     *
     * @param offsets as {@link Ledger.Change#setOffsets}
     */
    final void commit(Map<TopicPartition, Long> offsets, Position position, long streamTime) {
        finish(change -> {
            change.setOffsets(offsets);
            change.setPosition(position);
            change.setStreamTime(streamTime);
            change.setOpen(false);
        });
    }

    /** Writes what {@code changes} adds, and all entries that are not in the database, in one batch. */
    void finish(Consumer<Ledger.Change> changes) {
        WriteBatch batch = new WriteBatch();
        Ledger.Change change = ledger.change(sink(batch));
        changes.accept(change);
        write(batch, change);
    }

    /** Drops what no commit has. */
    void close() {}

    static Ledger.Sink sink(WriteBatch batch) {
        return (key, value) -> {
            if (value == null) {
                batch.delete(key);
            } else {
                batch.put(key, value);
            }
        };
    }

    private static final class Straight extends Writer {
        private final View view;

        Straight(BraidDb db, Ledger ledger) {
            super(db, ledger);
            view = new View.OfDatabase(db);
        }

        @Override
        View view() {
            return view;
        }

        @Override
        boolean hasUncommitted() {
            return ledger.isOpen();
        }

        @Override
        void put(byte[] key, byte[] value) {
            if (!ledger.isOpen()) {
                putAll(List.of(new KeyValue<>(key, value)));
            } else if (value == null) {
                db.delete(key);
            } else {
                db.put(key, value);
            }
        }

        @Override
        void putAll(List<KeyValue<byte[], byte[]>> entries) {
            finish(change -> {
                change.setOpen(true);
                entries.forEach(entry -> change.put(entry.key, entry.value));
            });
        }
    }

    private static final class Staged extends Writer {
        private final Overlay overlay;
        private final View view;

        Staged(BraidDb db, Ledger ledger, Overlay overlay) {
            super(db, ledger);
            this.overlay = overlay;
            view = new View.OfOverlay(db, overlay);
        }

        @Override
        View view() {
            return view;
        }

        @Override
        void put(byte[] key, byte[] value) {
            if (value == null) {
                overlay.delete(key);
            } else {
                overlay.put(key, value);
            }
        }

        @Override
        void putAll(List<KeyValue<byte[], byte[]>> entries) {
            entries.forEach(entry -> put(entry.key, entry.value));
        }

        @Override
        boolean hasUncommitted() {
            return overlay.count() > 0;
        }

        @Override
        long uncommittedBytes() {
            return overlay.memoryBytes();
        }

        @Override
        void finish(Consumer<Ledger.Change> changes) {
            Ledger.Change change = ledger.change(this::put);
            changes.accept(change);
            if (overlay.count() > 0) {
                overlay.commit();
            }
            change.publish();
        }

        @Override
        void close() {
            overlay.close();
        }
    }
}
