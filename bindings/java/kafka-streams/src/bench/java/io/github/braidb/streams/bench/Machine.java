package io.github.braidb.streams.bench;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/** What this process takes of the machine. */
final class Machine {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** Time between two looks at what the process does, 100 ms. */
    private static final long LOOK_MS = 100;

    /** Looks in a row that see a quiet process before it counts as settled: 2 s, more than any pause between two merges. */
    private static final int QUIET_LOOKS = 20;

    /** Processor time between two looks of a quiet process, 10 ms: a tenth of one core. */
    private static final long QUIET_NS = 10_000_000;

    /** Bytes written between two looks by a quiet process, 64 KiB. */
    private static final long QUIET_BYTES = 64 << 10;

    private Machine() {}

    /** Processor time of the process so far, in nanoseconds. */
    static long processorNs() {
        return SYSTEM.getProcessCpuTime();
    }

    /** Bytes that the process has written to files so far, as the kernel counts dirtied pages. */
    static long writtenBytes() {
        return field("/proc/self/io", "write_bytes:");
    }

    /** The most memory that the process had, in bytes. */
    static long peakBytes() {
        return field("/proc/self/status", "VmHWM:") << 10;
    }

    private static long field(String file, String name) {
        try {
            for (String line : Files.readAllLines(Path.of(file))) {
                if (line.startsWith(name)) {
                    return Long.parseLong(line.substring(name.length()).replace("kB", "").trim());
                }
            }
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        throw new IllegalStateException(file + " has no " + name);
    }

    /** Bytes that a directory takes on its device. */
    static long diskBytes(Path dir) throws IOException {
        Process du = new ProcessBuilder("du", "-s", "-B1", dir.toString()).redirectErrorStream(true).start();
        String said = new String(du.getInputStream().readAllBytes());
        return Long.parseLong(said.split("\\s")[0]);
    }

    /**
     * Waits until no thread of the process works in the background.
     *
     * @return the last moment when one did, as {@link System#nanoTime}
     */
    static long settle() throws InterruptedException {
        long last = System.nanoTime();
        long processor = processorNs();
        long written = writtenBytes();
        for (int quiet = 0; quiet < QUIET_LOOKS;) {
            Thread.sleep(LOOK_MS);
            long processorNow = processorNs();
            long writtenNow = writtenBytes();
            quiet++;
            if (processorNow - processor > QUIET_NS || writtenNow - written > QUIET_BYTES) {
                quiet = 0;
                last = System.nanoTime();
            }
            processor = processorNow;
            written = writtenNow;
        }
        return last;
    }
}
