package io.github.braidb;

/** Classes that do not fit the library. The property {@code braidb.test.says} is a part of the message. */
final class RefusedLibraryTest {
    private RefusedLibraryTest() {}

    static void theFirstCallThrows() {
        try {
            Check.db();
        } catch (UnsatisfiedLinkError error) {
            Check.that(error.getMessage().contains(System.getProperty("braidb.test.says")), error.getMessage());
            return;
        }
        throw new AssertionError("the library was accepted");
    }
}
