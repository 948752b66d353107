package io.github.braidb.streams;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * How long after a kill by signal 9 an application is RUNNING again, with a state of 0.5 GB and with one of 2 GB. A store that survives the kill
 * restores only what came after its last commit, so the size of the state must not matter. The last line is JSON: medians in milliseconds from
 * the kill to RUNNING, and from RUNNING of an empty topology in the same process.
 */
public final class ChaosRestart {
    private static final int SMALL_RECORDS = 500_000;
    private static final int LARGE_RECORDS = 2_000_000;

    /** 1,000 bytes, so that 500,000 keys are 0.5 GB. */
    private static final int VALUE_BYTES = 1_000;

    private static final int KILLS = 5;

    /** Overwritings right before a kill: about as many as one transaction of 100 ms takes in. */
    private static final int OPEN_RECORDS = 2_000;

    /** What 5 kills at one size showed. */
    private record Restarts(long stateMib, long runningMs, long lateMs, long restored, int wholeRestores) {}

    private final Random random = new Random(Long.getLong("chaos.seed", 1));
    private final long beganMs = System.currentTimeMillis();
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private final ChaosCluster cluster;
    private Admin admin;
    private KafkaProducer<byte[], byte[]> producer;
    private long sent;

    private ChaosRestart() {
        List<String> options = List.of(
                "-Xmx256m", "-Dbraidb.library.path=" + System.getProperty("braidb.library.path"), "-Dchaos.state=true",
                "-Dlog4j2.configurationFile=" + System.getProperty("chaos.log4j"), "-Dstreams.statestore.cache.max.bytes=0",
                "-Dstreams." + BraidStore.TRANSACTIONAL_CONFIG + "=" + Boolean.getBoolean("chaos.transactional"));
        cluster = new ChaosCluster(Path.of(System.getProperty("chaos.dir")), System.getProperty("chaos.broker.jars"),
                System.getProperty("chaos.app.jars"), 1, options);
    }

    public static void main(String[] arguments) {
        Chaos.exitAfter(() -> new ChaosRestart().run());
    }

    private boolean run() throws Exception {
        cluster.format();
        cluster.startBroker();
        Chaos.makeTopics(cluster.address());
        admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, cluster.address()));
        producer = new KafkaProducer<>(
                Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, cluster.address(), ProducerConfig.LINGER_MS_CONFIG, 5),
                new ByteArraySerializer(), new ByteArraySerializer());
        cluster.startApp(0);
        cluster.awaitRunning();
        fill(0, SMALL_RECORDS);
        Restarts small = restarts(SMALL_RECORDS);
        fill(SMALL_RECORDS, LARGE_RECORDS);
        Restarts large = restarts(LARGE_RECORDS);
        System.out.printf("{\"small_mib\":%d,\"large_mib\":%d,\"small_running_ms\":%d,\"large_running_ms\":%d,\"small_late_ms\":%d,"
                        + "\"large_late_ms\":%d,\"restored\":%d,\"whole_restores\":%d}%n",
                small.stateMib, large.stateMib, small.runningMs, large.runningMs, small.lateMs, large.lateMs,
                Math.max(small.restored, large.restored), small.wholeRestores + large.wholeRestores);
        return true;
    }

    private void say(String what) {
        System.out.printf("%4d s  %s%n", (System.currentTimeMillis() - beganMs) / 1_000, what);
    }

    private void send(long key) {
        byte[] value = new byte[VALUE_BYTES];
        random.nextBytes(value);
        byte[] name = ByteBuffer.allocate(16).putLong(8, key).array();
        producer.send(new ProducerRecord<>(ChaosApp.STATE, name, value), (metadata, error) -> failure.compareAndSet(null, error));
        sent++;
    }

    private void fill(int from, int until) throws Exception {
        for (int key = from; key < until; key++) {
            send(key);
        }
        awaitCommitted();
        say(until + " records are committed");
    }

    /** Waits until a commit of the application covers all records that were sent. */
    private void awaitCommitted() throws Exception {
        producer.flush();
        if (failure.get() != null) {
            throw failure.get();
        }
        long endMs = System.currentTimeMillis() + ChaosCluster.PATIENCE_MS;
        long committed = 0;
        while (committed < sent) {
            if (System.currentTimeMillis() > endMs) {
                throw new IllegalStateException(committed + " of " + sent + " records were committed in " + ChaosCluster.PATIENCE_MS + " ms");
            }
            Thread.sleep(200);
            committed = admin.listConsumerGroupOffsets(ChaosApp.REAL).partitionsToOffsetAndMetadata().get().values().stream()
                    .mapToLong(offset -> offset == null ? 0 : offset.offset())
                    .sum();
        }
    }

    /** Kills the application within a transaction and starts it again, several times. */
    private Restarts restarts(int keys) throws Exception {
        List<Long> runningMs = new ArrayList<>();
        List<Long> lateMs = new ArrayList<>();
        long restored = 0;
        int wholeRestores = 0;
        for (int kill = 0; kill < KILLS; kill++) {
            for (int record = 0; record < OPEN_RECORDS; record++) {
                send(random.nextInt(keys));
            }
            producer.flush();
            Thread.sleep(random.nextInt(100));
            long killedMs = System.currentTimeMillis();
            cluster.killApp(0);
            cluster.startApp(0);
            cluster.awaitRunning();
            ChaosCluster.App app = cluster.app(0);
            runningMs.add(app.realRunningAtMs() - killedMs);
            lateMs.add(app.lateMs());
            awaitCommitted();
            restored = Math.max(restored, app.restored());
            wholeRestores += (int) app.restores().stream().filter(restore -> restore.from() == 0).count();
        }
        long stateMib = bytes(cluster.stateDir(0)) >> 20;
        say("state of " + stateMib + " MiB: RUNNING after " + runningMs + " ms, later than an empty topology by " + lateMs + " ms");
        return new Restarts(stateMib, median(runningMs), median(lateMs), restored, wholeRestores);
    }

    private static long median(List<Long> numbers) {
        long[] sorted = numbers.stream().mapToLong(Long::longValue).toArray();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    /** Bytes of the files below a directory. */
    private static long bytes(Path dir) throws IOException {
        try (Stream<Path> files = Files.walk(dir)) {
            return files.mapToLong(file -> file.toFile().isFile() ? file.toFile().length() : 0).sum();
        }
    }
}
