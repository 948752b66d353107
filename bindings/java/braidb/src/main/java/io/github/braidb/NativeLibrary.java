package io.github.braidb;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * Finds the native library and loads it.
 *
 * <p>The property {@code braidb.library.path} names the library, or the directory that has it. Without the property the library comes out of
 * the jar {@code braidb-native-PLATFORM}: it is written to a directory of this user below {@code java.io.tmpdir}, or below the user's cache
 * where the first one does not allow to run programs. The directory's name has a hash of the library, so a later start finds it there.
 */
final class NativeLibrary {
    private static final String PROPERTY = "braidb.library.path";

    /** The version of the package, which is the one of the library too. */
    private static final String VERSION = "0.1.0";

    /** Only the owner writes the directory, so no other user can put a library there. */
    private static final Set<PosixFilePermission> OWNER_ALONE = PosixFilePermissions.fromString("rwx------");

    /** Digits of the hash that stand in the name: 16, for 64 bits. */
    private static final int HASH_DIGITS = 16;

    private NativeLibrary() {}

    static void load() {
        String named = System.getProperty(PROPERTY);
        if (named != null) {
            Path path = Path.of(named).toAbsolutePath();
            System.load((Files.isDirectory(path) ? path.resolve(System.mapLibraryName("braidb_jni")) : path).toString());
            return;
        }
        String platform = platform();
        loadExtracted(bundled(platform, System.mapLibraryName("braidb_jni")), platform);
    }

    /** Refuses a library that another version of the package has. */
    static void check(String version) {
        if (!version.equals(VERSION)) {
            throw new UnsatisfiedLinkError(
                    "the native library of BraidDB has the version " + version + ", and the jar braidb has " + VERSION
                            + "; use one version for both, also in -D" + PROPERTY);
        }
    }

    /** The name of the platform in the names of jars: {@code linux-x86_64}. */
    private static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT).split(" ")[0];
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        return system + "-" + (machine.equals("amd64") ? "x86_64" : machine);
    }

    /** The library in the jar for the platform. */
    private static byte[] bundled(String platform, String name) {
        String resource = "META-INF/native/" + platform + "/" + name;
        // The class loader looks into all jars, and a class of a named module into its own alone.
        try (InputStream stream = NativeLibrary.class.getClassLoader().getResourceAsStream(resource)) {
            if (stream == null) {
                throw new UnsatisfiedLinkError(
                        "BraidDB has no native library for " + platform + " on the class path or module path: there is no " + resource
                                + "; add the jar braidb-native-" + platform + ", or build the crate braidb-jni and name"
                                + " its library by -D" + PROPERTY + "=FILE");
            }
            return stream.readAllBytes();
        } catch (IOException error) {
            throw new UncheckedIOException("could not read " + resource, error);
        }
    }

    /** Loads the library from the first directory that allows it. */
    private static void loadExtracted(byte[] library, String platform) {
        String hash = hash(library);
        List<String> refusals = new ArrayList<>();
        for (Path parent : parents()) {
            Path dir = parent.resolve("braidb-" + System.getProperty("user.name") + "-" + hash);
            try {
                System.load(extract(library, dir).toString());
                return;
            } catch (IOException | UnsatisfiedLinkError error) {
                checkLoader(error);
                refusals.add(dir + ": " + error);
            }
        }
        throw new UnsatisfiedLinkError(
                "BraidDB could not load its native library for " + platform + "; name a directory that allows to run programs by"
                        + " -Djava.io.tmpdir=DIR, or the library by -D" + PROPERTY + "=FILE: " + String.join("; ", refusals));
    }

    /** Throws if another class loader has loaded the library: a copy elsewhere would be a second engine in this process. */
    private static void checkLoader(Throwable error) {
        if (String.valueOf(error.getMessage()).contains("already loaded in another classloader")) {
            throw new UnsatisfiedLinkError(
                    "another class loader of this JVM has loaded BraidDB, and a JVM loads a native library once; put the jars of BraidDB"
                            + " where a common parent of the class loaders finds them: " + error.getMessage());
        }
    }

    private static List<Path> parents() {
        List<Path> parents = new ArrayList<>(List.of(Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath()));
        String cache = System.getenv("XDG_CACHE_HOME");
        Path home = Path.of(System.getProperty("user.home"));
        // The specification of XDG has programs ignore relative paths, and Java has "?" where a user has no home.
        if (cache != null && Path.of(cache).isAbsolute()) {
            parents.add(Path.of(cache));
        } else if (home.isAbsolute()) {
            parents.add(home.resolve(".cache"));
        }
        return parents;
    }

    /** The file with the library in a directory that this user alone can change. */
    private static Path extract(byte[] library, Path dir) throws IOException {
        if (!Files.isDirectory(dir, LinkOption.NOFOLLOW_LINKS)) {
            Files.createDirectories(dir.getParent());
            try {
                Files.createDirectory(dir, PosixFilePermissions.asFileAttribute(OWNER_ALONE));
            } catch (java.nio.file.FileAlreadyExistsException error) {
                // Another process of this user was faster, or the checks below refuse what there is.
            }
        }
        Path fresh = Files.createTempFile(dir, "braidb", ".new");
        try {
            boolean isOurs = Files.getOwner(fresh).equals(Files.getOwner(dir, LinkOption.NOFOLLOW_LINKS))
                    && Files.getPosixFilePermissions(dir, LinkOption.NOFOLLOW_LINKS).equals(OWNER_ALONE);
            if (!isOurs) {
                throw new IOException("another user may write this directory");
            }
            Path file = dir.resolve(System.mapLibraryName("braidb_jni"));
            if (!Files.isRegularFile(file) || !Arrays.equals(Files.readAllBytes(file), library)) {
                Files.write(fresh, library);
                // A process that has loaded the older file keeps it.
                Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
            }
            return file;
        } finally {
            Files.deleteIfExists(fresh);
        }
    }

    private static String hash(byte[] library) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(library);
            return HexFormat.of().formatHex(digest).substring(0, HASH_DIGITS);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("each Java platform has SHA-256", error);
        }
    }
}
