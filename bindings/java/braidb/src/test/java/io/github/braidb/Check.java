package io.github.braidb;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Objects;
import java.util.Random;

/** What tests demand, and what they begin with. */
final class Check {
    private Check() {}

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void same(Object expected, Object actual) {
        that(Objects.equals(expected, actual), "expected " + expected + ", and not " + actual);
    }

    /** Demands a text as bytes; null for no bytes. */
    static void bytes(String expected, byte[] actual) {
        same(expected, actual == null ? null : new String(actual, StandardCharsets.ISO_8859_1));
    }

    /** Demands that a call fails with a code. Returns the exception. */
    static BraidException fails(BraidException.Code code, Runnable call) {
        try {
            call.run();
        } catch (BraidException error) {
            that(error.code() == code, "expected " + code + ", and not " + error.code() + ": " + error.getMessage());
            return error;
        }
        throw new AssertionError("expected " + code + ", and nothing was thrown");
    }

    /** Demands that a call fails with an exception of Java. */
    static void throwsA(Class<? extends Throwable> kind, Runnable call) {
        try {
            call.run();
        } catch (Throwable error) {
            that(kind.isInstance(error), "expected " + kind + ", and not " + error);
            return;
        }
        throw new AssertionError("expected " + kind + ", and nothing was thrown");
    }

    /** Demands bytes. */
    static void sameBytes(byte[] expected, byte[] actual) {
        int at = Arrays.mismatch(expected, actual);
        that(at < 0, "arrays of " + expected.length + " and " + actual.length + " bytes differ from " + at + " on");
    }

    /** Bytes of a length, of which no two arrays are alike. */
    static byte[] random(Random random, int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    /** A text as bytes. */
    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    /** A new directory, which the caller of the tests deletes. */
    static Path dir() {
        try {
            return Files.createTempDirectory(Path.of(System.getProperty("braidb.test.dir")), "test");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A new database. */
    static BraidDb db() {
        return BraidDb.open(dir().resolve("db"));
    }
}
