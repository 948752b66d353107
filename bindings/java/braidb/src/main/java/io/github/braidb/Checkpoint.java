package io.github.braidb;

/**
 * What a checkpoint took.
 *
 * @param files the number of files of the new database
 * @param linkedBytes the bytes that both databases share by hard links
 * @param copiedBytes the bytes that were copied
 */
public record Checkpoint(long files, long linkedBytes, long copiedBytes) {}
