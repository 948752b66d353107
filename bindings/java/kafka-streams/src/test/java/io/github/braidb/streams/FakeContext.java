package io.github.braidb.streams;

import java.io.File;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.internals.RecordCollector;
import org.apache.kafka.streams.processor.internals.Task.TaskType;

/** What a task is to its stores. */
final class FakeContext implements StateStoreContext, RecordCollector.Supplier {
    static final String APPLICATION = "application";

    /** The partition of the changelog of the store {@code store}. */
    static final TopicPartition CHANGELOG = new TopicPartition(APPLICATION + "-store-changelog", 1);

    private final StateStoreContext mock = new MockProcessorContext<Object, Object>().getStateStoreContext();
    private final Map<String, Object> configs = new HashMap<>();
    private final TaskId task;
    private final File taskDir;
    private RecordBatchingStateRestoreCallback callback;
    private RecordMetadata record;
    private RecordCollector collector;
    private TaskType type = TaskType.ACTIVE;

    FakeContext(Path stateDir, TaskId task) {
        this.task = task;
        taskDir = stateDir.resolve(APPLICATION).resolve(task.subtopology() < 0 ? "global" : task.toString()).toFile();
        taskDir.mkdirs();
        configs.put(BraidConfig.LINGER_MS_CONFIG, 0);
    }

    FakeContext with(String name, Object value) {
        configs.put(name, value);
        return this;
    }

    FakeContext exactlyOnce() {
        return with("processing.guarantee", "exactly_once_v2");
    }

    FakeContext transactional() {
        BraidStore.canStage = true;
        return exactlyOnce().with(BraidStore.TRANSACTIONAL_CONFIG, true);
    }

    FakeContext with(FakeProducer producer) {
        collector = producer.collector();
        return this;
    }

    @Override
    public RecordCollector recordCollector() {
        return collector;
    }

    /** From now on the task is a standby, with the stores that it has. */
    void becomeStandby() {
        type = TaskType.STANDBY;
        collector = null;
    }

    /** The context of a task whose kind may change. */
    InternalProcessorContext<?, ?> internal() {
        Class<?>[] types = {InternalProcessorContext.class, RecordCollector.Supplier.class};
        return (InternalProcessorContext<?, ?>) Proxy.newProxyInstance(
                FakeContext.class.getClassLoader(), types, (proxy, method, arguments) -> {
                    if (method.getName().equals("taskType")) {
                        return type;
                    }
                    return Transactional.call(this, getClass().getMethod(method.getName(), method.getParameterTypes()), arguments);
                });
    }

    /** A record of the changelog. */
    static ConsumerRecord<byte[], byte[]> record(long offset, byte[] key, byte[] value) {
        return new ConsumerRecord<>(CHANGELOG.topic(), CHANGELOG.partition(), offset, key, value);
    }

    /** The record that the task processes from now on. */
    void process(String topic, int partition, long offset) {
        record = new RecordMetadata() {
            @Override
            public String topic() {
                return topic;
            }

            @Override
            public int partition() {
                return partition;
            }

            @Override
            public long offset() {
                return offset;
            }
        };
    }

    void restore(List<ConsumerRecord<byte[], byte[]>> records) {
        callback.restoreBatch(records);
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback) {
        this.callback = (RecordBatchingStateRestoreCallback) callback;
    }

    @Override
    public void register(StateStore store, StateRestoreCallback callback, CommitCallback commit) {
        register(store, callback);
    }

    @Override
    public String applicationId() {
        return APPLICATION;
    }

    @Override
    public TaskId taskId() {
        return task;
    }

    @Override
    public Optional<RecordMetadata> recordMetadata() {
        return Optional.ofNullable(record);
    }

    @Override
    public Serde<?> keySerde() {
        return Serdes.Bytes();
    }

    @Override
    public Serde<?> valueSerde() {
        return Serdes.ByteArray();
    }

    @Override
    public File stateDir() {
        return taskDir;
    }

    @Override
    public StreamsMetrics metrics() {
        return mock.metrics();
    }

    @Override
    public Map<String, Object> appConfigs() {
        return configs;
    }

    @Override
    public Map<String, Object> appConfigsWithPrefix(String prefix) {
        return Map.of();
    }
}
