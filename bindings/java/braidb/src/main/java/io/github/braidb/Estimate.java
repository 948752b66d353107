package io.github.braidb;

/**
 * About how much a range of keys holds. Entries that newer ones hide are counted until a merge drops them.
 *
 * @param entries the number of entries, deletes included
 * @param tombstones the number of deletes
 * @param bytes the bytes on disk and in memory
 * @param valueBytes the bytes of values that lie apart from their keys, in value files and logs
 */
public record Estimate(long entries, long tombstones, long bytes, long valueBytes) {}
