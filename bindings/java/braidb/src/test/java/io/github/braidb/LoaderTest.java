package io.github.braidb;

import static io.github.braidb.Check.b;

import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;

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
                        List.of(System.mapLibraryName("braidb_jni")),
                        files.map(file -> file.getFileName().toString()).toList());
            }
        }
    }

    /** A JVM loads a native library once, and a copy elsewhere would be a second engine. */
    static void aSecondClassLoaderIsToldToShare() throws IOException, ClassNotFoundException {
        Check.that(!Options.names().isEmpty(), "the first class loader has loaded the library");
        List<URL> urls = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            urls.add(Path.of(path).toUri().toURL());
        }
        try (URLClassLoader second = new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
            Class.forName("io.github.braidb.Native", true, second);
        } catch (UnsatisfiedLinkError error) {
            Check.that(error.getMessage().startsWith("another class loader of this JVM has loaded BraidDB"), error.getMessage());
            return;
        }
        throw new AssertionError("a second class loader has loaded the library");
    }
}
