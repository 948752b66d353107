package io.github.braidb;

import java.util.function.LongSupplier;

/**
 * Reads and writes that take effect together, at one moment, or not at all.
 *
 * <p>Transactions are serializable. All reads are of the moment when the transaction began, with its own writes over them. {@link #commit()}
 * writes all in one batch, unless another write has changed something that this transaction read, keys that were absent and ranges that
 * scans covered included. Then it fails with {@code CONFLICT}, and nothing is written. {@link BraidDb#transact} begins again. Close a
 * transaction soon: while it lives, it keeps old versions as a {@link Snapshot} does. Its scans end with it.
 */
public final class Transaction extends StagedWrites {
    Transaction(Family defaultFamily, LongSupplier make) {
        super(defaultFamily, true, make, "the transaction was closed; begin another one");
    }
}
