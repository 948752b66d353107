package io.github.braidb;

/**
 * The functions of the native library. Texts and paths are bytes in UTF-8. A {@code home} is a column family with its database.
 *
 * <p>Callers keep the owners of handles reachable until a call has returned.
 */
final class Native {
    static {
        // A thread that cannot be started fails here, before there is a native object that it is to free.
        Reaper.begin();
        NativeLibrary.load();
        NativeLibrary.check(Packed.text(start(new OutOfMemoryError(
                "BraidDB could not make the exception for an error, for want of heap; the call has failed"))));
    }

    private Native() {}

    /** The native library throws by this method. */
    private static void raise(byte[] code, byte[] message, byte[] path, long offset) {
        String where = path == null ? null : Packed.text(path);
        throw new BraidException(BraidException.Code.valueOf(Packed.text(code)), Packed.text(message), where, offset);
    }

    /**
     * Comes before all other calls, and returns the version of the library.
     *
     * @param spare what the native library throws where it cannot make another exception
     */
    private static native byte[] start(Throwable spare);

    static native long open(byte[] path, byte[] options, boolean isReadOnly);

    static native void close(long home);

    static native boolean isClosed(long home);

    static native void freeHome(long home);

    static native byte[] optionNames();

    static native byte[] verifyPath(byte[] path, byte[] options);

    static native void destroy(byte[] path);

    static native void put(long home, byte[] key, byte[] value, int durability);

    static native void delete(long home, byte[] key, int durability);

    static native byte[] get(long home, byte[] key);

    static native boolean contains(long home, byte[] key);

    static native byte[] getMany(long home, byte[] keys);

    static native void write(long home, byte[] writes, int length, long[] homes, int durability);

    static native long family(long home, byte[] name, boolean isCreated);

    static native byte[] families(long home);

    static native void persist(long home, int durability);

    static native void flush(long home);

    static native void settle(long home);

    static native void compact(long home);

    static native void compactRange(long home, byte[] range);

    static native void excise(long home, byte[] ranges);

    static native long[] estimate(long home, byte[] range);

    static native long[] checkpoint(long home, byte[] dir);

    static native byte[] statistics(long home);

    static native byte[] verify(long home);

    static native long cursor(long home, long snapshot, byte[] range);

    static native int cursorFill(long cursor, int movement, byte[] key, byte[] buffer, int room);

    static native void freeCursor(long cursor);

    static native long snapshot(long home);

    static native void freeSnapshot(long snapshot);

    static native byte[] snapshotGet(long snapshot, long home, byte[] key);

    static native boolean snapshotContains(long snapshot, long home, byte[] key);

    static native byte[] snapshotGetMany(long snapshot, long home, byte[] keys);

    static native long overlay(long home);

    static native long transaction(long home);

    static native void freeStaged(long staged);

    static native byte[] stagedGet(long staged, long home, byte[] key);

    static native boolean stagedContains(long staged, long home, byte[] key);

    static native long stagedPut(long staged, long home, byte[] key, byte[] value);

    static native long stagedDelete(long staged, long home, byte[] key);

    static native void stagedCommit(long staged, int durability);

    static native void stagedRollBack(long staged);

    static native long overlayCount(long staged);

    static native long overlayBytes(long staged);

    static native long scan(long staged, long home, byte[] range, boolean isBackward);

    static native int scanFill(long scan, byte[] key, byte[] buffer, int room);

    static native void freeScan(long scan);
}
