package io.github.braidb;

import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/**
 * An open database: a sorted map from bytes to bytes in a directory, inside this process.
 *
 * <pre>{@code
 * try (BraidDb db = BraidDb.open(Path.of("fruit.db"))) {
 *     db.put("plum".getBytes(), "blue".getBytes());
 *     try (Cursor cursor = db.cursor(Range.prefix("p".getBytes()))) {
 *         while (cursor.next()) {
 *             System.out.println(new String(cursor.key()) + " is " + new String(cursor.value()));
 *         }
 *     }
 * }
 * }</pre>
 *
 * <p>Any threads may use a database. A directory is open once at a time to write, or many times to read. A close may happen at any time:
 * calls of other threads end, or throw {@link BraidException} with the code {@code CLOSED}. A database that was not closed is closed when
 * the collector finds it unreachable, and all its families, cursors, scans, snapshots, overlays and transactions. One that is open when
 * the JVM exits is as after a kill: with {@link Durability#BUFFER} nothing is lost, and the next open replays the log.
 *
 * <p>Calls wait for the disk where they have to, and hold no lock of the JVM meanwhile. A virtual thread holds its carrier during a call.
 */
public final class BraidDb implements AutoCloseable {
    /** After this many conflicts {@link #transact} gives up, as in the other languages. */
    private static final int MOST_CONFLICTS = 100;

    /** After this many conflicts {@link #transact} pauses before it begins again. Fewer are met by chance. */
    private static final int CONFLICTS_BEFORE_PAUSE = 8;

    /** The length of such a pause, 10 ms: about as long as a flush of a small memtable, beside which an excise conflicts. */
    private static final long PAUSE_NANOS = 10_000_000;

    private final Path path;
    private final Family defaultFamily;

    private BraidDb(Path path, Options options, boolean isReadOnly) {
        this.path = path;
        byte[] bytes = Packed.path(path);
        byte[] packed = options.packed();
        defaultFamily = new Family("default", () -> Native.open(bytes, packed, isReadOnly));
    }

    /**
     * Opens a database with the default options. A missing one is created.
     *
     * @param path the directory
     * @return the database
     * @throws BraidException {@code INVALID}: the path is of another file system than the default one, or is not valid in the locale;
     *     {@code LOCKED}: it is open already; {@code NOT_A_DATABASE}, {@code UNSUPPORTED}, {@code CORRUPTION}, {@code IO}
     */
    public static BraidDb open(Path path) {
        return open(path, new Options());
    }

    /**
     * Opens a database.
     *
     * @param path the directory
     * @param options how to open it
     * @return the database
     * @throws BraidException as {@link #open(Path)}; {@code INVALID}: an option cannot work; {@code MISSING}, {@code EXISTS}: what the options
     *     demand is not so; {@code TIER}: a slow tier cannot be used
     */
    public static BraidDb open(Path path, Options options) {
        return new BraidDb(path, options, false);
    }

    /**
     * Opens a database to read. Many processes may do so at once, and nothing on the disk changes.
     *
     * @param path the directory
     * @param options how to open it
     * @return the database
     * @throws BraidException as {@link #open(Path, Options)}
     */
    public static BraidDb openReadOnly(Path path, Options options) {
        return new BraidDb(path, options, true);
    }

    /**
     * Reads and checks every byte of a database that is not open.
     *
     * @param path the directory
     * @param options the options, of which slow tiers matter
     * @return an object of JSON, whose array {@code damages} is empty if all is well
     * @throws BraidException {@code IO}: a file could not be read; {@code MISSING}, {@code LOCKED}
     */
    public static String verify(Path path, Options options) {
        return Packed.text(Native.verifyPath(Packed.path(path), options.packed()));
    }

    /**
     * Deletes a database that is not open: all its files but an empty {@code LOCK}. Directories of slow tiers stay.
     *
     * @param path the directory
     * @throws BraidException {@code LOCKED}, {@code NOT_A_DATABASE}, {@code MISSING}, {@code IO}
     */
    public static void destroy(Path path) {
        Native.destroy(Packed.path(path));
    }

    /**
     * The native memory that cursors, scans, snapshots, overlays and transactions hold in this process, about. Above 64 MiB, or the number of
     * bytes in the property {@code braidb.native.bytes}, the collector is prompted, so that it frees those that were leaked.
     *
     * @return the number of bytes
     */
    public static long nativeBytes() {
        return NativeMemory.held();
    }

    /**
     * The directory of the database.
     *
     * @return the path that was opened
     */
    public Path path() {
        return path;
    }

    /**
     * Whether the database was closed.
     *
     * @return whether a close has ended
     */
    public boolean isClosed() {
        return on(Native::isClosed);
    }

    /**
     * The default family, whose entries are those of the database itself.
     *
     * @return the family
     */
    public Family defaultFamily() {
        return defaultFamily;
    }

    /**
     * A column family. A missing one is created.
     *
     * @param name the name: 1 to 255 bytes of UTF-8 without control characters
     * @return the family
     * @throws BraidException {@code INVALID}: the name; else as {@link #put(byte[], byte[])}
     */
    public Family family(String name) {
        return on(home -> new Family(name, () -> Native.family(home, Packed.utf8(name), true)));
    }

    /**
     * A column family that exists.
     *
     * @param name the name
     * @return the family
     * @throws BraidException {@code MISSING_FAMILY}: there is none; {@code CLOSED}
     */
    public Family existingFamily(String name) {
        return on(home -> new Family(name, () -> Native.family(home, Packed.utf8(name), false)));
    }

    /**
     * The names of all column families, in the order of their creation.
     *
     * @return the names
     * @throws BraidException {@code CLOSED}
     */
    public List<String> families() {
        return on(home -> Packed.text(Native.families(home)).lines().toList());
    }

    /**
     * Sets a key of the default family, with the durability of the options.
     *
     * @param key the key
     * @param value the value
     * @throws BraidException as {@link Family#put(byte[], byte[])}
     */
    public void put(byte[] key, byte[] value) {
        defaultFamily.put(key, value);
    }

    /**
     * Sets a key of the default family.
     *
     * @param key the key
     * @param value the value
     * @param durability what the write survives once this method has returned
     * @throws BraidException as {@link Family#put(byte[], byte[])}
     */
    public void put(byte[] key, byte[] value, Durability durability) {
        defaultFamily.put(key, value, durability);
    }

    /**
     * Removes a key of the default family. A missing key is no error.
     *
     * @param key the key
     * @throws BraidException as {@link Family#put(byte[], byte[])}
     */
    public void delete(byte[] key) {
        defaultFamily.delete(key);
    }

    /**
     * Removes a key of the default family. A missing key is no error.
     *
     * @param key the key
     * @param durability what the delete survives once this method has returned
     * @throws BraidException as {@link Family#put(byte[], byte[])}
     */
    public void delete(byte[] key, Durability durability) {
        defaultFamily.delete(key, durability);
    }

    /**
     * The value of a key of the default family.
     *
     * @param key the key
     * @return the value, or null if the key has none
     * @throws BraidException as {@link Family#get}
     */
    public byte[] get(byte[] key) {
        return defaultFamily.get(key);
    }

    /**
     * The values of keys of the default family, all of one moment.
     *
     * @param keys the keys
     * @return the values in the order of the keys, with null for a key that has none
     * @throws BraidException as {@link Family#getMany}
     */
    public byte[][] getMany(List<byte[]> keys) {
        return defaultFamily.getMany(keys);
    }

    /**
     * Whether a key of the default family has a value.
     *
     * @param key the key
     * @return whether it has one
     * @throws BraidException as {@link Family#get}
     */
    public boolean contains(byte[] key) {
        return defaultFamily.contains(key);
    }

    /**
     * A cursor over all entries of the default family at this moment.
     *
     * @return a cursor, which the caller closes
     * @throws BraidException {@code CLOSED}
     */
    public Cursor cursor() {
        return defaultFamily.cursor();
    }

    /**
     * A cursor over the entries of a range of the default family at this moment.
     *
     * @param range the range
     * @return a cursor, which the caller closes
     * @throws BraidException {@code CLOSED}
     */
    public Cursor cursor(Range range) {
        return defaultFamily.cursor(range);
    }

    /**
     * Applies all writes of a batch or none, with the durability of the options. The batch keeps its writes.
     *
     * @param batch the batch
     * @throws BraidException as {@link Family#put(byte[], byte[])}; {@code FOREIGN}: the batch names a family of another database
     */
    public void write(WriteBatch batch) {
        batch.write(defaultFamily, Durability.OF_OPTIONS);
    }

    /**
     * Applies all writes of a batch or none. The batch keeps its writes.
     *
     * @param batch the batch
     * @param durability what the writes survive once this method has returned
     * @throws BraidException as {@link #write(WriteBatch)}
     */
    public void write(WriteBatch batch, Durability durability) {
        batch.write(defaultFamily, durability.ordinal());
    }

    /**
     * The database as it is now, over all families.
     *
     * @return a snapshot, which the caller closes
     * @throws BraidException {@code CLOSED}
     */
    public Snapshot snapshot() {
        return on(home -> new Snapshot(defaultFamily, () -> Native.snapshot(home)));
    }

    /**
     * Staged writes over the database, with none yet.
     *
     * @return an overlay, which the caller closes
     * @throws BraidException {@code CLOSED}
     */
    public Overlay overlay() {
        return on(home -> new Overlay(defaultFamily, () -> Native.overlay(home)));
    }

    /**
     * Begins a transaction. {@link #transact} begins again after a conflict.
     *
     * @return a transaction, which the caller closes
     * @throws BraidException {@code CLOSED}
     */
    public Transaction transaction() {
        return on(home -> new Transaction(defaultFamily, () -> Native.transaction(home)));
    }

    /**
     * Calls {@code work} with a transaction, and commits it with the durability of the options. After a conflict it begins again, so
     * {@code work} must do nothing besides that it cannot do twice.
     *
     * @param <T> what {@code work} returns
     * @param work reads and writes; it does not end the transaction, and an exception of it drops the writes
     * @return what {@code work} returned at last
     * @throws BraidException {@code CONFLICT} after 100 conflicts; else as {@link #write(WriteBatch)}
     */
    public <T> T transact(Function<Transaction, T> work) {
        for (int conflicts = 1; ; conflicts++) {
            try (Transaction transaction = transaction()) {
                T done = work.apply(transaction);
                transaction.commit();
                return done;
            } catch (BraidException error) {
                if (error.code() != BraidException.Code.CONFLICT || conflicts == MOST_CONFLICTS) {
                    throw error;
                }
            }
            if (conflicts >= CONFLICTS_BEFORE_PAUSE) {
                LockSupport.parkNanos(PAUSE_NANOS);
            }
        }
    }

    /**
     * Raises every earlier write to a durability.
     *
     * @param durability the durability
     * @throws BraidException {@code POISONED}: a sync failed; {@code CLOSED}
     */
    public void persist(Durability durability) {
        run(home -> Native.persist(home, durability.ordinal()));
    }

    /**
     * Writes all of memory to tables, and waits for that.
     *
     * @throws BraidException {@code IO}, {@code FULL}, {@code POISONED}, {@code CORRUPTION}, {@code CLOSED}
     */
    public void flush() {
        run(Native::flush);
    }

    /**
     * Waits until no background work runs or is wanted.
     *
     * @throws BraidException the error that keeps background work from going on; {@code CLOSED}
     */
    public void settle() {
        run(Native::settle);
    }

    /**
     * Merges all entries of all families into their last level.
     *
     * @throws BraidException as {@link #flush}
     */
    public void compact() {
        run(Native::compact);
    }

    /**
     * Merges the entries of a range of the default family into their last level.
     *
     * @param range the range
     * @throws BraidException as {@link #flush}
     */
    public void compactRange(Range range) {
        defaultFamily.compactRange(range);
    }

    /**
     * Takes all entries of whole ranges of the default family away, and gives their space back.
     *
     * @param ranges the ranges
     * @throws BraidException as {@link Family#excise}
     */
    public void excise(Range... ranges) {
        defaultFamily.excise(ranges);
    }

    /**
     * About how much a range of the default family holds.
     *
     * @param range the range
     * @return the estimate
     * @throws BraidException as {@link Family#get}
     */
    public Estimate estimate(Range range) {
        return defaultFamily.estimate(range);
    }

    /**
     * Makes a second database in {@code dir}, with what this one holds now. Files are linked where that is possible.
     *
     * @param dir a directory that is missing or empty
     * @return what the checkpoint took
     * @throws BraidException {@code EXISTS}, {@code NOT_A_DATABASE}: the directory is in use; else as {@link #flush}
     */
    public Checkpoint checkpoint(Path dir) {
        long[] numbers = on(home -> Native.checkpoint(home, Packed.path(dir)));
        return new Checkpoint(numbers[0], numbers[1], numbers[2]);
    }

    /**
     * What the database holds, and what it did since it was opened.
     *
     * @return the statistics of this moment
     * @throws BraidException {@code CLOSED}
     */
    public Stats stats() {
        return on(home -> new Stats(Packed.text(Native.statistics(home))));
    }

    /**
     * Reads and checks every byte that the database uses now.
     *
     * @return an object of JSON, whose array {@code damages} is empty if all is well
     * @throws BraidException {@code IO}: a file could not be read; {@code CLOSED}
     */
    public String verify() {
        return on(home -> Packed.text(Native.verify(home)));
    }

    /**
     * Makes all writes durable, stops background work, and frees the directory, whatever objects there are. A second close does nothing.
     *
     * <p>The native memory of the block cache is given back. That of memtables and of what open tables need is given back when the
     * collector finds this object and all objects of the database unreachable.
     *
     * @throws BraidException the error that kept writes from being made durable; the database is closed even then
     */
    @Override
    public void close() {
        run(Native::close);
    }

    @Override
    public String toString() {
        return "BraidDb " + path;
    }

    /** What a native call with the home of the default family returns. */
    private <T> T on(java.util.function.LongFunction<T> call) {
        try {
            return call.apply(defaultFamily.home());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private void run(java.util.function.LongConsumer call) {
        try {
            call.accept(defaultFamily.home());
        } finally {
            Reference.reachabilityFence(this);
        }
    }
}
