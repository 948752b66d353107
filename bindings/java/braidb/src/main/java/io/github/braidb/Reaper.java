package io.github.braidb;

import java.lang.ref.PhantomReference;
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Frees what unreachable objects own, on threads of its own. A {@link java.lang.ref.Cleaner} does the same, but a thread that waits for
 * native memory can help by {@link #freeOne}.
 */
final class Reaper {
    private static final ReferenceQueue<Object> UNREACHABLE = new ReferenceQueue<>();

    /** Owners whose free may take long, such as the close of a database. A thread that waits for memory does not free them. */
    private static final ReferenceQueue<Object> SLOW = new ReferenceQueue<>();

    /** Keeps the entries reachable until they are freed. */
    private static final Set<Entry> ENTRIES = ConcurrentHashMap.newKeySet();

    static {
        start("braidb-reaper", UNREACHABLE);
        start("braidb-closer", SLOW);
    }

    private Reaper() {}

    /** Starts the threads, unless they run. */
    static void begin() {}

    /** A thread that inherits no values, so that it keeps no class loader of the caller. */
    private static void start(String name, ReferenceQueue<Object> queue) {
        Thread thread = new Thread(null, () -> work(queue), name, 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(null);
        thread.start();
    }

    /** What becomes free with an owner. */
    static final class Entry extends PhantomReference<Object> {
        private final Runnable free;

        private Entry(Object owner, Runnable free, ReferenceQueue<Object> queue) {
            super(owner, queue);
            this.free = free;
        }

        /** Runs the action, unless it was run before. */
        void free() {
            if (ENTRIES.remove(this)) {
                clear();
                free.run();
            }
        }
    }

    /** Has {@code free} run once {@code owner} is unreachable, or earlier by {@link Entry#free}. It must not refer to the owner. */
    static Entry register(Object owner, Runnable free) {
        return register(owner, free, UNREACHABLE);
    }

    /** As {@link #register}, where {@code free} may take long. */
    static Entry registerSlow(Object owner, Runnable free) {
        return register(owner, free, SLOW);
    }

    private static Entry register(Object owner, Runnable free, ReferenceQueue<Object> queue) {
        Entry entry = new Entry(owner, free, queue);
        ENTRIES.add(entry);
        Reference.reachabilityFence(owner);
        return entry;
    }

    /** Frees what one unreachable object owned. Returns whether there was one. */
    static boolean freeOne() {
        Reference<?> next = UNREACHABLE.poll();
        if (next == null) {
            return false;
        }
        try {
            ((Entry) next).free();
        } catch (RuntimeException | Error error) {
            // The engine has printed the panic, and the caller's own work has not failed.
        }
        return true;
    }

    private static void work(ReferenceQueue<Object> queue) {
        while (true) {
            try {
                ((Entry) queue.remove()).free();
            } catch (InterruptedException error) {
                // No code of the package interrupts this thread, and it ends with the JVM.
            } catch (RuntimeException | Error error) {
                // The engine has printed the panic. Later entries are freed as before.
            }
        }
    }
}
