package io.github.braidb;

import static io.github.braidb.Check.b;

/** An exception that cannot be made. The environment variable {@code BRAIDB_C_PANIC} plants a panic where the library makes one. */
final class SpareTest {
    private SpareTest() {}

    static void theSpareExceptionIsThrown() {
        try (BraidDb db = Check.db()) {
            for (int round = 0; round < 3; round++) {
                Check.throwsA(OutOfMemoryError.class, () -> db.put(new byte[65_537], b("v")));
            }
            db.put(b("a"), b("1"));
            Check.bytes("1", db.get(b("a")));
        }
    }
}
