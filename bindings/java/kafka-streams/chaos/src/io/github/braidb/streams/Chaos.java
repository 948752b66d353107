package io.github.braidb.streams;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * Kills and stops the processes of a Kafka Streams application, exactly-once, at moments that follow from a seed. Its outputs and stores must be
 * those of the input. {@code chaos/run} starts it with system properties: {@code chaos.dir}, {@code chaos.seed}, {@code chaos.kills},
 * {@code chaos.stops}, {@code chaos.rate}, {@code chaos.transactional}, {@code chaos.heap.mib}, {@code chaos.memory.mib}, the class paths
 * {@code chaos.broker.jars} and {@code chaos.app.jars}, and {@code chaos.log4j}.
 */
public final class Chaos {
    private static final int APPS = 3;
    private static final long STOP_MS = 30_000;

    /** How much later than an empty topology the real one may be RUNNING. */
    private static final long LATE_MS = 4_000;

    /** The records behind a commit are those of one transaction. Twice as many may be read again. */
    private static final long TRANSACTIONS_BEHIND = 2;

    /** Seconds of an event with the recovery from it, about: the times of the input's records span {@link #SPAN_MS} in a whole run. */
    private static final int EVENT_S = 50;

    private static final long SPAN_MS = 100 * 60_000;

    /** The broker takes times up to an hour ahead, and the windows have to lie within a day of now. */
    private static final long BEFORE_NOW_MS = 2 * 3_600_000;

    enum Event { ONE, ALL, BROKER, EVERYTHING, STOP }

    private final long seed = Long.getLong("chaos.seed", 1);
    private final boolean isTransactional = Boolean.getBoolean("chaos.transactional");
    private final Random random = new Random(seed);
    private final List<Event> events = events(Integer.getInteger("chaos.kills", 12), Integer.getInteger("chaos.stops", 2));
    private final long rate = Long.getLong("chaos.rate", 500);
    private final ChaosCluster cluster;
    private final ChaosInput input;
    private final List<String> wrong = new ArrayList<>();
    private final Set<String> uncaught = new TreeSet<>();
    private final long beganMs = System.currentTimeMillis();
    private ChaosFeed feed;
    private ChaosChangelogs changelogs;
    private long mostLateMs;
    private long mostBehind;
    private long mostTransactionsBehind;
    private long restored;
    private long compared;
    private long mostRss;

    private Chaos() {
        long memoryMib = Long.getLong("chaos.memory.mib", 64);
        List<String> options = new ArrayList<>(List.of(
                "-Xmx" + Long.getLong("chaos.heap.mib", 192) + "m", "-Dbraidb.library.path=" + System.getProperty("braidb.library.path"),
                "-Dlog4j2.configurationFile=" + System.getProperty("chaos.log4j"),
                "-Dstreams." + BraidConfig.MEMORY_BYTES_CONFIG + "=" + (memoryMib << 20)));
        if (isTransactional) {
            options.add("-Dstreams." + BraidStore.TRANSACTIONAL_CONFIG + "=true");
        }
        // With a cache fewer records reach the stores, and a flush of it comes with each commit.
        if (seed % 2 == 1) {
            options.add("-Dstreams.statestore.cache.max.bytes=0");
        }
        cluster = new ChaosCluster(Path.of(System.getProperty("chaos.dir")), System.getProperty("chaos.broker.jars"),
                System.getProperty("chaos.app.jars"), APPS, options);
        long records = rate * EVENT_S * (events.size() + 1);
        input = new ChaosInput(seed, (beganMs - BEFORE_NOW_MS) / ChaosInput.WINDOW_MS * ChaosInput.WINDOW_MS, Math.max(1, SPAN_MS / records));
    }

    /** Events in an order of the seed: of 12 kills 6 of one application, 3 of all, 2 of the broker, 1 of everything. */
    private List<Event> events(int kills, int stops) {
        List<Event> order = new ArrayList<>();
        Event[] cycle = {Event.ONE, Event.ALL, Event.EVERYTHING, Event.ONE, Event.BROKER, Event.ONE, Event.ALL, Event.ONE, Event.ONE,
            Event.BROKER, Event.ALL, Event.ONE};
        for (int kill = 0; kill < kills; kill++) {
            order.add(cycle[kill % cycle.length]);
        }
        order.addAll(Collections.nCopies(stops, Event.STOP));
        Collections.shuffle(order, random);
        return order;
    }

    public static void main(String[] arguments) {
        exitAfter(() -> new Chaos().run());
    }

    /** Ends the process: with status 0 if a run found nothing wrong, 1 if it did, and 2 if it could not end. Threads of the run may go on. */
    static void exitAfter(Callable<Boolean> run) {
        int status = 2;
        try {
            status = run.call() ? 0 : 1;
        } catch (Exception error) {
            error.printStackTrace();
        }
        System.exit(status);
    }

    private boolean run() throws Exception {
        say("seed " + seed + ", " + (isTransactional ? "transactional" : "plain") + ": " + events);
        cluster.format();
        cluster.startBroker();
        makeTopics(cluster.address());
        for (int app = 0; app < APPS; app++) {
            cluster.startApp(app);
        }
        Thread memory = new Thread(this::watchMemory);
        memory.setDaemon(true);
        memory.start();
        cluster.awaitRunning();
        say("the applications run");
        changelogs = new ChaosChangelogs(cluster.address());
        feed = new ChaosFeed(cluster.address(), input, rate);
        rest(8_000, 4_000);
        for (Event event : events) {
            perform(event);
            cluster.awaitRunning();
            collectStarts();
            rest(5_000, 10_000);
        }
        finish();
        return report();
    }

    static void makeTopics(String broker) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        Set<String> names = new HashSet<>(new ChaosInput(0, 0, 1).expected(0).keySet());
        names.addAll(List.of(ChaosInput.TOPIC, ChaosApp.EMPTY, ChaosApp.STATE));
        names.forEach(name -> topics.add(new NewTopic(name, ChaosInput.PARTITIONS, (short) 1)));
        try (Admin admin = Admin.create(Map.of(
                AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, broker,
                AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) ChaosCluster.PATIENCE_MS))) {
            admin.createTopics(topics).all().get();
        }
    }

    private void say(String what) {
        System.out.printf("%4d s  %s%n", (System.currentTimeMillis() - beganMs) / 1_000, what);
    }

    private void rest(int leastMs, int moreMs) throws InterruptedException {
        Thread.sleep(leastMs + random.nextInt(moreMs));
    }

    private void perform(Event event) throws Exception {
        int one = random.nextInt(APPS);
        switch (event) {
            case ONE -> {
                say("kill -9 of application " + one);
                killAndInspect(List.of(one), false);
            }
            case ALL -> {
                say("kill -9 of all applications");
                killAndInspect(List.of(0, 1, 2), false);
            }
            case EVERYTHING -> {
                say("kill -9 of broker, controller and all applications");
                killAndInspect(List.of(0, 1, 2), true);
            }
            case BROKER -> {
                say("kill -9 of the broker");
                cluster.killBroker();
                rest(500, 4_000);
                cluster.startBroker();
                rest(10_000, 5_000);
            }
            case STOP -> {
                say("application " + one + " stops for " + STOP_MS / 1_000 + " s");
                cluster.signal(one, "STOP");
                Thread.sleep(STOP_MS);
                cluster.signal(one, "CONT");
                rest(10_000, 5_000);
            }
        }
    }

    /** Kills applications, looks at what they left, and starts them again: at once, or after the others have taken their tasks. */
    private void killAndInspect(List<Integer> killed, boolean withBroker) throws Exception {
        Map<Integer, Set<String>> active = new HashMap<>();
        killed.forEach(app -> active.put(app, cluster.app(app).settledActive()));
        if (withBroker) {
            cluster.killBroker();
            cluster.killController();
        }
        for (int app : killed) {
            cluster.killApp(app);
        }
        if (withBroker) {
            cluster.startBroker();
        }
        changelogs.catchUp();
        Map<Integer, List<ChaosCopies.Copy>> left = new HashMap<>();
        for (int app : killed) {
            left.put(app, inspect(app, active.get(app)));
        }
        rest(500, killed.size() == 1 && random.nextBoolean() ? 9_000 : 1_000);
        for (int app : killed) {
            leave(app);
            cluster.startApp(app);
        }
        cluster.awaitRunning();
        killed.forEach(app -> checkRestores(app, left.get(app)));
    }

    /** Looks at the stores of an application that does not run. */
    private List<ChaosCopies.Copy> inspect(int app, Set<String> active) throws IOException {
        ChaosCopies copies = new ChaosCopies(cluster.stateDir(app), changelogs);
        copies.wrong().forEach(this::fault);
        compared += copies.compared();
        for (ChaosCopies.Copy copy : copies.copies()) {
            if (isTransactional && active.contains(copy.task())) {
                long[] behind = changelogs.behind(copy.changelog(), copy.offset());
                mostTransactionsBehind = Math.max(mostTransactionsBehind, behind[0]);
                mostBehind = Math.max(mostBehind, behind[1]);
                if (behind[0] > TRANSACTIONS_BEHIND) {
                    fault("application " + app + ": the store " + copy.store() + " of task " + copy.task() + " lacks " + behind[1]
                            + " records of " + behind[0] + " transactions");
                }
            }
        }
        return copies.copies();
    }

    /** A restore begins where the store's last commit ended, if the store has one. */
    private void checkRestores(int app, List<ChaosCopies.Copy> left) {
        for (ChaosCluster.App.Restore restore : cluster.app(app).restores()) {
            for (ChaosCopies.Copy copy : left) {
                boolean isSame = copy.store().storeName().equals(restore.store()) && copy.partition() == restore.partition();
                if (isSame && isTransactional && restore.from() < copy.offset()) {
                    fault("application " + app + ": the restore of " + copy + " began at offset " + restore.from());
                }
            }
        }
    }

    private void fault(String what) {
        wrong.add(what);
        say("WRONG: " + what);
    }

    /** Takes along what is known of a process that has ended. */
    private void leave(int app) {
        restored += cluster.app(app).restored();
        uncaught.addAll(cluster.app(app).uncaught());
    }

    private void collectStarts() {
        for (int app = 0; app < APPS; app++) {
            mostLateMs = Math.max(mostLateMs, cluster.app(app).lateMs());
        }
    }

    private void watchMemory() {
        try {
            while (true) {
                for (int app = 0; app < APPS; app++) {
                    ChaosCluster.App one = cluster.app(app);
                    mostRss = Math.max(mostRss, one == null ? 0 : one.look());
                }
                Thread.sleep(1_000);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /** Ends the input, waits until it is processed, ends the applications, and compares outputs and stores with the input. */
    private void finish() throws Exception {
        long records = feed.finish();
        say(records + " records are sent");
        Map<String, Map<String, String>> expected = input.expected(records);
        ChaosOutputs outputs = new ChaosOutputs(cluster.address(), expected);
        outputs.read();
        outputs.wrong().forEach(this::fault);
        say(outputs.records() + " records of the output are read");
        for (int app = 0; app < APPS; app++) {
            cluster.signal(app, "TERM");
        }
        for (int app = 0; app < APPS; app++) {
            cluster.awaitEnd(app);
            leave(app);
        }
        changelogs.catchUp();
        List<ChaosCopies.Copy> copies = new ArrayList<>();
        for (int app = 0; app < APPS; app++) {
            copies.addAll(inspect(app, Set.of()));
        }
        Arrays.stream(ChaosChangelogs.Store.values()).forEach(store -> checkStore(store, expected, copies));
        changelogs.close();
    }

    /** A store must have a whole copy of each partition, and the changelogs must say what the output does. */
    private void checkStore(
            ChaosChangelogs.Store store, Map<String, Map<String, String>> expected, List<ChaosCopies.Copy> copies) {
        for (int partition = 0; partition < ChaosInput.PARTITIONS; partition++) {
            long last = changelogs.last(store.changelog(partition));
            int of = partition;
            boolean isWhole = copies.stream().anyMatch(
                    copy -> copy.store() == store && copy.partition() == of && !copy.isOpen() && copy.offset() >= last);
            if (!isWhole) {
                fault("no copy of the store " + store + ", partition " + partition + ", has all up to offset " + last);
            }
        }
        Map<String, String> same = expected.get("out-" + store.storeName());
        if (same != null) {
            ChaosOutputs.differences("the store " + store, same, changelogs.text(store)).forEach(this::fault);
        }
    }

    private boolean report() {
        long limit = (Long.getLong("chaos.heap.mib", 192) + Long.getLong("chaos.memory.mib", 64)) * 115 / 100;
        if (isTransactional && mostLateMs > LATE_MS) {
            fault("an application was RUNNING " + mostLateMs + " ms later than one with an empty topology");
        }
        say("uncaught: " + uncaught);
        say(wrong.isEmpty() ? "PASS" : "FAIL: " + wrong.size() + " faults");
        System.out.printf("{\"faults\":%d,\"compared\":%d,\"late_ms\":%d,\"behind\":%d,\"transactions_behind\":%d,\"restored\":%d,"
                        + "\"rss_mib\":%d,\"rss_share\":%.3f}%n",
                wrong.size(), compared, mostLateMs, mostBehind, mostTransactionsBehind, restored, mostRss >> 20,
                (mostRss >> 20) / (double) limit);
        return wrong.isEmpty();
    }
}
