package io.github.braidb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;

/**
 * A native object that a Java object owns. It is freed once: at the close of its owner, or when the collector finds the owner unreachable.
 *
 * <p>Each call holds the native object between {@link #acquire} and {@link #release}. A close that races a call lets the call end, and the
 * call frees the object then. So no call touches memory that was freed, and no call waits for another one.
 */
final class Handle implements Runnable {

    /** The bit of {@link #uses} that says that the owner was closed. */
    private static final int CLOSED = Integer.MIN_VALUE;

    private static final VarHandle USES;

    static {
        try {
            USES = MethodHandles.lookup().findVarHandle(Handle.class, "uses", int.class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    /** The number of calls under way, and {@link #CLOSED}. */
    private volatile int uses;

    /** 0 until the native object is made. */
    private long pointer;

    private final LongConsumer free;
    private final String closed;
    private final long firstBytes;
    private final AtomicLong bytes;
    private Reaper.Entry entry;

    private Handle(LongConsumer free, long bytes, String closed) {
        this.free = free;
        this.closed = closed;
        this.firstBytes = bytes;
        this.bytes = new AtomicLong();
    }

    /**
     * A native object for {@code owner}. It is made when all is ready to free it, so an error on the way leaks nothing.
     *
     * @param make makes the native object
     * @param free a method of {@link Native}, which must not refer to the owner
     * @param bytes the native memory of the object in bytes, about
     * @param closed what a call after the close says
     */
    static Handle of(Object owner, LongSupplier make, LongConsumer free, long bytes, String closed) {
        Handle handle = new Handle(free, bytes, closed);
        handle.entry = Reaper.register(owner, handle);
        try {
            handle.pointer = make.getAsLong();
        } finally {
            if (handle.pointer == 0) {
                handle.entry.free();
            }
        }
        handle.bytes.set(bytes);
        NativeMemory.add(bytes);
        Reference.reachabilityFence(owner);
        return handle;
    }

    /** The pointer for a call, which ends with {@link #release}. Throws if the owner was closed. */
    long acquire() {
        while (true) {
            int now = uses;
            if (now < 0) {
                throw new BraidException(BraidException.Code.CLOSED, closed);
            }
            if (USES.compareAndSet(this, now, now + 1)) {
                return pointer;
            }
        }
    }

    void release() {
        if ((int) USES.getAndAdd(this, -1) - 1 == CLOSED) {
            free();
        }
    }

    boolean isClosed() {
        return uses < 0;
    }

    /** Closes the owner. The native object is freed when no call is under way. A second close does nothing. */
    void close() {
        entry.free();
    }

    /** What runs once: at the close, or when the owner is unreachable. */
    @Override
    public void run() {
        if ((int) USES.getAndBitwiseOr(this, CLOSED) == 0) {
            free();
        }
    }

    /** Counts more native memory of the object. The caller has acquired the handle. */
    void grow(long more) {
        bytes.addAndGet(more);
        NativeMemory.count(more);
    }

    /** Counts the native memory beyond that of a new object. The caller has acquired the handle. */
    void setGrown(long grown) {
        NativeMemory.count(firstBytes + grown - bytes.getAndSet(firstBytes + grown));
    }

    /** The native memory beyond that of a new object. The caller has acquired the handle. */
    long grown() {
        return bytes.get() - firstBytes;
    }

    /** Counts the native memory of a new object. The caller has acquired the handle. */
    void shrink() {
        NativeMemory.remove(bytes.getAndSet(firstBytes) - firstBytes);
    }

    private void free() {
        NativeMemory.remove(bytes.getAndSet(0));
        if (pointer != 0) {
            free.accept(pointer);
        }
    }
}
