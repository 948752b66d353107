package io.github.braidb.streams;

import io.github.braidb.BraidDb;
import io.github.braidb.Cursor;
import io.github.braidb.Durability;
import io.github.braidb.Range;
import io.github.braidb.WriteBatch;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The list of slots of a database. It lies in slot 0: the database's own number, the next slot, and for each slot its owner.
 *
 * <p>No number is given twice, also after a power failure: a new slot is synced before its marker. So a marker never leads to the entries of
 * another store. {@link BraidSpace} calls {@link #open} and {@link #find} under the monitor of its place, and waits for the disk in
 * {@link #remove} without it.
 */
final class SlotTable {
    private static final Logger LOG = LoggerFactory.getLogger(SlotTable.class);

    private static final byte[] DATABASE = own("database");
    private static final byte[] NEXT = own("next");
    private static final byte[] OWNERS = own("slot");

    /** The first slot of a store. Slot 0 has this table. */
    private static final int FIRST = 1;

    private final BraidDb db;

    /** The directory of the application, from which the paths of markers begin. */
    private final Path root;

    private final UUID database;

    /** The slots that are being taken away. A marker that comes back, as from a copy of its directory, leads to none of them. */
    private final Set<Integer> dying = ConcurrentHashMap.newKeySet();

    /**
     * What a look for garbage has found.
     *
     * @param dead the slots to which no marker leads, which {@link #remove} takes away
     * @param isAnyLeft whether there are other slots
     */
    record Garbage(List<Integer> dead, boolean isAnyLeft) {}

    /** Who has a slot: the layout of its entries, and the path of its marker below the application's directory. */
    private record Owner(String layout, String marker) {
        byte[] packed() {
            return (layout + "\n" + marker).getBytes(StandardCharsets.UTF_8);
        }

        static Owner of(byte[] packed) {
            String[] lines = new String(packed, StandardCharsets.UTF_8).split("\n", 2);
            return new Owner(lines[0], lines[1]);
        }
    }

    SlotTable(BraidDb db, Path root) {
        this.db = db;
        this.root = root;
        byte[] stored = db.get(DATABASE);
        if (stored == null) {
            database = UUID.randomUUID();
            db.put(DATABASE, database.toString().getBytes(StandardCharsets.US_ASCII), Durability.SYNC);
        } else {
            database = UUID.fromString(new String(stored, StandardCharsets.US_ASCII));
        }
    }

    /**
     * The slot to which a marker leads, or a new one. A new one is made if there is no marker, if it belongs to another database, or if the
     * entries have another layout.
     */
    Slot open(Path marker, String layout) throws IOException {
        Marker found = Marker.read(marker);
        Owner owner = new Owner(layout, root.relativize(marker).toString());
        if (found != null && found.database().equals(database)) {
            byte[] packed = db.get(ownerKey(found.slot()));
            if (packed != null && Owner.of(packed).equals(owner) && !dying.contains(found.slot())) {
                return new Slot(found.slot(), marker, false);
            }
            LOG.info("The slot of {} has no owner, or other entries than {}; the store begins empty", marker, layout);
        }
        return create(marker, owner);
    }

    private Slot create(Path marker, Owner owner) throws IOException {
        byte[] stored = db.get(NEXT);
        int number = stored == null ? FIRST : ByteBuffer.wrap(stored).getInt();
        if (number == 0) {
            throw new IOException("all numbers of slots are used up; delete the directory " + db.path());
        }
        WriteBatch batch = new WriteBatch()
                .put(NEXT, ByteBuffer.allocate(Integer.BYTES).putInt(number + 1).array())
                .put(ownerKey(number), owner.packed());
        db.write(batch, Durability.SYNC);
        new Marker(database, number).write(marker);
        return new Slot(number, marker, true);
    }

    /**
     * Looks for slots to which no marker leads any more. None of them is opened from now on.
     *
     * @param open the numbers of slots in use, which stay
     */
    Garbage find(Set<Integer> open) {
        List<Integer> dead = new ArrayList<>();
        boolean isAnyLeft = false;
        try (Cursor cursor = db.cursor(Range.prefix(OWNERS))) {
            while (cursor.next()) {
                int number = ByteBuffer.wrap(cursor.key()).getInt(OWNERS.length);
                if (open.contains(number) || dying.contains(number) || isAlive(number, Owner.of(cursor.value()))) {
                    isAnyLeft = true;
                } else {
                    dead.add(number);
                }
            }
        }
        dying.addAll(dead);
        return new Garbage(dead, isAnyLeft);
    }

    /** Takes away what was found. After an error the next look finds it again. */
    void remove(Garbage garbage) {
        List<Integer> dead = garbage.dead();
        try {
            if (!dead.isEmpty()) {
                db.excise(dead.stream().map(Slot::whole).toArray(Range[]::new));
                WriteBatch batch = new WriteBatch();
                dead.forEach(number -> batch.delete(ownerKey(number)));
                db.write(batch);
                LOG.info("Removed {} slots whose stores Kafka Streams has dropped, from {}", dead.size(), db.path());
            }
        } finally {
            dead.forEach(dying::remove);
        }
    }

    private boolean isAlive(int number, Owner owner) {
        try {
            Marker found = Marker.read(root.resolve(owner.marker()));
            return found != null && found.slot() == number && found.database().equals(database);
        } catch (IOException error) {
            // The marker may be there: the entries stay until that is known.
            LOG.warn("The marker {} cannot be read; its slot stays", owner.marker(), error);
            return true;
        }
    }

    private static byte[] ownerKey(int number) {
        return ByteBuffer.allocate(OWNERS.length + Integer.BYTES).put(OWNERS).putInt(number).array();
    }

    private static byte[] own(String name) {
        return Slot.key(0, Slot.META, name.getBytes(StandardCharsets.US_ASCII));
    }
}
