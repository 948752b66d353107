package io.github.braidb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/** Bytes for the native library, which grow as they are written. Numbers are little-endian. */
final class Packed {
    /** Reads and writes a number of 4 bytes anywhere in an array. */
    static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    /** The longest array that every JVM can make. */
    private static final int MOST_BYTES = Integer.MAX_VALUE - 8;

    private byte[] bytes;
    private int length;

    Packed(int room) {
        bytes = new byte[room];
    }

    /** The array. Bytes from {@link #length()} on mean nothing. */
    byte[] bytes() {
        return bytes;
    }

    int length() {
        return length;
    }

    void clear() {
        length = 0;
    }

    /** The bytes alone. */
    byte[] toArray() {
        return Arrays.copyOf(bytes, length);
    }

    /** Makes room for more bytes. Throws {@link BraidException.Code#TOO_LARGE} if no array is as long. */
    void reserve(long more) {
        long needed = length + more;
        if (needed <= bytes.length) {
            return;
        }
        if (needed > MOST_BYTES) {
            throw new BraidException(
                    BraidException.Code.TOO_LARGE,
                    "the call has " + needed + " bytes together; the limit is " + MOST_BYTES + ": split it");
        }
        bytes = Arrays.copyOf(bytes, (int) Math.min(MOST_BYTES, Math.max(needed, 2L * bytes.length)));
    }

    /** Adds a number. The caller has made room. */
    void add(int number) {
        INT.set(bytes, length, number);
        length += Integer.BYTES;
    }

    /** Adds bytes. The caller has made room. */
    void add(byte[] more) {
        System.arraycopy(more, 0, bytes, length, more.length);
        length += more.length;
    }

    /** Adds one byte. The caller has made room. */
    void add(byte one) {
        bytes[length++] = one;
    }

    /** Adds an element of a list: its length and its bytes. */
    void addElement(byte[] element) {
        reserve(Integer.BYTES + (long) element.length);
        add(element.length);
        add(element);
    }

    /** The list of byte arrays as the native library takes it. */
    static byte[] list(List<byte[]> elements) {
        long bytes = 0;
        for (byte[] element : elements) {
            bytes += Integer.BYTES + (long) element.length;
        }
        Packed packed = new Packed(0);
        packed.reserve(bytes);
        elements.forEach(packed::addElement);
        return packed.toArray();
    }

    /** The values of a list that the native library made. A length of -1 stands for no value, which becomes null. */
    static byte[][] values(byte[] list, int count) {
        byte[][] values = new byte[count][];
        int at = 0;
        for (int index = 0; index < count; index++) {
            int length = (int) INT.get(list, at);
            at += Integer.BYTES;
            if (length >= 0) {
                values[index] = Arrays.copyOfRange(list, at, at + length);
                at += length;
            }
        }
        return values;
    }

    /** The path as the native library takes it. Throws {@link BraidException.Code#INVALID} if it would be the path of another directory. */
    static byte[] path(Path path) {
        String text = path.toString();
        if (path.getFileSystem() != FileSystems.getDefault()) {
            throw new BraidException(
                    BraidException.Code.INVALID,
                    "the path " + text + " belongs to the file system " + path.getFileSystem().provider().getScheme()
                            + "; a database lies in a directory of the default file system");
        }
        if (!isFaithful(path, text)) {
            throw new BraidException(
                    BraidException.Code.INVALID,
                    "the path " + text + " has bytes that are no characters in the locale of this JVM; start it in a"
                            + " locale of UTF-8, or rename the directory");
        }
        return utf8(text);
    }

    private static boolean isFaithful(Path path, String text) {
        try {
            return Path.of(text).equals(path);
        } catch (InvalidPathException error) {
            return false;
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }
}
