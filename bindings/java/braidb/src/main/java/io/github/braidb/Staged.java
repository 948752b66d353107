package io.github.braidb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.util.Objects;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;

/**
 * What overlays and transactions have in common: writes that wait, and reads that see them over the database.
 *
 * <p>This object owns the native part. It is reachable while a call runs, even where its overlay or transaction is not any more.
 */
final class Staged {
    /** The native memory without staged writes, about. */
    private static final long BYTES = 1 << 10;

    /** What a staged write takes besides its key and value, about. */
    private static final long BYTES_OF_A_WRITE = 190;

    private static final VarHandle WRITES;

    static {
        try {
            WRITES = MethodHandles.lookup().findVarHandle(Staged.class, "writes", int.class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    final Family defaultFamily;
    private final Handle handle;
    private final boolean isTransaction;

    /** The number of writes that were staged in a transaction. */
    private volatile int writes;

    Staged(Family defaultFamily, boolean isTransaction, LongSupplier make, String closed) {
        this.defaultFamily = defaultFamily;
        this.isTransaction = isTransaction;
        handle = Handle.of(this, make, Native::freeStaged, BYTES, closed);
    }

    void put(Family family, byte[] key, byte[] value) {
        long bytes = BYTES_OF_A_WRITE + key.length + value.length;
        run(family, pointer -> {
            count(Native.stagedPut(pointer, family.home(), key, value), bytes);
        });
    }

    void delete(Family family, byte[] key) {
        long bytes = BYTES_OF_A_WRITE + key.length;
        run(family, pointer -> {
            count(Native.stagedDelete(pointer, family.home(), key), bytes);
        });
    }

    /** Counts the bytes that the native library tells, or those of the write where it does not tell: twice where a key is staged twice. */
    private void count(long told, long bytes) {
        if (told >= 0) {
            handle.setGrown(told);
        } else {
            handle.grow(bytes);
        }
        if (isTransaction) {
            WRITES.getAndAdd(this, 1);
        }
    }

    /** A number that changes with each write that scans show which began before. Scans of overlays show none. */
    int writesToShow() {
        return writes;
    }

    byte[] get(Family family, byte[] key) {
        Objects.requireNonNull(key, "key");
        return with(family, pointer -> Native.stagedGet(pointer, family.home(), key));
    }

    boolean contains(Family family, byte[] key) {
        Objects.requireNonNull(key, "key");
        return with(family, pointer -> Native.stagedContains(pointer, family.home(), key));
    }

    Scan scan(Family family, Range range, boolean isBackward) {
        byte[] packed = range.packed();
        return with(family, pointer ->
                new Scan(this, () -> Native.scan(pointer, family.home(), packed, isBackward)));
    }

    void commit(int durability) {
        run(defaultFamily, pointer -> {
            try {
                Native.stagedCommit(pointer, durability);
            } catch (RuntimeException | Error error) {
                // A transaction has ended, and an overlay still has its writes.
                if (isTransaction) {
                    handle.shrink();
                }
                throw error;
            }
            handle.shrink();
        });
    }

    /** The native memory of what is staged, about, as {@link NativeMemory} counts it. */
    long memoryBytes() {
        return with(defaultFamily, pointer -> handle.grown());
    }

    void rollBack() {
        run(defaultFamily, pointer -> {
            Native.stagedRollBack(pointer);
            handle.shrink();
        });
    }

    void close() {
        handle.close();
    }

    <T> T with(Family family, LongFunction<T> call) {
        long pointer = handle.acquire();
        try {
            return call.apply(pointer);
        } finally {
            handle.release();
            Reference.reachabilityFence(family);
            Reference.reachabilityFence(this);
        }
    }

    private void run(Family family, LongConsumer call) {
        with(family, pointer -> {
            call.accept(pointer);
            return null;
        });
    }
}
