package io.github.braidb.streams;

import io.github.braidb.BraidDb;
import io.github.braidb.BraidException;
import io.github.braidb.WriteBatch;
import io.github.braidb.streams.internals.KafkaInternals;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.errors.TaskMigratedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What all stores have in common: a slot of the application's database, its ledger, commits and restores.
 *
 * <p>The thread of the task writes. Any threads read. {@code docs/kafka-streams.md} says what each instant leaves behind after a crash.
 */
abstract class BraidStore implements StateStore {
    /** The metrics' name of the kind of store. */
    static final String METRICS_SCOPE = "braidb";

    /** The setting of Kafka Streams 4.4 that has stores keep what no commit has in memory. */
    static final String TRANSACTIONAL_CONFIG = "enable.transactional.statestores";

    /** Whether Kafka Streams has transactional stores, and commits them before they grow large. Tests set it on versions that have none. */
    static volatile boolean canStage = KafkaInternals.knows(TRANSACTIONAL_CONFIG);

    private static final Logger LOG = LoggerFactory.getLogger(BraidStore.class);

    /** Kafka Streams up to 4.2 kept offsets in this file of a task's directory, and 4.3 hands them to the stores. */
    private static final String LEGACY_OFFSETS = ".checkpoint";

    private final String name;

    /** What the bytes of the entries mean. A store of another layout does not open the slot. */
    private final String layout;

    /** The open iterators. */
    private final Set<BraidIterator> iterators = ConcurrentHashMap.newKeySet();

    private StateStoreContext context;
    private volatile BraidSpace space;
    private boolean isConsistencyEnabled;

    /** Nothing was written to the slot since the store was opened. */
    private boolean isUntouched;

    private boolean isTransactional;
    private boolean isExactlyOnce;
    private final KafkaInternals.Transactions transactions = new KafkaInternals.Transactions();

    /** A write failed: the store takes no writes until it is opened anew. */
    private volatile boolean hasFailed;

    /** Why the task has to be restored. Reads of any thread may find it. Set before {@link #hasFailed}. */
    private volatile TaskCorruptedException damage;

    /** A commit was left out, since Kafka had not committed the transaction of its entries. They belong to no later commit either. */
    private boolean isLeftOut;

    private volatile Slot slot;
    private volatile Ledger ledger;
    private volatile Writer writer;
    private volatile boolean isOpen;

    /** Kafka Streams asks for the offset of the store, as it does when a task begins. */
    private volatile boolean isBeginning;

    /** The records that the entries come from, those of no commit included. Its monitor guards it. */
    private volatile Position position = Position.emptyPosition();

    BraidStore(String name, String layout) {
        this.name = name;
        this.layout = layout;
    }

    @Override
    public final String name() {
        return name;
    }

    @Override
    public final boolean persistent() {
        return true;
    }

    /** Kafka Streams keeps no file with offsets for a store that says yes. Deprecated, and asked for, in 4.3. */
    @Override
    @SuppressWarnings("deprecation")
    public final boolean managesOffsets() {
        return true;
    }

    @Override
    public final boolean isOpen() {
        return isOpen;
    }

    @Override
    public final void init(StateStoreContext context, StateStore root) {
        KafkaInternals.requireVersion();
        this.context = context;
        isConsistencyEnabled = KafkaInternals.isConsistencyEnabled(context.appConfigs());
        space = BraidSpace.acquire(context.stateDir().toPath(), context.applicationId(), context.appConfigs());
        try {
            open();
            space.metrics().add(context, this);
            context.register(
                    root, KafkaInternals.restoreCallback(records -> restore(records, !isGlobal()), this::restoreEntries));
        } catch (RuntimeException | Error error) {
            close();
            throw error;
        }
    }

    private void open() {
        Map<String, Object> configs = context.appConfigs();
        isTransactional = !isGlobal() && canStage && Boolean.parseBoolean(String.valueOf(configs.get(TRANSACTIONAL_CONFIG)));
        isExactlyOnce = !isGlobal()
                && StreamsConfig.EXACTLY_ONCE_V2.equals(configs.get(StreamsConfig.PROCESSING_GUARANTEE_CONFIG));
        openSlot();
        if (isExactlyOnce && ledger.isOpen()) {
            // Entries of no commit may be in the slot. No marker leads to it any more, whatever Kafka Streams does next.
            condemn();
            if (!isTransactional) {
                throw corruption(new ProcessorStateException(
                        "The store " + name + " was not committed before it ended, so it is restored from its changelog"));
            }
            space.closeSlot(slot);
            openSlot();
        }
        startWriting();
        isOpen = true;
    }

    private void openSlot() {
        slot = space.openSlot(context.stateDir().toPath(), name, layout);
        isUntouched = true;
        ledger = guarded(() -> new Ledger(slot, new View.OfDatabase(db())));
    }

    private void startWriting() {
        hasFailed = false;
        damage = null;
        isLeftOut = false;
        position = ledger.position();
        writer = guarded(() ->
                Writer.of(isTransactional ? Writer.Kind.STAGED : Writer.Kind.STRAIGHT, db(), ledger));
        guarded(() -> {
            opened(writer.view(), ledger);
            return null;
        });
    }

    /** Called when the slot has been opened, and before the first read or write. */
    void opened(View view, Ledger ledger) {}

    /** The stream time that a commit keeps. */
    long streamTime() {
        return Ledger.NO_TIME;
    }

    /** Whether the store is a global one, which one thread fills from a topic, and which commits the next offset rather than the last. */
    private boolean isGlobal() {
        return context.taskId().subtopology() < 0;
    }

    /** The database. Throws if the store is closed. */
    final BraidDb db() {
        BraidSpace now = space;
        if (now == null) {
            throw closed();
        }
        return now.db();
    }

    /** The slot. Throws if the store is closed. */
    final Slot slot() {
        Slot now = slot;
        if (now == null) {
            throw closed();
        }
        return now;
    }

    /** About the bytes of the slot, or 0 if the store is closed. */
    final long slotBytes() {
        Slot now = slot;
        Writer open = writer;
        return now == null || open == null ? 0 : guarded(() -> open.db.estimate(Slot.whole(now.number())).bytes());
    }

    private InvalidStateStoreException closed() {
        return new InvalidStateStoreException("The store " + name + " is closed");
    }

    final BraidSpace space() {
        return space;
    }

    final StateStoreContext context() {
        return context;
    }

    /** The stream time of the last commit. */
    final long committedStreamTime() {
        Ledger now = ledger;
        return now == null ? Ledger.NO_TIME : now.streamTime();
    }

    final void checkOpen() {
        if (!isOpen) {
            throw closed();
        }
    }

    private void checkWhole() {
        TaskCorruptedException found = damage;
        if (found != null) {
            throw told(found);
        }
    }

    /**
     * What tells the task of damage. Before Kafka Streams restores a task alone, it commits what that task has sent in the transaction, but
     * not how far it has read. A task that has migrated has its transaction aborted, and begins anew with the other tasks of the thread. No
     * handler of the application takes either for an error of a record.
     */
    private RuntimeException told(TaskCorruptedException found) {
        return isOpen && !isBeginning && isExactlyOnce && transactions.isInFlight(context)
                ? new TaskMigratedException("The task " + context.taskId() + " is restored once its transaction is aborted", found)
                : found;
    }

    /** What reads of an isolation level see. Throws if the store is closed or damaged. */
    final View view(IsolationLevel level) {
        checkOpen();
        checkWhole();
        Writer now = writer;
        if (now == null) {
            throw closed();
        }
        return level == IsolationLevel.READ_COMMITTED ? new View.OfDatabase(now.db) : now.view();
    }

    /** Sets an entry, or deletes it if the value is null, and moves the position to the record that is processed. */
    final void write(byte[] key, byte[] value) {
        checkWritable();
        noteWrite();
        synchronized (position) {
            changing(() -> writer.put(key, value));
            Positions.update(position, context);
        }
    }

    /** As {@link #write} for several entries, which are written together. */
    final void writeAll(List<KeyValue<byte[], byte[]>> entries) {
        checkWritable();
        noteWrite();
        synchronized (position) {
            changing(() -> writer.putAll(entries));
            Positions.update(position, context);
        }
    }

    private void noteWrite() {
        if (isExactlyOnce) {
            if (isLeftOut) {
                refuseEntries(false);
                checkWhole();
            }
            transactions.wrote(context);
        }
    }

    private void checkWritable() {
        checkOpen();
        boolean isFailed = hasFailed;
        checkWhole();
        if (isFailed) {
            throw new ProcessorStateException("The store " + name + " takes no writes after an error; open it again");
        }
        BraidSpace now = space;
        if (now != null) {
            now.check();
        }
    }

    /** Raises what the store knows of a changelog's records, before they are restored. */
    void beforeRestore(Collection<ConsumerRecord<byte[], byte[]>> records) {}

    /**
     * Adds an entry of the changelog to a batch.
     *
     * @return whether it was added; one that has expired is not
     */
    abstract boolean restore(byte[] key, byte[] value, Ledger.Sink sink);

    /** As {@link #restore}, where Kafka Streams tells neither offsets nor positions. */
    private void restoreEntries(Collection<KeyValue<byte[], byte[]>> entries) {
        restore(
                entries.stream()
                        .map(entry -> new ConsumerRecord<>("", 0, ConsumerRecord.NO_TIMESTAMP, entry.key, entry.value))
                        .toList(),
                false);
    }

    /**
     * Restores records, unless the task has to be restored anew. An active task learns of damage by its next read or write: if a restore or
     * a commit told it, Kafka Streams would end the thread.
     */
    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records, boolean isOffsetKnown) {
        if (damage != null && isOpen) {
            // Where an active task was refused its entries, the marker leads to the last commit. The store misses the records behind it.
            condemn();
        }
        unlessDamaged(() -> {
            if (isExactlyOnce && guarded(writer::hasUncommitted)) {
                refuseEntries(true);
            } else {
                writeRestored(records, isOffsetKnown);
            }
        });
    }

    private void unlessDamaged(Runnable work) {
        try {
            if (damage == null) {
                checkWritable();
                work.run();
            }
        } catch (RuntimeException error) {
            if (damage == null) {
                throw error;
            }
            LOG.debug("The task learns of the damage of the store {} by its next read or write", name, error);
        }
    }

    /** Writes records of the changelog in one batch, with the offset of the last one where it is known. */
    private void writeRestored(Collection<ConsumerRecord<byte[], byte[]>> records, boolean isOffsetKnown) {
        synchronized (position) {
            beforeRestore(records);
            WriteBatch batch = new WriteBatch();
            Ledger.Change change = ledger.change(Writer.sink(batch));
            ConsumerRecord<byte[], byte[]> last = null;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                if (restore(record.key(), record.value(), change)) {
                    KafkaInternals.update(position, record, isConsistencyEnabled);
                }
                last = record;
            }
            if (last != null && isOffsetKnown) {
                change.setOffsets(Map.of(new TopicPartition(last.topic(), last.partition()), last.offset()));
            }
            change.setPosition(position);
            change.setStreamTime(streamTime());
            changing(() -> writer.write(batch, change));
        }
        committed();
    }

    @Override
    public final void commit(Map<TopicPartition, Long> changelogOffsets) {
        if (isOpen) {
            unlessDamaged(() -> commitWhole(changelogOffsets));
        }
    }

    private void commitWhole(Map<TopicPartition, Long> changelogOffsets) {
        if (isMigration(changelogOffsets)) {
            if (changelogOffsets.entrySet().stream()
                    .anyMatch(entry -> !Objects.equals(entry.getValue(), ledger.offset(entry.getKey())))) {
                LOG.info("The offsets in {} are not those of the store {}, which goes on from its own", LEGACY_OFFSETS, name);
            }
            return;
        }
        if (isExactlyOnce && guarded(writer::hasUncommitted)) {
            boolean isStandby = KafkaInternals.isStandby(context);
            if (isStandby || isLeftOut) {
                refuseEntries(isStandby);
                return;
            }
            if (transactions.isUncommitted(context, !changelogOffsets.isEmpty())) {
                // A plain store keeps the status that says so, and is wiped. A transactional one drops the entries when it is closed.
                LOG.warn("Kafka has not committed the transaction of the store {}, which so keeps its last commit", name);
                isLeftOut = true;
                return;
            }
        }
        synchronized (position) {
            changing(() -> writer.commit(changelogOffsets, position, streamTime()));
        }
        committed();
    }

    /**
     * Has the task restored anew where it goes on with entries of no commit: as a standby, in a restore, or after a commit was left out.
     * Their transaction may have been aborted, and Kafka Streams takes them for restored.
     *
     * <p>A transactional store drops them at its close, and keeps its last commit: no other task writes the changelog of an active one. A
     * store that follows its changelog misses records from now on. The changelog may have forgotten their deletions by the next opening.
     */
    private void refuseEntries(boolean isFollowing) {
        LOG.warn("The store {} has entries that it has not committed; its task is restored once it is active and uses them", name);
        if (isFollowing || !isTransactional) {
            condemn();
        }
        damage = corruption(new ProcessorStateException("The store " + name + " has entries that it has not committed"));
    }

    private TaskCorruptedException corruption(ProcessorStateException cause) {
        return new TaskCorruptedException(Set.of(context.taskId()), cause);
    }

    /** Called when the ledger tells a new commit. */
    void committed() {}

    /**
     * Whether Kafka Streams hands over what stands in its old file, which it deletes afterwards. Another kind of store, or an older version,
     * may have written the file. Offsets in it say nothing of the entries of the slot, and a missing one does not either.
     */
    private boolean isMigration(Map<TopicPartition, Long> offsets) {
        return isUntouched && !offsets.isEmpty() && Files.exists(context.stateDir().toPath().resolve(LEGACY_OFFSETS));
    }

    @Override
    public final Long committedOffset(TopicPartition partition) {
        checkOpen();
        // A global store has several partitions, and its topic may have got a new one.
        if (isUntouched && !slot.isNew() && !(isGlobal() ? ledger.hasOffsets() : ledger.hasOffset(partition))) {
            isBeginning = true;
            try {
                leaveEntries();
            } finally {
                isBeginning = false;
            }
        }
        return ledger.offset(partition);
    }

    /** Begins with a new slot if there are entries: the changelog is read from its start, and would not delete what it does not name. */
    private void leaveEntries() {
        boolean isEmpty = guarded(() -> {
            try (View.Walk walk = writer.view().walk(slot.allData(), false)) {
                return !walk.next();
            }
        });
        if (!isEmpty) {
            LOG.info("The entries of the store {} have no offset, so it begins empty and is restored", name);
            condemn();
            writer.close();
            space.closeSlot(slot);
            openSlot();
            startWriting();
        }
    }

    /**
     * Asked for by Kafka Streams 4.4, which commits early where all stores of a thread together have more than
     * {@code statestore.uncommitted.max.bytes}: the memory that entries of no commit take.
     */
    @Override
    public final long approximateNumUncommittedBytes() {
        Writer now = writer;
        return isOpen && now != null ? guarded(now::uncommittedBytes) : 0;
    }

    @Override
    public final Position getPosition() {
        synchronized (position) {
            return position.copy();
        }
    }

    @Override
    public final <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        boolean isCommitted = KafkaInternals.isCommittedOnly(config) && ledger != null;
        return KafkaInternals.query(query, bound, config, this, isCommitted ? ledger.position() : position, context);
    }

    final void add(BraidIterator iterator) {
        iterators.add(iterator);
        if (!isOpen) {
            iterator.close();
        }
    }

    final void remove(BraidIterator iterator) {
        iterators.remove(iterator);
    }

    /** Drops what no commit has. A second close does nothing. */
    @Override
    public final void close() {
        isOpen = false;
        Writer ended = writer;
        writer = null;
        try {
            if (!iterators.isEmpty()) {
                LOG.warn("Closing {} open iterators for store {}", iterators.size(), name);
                iterators.forEach(BraidIterator::close);
            }
        } finally {
            try {
                if (ended != null) {
                    ended.close();
                }
            } finally {
                leaveSpace();
            }
        }
    }

    private void leaveSpace() {
        BraidSpace left = space;
        space = null;
        if (left == null) {
            return;
        }
        if (slot != null) {
            left.closeSlot(slot);
            slot = null;
        }
        left.release();
    }

    /** Has the next opening of the store begin with a new slot. */
    private void condemn() {
        Path marker = slot.marker();
        try {
            Files.deleteIfExists(marker);
        } catch (IOException error) {
            throw new ProcessorStateException("The marker " + marker + " could not be deleted; delete it", error);
        }
    }

    /** Runs a write. After an error the store takes no more. */
    private void changing(Runnable write) {
        isUntouched = false;
        boolean isDone = false;
        try {
            guarded(() -> {
                write.run();
                return null;
            });
            isDone = true;
        } finally {
            hasFailed = hasFailed || !isDone;
        }
    }

    /** Calls the database, and has its errors be those of Kafka Streams. */
    final <T> T guarded(Supplier<T> call) {
        try {
            return call.get();
        } catch (BraidException error) {
            throw failure(error);
        }
    }

    private RuntimeException failure(BraidException error) {
        switch (error.code()) {
            case CLOSED:
                return new InvalidStateStoreException("The store " + name + " was closed meanwhile", error);
            case CORRUPTION:
                if (slot == null) {
                    hasFailed = true;
                    break;
                }
                TaskCorruptedException found = isGlobal() ? null : corruption(new ProcessorStateException(error.getMessage(), error));
                try {
                    // In this order: once the task knows, it may open the store anew, with a marker at this place.
                    condemn();
                    damage = found;
                } finally {
                    hasFailed = true;
                }
                if (found != null) {
                    LOG.error("The entries of the store {} are damaged; its task is restored once it is active and uses them", name, error);
                    return told(found);
                }
                LOG.error("The entries of the global store {} are damaged; the next start restores it", name, error);
                break;
            default:
                BraidSpace now = space;
                if (now != null) {
                    now.judge(error);
                }
                break;
        }
        return new ProcessorStateException("The store " + name + " failed: " + error.getMessage(), error);
    }
}
