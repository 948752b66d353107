package io.github.braidb.streams;

import java.util.Arrays;
import java.util.function.BooleanSupplier;

/** Waits of tests for what other threads do. */
final class Await {
    /** How long a test waits before it fails, 30 s: a clean-up in turn comes after 60 s. */
    private static final long MOST_NANOS = 30_000_000_000L;

    private Await() {}

    /** Whether a condition becomes true. */
    static boolean comesTrue(BooleanSupplier condition) {
        long begin = System.nanoTime();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - begin > MOST_NANOS) {
                return false;
            }
            pause();
        }
        return true;
    }

    private static void pause() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException error) {
            throw new IllegalStateException("no code interrupts a test", error);
        }
    }

    /** Whether a thread is in a method of {@link BraidSpace}. */
    static boolean isIn(String method) {
        return Thread.getAllStackTraces().values().stream()
                .flatMap(Arrays::stream)
                .anyMatch(frame -> frame.getClassName().startsWith(BraidSpace.class.getName())
                        && frame.getMethodName().equals(method));
    }
}
