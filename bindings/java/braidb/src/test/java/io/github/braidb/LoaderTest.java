package io.github.braidb;

import static io.github.braidb.Check.b;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * The native library out of a jar. The caller sets {@code braidb.test.extracted} to the directory below which the library must be found
 * afterwards.
 */
final class LoaderTest {
    private LoaderTest() {}

    static void theLibraryIsExtractedAndLoaded() throws IOException {
        try (BraidDb db = Check.db()) {
            db.put(b("a"), b("1"));
            Check.bytes("1", db.get(b("a")));
        }
        Path parent = Path.of(System.getProperty("braidb.test.extracted"));
        try (var dirs = Files.list(parent)) {
            Path dir = dirs.filter(path -> path.getFileName().toString().startsWith("braidb-")).findFirst().orElseThrow();
            Check.same(PosixFilePermissions.fromString("rwx------"), Files.getPosixFilePermissions(dir));
            try (var files = Files.list(dir)) {
                Check.same(
                        java.util.List.of(System.mapLibraryName("braidb_jni")),
                        files.map(file -> file.getFileName().toString()).toList());
            }
        }
    }
}
