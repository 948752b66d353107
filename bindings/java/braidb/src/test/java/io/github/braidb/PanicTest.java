package io.github.braidb;

import static io.github.braidb.Check.b;

/** A panic in a native method. The environment variable {@code BRAIDB_C_PANIC} plants one in {@code get}. */
final class PanicTest {
    private PanicTest() {}

    static void aPanicIsAnExceptionAndTheDatabaseGoesOn() {
        try (BraidDb db = Check.db()) {
            db.put(b("a"), b("1"));
            for (int round = 0; round < 3; round++) {
                BraidException error = Check.fails(BraidException.Code.PANIC, () -> db.get(b("a")));
                Check.that(error.getMessage().contains("which is a bug in BraidDB"), error.getMessage());
            }
            Check.that(db.contains(b("a")), "other calls work");
        }
    }
}
