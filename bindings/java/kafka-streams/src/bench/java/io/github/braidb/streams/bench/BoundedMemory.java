package io.github.braidb.streams.bench;

import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.WriteBufferManager;

/**
 * Bounds the memory of all RocksDB stores together as Kafka's documentation says: one cache, and memtables that count in it. All else is
 * what Kafka Streams sets.
 */
public final class BoundedMemory implements RocksDBConfigSetter {
    /** The part of the cache that memtables may take. The documentation gives none; half leaves as much for blocks. */
    private static final int PART_OF_MEMTABLES = 2;

    /** The share of the cache that indices and filters have before blocks. */
    private static final double SHARE_OF_INDICES = 0.1;

    private static Cache cache;
    private static WriteBufferManager memtables;

    /** Sets the bound, once, before the first store opens. */
    static void limit(long bytes) {
        RocksDB.loadLibrary();
        cache = new LRUCache(bytes, -1, false, SHARE_OF_INDICES);
        memtables = new WriteBufferManager(bytes / PART_OF_MEMTABLES, cache);
    }

    @Override
    public void setConfig(String storeName, Options options, Map<String, Object> configs) {
        BlockBasedTableConfig tables = (BlockBasedTableConfig) options.tableFormatConfig();
        tables.setBlockCache(cache);
        tables.setCacheIndexAndFilterBlocks(true);
        tables.setCacheIndexAndFilterBlocksWithHighPriority(true);
        tables.setPinTopLevelIndexAndFilter(true);
        options.setTableFormatConfig(tables);
        options.setWriteBufferManager(memtables);
    }

    /** All stores share what was set, so no close of one frees it. */
    @Override
    public void close(String storeName, Options options) {}
}
