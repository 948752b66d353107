package io.github.braidb.streams;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * An application closes cleanly after its producer was fenced, so the commit of its last transaction fails. Kafka Streams has the stores commit
 * even then ({@code TaskManager.tryCloseCleanActiveTasks} calls {@code postCommit}). No aborted write may be in a store afterwards, and the
 * next start must count each record once.
 */
public final class ChaosTrap {
    private static final long RECORDS_A_SECOND = 1_000;

    private ChaosTrap() {}

    public static void main(String[] arguments) {
        Chaos.exitAfter(ChaosTrap::run);
    }

    private static boolean run() throws Exception {
        // No commit comes by itself before the fence: the records take a few seconds.
        List<String> options = new ArrayList<>(List.of(
                "-Xmx192m", "-Dbraidb.library.path=" + System.getProperty("braidb.library.path"),
                "-Dlog4j2.configurationFile=" + System.getProperty("chaos.log4j"), "-Dstreams.commit.interval.ms=600000",
                "-Dstreams.producer.transaction.timeout.ms=800000", "-Dstreams.statestore.cache.max.bytes=0",
                "-Dstreams." + BraidStore.TRANSACTIONAL_CONFIG + "=" + Boolean.getBoolean("chaos.transactional")));
        ChaosCluster cluster = new ChaosCluster(Path.of(System.getProperty("chaos.dir")), System.getProperty("chaos.broker.jars"),
                System.getProperty("chaos.app.jars"), 1, options);
        cluster.format();
        cluster.startBroker();
        Chaos.makeTopics(cluster.address());
        cluster.startApp(0);
        cluster.awaitRunning();

        ChaosInput input = new ChaosInput(Long.getLong("chaos.seed", 1), System.currentTimeMillis() - 3_600_000, 100);
        ChaosFeed feed = new ChaosFeed(cluster.address(), input, RECORDS_A_SECOND);
        Thread.sleep(4_000);
        long records = feed.finish();
        awaitUncommitted(cluster.address(), records);
        fence(cluster.address());
        cluster.signal(0, "TERM");
        cluster.awaitEnd(0);
        System.out.println(records + " records are processed, their transaction is aborted, and the application has closed");

        ChaosChangelogs changelogs = new ChaosChangelogs(cluster.address());
        changelogs.catchUp();
        ChaosCopies copies = new ChaosCopies(cluster.stateDir(0), changelogs);
        List<String> wrong = new ArrayList<>(copies.wrong());
        wrong.forEach(System.out::println);
        long open = copies.copies().stream().filter(ChaosCopies.Copy::isOpen).count();
        System.out.println(copies.copies().size() + " stores are left, " + open + " of them with entries of no commit");

        cluster.startApp(0, "-Dstreams.commit.interval.ms=100");
        ChaosOutputs outputs = new ChaosOutputs(cluster.address(), input.expected(records));
        outputs.read();
        outputs.wrong().forEach(System.out::println);
        wrong.addAll(outputs.wrong());
        System.out.println("{\"faults\":" + wrong.size() + "}");
        return wrong.isEmpty();
    }

    /** Waits until the application has sent a count for each record. None of them is committed. */
    private static void awaitUncommitted(String broker, long records) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, broker), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> counts = new ArrayList<>();
            for (int partition = 0; partition < ChaosInput.PARTITIONS; partition++) {
                counts.add(new TopicPartition("out-counts", partition));
            }
            long endMs = System.currentTimeMillis() + ChaosCluster.PATIENCE_MS;
            long sent = 0;
            while (sent < records) {
                if (System.currentTimeMillis() > endMs) {
                    throw new IllegalStateException(sent + " of " + records + " records were processed in " + ChaosCluster.PATIENCE_MS + " ms");
                }
                sent = consumer.endOffsets(counts, Duration.ofSeconds(10)).values().stream().mapToLong(Long::longValue).sum();
            }
        }
    }

    /** Aborts the transaction of the application, as a newer producer of the same name does. */
    private static void fence(String broker) throws Exception {
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, broker))) {
            List<String> ids = admin.listTransactions().all().get().stream()
                    .map(one -> one.transactionalId())
                    .filter(id -> id.startsWith(ChaosApp.REAL + "-"))
                    .toList();
            if (ids.isEmpty()) {
                throw new IllegalStateException("the application has no transaction");
            }
            admin.fenceProducers(ids).all().get();
        }
    }
}
