package io.github.braidb;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * How to open a database. Nothing has to be set. {@code docs/options.md} has all options with their ranges and defaults.
 *
 * <p>Values are checked when a database is opened: {@link BraidException.Code#INVALID} tells what is wrong. Options are for one thread at a
 * time, and may be used for several opens.
 */
public final class Options {
    private final List<byte[]> settings = new ArrayList<>();

    /** Options with all defaults. */
    public Options() {}

    /**
     * The names of all options that {@link #set} takes, tuning included.
     *
     * @return the names
     */
    public static List<String> names() {
        return Packed.text(Native.optionNames()).lines().toList();
    }

    /**
     * Sets an option by its name in {@code docs/options.md}.
     *
     * @param name the name, such as {@code "memtable_bytes"}
     * @param value the value as text: a number, {@code "true"}, {@code "none"}, a time such as {@code "500ms"}
     * @return these options
     */
    public Options set(String name, String value) {
        settings.add(Packed.utf8(name));
        settings.add(Packed.utf8(value));
        return this;
    }

    /**
     * Whether an open creates a missing database. True by default.
     *
     * @param yes whether it does
     * @return these options
     */
    public Options createIfMissing(boolean yes) {
        return set("create_if_missing", Boolean.toString(yes));
    }

    /**
     * Whether an open refuses a database that exists, with {@link BraidException.Code#EXISTS}. False by default.
     *
     * @param yes whether it does
     * @return these options
     */
    public Options createNew(boolean yes) {
        return set("create_new", Boolean.toString(yes));
    }

    /**
     * The durability of writes that name none. {@link Durability#BUFFER} by default.
     *
     * @param durability the durability
     * @return these options
     */
    public Options durability(Durability durability) {
        return set("durability", durability.name().toLowerCase(java.util.Locale.ROOT));
    }

    /**
     * The memory of the whole database in bytes: memtables, block cache, indices and filters of tables, threads.
     *
     * @param bytes the limit in bytes
     * @return these options
     */
    public Options memoryLimit(long bytes) {
        return set("memory_limit", Long.toString(bytes));
    }

    /**
     * The memory of writes that are not flushed yet, in bytes.
     *
     * @param bytes the budget in bytes
     * @return these options
     */
    public Options memtableBytes(long bytes) {
        return set("memtable_bytes", Long.toString(bytes));
    }

    /**
     * The memory of blocks that were read, in bytes.
     *
     * @param bytes the size in bytes
     * @return these options
     */
    public Options blockCacheBytes(long bytes) {
        return set("block_cache_bytes", Long.toString(bytes));
    }

    /**
     * A directory on a slower device, to which entries move that are seldom read. May be called several times.
     *
     * @param dir the directory, whose path must be Unicode
     * @return these options
     * @throws BraidException {@code INVALID}: the path is of another file system than the default one
     */
    public Options slowPath(Path dir) {
        return set("slow_path", Packed.text(Packed.path(dir)));
    }

    /**
     * How long an open waits for another one to end. Zero by default.
     *
     * @param time the time, which is rounded down to milliseconds
     * @return these options
     */
    public Options waitForLock(Duration time) {
        return set("wait_for_lock", time.toMillis() + "ms");
    }

    /** Names and values, one after the other. */
    byte[] packed() {
        return Packed.list(settings);
    }
}
