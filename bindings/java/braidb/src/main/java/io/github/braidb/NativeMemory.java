package io.github.braidb;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Counts the native memory behind Java objects, and prompts the garbage collector when there is too much.
 *
 * <p>The collector does not know that a small cursor keeps kilobytes of native memory. A program that leaks cursors could fill the memory of
 * the process long before the heap is full.
 */
final class NativeMemory {
    /** The bytes that are held before the collector is prompted: 64 MiB. The property {@code braidb.native.bytes} sets another number. */
    static final long BOUND = Long.getLong("braidb.native.bytes", 64L << 20);

    /** How long a thread waits for the end of a collection: 1 s. Where explicit collections are off, there is none. */
    private static final long COLLECTION_SECONDS = 1;

    /** How long a thread waits for further unreachable objects before it runs the collector again: 50 ms. */
    private static final long PATIENCE_NANOS = 50_000_000;

    /** A pause between two looks for unreachable objects: 1 ms. */
    private static final long PAUSE_NANOS = 1_000_000;

    /** How long the limit stays up after a prompt that found too little: 10 s, so that objects in use cost few collections. */
    private static final long QUIET_NANOS = 10_000_000_000L;

    private static final AtomicLong HELD = new AtomicLong();

    /** A thread that finds another one prompting goes on. */
    private static final ReentrantLock PROMPTING = new ReentrantLock();

    /** The collector is prompted above this number of bytes. Above the bound while objects in use alone take more than the bound. */
    private static volatile long limit = BOUND;

    /** Until then the limit is not lowered. */
    private static volatile long quietUntil = System.nanoTime();

    /** A collection handed over nothing in time, so explicit collections are off, and no thread waits for one again. */
    private static volatile boolean isDeaf;

    private NativeMemory() {}

    /** The bytes that are held now, about. */
    static long held() {
        return HELD.get();
    }

    /** Counts bytes that a new object holds. Waits for the collector if there are too many. */
    static void add(long bytes) {
        if (HELD.addAndGet(bytes) > limit) {
            prompt();
        }
    }

    /** Counts bytes that an object in use holds besides. They prompt no collection, since it would not free them. */
    static void count(long bytes) {
        HELD.addAndGet(bytes);
    }

    /** Counts bytes that are held no more. The limit follows what is held, once it is 4 times as large. */
    static void remove(long bytes) {
        long held = HELD.addAndGet(-bytes);
        long now = limit;
        if (now > BOUND && held < now / 4 && System.nanoTime() - quietUntil >= 0) {
            limit = Math.max(BOUND, 2 * held);
        }
    }

    private static void prompt() {
        if (!PROMPTING.tryLock()) {
            return;
        }
        // A thread with its interrupt flag set cannot park.
        boolean wasInterrupted = Thread.interrupted();
        try {
            if (HELD.get() > limit) {
                collectTwice();
            }
        } finally {
            PROMPTING.unlock();
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void collectTwice() {
        collect();
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (!isDeaf && HELD.get() > BOUND / 2 && System.nanoTime() - end < 0) {
            if (!Reaper.freeOne()) {
                LockSupport.parkNanos(PAUSE_NANOS);
            }
        }
        if (HELD.get() > BOUND) {
            // The JVM hands over what a collection found before it hands over what the next one found. So after a second collection the
            // objects that are left were reachable at the first one, however slow the machine is.
            collect();
            boolean isMore = true;
            while (isMore && HELD.get() > BOUND / 2) {
                isMore = Reaper.freeOne();
            }
        }
        if (HELD.get() > BOUND) {
            quietUntil = System.nanoTime() + QUIET_NANOS;
        }
        limit = Math.max(BOUND, 2 * HELD.get());
    }

    /** Runs the collector, and waits until the JVM hands over what it found. */
    private static void collect() {
        CountDownLatch handed = new CountDownLatch(1);
        Reaper.register(new Object(), handed::countDown);
        System.gc();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(COLLECTION_SECONDS);
        while (!isDeaf && handed.getCount() > 0) {
            if (!Reaper.freeOne()) {
                LockSupport.parkNanos(PAUSE_NANOS);
            }
            isDeaf = handed.getCount() > 0 && System.nanoTime() - end >= 0;
        }
    }
}
