package io.github.braidb.streams;

import io.github.braidb.BraidDb;
import io.github.braidb.BraidException;
import io.github.braidb.Range;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The database that all stores of an application share. The first store opens it, and it is closed some time after the last one was.
 *
 * <p>Once a minute, or once 64 MiB have expired, it takes away what no store needs: slots without a marker, and expired windows.
 */
final class BraidSpace {
    /** What knows of entries that nothing reads any more. */
    interface Expiring {
        /** What has expired since the last call whose ranges were taken away. */
        Expired expired();
    }

    /**
     * What nothing reads any more.
     *
     * @param ranges the ranges, which may be none
     * @param taken to be run once they were taken away
     */
    record Expired(List<Range> ranges, Runnable taken) {
        static final Expired NOTHING = new Expired(List.of(), () -> {});
    }

    private static final Logger LOG = LoggerFactory.getLogger(BraidSpace.class);

    /** The directory of the database in that of the application. Kafka Streams cleans directories of other names alone. */
    private static final String DIRECTORY = "braidb";

    /** The file that tells whether a path still leads to the database that was opened. */
    private static final String LOCK = "LOCK";

    /** How far above a store's directory that of the application may be: a task may lie in the directory of a named topology. */
    private static final int LEVELS = 2;

    /** Seconds between two clean-ups, 60: an excise takes about as long as a flush. */
    private static final long CLEAN_UP_SECONDS = 60;

    /** Bytes of expired entries, 64 MiB, that wait for no minute: a topology that catches up expires a segment in each second. */
    private static final long CLEAN_UP_BYTES = 64L << 20;

    /** Milliseconds from a commit that expires entries to a look at their bytes, 1,000: commits come up to ten times a second. */
    private static final long LOOK_MS = 1_000;

    /** The spaces by directory. No thread waits for a disk inside of the map: the work is done under the monitor of a place. */
    private static final ConcurrentHashMap<Path, Place> PLACES = new ConcurrentHashMap<>();

    /**
     * Where the space of one directory is, while there is one. Its monitor guards opens, closes and the fields of the space. A thread that
     * finds the place out of the map, once it has the monitor, looks for the new one.
     */
    private static final class Place {
        private final Path dir;
        private volatile BraidSpace space;

        Place(Path dir) {
            this.dir = dir;
        }

        /** The space, for one more user, or null if the place is out of the map. */
        synchronized BraidSpace join(Map<String, ?> configs) {
            if (PLACES.get(dir) != this) {
                return null;
            }
            if (space != null && space.users > 0) {
                space.check();
            } else if (space != null && !space.isUsable()) {
                space.close();
            }
            if (space == null) {
                space = opened(configs);
            }
            if (space.closing != null) {
                space.closing.cancel(false);
                space.closing = null;
            }
            space.users++;
            return space;
        }

        private BraidSpace opened(Map<String, ?> configs) {
            boolean isOpen = false;
            try {
                BraidSpace opened = new BraidSpace(this, configs);
                isOpen = true;
                return opened;
            } catch (BraidException | IOException error) {
                throw new ProcessorStateException("The database " + dir + " could not be opened" + advice(dir, error), error);
            } finally {
                if (!isOpen) {
                    PLACES.remove(dir, this);
                }
            }
        }
    }

    private final Place place;
    private final Path dir;
    private final BraidDb db;
    private final Object identity;
    private final SlotTable table;
    private final BraidMetrics metrics = new BraidMetrics(this);
    private final long lingerMs;

    /** One thread for each space, so that no application waits for the disk of another one. */
    private final ScheduledExecutorService timer;

    /** The stores in use by their slot's number. The value tells what has expired, and is null for stores in which nothing expires. */
    private final Map<Integer, Expiring> open = new HashMap<>();

    private int users;
    private ScheduledFuture<?> closing;

    /** A look at the bytes of expired entries will come. */
    private final AtomicBoolean isLooking = new AtomicBoolean();

    /** The first error that only a new opening of the database mends. */
    private volatile Throwable failure;

    private BraidSpace(Place place, Map<String, ?> configs) throws IOException {
        this.place = place;
        dir = place.dir;
        if (BraidConfig.areOffsetsWrittenForOldStores(configs)) {
            LOG.warn("{} is {}: Kafka Streams writes offsets of the stores in {} into files that RocksDB trusts. Delete the directories of "
                    + "the tasks before RocksDB stores come in their place, or remove the property",
                    StreamsConfig.UPGRADE_FROM_CONFIG, configs.get(StreamsConfig.UPGRADE_FROM_CONFIG), dir);
        }
        lingerMs = BraidConfig.lingerMs(configs);
        Files.createDirectories(dir);
        db = BraidDb.open(dir, BraidConfig.options(configs));
        boolean isSwept = false;
        try {
            identity = identity(dir);
            table = new SlotTable(db, dir.getParent());
            sweepAtOpen();
            isSwept = true;
        } finally {
            if (!isSwept) {
                db.close();
            }
        }
        timer = Executors.newSingleThreadScheduledExecutor(work -> {
            Thread thread = new Thread(null, work, "braidb-streams", 0, false);
            thread.setDaemon(true);
            thread.setContextClassLoader(null);
            return thread;
        });
        timer.scheduleWithFixedDelay(
                () -> cleanUpInTurn(0), CLEAN_UP_SECONDS, CLEAN_UP_SECONDS, TimeUnit.SECONDS);
    }

    /** A full disk keeps garbage from going, and must not keep stores from opening. */
    private void sweepAtOpen() {
        try {
            table.remove(table.find(Set.of()));
        } catch (BraidException error) {
            if (isFatal(error)) {
                throw error;
            }
            LOG.warn("Dropped stores stay in {} for another minute", dir, error);
        }
    }

    /**
     * The space of an application, for one more user. {@link #release} ends the use.
     *
     * @param taskDir the directory of the store's task
     * @param applicationId the application
     * @param configs its configuration, of which the first user's counts
     */
    static BraidSpace acquire(Path taskDir, String applicationId, Map<String, ?> configs) {
        Path dir = root(taskDir.toAbsolutePath().normalize(), applicationId).resolve(DIRECTORY);
        BraidSpace space = null;
        while (space == null) {
            space = PLACES.computeIfAbsent(dir, Place::new).join(configs);
        }
        return space;
    }

    /** What to do after an error, where its own message cannot say it: it does not know of changelogs. */
    private static String advice(Path dir, Exception error) {
        boolean isLost = error instanceof BraidException failure && switch (failure.code()) {
            case CORRUPTION, NOT_A_DATABASE, MISSING -> true;
            default -> false;
        };
        return isLost
                ? "; delete the directory " + dir + ": logged stores are restored from their changelogs, and others begin empty"
                : "";
    }

    /** The directory of the application, or that of the store where it lies elsewhere, as in tests of topologies. */
    private static Path root(Path taskDir, String applicationId) {
        Path root = taskDir;
        for (int level = 0; level < LEVELS && root.getParent() != null; level++) {
            root = root.getParent();
            if (root.getFileName() != null && root.getFileName().toString().equals(applicationId)) {
                return root;
            }
        }
        return taskDir;
    }

    BraidDb db() {
        return db;
    }

    Path dir() {
        return dir;
    }

    BraidMetrics metrics() {
        return metrics;
    }

    /** A statistic of the database in a directory, or 0 while it is closed. */
    static long statistic(Path dir, String name) {
        Place place = PLACES.get(dir);
        BraidSpace now = place == null ? null : place.space;
        return now == null ? 0 : now.metrics.statistic(name);
    }

    /** Opens the slot of a store, which one store at a time does. */
    Slot openSlot(Path taskDir, String store, String layout) {
        synchronized (place) {
            try {
                Slot slot = table.open(Marker.path(taskDir.toAbsolutePath().normalize(), store), layout);
                if (open.containsKey(slot.number())) {
                    throw new ProcessorStateException("The store " + store + " is open already in " + taskDir);
                }
                open.put(slot.number(), null);
                return slot;
            } catch (BraidException | IOException error) {
                if (error instanceof BraidException failed) {
                    judge(failed);
                }
                throw new ProcessorStateException(
                        "The store " + store + " could not be opened in " + dir + advice(dir, error), error);
            }
        }
    }

    /** Has expired entries of an open slot taken away. */
    void watch(Slot slot, Expiring expiring) {
        synchronized (place) {
            open.put(slot.number(), expiring);
        }
    }

    void closeSlot(Slot slot) {
        synchronized (place) {
            open.remove(slot.number());
        }
    }

    /** Whether an error says that the database takes no writes until it is opened anew. */
    private boolean isFatal(BraidException error) {
        try {
            return switch (error.code()) {
                case POISONED, LOCK_LOST -> true;
                case PANIC -> db.stats().get("is_poisoned") != 0;
                default -> false;
            };
        } catch (BraidException closed) {
            return false;
        }
    }

    /** Has all stores stop if an error of the database says that only a new opening mends it. */
    void judge(BraidException error) {
        if (isFatal(error)) {
            fail(error);
        }
    }

    /** Has all stores stop: their tasks learn of the error by their next write or commit. */
    void fail(Throwable error) {
        if (failure == null) {
            failure = error;
            LOG.error("The database {} has failed. Its stores take no writes until all of them were closed", dir, error);
        }
    }

    /** Throws if the database has failed. */
    void check() {
        Throwable error = failure;
        if (error != null) {
            throw new ProcessorStateException(
                    "The database " + dir + " has failed; it is opened anew once all its stores were closed", error);
        }
    }

    /** Ends a use. The last one leaves the database open for a while, or closes it if the time is 0. */
    void release() {
        synchronized (place) {
            users--;
            if (users == 0 && lingerMs <= 0) {
                leave();
            } else if (users == 0) {
                closing = timer.schedule(this::closeUnused, lingerMs, TimeUnit.MILLISECONDS);
            }
        }
    }

    private void closeUnused() {
        synchronized (place) {
            if (users == 0 && place.space == this) {
                leave();
            }
        }
    }

    /** Whether no write has failed for good, and the path of the database leads to it. The caller has the monitor. */
    private boolean isUsable() {
        try {
            return failure == null && identity.equals(identity(dir));
        } catch (IOException error) {
            return false;
        }
    }

    private static Object identity(Path dir) throws IOException {
        return Files.readAttributes(dir.resolve(LOCK), java.nio.file.attribute.BasicFileAttributes.class).fileKey();
    }

    /** Closes the space and takes its place out of the map. The caller has the monitor. */
    private void leave() {
        try {
            close();
        } finally {
            PLACES.remove(dir, place);
        }
    }

    /** The caller has the monitor. */
    private void close() {
        timer.shutdown();
        place.space = null;
        boolean isUsable = isUsable();
        boolean isEmpty = false;
        try {
            if (isUsable) {
                SlotTable.Garbage garbage = table.find(open.keySet());
                table.remove(garbage);
                isEmpty = !garbage.isAnyLeft();
                if (!isEmpty) {
                    // The logs may have 64 MiB of entries that tables hold once. The next open replays nothing.
                    db.flush();
                }
            }
        } catch (RuntimeException error) {
            LOG.warn("The close could not tidy up {}; the next open does what is left", dir, error);
        } finally {
            closeDatabase(isUsable, isEmpty);
        }
    }

    private void closeDatabase(boolean isUsable, boolean isEmpty) {
        try {
            db.close();
            if (isEmpty) {
                BraidDb.destroy(dir);
            }
        } catch (BraidException error) {
            if (isUsable) {
                LOG.warn("The database {} did not close well; the next open recovers it", dir, error);
            } else {
                LOG.info("The database {} was removed, or had failed, before it was closed: {}", dir, error.getMessage());
            }
        }
    }

    private void cleanUpInTurn(long leastBytes) {
        try {
            cleanUp(leastBytes);
        } catch (RuntimeException | Error error) {
            LOG.warn("Expired and dropped entries of {} stay for another minute", dir, error);
        }
    }

    /** A commit has expired entries. If those of all stores are many, a clean-up comes before its minute. */
    void hasExpired() {
        if (isLooking.compareAndSet(false, true)) {
            timer.schedule(
                    () -> {
                        isLooking.set(false);
                        cleanUpInTurn(CLEAN_UP_BYTES);
                    },
                    LOOK_MS, TimeUnit.MILLISECONDS);
        }
    }

    /** Takes away what no store needs. */
    void cleanUp() {
        cleanUp(0);
    }

    /** Takes away what no store needs, if expired entries take at least a number of bytes. */
    void cleanUp(long leastBytes) {
        List<Expired> expired = new ArrayList<>();
        synchronized (place) {
            if (users == 0 || failure != null) {
                return;
            }
            for (Expiring expiring : open.values()) {
                expired.add(expiring == null ? Expired.NOTHING : expiring.expired());
            }
            users++;
        }
        try {
            remove(expired, leastBytes);
        } catch (BraidException error) {
            judge(error);
            throw error;
        } finally {
            release();
        }
    }

    /** The excises hold no monitor: stores open and close meanwhile. */
    private void remove(List<Expired> expired, long leastBytes) {
        List<Range> ranges = expired.stream().flatMap(one -> one.ranges().stream()).toList();
        if (leastBytes > 0 && bytes(ranges) < leastBytes) {
            return;
        }
        SlotTable.Garbage garbage;
        synchronized (place) {
            garbage = table.find(open.keySet());
        }
        table.remove(garbage);
        if (!ranges.isEmpty()) {
            db.excise(ranges.toArray(Range[]::new));
            expired.forEach(one -> one.taken().run());
        }
    }

    /** About the bytes of ranges in memory and on disk. */
    private long bytes(List<Range> ranges) {
        return ranges.stream().map(db::estimate).mapToLong(found -> found.bytes() + found.valueBytes()).sum();
    }
}
