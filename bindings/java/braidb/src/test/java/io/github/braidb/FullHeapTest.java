package io.github.braidb;

import static io.github.braidb.Check.b;

import java.lang.ref.Reference;
import java.util.Arrays;

/** Results for which the heap, whose limit is 24 MiB, has no room. */
final class FullHeapTest {
    private FullHeapTest() {}

    static void aValueWithoutRoomIsAnOutOfMemoryError() {
        try (BraidDb db = Check.db()) {
            byte[] value = new byte[12 << 20];
            Arrays.fill(value, (byte) 7);
            db.put(b("large"), value);
            Check.throwsA(OutOfMemoryError.class, () -> db.get(b("large")));
            Reference.reachabilityFence(value);
            value = null;
            Check.same(12 << 20, db.get(b("large")).length);
        }
    }
}
