package io.github.braidb.streams;

import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends the input at a rate, each record once and in order, also while the broker is away. */
final class ChaosFeed {
    /** 10 minutes: longer than the broker is ever away. */
    private static final int PATIENCE_MS = 600_000;

    private final ChaosInput input;
    private final long rate;
    private final KafkaProducer<String, Long> producer;
    private final Thread thread = new Thread(this::send);
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private volatile boolean isEnding;
    private volatile long sent;

    ChaosFeed(String broker, ChaosInput input, long rate) {
        this.input = input;
        this.rate = rate;
        producer = new KafkaProducer<>(
                Map.of(
                        ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, broker,
                        ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true,
                        ProducerConfig.MAX_BLOCK_MS_CONFIG, PATIENCE_MS,
                        ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, PATIENCE_MS),
                new StringSerializer(), new LongSerializer());
        thread.start();
    }

    private void send() {
        long startMs = System.currentTimeMillis();
        try {
            while (!isEnding) {
                long due = (System.currentTimeMillis() - startMs) * rate / 1_000;
                while (sent < due && !isEnding) {
                    sendOne();
                }
                Thread.sleep(20);
            }
        } catch (InterruptedException | RuntimeException error) {
            failure.set(error);
        }
    }

    /** Sends the next record. */
    private void sendOne() {
        long record = sent;
        producer.send(
                new ProducerRecord<>(ChaosInput.TOPIC, null, input.timeMs(record), input.key(record), input.amount(record)),
                (metadata, error) -> failure.compareAndSet(null, error));
        sent = record + 1;
    }

    /** Ends the input. Returns how many records there are. */
    long finish() throws Exception {
        isEnding = true;
        thread.join();
        producer.close();
        if (failure.get() != null) {
            throw failure.get();
        }
        return sent;
    }
}
