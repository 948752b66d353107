package io.github.braidb.streams;

import io.github.braidb.BraidDb;
import io.github.braidb.Options;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;

/** The stores in the database of an application that does not run. Each must hold what its changelog says up to the offset of its commit. */
final class ChaosCopies {
    /** How many wrong entries of a store are told. */
    private static final int TOLD = 3;

    /**
     * A store.
     *
     * @param task the task, such as {@code 0_3}
     * @param offset the offset of its last commit, or -1
     * @param isOpen whether its entries may be ahead of the offset
     */
    record Copy(ChaosChangelogs.Store store, String task, long offset, boolean isOpen) {
        int partition() {
            return Integer.parseInt(task.substring(task.indexOf('_') + 1));
        }

        TopicPartition changelog() {
            return store.changelog(partition());
        }
    }

    private final Path root;
    private final List<Copy> copies = new ArrayList<>();
    private final List<String> wrong = new ArrayList<>();
    private long compared;

    /**
     * Checks every byte of a database, and reads all stores that a task of the application would find.
     *
     * @param stateDir the application's directory of state
     */
    ChaosCopies(Path stateDir, ChaosChangelogs changelogs) throws IOException {
        root = stateDir.resolve(ChaosApp.REAL);
        Path database = root.resolve("braidb");
        if (!Files.exists(database.resolve("CURRENT")) && !hasFiles(database)) {
            return;
        }
        String verified = BraidDb.verify(database, new Options());
        if (!verified.replace(" ", "").contains("\"damages\":[]")) {
            wrong.add("verify of " + database + " says " + verified);
        }
        try (BraidDb db = BraidDb.openReadOnly(database, new Options());
                Stream<Path> markers = Files.walk(root, 2)) {
            for (Path path : markers.filter(one -> one.toString().endsWith(".slot")).sorted().toList()) {
                Marker marker = Marker.read(path);
                if (marker == null) {
                    wrong.add("the marker " + path + " cannot be read");
                } else {
                    check(db, path, marker, changelogs);
                }
            }
        }
    }

    private static boolean hasFiles(Path dir) throws IOException {
        if (!Files.isDirectory(dir)) {
            return false;
        }
        try (Stream<Path> files = Files.list(dir)) {
            return files.anyMatch(file -> !file.endsWith("LOCK"));
        }
    }

    private void check(BraidDb db, Path path, Marker marker, ChaosChangelogs changelogs) {
        String name = path.getFileName().toString().replaceAll("^braidb[.]|[.]slot$", "");
        ChaosChangelogs.Store store = ChaosChangelogs.Store.valueOf(name.toUpperCase(java.util.Locale.ROOT));
        Slot slot = new Slot(marker.slot(), path, false);
        Ledger ledger = new Ledger(slot, new View.OfDatabase(db));
        String task = path.getParent().getFileName().toString();
        TopicPartition changelog = store.changelog(Integer.parseInt(task.substring(task.indexOf('_') + 1)));
        Long offset = ledger.offset(changelog);
        Copy copy = new Copy(store, task, offset == null ? -1 : offset, ledger.isOpen());
        copies.add(copy);
        if (copy.isOpen) {
            return;
        }
        if (!changelogs.await(changelog, copy.offset)) {
            tell(copy, "its changelog has no committed record there");
        }
        Map<ByteBuffer, byte[]> expected = changelogs.contents(changelog, copy.offset);
        Map<ByteBuffer, byte[]> found = new HashMap<>();
        int head = Slot.HEAD_BYTES + (store.keys == null ? 0 : Long.BYTES);
        try (View.Walk walk = new View.OfDatabase(db).walk(slot.allData(), false)) {
            while (walk.next()) {
                found.put(ByteBuffer.wrap(Arrays.copyOfRange(walk.key(), head, walk.key().length)), walk.value());
            }
        }
        if (store.keys != null) {
            long streamTime = changelogs.streamTime(changelog, store.keys, copy.offset);
            if (streamTime != ledger.streamTime()) {
                tell(copy, "its stream time is " + ledger.streamTime() + ", and the changelog's is " + streamTime);
            }
            long firstVisible = streamTime - ChaosInput.RETENTION_MS + 1;
            expected.keySet().removeIf(key -> store.keys.timestamp(key.array()) < firstVisible);
            found.keySet().removeIf(key -> store.keys.timestamp(key.array()) < firstVisible);
        }
        compare(copy, expected, found);
    }

    private void compare(Copy copy, Map<ByteBuffer, byte[]> expected, Map<ByteBuffer, byte[]> found) {
        compared += expected.size();
        int differences = 0;
        for (Map.Entry<ByteBuffer, byte[]> entry : expected.entrySet()) {
            byte[] value = found.remove(entry.getKey());
            if (!Arrays.equals(value, entry.getValue()) && differences++ < TOLD) {
                tell(copy, "key " + text(entry.getKey().array()) + " has " + text(value) + ", and the changelog has " + text(entry.getValue()));
            }
        }
        for (Map.Entry<ByteBuffer, byte[]> entry : found.entrySet()) {
            if (differences++ < TOLD) {
                tell(copy, "key " + text(entry.getKey().array()) + " has " + text(entry.getValue()) + ", and the changelog has none");
            }
        }
        if (differences > TOLD) {
            tell(copy, differences + " entries differ");
        }
    }

    private void tell(Copy copy, String what) {
        wrong.add(root + ": the store " + copy.store.storeName() + " of task " + copy.task + " at offset " + copy.offset + ": " + what);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "none" : java.util.HexFormat.of().formatHex(bytes);
    }

    List<Copy> copies() {
        return copies;
    }

    List<String> wrong() {
        return wrong;
    }

    /** How many entries were compared. */
    long compared() {
        return compared;
    }
}
