package io.github.braidb;

import static io.github.braidb.Check.b;

/** A scan that failed. The environment variable {@code BRAIDB_C_PANIC} plants a panic in its movement. */
final class ScanPanicTest {
    private ScanPanicTest() {}

    static void aFailedScanDoesNotLookLikeOneThatEnded() {
        try (BraidDb db = Check.db(); Overlay overlay = db.overlay()) {
            overlay.put(b("a"), b("1"));
            try (Scan scan = overlay.scan(db.defaultFamily(), Range.all())) {
                Check.fails(BraidException.Code.PANIC, scan::next);
                Check.throwsA(IllegalStateException.class, scan::next);
                Check.throwsA(IllegalStateException.class, scan::next);
            }
        }
    }
}
