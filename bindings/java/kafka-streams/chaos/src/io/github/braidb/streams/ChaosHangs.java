package io.github.braidb.streams;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.TopicPartition;

/**
 * Ends transactions that hang: after a kill by signal 9 a broker may have one open in partitions, of which its coordinator knows nothing. A
 * reader of committed records waits for its end without bound, so a restore does not end. An operator aborts it by {@code kafka-transactions}.
 */
final class ChaosHangs {
    /** Milliseconds between two looks. A transaction hangs if it is open at two looks, and its coordinator has none at the second. */
    private static final long LOOK_MS = 5_000;

    private record Open(TopicPartition partition, long producer, int epoch, int coordinatorEpoch, long start) {}

    private final String broker;
    private volatile int aborted;

    ChaosHangs(String broker) {
        this.broker = broker;
    }

    /** How many partitions had a transaction that hung. */
    int aborted() {
        return aborted;
    }

    /** Looks until the thread is interrupted. */
    void watch() {
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, broker))) {
            Set<Open> before = Set.of();
            while (true) {
                Thread.sleep(LOOK_MS);
                before = look(admin, before);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /** Aborts what hangs since the last look, {@code before}. Returns what is open. */
    private Set<Open> look(Admin admin, Set<Open> before) throws InterruptedException {
        try {
            Set<Open> open = open(admin);
            Set<Long> known = admin.listTransactions().all().get().stream()
                    .filter(one -> one.state() != TransactionState.EMPTY && one.state() != TransactionState.COMPLETE_ABORT
                            && one.state() != TransactionState.COMPLETE_COMMIT)
                    .map(one -> one.producerId())
                    .collect(Collectors.toSet());
            for (Open one : open) {
                if (before.contains(one) && !known.contains(one.producer)) {
                    admin.abortTransaction(new AbortTransactionSpec(
                            one.partition, one.producer, (short) one.epoch, one.coordinatorEpoch)).all().get();
                    aborted++;
                }
            }
            return open;
        } catch (ExecutionException away) {
            // The broker was killed, or a transaction ended meanwhile.
            return Set.of();
        }
    }

    private static Set<Open> open(Admin admin) throws InterruptedException, ExecutionException {
        Set<String> topics = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        Set<TopicPartition> partitions = new HashSet<>();
        admin.describeTopics(topics).allTopicNames().get().forEach((topic, about) ->
                about.partitions().forEach(one -> partitions.add(new TopicPartition(topic, one.partition()))));
        Set<Open> open = new HashSet<>();
        admin.describeProducers(partitions).all().get().forEach((partition, state) -> state.activeProducers().forEach(one ->
                one.currentTransactionStartOffset().ifPresent(start -> open.add(new Open(
                        partition, one.producerId(), one.producerEpoch(), one.coordinatorEpoch().orElse(0), start)))));
        return open;
    }
}
