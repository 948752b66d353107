package io.github.braidb.streams;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.UUID;

/**
 * The file in the directory of a task that names a store's slot. Kafka Streams drops a task's state by deleting the directory. With the
 * marker goes the way to the slot.
 *
 * @param database the database that has the slot
 * @param slot the number of the slot
 */
record Marker(UUID database, int slot) {
    /** The first line. The number is the version of the layout of slots. */
    private static final String TITLE = "braidb slot 1";

    /** The marker's place in a task's directory. Characters that some file system refuses are written as their code. */
    static Path path(Path taskDir, String store) {
        StringBuilder name = new StringBuilder("braidb.");
        store.chars().forEach(letter -> {
            boolean isPlain = letter < 128 && (Character.isLetterOrDigit(letter) || "._-".indexOf(letter) >= 0);
            name.append(isPlain ? Character.toString(letter) : String.format("%%%04x", letter));
        });
        // Kafka Streams deletes files of a task's directory whose name ends with ".lock".
        return taskDir.resolve(name.append(".slot").toString());
    }

    /**
     * Reads a marker.
     *
     * @return the marker, or null if there is no file, or one of another layout
     * @throws IOException if there is a file that cannot be read
     */
    static Marker read(Path path) throws IOException {
        String text;
        try {
            text = Files.readString(path, StandardCharsets.US_ASCII);
        } catch (NoSuchFileException error) {
            return null;
        }
        String[] lines = text.split("\n");
        if (lines.length != 3 || !lines[0].equals(TITLE)) {
            return null;
        }
        try {
            return new Marker(UUID.fromString(lines[1]), Integer.parseUnsignedInt(lines[2]));
        } catch (IllegalArgumentException error) {
            return null;
        }
    }

    /** Writes the marker so that after a crash there is all of it or what was there before. */
    void write(Path path) throws IOException {
        Path written = path.resolveSibling(path.getFileName() + ".tmp");
        String text = TITLE + "\n" + database + "\n" + Integer.toUnsignedString(slot) + "\n";
        Files.createDirectories(path.getParent());
        Files.writeString(written, text, StandardCharsets.US_ASCII);
        sync(written, StandardOpenOption.WRITE);
        Files.move(written, path, StandardCopyOption.ATOMIC_MOVE);
        sync(path.getParent(), StandardOpenOption.READ);
    }

    private static void sync(Path path, StandardOpenOption access) throws IOException {
        try (FileChannel channel = FileChannel.open(path, access)) {
            channel.force(true);
        }
    }
}
