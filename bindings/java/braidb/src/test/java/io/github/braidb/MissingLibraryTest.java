package io.github.braidb;

/** A class path without the native library. */
final class MissingLibraryTest {
    private MissingLibraryTest() {}

    static void theErrorNamesTheJar() {
        try {
            Check.db();
        } catch (UnsatisfiedLinkError error) {
            Check.that(error.getMessage().contains("add the jar braidb-native-"), error.getMessage());
            Check.that(error.getMessage().contains("-Dbraidb.library.path"), error.getMessage());
            return;
        }
        throw new AssertionError("a library was found");
    }
}
