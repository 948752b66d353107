package io.github.braidb.streams;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;

/** Key-value stores of texts, for tests. */
final class KeyValues {
    private KeyValues() {}

    static BraidKeyValueStore open(FakeContext context) {
        return open(context, "store", Format.PLAIN);
    }

    static BraidKeyValueStore open(FakeContext context, String name, Format format) {
        BraidKeyValueStore store = BraidKeyValueStore.of(name, format);
        store.init(context, store);
        return store;
    }

    static Bytes key(String text) {
        return Bytes.wrap(bytes(text));
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void put(BraidKeyValueStore store, String key, String value) {
        store.put(key(key), value == null ? null : bytes(value));
    }

    static String text(byte[] value) {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    static String get(BraidKeyValueStore store, String key) {
        return text(store.get(key(key)));
    }

    static List<String> entries(KeyValueIterator<Bytes, byte[]> iterator) {
        List<String> entries = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                KeyValue<Bytes, byte[]> entry = iterator.next();
                entries.add(text(entry.key.get()) + "=" + text(entry.value));
            }
        }
        return entries;
    }

    /** A record of the changelog. */
    static ConsumerRecord<byte[], byte[]> record(long offset, String key, String value) {
        return FakeContext.record(offset, bytes(key), value == null ? null : bytes(value));
    }
}
