package io.github.braidb.bench;

import java.nio.file.Path;
import java.util.function.ObjLongConsumer;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/** RocksDB with its defaults, but for the size of the cache, and with filters of 10 bits a key, as BraidDB has. */
final class RocksStore implements Store {
    static {
        RocksDB.loadLibrary();
    }

    private final Cache cache;
    private final Options options;
    private final RocksDB db;
    private final WriteOptions writing = new WriteOptions();
    private final WriteBatch batch = new WriteBatch();

    RocksStore(Path dir, long cacheBytes) throws RocksDBException {
        cache = new LRUCache(cacheBytes);
        BlockBasedTableConfig tables = new BlockBasedTableConfig();
        tables.setBlockCache(cache).setFilterPolicy(new BloomFilter(10, false));
        options = new Options().setCreateIfMissing(true).setTableFormatConfig(tables);
        db = RocksDB.open(options, dir.toString());
    }

    private interface Call<T> {
        T run() throws RocksDBException;
    }

    private static <T> T call(Call<T> call) {
        try {
            return call.run();
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void put(byte[] key, byte[] value) {
        try {
            db.put(key, value);
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void putAll(long first, int count, byte[] value, ObjLongConsumer<byte[]> fill) {
        batch.clear();
        byte[] key = new byte[Bench.KEY_BYTES];
        call(() -> {
            for (int index = 0; index < count; index++) {
                fill.accept(key, first + index);
                batch.put(key, value);
            }
            db.write(writing, batch);
            return null;
        });
    }

    @Override
    public byte[] get(byte[] key) {
        try {
            return db.get(key);
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public long scan(byte[] key, int count) {
        long bytes = 0;
        try (ReadOptions reading = new ReadOptions(); RocksIterator iterator = db.newIterator(reading)) {
            iterator.seek(key);
            for (int left = count; left > 0 && iterator.isValid(); left--) {
                bytes += iterator.value().length;
                iterator.next();
            }
        }
        return bytes;
    }

    @Override
    public void cross() {
        db.getLatestSequenceNumber();
    }

    @Override
    public void settle() {
        call(() -> {
            try (FlushOptions flush = new FlushOptions()) {
                db.flush(flush);
            }
            while (db.getLongProperty("rocksdb.num-running-compactions") > 0
                    || db.getLongProperty("rocksdb.compaction-pending") > 0) {
                Thread.onSpinWait();
            }
            return null;
        });
    }

    @Override
    public void close() {
        batch.close();
        writing.close();
        db.close();
        options.close();
        cache.close();
    }
}
