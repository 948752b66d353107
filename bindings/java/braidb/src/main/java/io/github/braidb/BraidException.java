package io.github.braidb;

import java.nio.file.Path;
import java.util.Optional;

/**
 * What went wrong, and where. The message tells what to do.
 *
 * <p>A write that failed with {@link Code#POISONED} is undecided: it may be there after the next open. After any other error nothing of the
 * write is in the database.
 */
public final class BraidException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The kinds of errors. The names are those of all bindings of BraidDB. */
    public enum Code {
        /** No error. No exception has this code. */
        OK,
        /** There is no such entry. No exception has this code. */
        NOT_FOUND,
        /** The storage refused an operation. */
        IO,
        /** Bytes on disk are not the bytes that were written. {@link #path()} and {@link #offset()} tell where. */
        CORRUPTION,
        /** The directory holds no database, and the options do not allow to create one. */
        MISSING,
        /** The directory holds a database, and the options ask for a new one. */
        EXISTS,
        /** The directory holds files of another store, or is a slow tier or a file. */
        NOT_A_DATABASE,
        /** A newer version wrote the database. */
        UNSUPPORTED,
        /** The database is open already, here or in another process. */
        LOCKED,
        /** The file {@code LOCK} was removed or replaced while it was locked. */
        LOCK_LOST,
        /** The directory of a slow tier cannot be used. */
        TIER,
        /** An argument or an option has a value that cannot work. */
        INVALID,
        /** A key, a value or a batch is over the limits. */
        TOO_LARGE,
        /** A family belongs to another database. */
        FOREIGN,
        /** The disk is full. */
        FULL,
        /** Writing stopped after an earlier failure. Reads go on. */
        POISONED,
        /** The object, or its database, was closed. */
        CLOSED,
        /** The process was forked after the database was opened. */
        FORKED,
        /** A bug of BraidDB. */
        PANIC,
        /** Another write changed what a transaction had read. */
        CONFLICT,
        /** The database was opened to read. */
        READ_ONLY,
        /** The database has no such family. */
        MISSING_FAMILY,
        /** A buffer is too short. No exception has this code. */
        SHORT_BUFFER,
        /** Something else. */
        OTHER,
        /** A snapshot is older than an excise of keys that it was to read. */
        EXCISED
    }

    /** The kind of the error. */
    private final Code code;

    /** The file or directory that the error names, or null. */
    private final String path;

    /** The offset of damage in the file, in bytes. */
    private final long offset;

    BraidException(Code code, String message) {
        this(code, message, null, 0);
    }

    BraidException(Code code, String message, String path, long offset) {
        super(message);
        this.code = code;
        this.path = path;
        this.offset = offset;
    }

    /**
     * The kind of the error.
     *
     * @return the code
     */
    public Code code() {
        return code;
    }

    /**
     * The file or directory that the error names.
     *
     * @return the path, if the error names one
     */
    public Optional<Path> path() {
        return Optional.ofNullable(path).map(Path::of);
    }

    /**
     * Where in the file {@link #path()} the damage begins. 0 for errors other than {@link Code#CORRUPTION}.
     *
     * @return the offset in bytes
     */
    public long offset() {
        return offset;
    }
}
