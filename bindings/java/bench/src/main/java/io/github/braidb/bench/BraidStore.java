package io.github.braidb.bench;

import io.github.braidb.BraidDb;
import io.github.braidb.Cursor;
import io.github.braidb.Options;
import io.github.braidb.WriteBatch;
import java.nio.file.Path;
import java.util.function.ObjLongConsumer;

/** BraidDB with its defaults, but for the size of the cache. */
final class BraidStore implements Store {
    private final BraidDb db;
    private final WriteBatch batch = new WriteBatch();

    BraidStore(Path dir, long cacheBytes) {
        db = BraidDb.open(dir, new Options().blockCacheBytes(cacheBytes));
    }

    @Override
    public void put(byte[] key, byte[] value) {
        db.put(key, value);
    }

    @Override
    public void putAll(long first, int count, byte[] value, ObjLongConsumer<byte[]> fill) {
        batch.clear();
        byte[] key = new byte[Bench.KEY_BYTES];
        for (int index = 0; index < count; index++) {
            fill.accept(key, first + index);
            batch.put(key, value);
        }
        db.write(batch);
    }

    @Override
    public byte[] get(byte[] key) {
        return db.get(key);
    }

    @Override
    public long scan(byte[] key, int count) {
        long bytes = 0;
        try (Cursor cursor = db.cursor()) {
            boolean isOn = cursor.seek(key);
            for (int left = count; isOn && left > 0; left--) {
                bytes += cursor.value().length;
                isOn = left > 1 && cursor.next();
            }
        }
        return bytes;
    }

    @Override
    public void cross() {
        db.isClosed();
    }

    @Override
    public void settle() {
        db.flush();
        db.settle();
    }

    @Override
    public void close() {
        db.close();
    }
}
