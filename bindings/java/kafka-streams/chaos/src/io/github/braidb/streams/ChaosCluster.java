package io.github.braidb.streams;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;

/** The processes of a chaos run: a controller, a broker and applications, each with a log of its own in the directory of the run. */
final class ChaosCluster {
    private static final List<String> JVM = List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto");

    /** The number of the broker in the cluster. */
    private static final int BROKER = 1;

    /** How long a process may take to start or to end, 300 s: five JVMs may share two processors with other work. */
    static final long PATIENCE_MS = 300_000;

    private final Path dir;
    private final String brokerClassPath;
    private final String appClassPath;
    private final List<String> appOptions;
    private final int port = freePort();
    private final int controllerPort = freePort();
    private Process controller;
    private Process broker;
    private final App[] apps;

    /**
     * Processes, none of which is started.
     *
     * @param apps the number of applications
     * @param appOptions options of their JVMs
     */
    ChaosCluster(Path dir, String brokerClassPath, String appClassPath, int apps, List<String> appOptions) {
        this.dir = dir;
        this.brokerClassPath = brokerClassPath;
        this.appClassPath = appClassPath;
        this.appOptions = appOptions;
        this.apps = new App[apps];
        Runtime.getRuntime().addShutdownHook(new Thread(this::killAll));
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new IllegalStateException("no port is free", error);
        }
    }

    String address() {
        return "127.0.0.1:" + port;
    }

    private String controllerAddress() {
        return "127.0.0.1:" + controllerPort;
    }

    /** Makes the directories of broker and controller. */
    void format() throws IOException, InterruptedException {
        Files.createDirectories(dir);
        List<String> both = List.of("controller.listener.names=CONTROLLER", "controller.quorum.bootstrap.servers=" + controllerAddress());
        properties("controller", both, "process.roles=controller", "node.id=2", "listeners=CONTROLLER://" + controllerAddress(),
                "log.dirs=" + dir.resolve("metadata"));
        properties("broker", both, "process.roles=broker", "node.id=" + BROKER, "listeners=PLAINTEXT://" + address(),
                "log.dirs=" + dir.resolve("topics"), "log.message.timestamp.after.max.ms=" + Long.MAX_VALUE,
                "offsets.topic.num.partitions=3", "offsets.topic.replication.factor=1",
                "transaction.state.log.num.partitions=3", "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0",
                // Time is short: a transaction of a killed application ends soon after its time, which is 10 s.
                "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000");
        format("controller", "--standalone");
        format("broker", "--no-initial-controllers");
    }

    private void properties(String name, List<String> both, String... more) throws IOException {
        List<String> lines = new ArrayList<>(both);
        lines.addAll(Arrays.asList(more));
        Files.write(dir.resolve(name + ".properties"), lines);
    }

    private void format(String name, String kind) throws IOException, InterruptedException {
        Process format = kafka(name, "kafka.tools.StorageTool", "format", kind, "--cluster-id", "braidb-chaos-run-0001", "-c");
        if (format.waitFor() != 0) {
            throw new IOException("the storage could not be formatted; see " + dir.resolve(name + ".log"));
        }
    }

    /** Starts a program of Kafka with the properties {@code name}, and its output in a log of the same name. */
    private Process kafka(String name, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(java()));
        command.addAll(JVM);
        command.addAll(List.of("-Xmx384m", "-Dlog4j2.configurationFile=" + System.getProperty("chaos.log4j"), "-cp", brokerClassPath));
        command.addAll(Arrays.asList(arguments));
        command.add(dir.resolve(name + ".properties").toString());
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        return builder.redirectOutput(ProcessBuilder.Redirect.appendTo(dir.resolve(name + ".log").toFile())).start();
    }

    private static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    /** Starts the controller, unless it runs, and a broker that nothing takes for the one before it. */
    void startBroker() throws Exception {
        if (controller == null) {
            controller = kafka("controller", "kafka.Kafka");
        }
        if (broker != null) {
            forgetBroker();
        }
        broker = kafka("broker", "kafka.Kafka");
    }

    /**
     * Ends what the controller knows of a killed broker. A broker that starts before its old session has ended leads its partitions by the
     * old session, and loses them when this one ends. In between, Kafka 4.3.1 takes partitions without a leader for deleted ones. It leaves
     * out their part of transactions that it commits, the offsets of the input too: "these partitions are likely deleted already and hence
     * can be skipped", as the broker logs it.
     */
    private void forgetBroker() throws Exception {
        try (Admin admin = Admin.create(Map.of(
                AdminClientConfig.BOOTSTRAP_CONTROLLERS_CONFIG, controllerAddress(),
                AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) PATIENCE_MS))) {
            admin.unregisterBroker(BROKER).all().get();
        }
    }

    void killBroker() throws InterruptedException {
        broker.destroyForcibly().waitFor();
    }

    void killController() throws InterruptedException {
        controller.destroyForcibly().waitFor();
        controller = null;
    }

    /** The directory in which an application has its state. */
    Path stateDir(int app) {
        return dir.resolve("state-" + app);
    }

    App app(int app) {
        return apps[app];
    }

    int apps() {
        return apps.length;
    }

    /** Starts an application, with options that overrule those of all. */
    void startApp(int app, String... more) throws IOException {
        List<String> command = new ArrayList<>(List.of(java()));
        command.addAll(JVM);
        command.addAll(appOptions);
        command.addAll(List.of(more));
        command.addAll(List.of("-cp", appClassPath, ChaosApp.class.getName(), address(), stateDir(app).toString()));
        apps[app] = new App(new ProcessBuilder(command).redirectErrorStream(true).start(), dir.resolve("app-" + app + ".log"));
    }

    void killApp(int app) throws InterruptedException {
        apps[app].process.destroyForcibly().waitFor();
        apps[app].reader.join(PATIENCE_MS);
    }

    /** Sends a signal to an application, by its name. */
    void signal(int app, String name) throws IOException, InterruptedException {
        String pid = Long.toString(apps[app].process.pid());
        if (new ProcessBuilder("kill", "-" + name, pid).inheritIO().start().waitFor() != 0) {
            throw new IOException("the signal " + name + " did not reach application " + app);
        }
    }

    /** Waits until an application has been told to end and has closed its stores. */
    void awaitEnd(int app) throws InterruptedException {
        apps[app].process.waitFor(PATIENCE_MS, TimeUnit.MILLISECONDS);
        apps[app].reader.join(PATIENCE_MS);
        if (!apps[app].hasClosed) {
            throw new IllegalStateException("application " + app + " did not close within " + PATIENCE_MS + " ms");
        }
    }

    /** Waits until all applications process. */
    void awaitRunning() throws InterruptedException {
        long endMs = System.currentTimeMillis() + PATIENCE_MS;
        for (int app = 0; app < apps.length; app++) {
            while (!apps[app].isRunning()) {
                if (!apps[app].process.isAlive()) {
                    throw new IllegalStateException("application " + app + " ended; see its log in " + dir);
                }
                if (System.currentTimeMillis() > endMs) {
                    throw new IllegalStateException("application " + app + " is not RUNNING after " + PATIENCE_MS + " ms");
                }
                Thread.sleep(100);
            }
        }
    }

    private void killAll() {
        for (App app : apps) {
            if (app != null) {
                app.process.destroyForcibly();
            }
        }
        for (Process server : Arrays.asList(broker, controller)) {
            if (server != null) {
                server.destroyForcibly();
            }
        }
    }

    /** A process of the application, and what it has printed. */
    static final class App {
        /** A line of the log that says where a restore began. */
        record Restore(String store, int partition, long from) {}

        private final Process process;
        private final Thread reader;
        private final long startMs = System.currentTimeMillis();
        private volatile String realState = "";
        private volatile String emptyState = "";
        private volatile long realMs = -1;
        private volatile long realRunningAtMs = -1;
        private volatile long emptyMs = -1;
        private volatile Set<String> active = Set.of();
        private volatile long activeSinceMs = Long.MAX_VALUE;
        private volatile boolean hasClosed;
        private volatile long mostRss;
        private final List<Restore> restores = new ArrayList<>();
        private long restored;
        private final Set<String> uncaught = new HashSet<>();

        App(Process process, Path log) throws IOException {
            this.process = process;
            PrintWriter writer = new PrintWriter(Files.newBufferedWriter(
                    log, java.nio.file.StandardOpenOption.CREATE, java.nio.file.StandardOpenOption.APPEND));
            reader = new Thread(() -> read(writer));
            reader.setDaemon(true);
            reader.start();
        }

        private void read(PrintWriter log) {
            log.println("--- process " + process.pid());
            try (BufferedReader lines = new BufferedReader(
                            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
                    log) {
                String line;
                while ((line = lines.readLine()) != null) {
                    log.println(System.currentTimeMillis() % 10_000_000 + " " + line);
                    log.flush();
                    take(line.split(" "));
                }
            } catch (IOException error) {
                log.println("the output ends: " + error);
            }
        }

        private synchronized void take(String[] words) {
            switch (words[0]) {
                case "STATE" -> {
                    boolean isReal = words[1].equals(ChaosApp.REAL);
                    long ms = Long.parseLong(words[3]);
                    boolean isRunning = words[2].equals("RUNNING");
                    if (isReal) {
                        if (isRunning && realMs < 0) {
                            realMs = ms;
                            realRunningAtMs = System.currentTimeMillis();
                        }
                        realState = words[2];
                    } else {
                        emptyState = words[2];
                        emptyMs = isRunning && emptyMs < 0 ? ms : emptyMs;
                    }
                }
                case "ACTIVE" -> {
                    active = Set.copyOf(Arrays.asList(words).subList(1, words.length));
                    activeSinceMs = System.currentTimeMillis();
                }
                case "RESTORE" -> restores.add(new Restore(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3])));
                case "RESTORED" -> restored += Long.parseLong(words[3]);
                case "UNCAUGHT" -> uncaught.add(words[2]);
                case "CLOSED" -> hasClosed = true;
                default -> { }
            }
        }

        boolean isRunning() {
            return realState.equals("RUNNING") && emptyState.equals("RUNNING") && process.isAlive();
        }

        boolean isAlive() {
            return process.isAlive();
        }

        /** Milliseconds by which the real topology was RUNNING later than the empty one after the start, or -1 if one was not. */
        long lateMs() {
            return realMs < 0 || emptyMs < 0 ? -1 : Math.max(0, realMs - emptyMs);
        }

        /** The moment at which the real topology was RUNNING first, in milliseconds since the epoch. */
        long realRunningAtMs() {
            if (realRunningAtMs < 0) {
                throw new IllegalStateException("the real topology is not RUNNING");
            }
            return realRunningAtMs;
        }

        /** The tasks that have been active for some seconds without a change. */
        Set<String> settledActive() {
            return System.currentTimeMillis() - activeSinceMs > 3_000 ? active : Set.of();
        }

        synchronized List<Restore> restores() {
            return List.copyOf(restores);
        }

        synchronized long restored() {
            return restored;
        }

        synchronized Set<String> uncaught() {
            return Set.copyOf(uncaught);
        }

        long ageMs() {
            return System.currentTimeMillis() - startMs;
        }

        /** Looks at the memory of the process. Returns the most that was seen, in bytes. */
        long look() {
            try {
                for (String line : Files.readAllLines(Path.of("/proc/" + process.pid() + "/status"))) {
                    if (line.startsWith("VmRSS:")) {
                        mostRss = Math.max(mostRss, Long.parseLong(line.replaceAll("[^0-9]", "")) << 10);
                    }
                }
            } catch (IOException | RuntimeException error) {
                // The process ended meanwhile.
                return mostRss;
            }
            return mostRss;
        }
    }
}
