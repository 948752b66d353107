package io.github.braidb.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.query.Position;

/**
 * What a slot says of its entries: up to which offsets of changelogs they go, the position, the stream time, and the status.
 *
 * <p>The object tells what the last batch says that reached the database. A {@link Change} adds new values to a batch, beside the entries of
 * which they speak, and the object tells them from {@link Change#publish} on.
 */
final class Ledger {
    /** The stream time of a store that has seen no record. */
    static final long NO_TIME = -1;

    /** Takes the writes of a batch. A value that is null deletes the key. */
    interface Sink {
        void put(byte[] key, byte[] value);
    }

    /** The first byte of a key tells what its value is. */
    private static final byte OFFSET = 'o';

    private static final byte POSITION = 'p';
    private static final byte STATUS = 's';
    private static final byte TIME = 't';

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
                    case POSITION -> position = Positions.of(value.array());
                    case TIME -> streamTime = value.getLong();
                    case STATUS -> isOpen = Arrays.equals(value.array(), OPEN);
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

    /** Whether any offset is known. */
    boolean hasOffsets() {
        return offsets.keySet().stream().anyMatch(this::hasOffset);
    }

    /** Whether the offset of a partition is known. Kafka Streams commits a negative one where it knows none. */
    boolean hasOffset(TopicPartition partition) {
        return offsets.getOrDefault(partition, -1L) >= 0;
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

    /** New values, which go into a batch. */
    Change change(Sink sink) {
        return new Change(sink);
    }

    /** New values that are in a batch, and not yet in the database. */
    final class Change implements Sink {
        private final Sink batch;

        /** What makes the ledger tell the new values. */
        private final List<Runnable> effects = new ArrayList<>();

        private Change(Sink batch) {
            this.batch = batch;
        }

        @Override
        public void put(byte[] key, byte[] value) {
            batch.put(key, value);
        }

        /** Has the ledger tell the new values. The caller has seen the batch reach the database. */
        void publish() {
            effects.forEach(Runnable::run);
            effects.clear();
        }

        private void set(byte[] key, byte[] value, Runnable effect) {
            put(slot.meta(key), value);
            effects.add(effect);
        }

        void setOpen(boolean now) {
            if (isOpen != now) {
                set(new byte[] {STATUS}, now ? OPEN : null, () -> isOpen = now);
            }
        }

        /** Sets offsets. A null removes one, and an empty map removes all. */
        void setOffsets(Map<TopicPartition, Long> changes) {
            if (changes.isEmpty()) {
                offsets.keySet().forEach(partition -> set(key(partition), null, () -> offsets.remove(partition)));
            }
            changes.forEach((partition, offset) -> {
                if (offset == null) {
                    if (offsets.containsKey(partition)) {
                        set(key(partition), null, () -> offsets.remove(partition));
                    }
                } else if (!offset.equals(offsets.get(partition))) {
                    set(key(partition), packed(offset), () -> offsets.put(partition, offset));
                }
            });
        }

        void setPosition(Position now) {
            if (!position.equals(now)) {
                Position copy = now.copy();
                set(new byte[] {POSITION}, Positions.packed(copy), () -> position = copy);
            }
        }

        void setStreamTime(long now) {
            if (streamTime != now && now != NO_TIME) {
                set(new byte[] {TIME}, packed(now), () -> streamTime = now);
            }
        }
    }

    private static byte[] packed(long number) {
        return ByteBuffer.allocate(Long.BYTES).putLong(number).array();
    }

    private static byte[] key(TopicPartition partition) {
        byte[] topic = partition.topic().getBytes(StandardCharsets.UTF_8);
        ByteBuffer key = ByteBuffer.allocate(1 + topic.length + Integer.BYTES);
        return key.put(OFFSET).put(topic).putInt(partition.partition()).array();
    }

    private static TopicPartition partition(byte[] key) {
        int end = key.length - Integer.BYTES;
        String topic = new String(key, 1, end - 1, StandardCharsets.UTF_8);
        return new TopicPartition(topic, ByteBuffer.wrap(key).getInt(end));
    }
}
