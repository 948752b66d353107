package io.github.braidb;

import java.lang.ref.Reference;
import java.util.Objects;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * What overlays and transactions have in common: writes that wait, and reads that see them over the database.
 *
 * <p>This object owns the native part. It is reachable while a call runs, even where its overlay or transaction is not any more.
 */
final class Staged {
    /** The native memory without staged writes, about. */
    private static final long BYTES = 1 << 10;

    /** What a staged write takes besides its key and value, about. */
    private static final long BYTES_OF_A_WRITE = 150;

    final Family defaultFamily;
    private final Handle handle;

    Staged(Family defaultFamily, long pointer, String closed) {
        this.defaultFamily = defaultFamily;
        handle = Handle.of(this, pointer, Native::freeStaged, BYTES, closed);
    }

    void put(Family family, byte[] key, byte[] value) {
        long bytes = BYTES_OF_A_WRITE + key.length + value.length;
        run(family, pointer -> {
            Native.stagedPut(pointer, family.home(), key, value);
            handle.grow(bytes);
        });
    }

    void delete(Family family, byte[] key) {
        long bytes = BYTES_OF_A_WRITE + key.length;
        run(family, pointer -> {
            Native.stagedDelete(pointer, family.home(), key);
            handle.grow(bytes);
        });
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
        return with(family, pointer ->
                new Scan(Native.scan(pointer, family.home(), range.packed(), isBackward)));
    }

    void commit(int durability) {
        run(defaultFamily, pointer -> {
            Native.stagedCommit(pointer, durability);
            handle.shrink();
        });
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
