package io.github.braidb.streams.internals;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.internals.RecordCollector;
import org.apache.kafka.streams.processor.internals.RecordCollectorImpl;
import org.apache.kafka.streams.processor.internals.StreamsProducer;
import org.apache.kafka.streams.processor.internals.Task.TaskType;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.apache.kafka.streams.state.internals.WithRetentionPeriod;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All that the stores use of Kafka Streams besides its public interface. No other file does. Each method does without where a version lacks
 * what it wants, and says what is missing then.
 */
public final class KafkaInternals {
    private static final Logger LOG = LoggerFactory.getLogger(KafkaInternals.class);

    /** Tells the isolation level of an interactive query, from Kafka Streams 4.4 on. Null before. */
    private static final Method ISOLATION_LEVEL = method(QueryConfig.class, "getIsolationLevel");

    /** What the log was told to be missing. */
    private static final Set<String> LACKS = ConcurrentHashMap.newKeySet();

    /** Whether Kafka Streams asks stores how long they keep entries, as it does from 4.4 on. */
    private static final boolean ASKS_FOR_RETENTION = isThere("org.apache.kafka.streams.state.internals.WithRetentionPeriod");

    private KafkaInternals() {}

    /** What stores implement where {@link #asksForRetention} holds. No class that implements it loads elsewhere. */
    public interface Retaining extends WithRetentionPeriod {}

    /**
     * Whether Kafka Streams asks stores how long they keep entries. Its restores then leave out what has expired.
     *
     * @return whether it does
     */
    public static boolean asksForRetention() {
        return ASKS_FOR_RETENTION;
    }

    private static boolean isThere(String type) {
        try {
            Class.forName(type, false, StateStore.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError error) {
            return false;
        }
    }

    /**
     * Refuses versions of Kafka Streams whose stores do not keep their own offsets.
     *
     * @throws UnsupportedOperationException if the version is older than 4.3
     */
    public static void requireVersion() {
        if (method(StateStore.class, "commit", Map.class) == null) {
            throw new UnsupportedOperationException(
                    "The stores of BraidDB need Kafka Streams 4.3.1 or later; raise the version of kafka-streams");
        }
    }

    private static Method method(Class<?> type, String name, Class<?>... parameters) {
        try {
            return type.getMethod(name, parameters);
        } catch (NoSuchMethodException error) {
            return null;
        }
    }

    /** Says it once. */
    private static void lacks(String what, Throwable error) {
        if (LACKS.add(what)) {
            LOG.warn("This version of Kafka Streams is not tested with BraidDB, and so {}", what, error);
        }
    }

    /**
     * What Kafka Streams calls to restore a store.
     *
     * @param records takes records, with their offsets and headers
     * @param entries takes keys and values, where this version has no such callback
     * @return the callback
     */
    public static StateRestoreCallback restoreCallback(
            Consumer<Collection<ConsumerRecord<byte[], byte[]>>> records,
            Consumer<Collection<KeyValue<byte[], byte[]>>> entries) {
        try {
            return Records.callback(records);
        } catch (LinkageError error) {
            lacks("a restore that is cut off begins from the last commit, and positions lack what was restored", error);
            return new BatchingStateRestoreCallback() {
                @Override
                public void restoreAll(Collection<KeyValue<byte[], byte[]>> batch) {
                    entries.accept(batch);
                }
            };
        }
    }

    /** Loaded only by a version that has the callback. */
    private static final class Records {
        static StateRestoreCallback callback(Consumer<Collection<ConsumerRecord<byte[], byte[]>>> records) {
            RecordBatchingStateRestoreCallback callback = records::accept;
            return callback;
        }
    }

    /**
     * Whether changelogs carry positions.
     *
     * @param configs the configuration of the application
     * @return whether they do
     */
    public static boolean isConsistencyEnabled(Map<String, Object> configs) {
        try {
            return StreamsConfig.InternalConfig.getBoolean(
                    configs, StreamsConfig.InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED, false);
        } catch (LinkageError error) {
            lacks("positions lack what was restored", error);
            return false;
        }
    }

    /**
     * Moves a position to that in a restored record.
     *
     * @param position the position
     * @param record the record
     * @param isConsistencyEnabled whether changelogs carry positions
     */
    public static void update(Position position, ConsumerRecord<byte[], byte[]> record, boolean isConsistencyEnabled) {
        if (!isConsistencyEnabled) {
            return;
        }
        try {
            ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(record, true, position);
        } catch (LinkageError error) {
            lacks("positions lack what was restored", error);
        }
    }

    /**
     * Answers the interactive queries that all stores answer.
     *
     * @param <R> what the query results in
     * @param query the query
     * @param bound what the position must reach
     * @param config how to answer
     * @param store the store
     * @param position the position of what the query sees
     * @param context the context of the store
     * @return the answer
     */
    public static <R> QueryResult<R> query(
            Query<R> query, PositionBound bound, QueryConfig config, StateStore store, Position position,
            StateStoreContext context) {
        try {
            return StoreQueryUtils.handleBasicQueries(query, bound, config, store, position, context);
        } catch (LinkageError error) {
            lacks("interactive queries fail", error);
            return QueryResult.forUnknownQueryType(query, store);
        }
    }

    /**
     * Whether a query asks for committed entries alone.
     *
     * @param config how to answer the query
     * @return whether it does
     */
    public static boolean isCommittedOnly(QueryConfig config) {
        try {
            return ISOLATION_LEVEL != null && ISOLATION_LEVEL.invoke(config).toString().equalsIgnoreCase("read_committed");
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("The isolation level of a query cannot be read", error);
        }
    }

    /**
     * Whether the settings of this version of Kafka Streams have a name.
     *
     * @param name the name
     * @return whether they have it
     */
    public static boolean knows(String name) {
        return StreamsConfig.configDef().configKeys().containsKey(name);
    }

    /**
     * Whether a task only follows its changelogs now. Kafka Streams hands the open stores of a task on where it changes from one kind to the
     * other.
     *
     * @param context the context of a store
     * @return whether it is a standby; false where this version does not tell
     */
    public static boolean isStandby(StateStoreContext context) {
        try {
            return context instanceof InternalProcessorContext<?, ?> task && task.taskType() == TaskType.STANDBY;
        } catch (LinkageError error) {
            lacks("a store whose task becomes a standby may keep entries of an aborted transaction", error);
            return false;
        }
    }

    /**
     * What a store has to know of its thread's transactions. Kafka Streams 4.3.1 and 4.4.0 commit stores also where they close tasks after a
     * transaction has failed: while it is under way, and after the first of the tasks has aborted it.
     */
    public static final class Transactions {
        /** Nanoseconds where no producer tells them. */
        private static final double UNKNOWN = -1;

        /** The producer of the metrics. Kafka Streams takes a new one after it was fenced. */
        private Producer<?, ?> producer;

        /** The time that the producer has spent in begins and in commits. Each one raises it, if it succeeds. */
        private Metric begins;

        private Metric commits;
        private boolean wasInFlight;
        private double beginNsAtWrite = UNKNOWN;
        private double commitNsAtWrite = UNKNOWN;

        /** A store without a write. */
        public Transactions() {}

        /**
         * Notes a write. To ask for a metric takes the thread about 33 ns.
         *
         * @param context the context of the store
         */
        public void wrote(StateStoreContext context) {
            wasInFlight = isInFlight(context);
            beginNsAtWrite = ask(context, UNKNOWN, of -> ns(of, true));
            commitNsAtWrite = ask(context, UNKNOWN, of -> ns(of, false));
        }

        /**
         * Whether a transaction is under way, with records of any task of the thread.
         *
         * @param context the context of the store
         * @return whether one is; false where this version does not tell
         */
        public boolean isInFlight(StateStoreContext context) {
            return ask(context, false, Producers::isInFlight);
        }

        /**
         * Whether Kafka has not committed the transaction of the last write: it goes on, its commit failed, or it was aborted.
         *
         * @param context the context of the store
         * @param isLogged whether the store has a changelog, so that a write without a transaction begins one
         * @return whether it has not; false where this version does not tell
         */
        public boolean isUncommitted(StateStoreContext context, boolean isLogged) {
            double commitNs = ask(context, UNKNOWN, of -> ns(of, false));
            boolean isKnown = commitNsAtWrite != UNKNOWN && commitNs != UNKNOWN;
            if (isKnown && commitNs > commitNsAtWrite) {
                // One that is under way is of other tasks.
                return false;
            }
            if (isInFlight(context)) {
                return true;
            }
            boolean hadTransaction = isLogged || wasInFlight || beginNsAtWrite != ask(context, UNKNOWN, of -> ns(of, true));
            return isKnown && commitNs == commitNsAtWrite && hadTransaction;
        }

        private double ns(StreamsProducer of, boolean isOfBegins) throws Throwable {
            Producer<?, ?> now = Producers.kafkaProducer(of);
            if (now != producer) {
                begins = metric(now, "txn-begin-time-ns-total");
                commits = metric(now, "txn-commit-time-ns-total");
                producer = now;
            }
            Metric metric = isOfBegins ? begins : commits;
            return metric != null && metric.metricValue() instanceof Double time ? time : UNKNOWN;
        }

        private static Metric metric(Producer<?, ?> producer, String name) {
            return producer.metrics().entrySet().stream()
                    .filter(metric -> metric.getKey().name().equals(name))
                    .map(Map.Entry::getValue)
                    .findFirst()
                    .orElse(null);
        }

        /** Asks the producer of the task. */
        private interface Question<T> {
            T of(StreamsProducer producer) throws Throwable;
        }

        private static <T> T ask(StateStoreContext context, T unknown, Question<T> question) {
            RecordCollector collector = context instanceof RecordCollector.Supplier task ? task.recordCollector() : null;
            if (!(collector instanceof RecordCollectorImpl)) {
                return unknown;
            }
            try {
                return question.of(Producers.of(collector));
            } catch (RuntimeException | VirtualMachineError error) {
                throw error;
            } catch (Throwable error) {
                lacks("stores take a transaction whose commit failed for a committed one", error);
                return unknown;
            }
        }
    }

    /** Fails to load where this version has no such field or method, or opens them to no other module. */
    private static final class Producers {
        private static final MethodHandle PRODUCER;
        private static final MethodHandle IS_IN_FLIGHT;
        private static final MethodHandle KAFKA_PRODUCER;

        static {
            try {
                MethodHandles.Lookup here = MethodHandles.lookup();
                Field producer = RecordCollectorImpl.class.getDeclaredField("streamsProducer");
                producer.setAccessible(true);
                PRODUCER = here.unreflectGetter(producer).asType(MethodType.methodType(StreamsProducer.class, RecordCollector.class));
                IS_IN_FLIGHT = here.unreflect(accessible("transactionInFlight"));
                KAFKA_PRODUCER = here.unreflect(accessible("kafkaProducer"))
                        .asType(MethodType.methodType(Producer.class, StreamsProducer.class));
            } catch (ReflectiveOperationException | RuntimeException error) {
                throw new ExceptionInInitializerError(error);
            }
        }

        private static Method accessible(String name) throws NoSuchMethodException {
            Method method = StreamsProducer.class.getDeclaredMethod(name);
            method.setAccessible(true);
            return method;
        }

        static StreamsProducer of(RecordCollector collector) throws Throwable {
            return (StreamsProducer) PRODUCER.invokeExact(collector);
        }

        static boolean isInFlight(StreamsProducer producer) throws Throwable {
            return (boolean) IS_IN_FLIGHT.invokeExact(producer);
        }

        static Producer<?, ?> kafkaProducer(StreamsProducer producer) throws Throwable {
            return (Producer<?, ?>) KAFKA_PRODUCER.invokeExact(producer);
        }
    }

    /**
     * What counts the records that a task dropped since they came too late.
     *
     * @param context the context of the store
     * @return to be run once a record
     */
    public static Runnable droppedRecords(StateStoreContext context) {
        try {
            Sensor sensor = TaskMetrics.droppedRecordsSensor(
                    Thread.currentThread().getName(), context.taskId().toString(), (StreamsMetricsImpl) context.metrics());
            return sensor::record;
        } catch (LinkageError error) {
            lacks("dropped records are not counted", error);
            return () -> {};
        }
    }

    /**
     * Adds a number to the metrics of a store. Kafka Streams removes it when the store is closed.
     *
     * @param context the context of the store
     * @param scope the kind of store
     * @param store the name of the store
     * @param name the name of the number
     * @param description what it counts
     * @param number gives the number at a moment
     */
    public static void addGauge(
            StateStoreContext context, String scope, String store, String name, String description, Supplier<Long> number) {
        try {
            ((StreamsMetricsImpl) context.metrics()).addStoreLevelMutableMetric(
                    context.taskId().toString(), scope, store, name, description, Sensor.RecordingLevel.INFO,
                    (config, now) -> number.get());
        } catch (LinkageError error) {
            lacks("there is no metric " + name, error);
        }
    }

    /**
     * Adds a number to the metrics of the client, unless it has it. Kafka Streams removes it when the client is closed.
     *
     * @param context the context of a store
     * @param name the name of the number
     * @param description what it counts
     * @param number gives the number at a moment
     */
    public static void addClientGauge(StateStoreContext context, String name, String description, Supplier<Long> number) {
        try {
            ((StreamsMetricsImpl) context.metrics()).addClientLevelMutableMetric(
                    name, description, Sensor.RecordingLevel.INFO, (config, now) -> number.get());
        } catch (LinkageError error) {
            lacks("there is no metric " + name, error);
        } catch (IllegalArgumentException error) {
            LOG.debug("Another store has added the metric {}", name);
        }
    }

    /**
     * A window of a length.
     *
     * @param start its start in milliseconds since the epoch
     * @param end the moment behind it
     * @return the window
     */
    public static Window timeWindow(long start, long end) {
        try {
            return new TimeWindow(start, end);
        } catch (LinkageError error) {
            lacks("windows are of a kind of our own", error);
            return new PlainWindow(start, end);
        }
    }

    /**
     * A window of a session.
     *
     * @param start its start in milliseconds since the epoch
     * @param end its last moment
     * @return the window
     */
    public static Window sessionWindow(long start, long end) {
        try {
            return new SessionWindow(start, end);
        } catch (LinkageError error) {
            lacks("windows are of a kind of our own", error);
            return new PlainWindow(start, end);
        }
    }

    /** A window where this version has no other kind. */
    private static final class PlainWindow extends Window {
        PlainWindow(long start, long end) {
            super(start, end);
        }

        @Override
        public boolean overlap(Window other) {
            return start() < other.end() && other.start() < end();
        }
    }
}
