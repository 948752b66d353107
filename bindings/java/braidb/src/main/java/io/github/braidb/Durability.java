package io.github.braidb;

/**
 * What an acknowledged write survives. Lost writes are always the latest ones, and never half a batch.
 *
 * <p>The order of the constants is known to the native library.
 */
public enum Durability {
    /** In the process's buffer. A killed process loses the latest writes, and so does a power failure. */
    NONE,
    /** Handed to the operating system. A killed process loses nothing, a power failure what was not synced. The default. */
    BUFFER,
    /** On stable storage, together with all earlier writes. Nothing is lost. */
    SYNC;

    /** What stands for the durability of the options in calls of the native library. */
    static final int OF_OPTIONS = -1;
}
