package io.github.braidb.streams.bench;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.Punctuator;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.To;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.AbstractProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.internals.RecordCollector;
import org.apache.kafka.streams.processor.internals.StateManager;
import org.apache.kafka.streams.processor.internals.StreamTask;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.internals.ThreadCache;

/**
 * A task of an application with one store, without a broker: Kafka Streams' own context, as far as stores use it. It calls the store as
 * Kafka Streams does.
 */
final class Task<S extends StateStore> extends AbstractProcessorContext<Object, Object> implements AutoCloseable {
    static final String APPLICATION = "bench";

    private static final String INPUT = "input";
    private static final Headers HEADERS = new RecordHeaders();

    private final File dir;
    private final TopicPartition changelog;
    private final S store;
    private RecordBatchingStateRestoreCallback restoring;
    private CommitCallback committing = () -> {};

    /** The offset of the last record: of the input, and of the changelog too. */
    private long offset;

    /**
     * Opens a store.
     *
     * @param properties what the application sets
     */
    Task(int partition, Map<String, Object> properties, StoreBuilder<S> builder) {
        super(
                new TaskId(0, partition), new StreamsConfig(properties),
                new StreamsMetricsImpl(new Metrics(), APPLICATION, Time.SYSTEM), null);
        dir = Path.of(properties.get(StreamsConfig.STATE_DIR_CONFIG).toString(), APPLICATION, taskId().toString()).toFile();
        dir.mkdirs();
        store = builder.withCachingDisabled().withLoggingDisabled().build();
        changelog = new TopicPartition(changelogFor(store.name()), partition);
        store.init(this, store);
    }

    S store() {
        return store;
    }

    /** Begins with the next record of the input. */
    Task<S> process() {
        offset++;
        setRecordContext(new ProcessorRecordContext(0, offset, changelog.partition(), INPUT, HEADERS));
        return this;
    }

    long lastOffset() {
        return offset;
    }

    /** Hands over records of the changelog, as its reader does. */
    void restore(List<ConsumerRecord<byte[], byte[]>> records) {
        restoring.restoreBatch(records);
        offset = records.get(records.size() - 1).offset();
    }

    TopicPartition changelog() {
        return changelog;
    }

    void commitStore() {
        store.commit(Map.of(changelog, offset));
        try {
            committing.onCommit();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void close() {
        store.close();
    }

    @Override
    public void register(StateStore registered, StateRestoreCallback callback) {
        restoring = (RecordBatchingStateRestoreCallback) callback;
    }

    @Override
    public void register(StateStore registered, StateRestoreCallback callback, CommitCallback commit) {
        register(registered, callback);
        committing = commit;
    }

    @Override
    public File stateDir() {
        return dir;
    }

    @Override
    public String changelogFor(String name) {
        return APPLICATION + "-" + name + "-changelog";
    }

    private static UnsupportedOperationException unused() {
        return new UnsupportedOperationException("no store calls it");
    }

    @Override
    protected StateManager stateManager() {
        throw unused();
    }

    @Override
    public void transitionToActive(StreamTask task, RecordCollector collector, ThreadCache cache) {
        throw unused();
    }

    @Override
    public void transitionToStandby(ThreadCache cache) {
        throw unused();
    }

    @Override
    public void registerCacheFlushListener(String namespace, ThreadCache.DirtyEntryFlushListener listener) {
        throw unused();
    }

    @Override
    public void logChange(String name, Bytes key, byte[] value, long time, Headers headers, Position position) {
        throw unused();
    }

    @Override
    public <T extends StateStore> T getStateStore(String name) {
        throw unused();
    }

    @Override
    public Cancellable schedule(Duration interval, PunctuationType type, Punctuator callback) {
        throw unused();
    }

    @Override
    public Cancellable schedule(Instant start, Duration interval, PunctuationType type, Punctuator callback) {
        throw unused();
    }

    @Override
    public <K, V> void forward(K key, V value) {
        throw unused();
    }

    @Override
    public <K, V> void forward(K key, V value, To to) {
        throw unused();
    }

    @Override
    public <K, V> void forward(Record<K, V> record) {
        throw unused();
    }

    @Override
    public <K, V> void forward(Record<K, V> record, String child) {
        throw unused();
    }

    @Override
    public <K, V> void forward(FixedKeyRecord<K, V> record) {
        throw unused();
    }

    @Override
    public <K, V> void forward(FixedKeyRecord<K, V> record, String child) {
        throw unused();
    }

    @Override
    public void commit() {
        throw unused();
    }

    @Override
    public long currentStreamTimeMs() {
        throw unused();
    }
}
