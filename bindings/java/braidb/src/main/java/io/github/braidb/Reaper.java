package io.github.braidb;

import java.lang.ref.PhantomReference;
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Frees what unreachable objects own, on a thread of its own. A {@link java.lang.ref.Cleaner} does the same, but a thread that waits for
 * native memory can help this one by {@link #freeOne}.
 */
final class Reaper {
    private static final ReferenceQueue<Object> UNREACHABLE = new ReferenceQueue<>();

    /** Keeps the entries reachable until they are freed. */
    private static final Set<Entry> ENTRIES = ConcurrentHashMap.newKeySet();

    static {
        Thread thread = new Thread(Reaper::work, "braidb-reaper");
        thread.setDaemon(true);
        thread.setContextClassLoader(null);
        thread.start();
    }

    private Reaper() {}

    /** What becomes free with an owner. */
    static final class Entry extends PhantomReference<Object> {
        private final Runnable free;

        private Entry(Object owner, Runnable free) {
            super(owner, UNREACHABLE);
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
        Entry entry = new Entry(owner, free);
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
        ((Entry) next).free();
        return true;
    }

    private static void work() {
        while (true) {
            try {
                ((Entry) UNREACHABLE.remove()).free();
            } catch (InterruptedException error) {
                // No code of the package interrupts this thread, and it ends with the JVM.
            } catch (RuntimeException | Error error) {
                // The engine has printed the panic. Later entries are freed as before.
            }
        }
    }
}
