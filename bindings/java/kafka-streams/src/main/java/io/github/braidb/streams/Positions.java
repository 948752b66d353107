package io.github.braidb.streams;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.query.Position;

/** Positions as bytes, and their progress with a record. */
final class Positions {
    /** The layout of the bytes. */
    private static final int VERSION = 1;

    private Positions() {}

    /** Moves a position to the record that the context processes, if there is one. */
    static void update(Position position, StateStoreContext context) {
        Optional<RecordMetadata> record = context.recordMetadata();
        if (record.isPresent() && record.get().topic() != null) {
            position.withComponent(record.get().topic(), record.get().partition(), record.get().offset());
        }
    }

    /** Version, number of topics; for each topic its name, number of partitions, and for each partition number and offset. */
    static byte[] packed(Position position) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeByte(VERSION);
            out.writeInt(position.getTopics().size());
            for (String topic : position.getTopics()) {
                Map<Integer, Long> partitions = position.getPartitionPositions(topic);
                out.writeUTF(topic);
                out.writeInt(partitions.size());
                for (Map.Entry<Integer, Long> partition : partitions.entrySet()) {
                    out.writeInt(partition.getKey());
                    out.writeLong(partition.getValue());
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    static Position of(byte[] packed) {
        Position position = Position.emptyPosition();
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(packed))) {
            int version = in.readByte();
            if (version != VERSION) {
                throw new IOException("its layout is " + version + ", and this version reads " + VERSION);
            }
            for (int topics = in.readInt(); topics > 0; topics--) {
                String topic = in.readUTF();
                for (int partitions = in.readInt(); partitions > 0; partitions--) {
                    position.withComponent(topic, in.readInt(), in.readLong());
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException("A stored position cannot be read", error);
        }
        return position;
    }
}
