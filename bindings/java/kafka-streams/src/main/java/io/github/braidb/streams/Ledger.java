package io.github.braidb.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.query.Position;

/**
 * What a slot says of its entries: up to which offsets of changelogs they go, the position, the stream time, and the status.
 *
 * <p>The object has what the database has. A method that changes it gets the batch in which the change is written, beside the entries of
 * which it speaks.
 */
final class Ledger {
    /** The stream time of a store that has seen no record. */
    static final long NO_TIME = -1;

    /** Takes the writes of a batch. A value that is null deletes the key. */
    interface Sink {
        void put(byte[] key, byte[] value);
    }

    private static final byte OFFSET = 'o';
    private static final byte[] POSITION = {'p'};
    private static final byte[] STATUS = {'s'};
    private static final byte[] TIME = {'t'};

    /** Entries may be there that belong to no commit. */
    private static final byte[] OPEN = {1};

    private final Slot slot;
    private final Map<TopicPartition, Long> offsets = new HashMap<>();
    private volatile Position position = Position.emptyPosition();
    private volatile long streamTime = NO_TIME;
    private boolean isOpen;

    /** Reads the ledger of a slot. */
    Ledger(Slot slot, View view) {
        this.slot = slot;
        try (View.Walk walk = view.walk(slot.allMeta(), false)) {
            while (walk.next()) {
                byte[] key = Arrays.copyOfRange(walk.key(), Slot.HEAD_BYTES, walk.key().length);
                ByteBuffer value = ByteBuffer.wrap(walk.value());
                switch (key[0]) {
                    case OFFSET -> offsets.put(partition(key), value.getLong());
                    case 'p' -> position = Positions.of(value.array());
                    case 't' -> streamTime = value.getLong();
                    case 's' -> isOpen = Arrays.equals(value.array(), OPEN);
                    default -> throw new IllegalStateException(
                            "The slot " + slot.number() + " has an unknown key of kind " + key[0]
                                    + "; a newer version of braidb-kafka-streams wrote it");
                }
            }
        }
    }

    Long offset(TopicPartition partition) {
        return offsets.get(partition);
    }

    /** Whether any offset is known. Kafka Streams commits a negative one where it knows none. */
    boolean hasOffsets() {
        return offsets.values().stream().anyMatch(offset -> offset >= 0);
    }

    /** A copy of the position of the last commit. */
    Position position() {
        return position.copy();
    }

    long streamTime() {
        return streamTime;
    }

    /** Whether entries may be there that belong to no commit. */
    boolean isOpen() {
        return isOpen;
    }

    void setOpen(boolean isOpen, Sink sink) {
        if (this.isOpen != isOpen) {
            sink.put(slot.meta(STATUS), isOpen ? OPEN : null);
            this.isOpen = isOpen;
        }
    }

    /** Sets offsets. A null removes one, and an empty map removes all. */
    void setOffsets(Map<TopicPartition, Long> changes, Sink sink) {
        if (changes.isEmpty()) {
            offsets.keySet().forEach(partition -> sink.put(key(partition), null));
            offsets.clear();
        }
        changes.forEach((partition, offset) -> {
            if (offset == null) {
                if (offsets.remove(partition) != null) {
                    sink.put(key(partition), null);
                }
            } else if (!offset.equals(offsets.put(partition, offset))) {
                sink.put(key(partition), ByteBuffer.allocate(Long.BYTES).putLong(offset).array());
            }
        });
    }

    void setPosition(Position now, Sink sink) {
        if (!position.equals(now)) {
            position = now.copy();
            sink.put(slot.meta(POSITION), Positions.packed(now));
        }
    }

    void setStreamTime(long now, Sink sink) {
        if (streamTime != now && now != NO_TIME) {
            streamTime = now;
            sink.put(slot.meta(TIME), ByteBuffer.allocate(Long.BYTES).putLong(now).array());
        }
    }

    private byte[] key(TopicPartition partition) {
        byte[] topic = partition.topic().getBytes(StandardCharsets.UTF_8);
        ByteBuffer key = ByteBuffer.allocate(1 + topic.length + Integer.BYTES);
        return slot.meta(key.put(OFFSET).put(topic).putInt(partition.partition()).array());
    }

    private static TopicPartition partition(byte[] key) {
        int end = key.length - Integer.BYTES;
        String topic = new String(key, 1, end - 1, StandardCharsets.UTF_8);
        return new TopicPartition(topic, ByteBuffer.wrap(key).getInt(end));
    }
}
