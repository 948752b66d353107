package io.github.braidb.streams;

import io.github.braidb.streams.internals.KafkaInternals;
import java.util.Arrays;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** Entries of a store of windows or sessions, under the key that callers know. */
class WindowedEntries<K> implements KeyValueIterator<K, byte[]> {
    private final KeyValueIterator<Bytes, byte[]> entries;
    private final Function<byte[], K> key;

    private WindowedEntries(KeyValueIterator<Bytes, byte[]> entries, Function<byte[], K> key) {
        this.entries = entries;
        this.key = key;
    }

    /** Windows of a length, with their keys. */
    static KeyValueIterator<Windowed<Bytes>, byte[]> ofWindows(KeyValueIterator<Bytes, byte[]> entries, long windowMs) {
        return new WindowedEntries<>(entries, found -> {
            long start = SegmentKeys.WINDOW.start(found);
            long end = start + windowMs;
            return windowed(found, SegmentKeys.WINDOW, KafkaInternals.timeWindow(start, end < 0 ? Long.MAX_VALUE : end));
        });
    }

    /** Sessions, with their keys. */
    static KeyValueIterator<Windowed<Bytes>, byte[]> ofSessions(KeyValueIterator<Bytes, byte[]> entries) {
        return new WindowedEntries<>(entries, found -> {
            long end = SegmentKeys.SESSION.timestamp(found);
            Window window = KafkaInternals.sessionWindow(SegmentKeys.SESSION.start(found), end);
            return windowed(found, SegmentKeys.SESSION, window);
        });
    }

    /** Windows of one key, by their start. */
    static WindowStoreIterator<byte[]> ofStarts(KeyValueIterator<Bytes, byte[]> entries) {
        return new Starts(entries);
    }

    private static final class Starts extends WindowedEntries<Long> implements WindowStoreIterator<byte[]> {
        Starts(KeyValueIterator<Bytes, byte[]> entries) {
            super(entries, SegmentKeys.WINDOW::start);
        }
    }

    private static Windowed<Bytes> windowed(byte[] found, SegmentKeys keys, Window window) {
        return new Windowed<>(Bytes.wrap(Arrays.copyOf(found, found.length - keys.suffixBytes)), window);
    }

    @Override
    public boolean hasNext() {
        return entries.hasNext();
    }

    @Override
    public KeyValue<K, byte[]> next() {
        KeyValue<Bytes, byte[]> entry = entries.next();
        return new KeyValue<>(key.apply(entry.key.get()), entry.value);
    }

    @Override
    public K peekNextKey() {
        return key.apply(entries.peekNextKey().get());
    }

    @Override
    public void close() {
        entries.close();
    }
}
