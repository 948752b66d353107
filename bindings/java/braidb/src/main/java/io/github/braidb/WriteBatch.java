package io.github.braidb;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Writes that {@link BraidDb#write} applies together or not at all, in their order, over any families of one database.
 *
 * <p>The writes lie in one array on the heap, so a batch needs no close. A batch is for one thread at a time. A key or a value over the
 * limits, and a family of another database, are refused when the batch is written.
 */
public final class WriteBatch {
    /** Bytes in front of the key of a write: family, key length, value length. */
    private static final int HEAD_BYTES = 3 * Integer.BYTES;

    /** The length of a value that stands for a delete. */
    private static final int DELETE = -1;

    /** Bytes of a new batch: a few small writes. */
    private static final int FIRST_BYTES = 256;

    private final Packed writes = new Packed(FIRST_BYTES);

    /** The families that the writes name, by the place that stands in the writes, less one. Place 0 is the default family. */
    private final List<Family> families = new ArrayList<>();

    /** The place of each family in {@link #families}, plus one. */
    private final Map<Family, Integer> places = new IdentityHashMap<>();

    private int count;

    /** An empty batch. */
    public WriteBatch() {}

    /**
     * Adds a put to the default family.
     *
     * @param key the key
     * @param value the value
     * @return this batch
     * @throws BraidException {@code TOO_LARGE}: the batch would have more than 2,147,483,639 bytes
     */
    public WriteBatch put(byte[] key, byte[] value) {
        return add(0, key, value);
    }

    /**
     * Adds a put to a family.
     *
     * @param family the family
     * @param key the key
     * @param value the value
     * @return this batch
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public WriteBatch put(Family family, byte[] key, byte[] value) {
        return add(placeOf(family), key, value);
    }

    /**
     * Adds a delete to the default family. A missing key is no error.
     *
     * @param key the key
     * @return this batch
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public WriteBatch delete(byte[] key) {
        return addDelete(0, key);
    }

    /**
     * Adds a delete to a family. A missing key is no error.
     *
     * @param family the family
     * @param key the key
     * @return this batch
     * @throws BraidException as {@link #put(byte[], byte[])}
     */
    public WriteBatch delete(Family family, byte[] key) {
        return addDelete(placeOf(family), key);
    }

    /** Removes all writes, and keeps the memory. */
    public void clear() {
        writes.clear();
        families.clear();
        places.clear();
        count = 0;
    }

    /**
     * The number of writes.
     *
     * @return the number
     */
    public int count() {
        return count;
    }

    /**
     * The bytes that the writes take in memory.
     *
     * @return the number of bytes
     */
    public int bytes() {
        return writes.length();
    }

    private WriteBatch add(int family, byte[] key, byte[] value) {
        writes.reserve(HEAD_BYTES + (long) key.length + value.length);
        writes.add(family);
        writes.add(key.length);
        writes.add(value.length);
        writes.add(key);
        writes.add(value);
        count++;
        return this;
    }

    private WriteBatch addDelete(int family, byte[] key) {
        writes.reserve(HEAD_BYTES + (long) key.length);
        writes.add(family);
        writes.add(key.length);
        writes.add(DELETE);
        writes.add(key);
        count++;
        return this;
    }

    private int placeOf(Family family) {
        Integer place = places.get(Objects.requireNonNull(family, "family"));
        if (place == null) {
            families.add(family);
            place = families.size();
            places.put(family, place);
        }
        return place;
    }

    /** Writes the batch to the database of {@code defaultFamily}. */
    void write(Family defaultFamily, int durability) {
        // The homes are those of this array, which keeps them reachable even if another thread clears the batch meanwhile.
        Family[] held = families.toArray(new Family[0]);
        long[] homes = new long[held.length + 1];
        homes[0] = defaultFamily.home();
        for (int index = 0; index < held.length; index++) {
            homes[index + 1] = held[index].home();
        }
        try {
            Native.write(homes[0], writes.bytes(), writes.length(), homes, durability);
        } finally {
            for (Family family : held) {
                java.lang.ref.Reference.reachabilityFence(family);
            }
            java.lang.ref.Reference.reachabilityFence(defaultFamily);
        }
    }
}
