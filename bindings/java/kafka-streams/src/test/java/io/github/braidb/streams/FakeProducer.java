package io.github.braidb.streams;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.internals.RecordCollector;
import org.apache.kafka.streams.processor.internals.RecordCollectorImpl;
import org.apache.kafka.streams.processor.internals.StreamsProducer;

/**
 * The producer of an exactly-once thread of Kafka Streams, without a broker. The class of Kafka Streams tells whether a transaction is under
 * way, as in an application. Its methods are private to its package, and its constructor differs between versions.
 */
final class FakeProducer {
    private final MockProducer<byte[], byte[]> broker =
            new MockProducer<>(true, null, new ByteArraySerializer(), new ByteArraySerializer());
    private final StreamsProducer producer;
    private final RecordCollector collector;

    /** As the producer counts the time of begins and commits: from the start, and only those that succeed. */
    private double beginNs;

    private double commitNs;

    FakeProducer() throws ReflectiveOperationException {
        Constructor<?> constructor = StreamsProducer.class.getConstructors()[0];
        Class<?>[] types = constructor.getParameterTypes();
        Object mode = types[1].getField("EXACTLY_ONCE_V2").get(null);
        Object log = types[3].getConstructor().newInstance();
        producer = (StreamsProducer) constructor.newInstance(broker, mode, Time.SYSTEM, log);
        collector = (RecordCollector) withoutConstructor(RecordCollectorImpl.class);
        Field field = RecordCollectorImpl.class.getDeclaredField("streamsProducer");
        field.setAccessible(true);
        field.set(collector, producer);
        call("initTransaction", new Class<?>[0]);
        addMetric("txn-begin-time-ns-total", () -> beginNs);
        addMetric("txn-commit-time-ns-total", () -> commitNs);
    }

    private void addMetric(String title, Supplier<Object> value) {
        MetricName name = new MetricName(title, "producer-metrics", "", Map.of());
        broker.setMockMetrics(name, new Metric() {
            @Override
            public MetricName metricName() {
                return name;
            }

            @Override
            public Object metricValue() {
                return value.get();
            }
        });
    }

    /** An object with empty fields, as a deserialization makes it: the constructor of the class wants a topology. */
    private static Object withoutConstructor(Class<?> type) throws ReflectiveOperationException {
        Class<?> factory = Class.forName("sun.reflect.ReflectionFactory");
        Object one = factory.getMethod("getReflectionFactory").invoke(null);
        var make = factory.getMethod("newConstructorForSerialization", Class.class, Constructor.class);
        return ((Constructor<?>) make.invoke(one, type, Object.class.getConstructor())).newInstance();
    }

    private void call(String name, Class<?>[] types, Object... arguments) throws ReflectiveOperationException {
        var method = StreamsProducer.class.getDeclaredMethod(name, types);
        method.setAccessible(true);
        method.invoke(producer, arguments);
    }

    RecordCollector collector() {
        return collector;
    }

    /** Sends a record, which begins a transaction. */
    void send() throws ReflectiveOperationException {
        beginNs += broker.transactionInFlight() ? 0 : 1_000;
        call("send", new Class<?>[] {ProducerRecord.class, Callback.class}, new ProducerRecord<>("output", new byte[1]), null);
    }

    void commit() {
        producer.commitTransaction(Map.of(), new ConsumerGroupMetadata("application"));
        commitNs += 1_000;
    }

    /** Aborts the transaction, as the first task does that is closed after an error. */
    void abort() throws ReflectiveOperationException {
        call("abortTransaction", new Class<?>[0]);
    }

    /** Has commits fail from now on. */
    void breakCommits() {
        broker.commitTransactionException = new KafkaException("the broker does not answer");
    }
}
