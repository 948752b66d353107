/* Closing with open handles, and freeing them in every order. */
#include "check.h"

enum { HANDLES = 10 };

/* One handle of each kind, and a value. */
typedef struct {
    braidb_family_t *family;
    braidb_snapshot_t *snapshot;
    braidb_cursor_t *cursor, *fresh, *failed;
    braidb_txn_t *txn;
    braidb_overlay_t *overlay;
    braidb_batch_t *batch;
    braidb_value_t *value;
} held_t;

static held_t hold(braidb_t *db) {
    held_t held;
    OK(braidb_family_create(db, "users", &held.family, &err));
    put(db, held.family, "ada", "1815");
    OK(braidb_snapshot_create(db, &held.snapshot, &err));
    OK(braidb_cursor_create(db, held.family, NULL, braidb_none(), braidb_none(), &held.cursor, &err));
    OK(braidb_cursor_first(held.cursor, &err));
    OK(braidb_cursor_create(db, NULL, held.snapshot, braidb_none(), braidb_none(), &held.fresh, &err));
    OK(braidb_cursor_create(db, NULL, NULL, braidb_none(), braidb_none(), &held.failed, &err));
    EXPECT(BRAIDB_INVALID, braidb_cursor_seek(held.failed, braidb_slice(NULL, 1), &err));
    OK(braidb_txn_create(db, &held.txn, &err));
    OK(braidb_txn_put(held.txn, held.family, braidb_text("alan"), braidb_text("1912"), &err));
    OK(braidb_overlay_create(db, &held.overlay, &err));
    OK(braidb_overlay_put(held.overlay, held.family, braidb_text("alan"), braidb_text("1912"), &err));
    held.batch = braidb_batch_create();
    OK(braidb_batch_put(held.batch, held.family, braidb_text("alan"), braidb_text("1912"), &err));
    OK(braidb_get(db, held.family, NULL, braidb_text("ada"), &held.value, &err));
    return held;
}

static int count(void *context, braidb_slice_t key, braidb_slice_t value) {
    (void)key, (void)value;
    ++*(int *)context;
    return 0;
}

static int on_hole(void *context, const braidb_hole_t *hole) {
    (void)hole;
    ++*(int *)context;
    return 0;
}

static void every_call_is_refused(braidb_t *db, held_t *held, const char *elsewhere) {
    braidb_slice_t key = braidb_text("ada"), found, found_value;
    braidb_value_t *value;
    braidb_family_t *family;
    braidb_snapshot_t *snapshot;
    braidb_cursor_t *cursor;
    braidb_txn_t *txn;
    braidb_overlay_t *overlay;
    braidb_range_t range;
    braidb_estimate_t estimate;
    const char **names;
    char buffer[8], *text;
    size_t len, packed;
    void *memory;
    double number;
    int32_t is_swapped;
    int calls = 0;
    range.lower = range.upper = braidb_none();
#define CLOSED(call) EXPECT(BRAIDB_CLOSED, call)
    CLOSED(braidb_put(db, NULL, key, key, &err));
    CLOSED(braidb_put_with(db, held->family, key, key, BRAIDB_DURABILITY_SYNC, &err));
    CLOSED(braidb_delete(db, NULL, key, &err));
    CLOSED(braidb_delete_with(db, NULL, key, BRAIDB_DURABILITY_SYNC, &err));
    CLOSED(braidb_get(db, held->family, NULL, key, &value, &err));
    CLOSED(braidb_get(db, held->family, held->snapshot, key, &value, &err));
    CLOSED(braidb_get_into(db, NULL, NULL, key, buffer, sizeof buffer, &len, &err));
    CLOSED(braidb_contains(db, NULL, NULL, key, &err));
    CLOSED(braidb_put_if_absent(db, NULL, key, key, &value, &err));
    CLOSED(braidb_compare_and_swap(db, NULL, key, NULL, &key, &is_swapped, &err));
    CLOSED(braidb_get_many(db, NULL, NULL, &key, 1, &found, &memory, &err));
    CLOSED(braidb_write(db, held->batch, BRAIDB_DURABILITY_DEFAULT, &err));
    CLOSED(braidb_persist(db, BRAIDB_DURABILITY_SYNC, &err));
    CLOSED(braidb_flush(db, &err));
    CLOSED(braidb_compact(db, &err));
    CLOSED(braidb_compact_range(db, NULL, key, braidb_none(), &err));
    CLOSED(braidb_excise(db, NULL, NULL, 0, &err));
    CLOSED(braidb_settle(db, &err));
    CLOSED(braidb_verify(db, &len, NULL, &err));
    CLOSED(braidb_checkpoint(db, elsewhere, NULL, &err));
    CLOSED(braidb_recovery(db, &text, &err));
    CLOSED(braidb_family_open(db, "users", &family, &err));
    CLOSED(braidb_family_create(db, "users", &family, &err));
    CLOSED(braidb_family_list(db, &names, &len, &err));
    CLOSED(braidb_snapshot_create(db, &snapshot, &err));
    CLOSED(braidb_cursor_create(db, NULL, NULL, range.lower, range.upper, &cursor, &err));
    CLOSED(braidb_cursor_status(held->cursor, &err));
    CHECK(braidb_cursor_valid(held->cursor) && is_text(braidb_cursor_key(held->cursor), "ada"));
    CLOSED(braidb_cursor_value(held->cursor, &found, &err));
    CLOSED(braidb_cursor_entry(held->cursor, &found, &found_value, &err));
    CLOSED(braidb_cursor_next_packed(held->cursor, buffer, sizeof buffer, &len, &packed, &err));
    CLOSED(braidb_cursor_prev_packed(held->cursor, buffer, sizeof buffer, &len, &packed, &err));
    CLOSED(braidb_cursor_next(held->cursor, &err));
    CLOSED(braidb_cursor_prev(held->cursor, &err));
    CLOSED(braidb_cursor_first(held->fresh, &err));
    CLOSED(braidb_cursor_last(held->fresh, &err));
    CLOSED(braidb_cursor_seek(held->fresh, key, &err));
    CLOSED(braidb_cursor_seek_for_prev(held->fresh, key, &err));
    CLOSED(braidb_cursor_status(held->fresh, &err));
    /* The close is told before the failure. */
    CLOSED(braidb_cursor_next(held->failed, &err));
    CLOSED(braidb_cursor_prev(held->failed, &err));
    CLOSED(braidb_cursor_status(held->failed, &err));
    CLOSED(braidb_txn_create(db, &txn, &err));
    CLOSED(braidb_txn_put(held->txn, NULL, key, key, &err));
    CLOSED(braidb_txn_delete(held->txn, NULL, key, &err));
    CLOSED(braidb_txn_get(held->txn, NULL, key, &value, &err));
    CLOSED(braidb_txn_get_into(held->txn, NULL, key, buffer, sizeof buffer, &len, &err));
    CLOSED(braidb_txn_contains(held->txn, NULL, key, &err));
    CLOSED(braidb_txn_scan(held->txn, NULL, range.lower, range.upper, 0, count, &calls, &err));
    CLOSED(braidb_txn_commit(held->txn, BRAIDB_DURABILITY_DEFAULT, &err));
    CLOSED(braidb_txn_rollback(held->txn, &err));
    CLOSED(braidb_overlay_create(db, &overlay, &err));
    CLOSED(braidb_overlay_put(held->overlay, NULL, key, key, &err));
    CLOSED(braidb_overlay_delete(held->overlay, NULL, key, &err));
    CLOSED(braidb_overlay_get(held->overlay, NULL, key, &value, &err));
    CLOSED(braidb_overlay_get_into(held->overlay, NULL, key, buffer, sizeof buffer, &len, &err));
    CLOSED(braidb_overlay_contains(held->overlay, NULL, key, &err));
    CLOSED(braidb_overlay_scan(held->overlay, NULL, range.lower, range.upper, 0, count, &calls, &err));
    CLOSED(braidb_overlay_count(held->overlay, &len, &err));
    CLOSED(braidb_overlay_bytes(held->overlay, &len, &err));
    CLOSED(braidb_overlay_clear(held->overlay, &err));
    CLOSED(braidb_overlay_commit(held->overlay, BRAIDB_DURABILITY_DEFAULT, &err));
    CLOSED(braidb_salvage(db, NULL, range.lower, range.upper, count, on_hole, &calls, &err));
    CLOSED(braidb_stats(db, &text, &err));
    CLOSED(braidb_metric(db, "memory_bytes", &number, &err));
    CLOSED(braidb_metrics(db, &text, &err));
    CLOSED(braidb_estimate(db, NULL, &range, 1, &estimate, &err));
    CHECK(calls == 0);
    /* What was read stays, and a close does nothing more. */
    CHECK(is_text(braidb_slice(braidb_value_data(held->value), braidb_value_len(held->value)), "1815"));
    CHECK(braidb_path(db) != NULL && strcmp(braidb_family_name(held->family), "users") == 0);
    OK(braidb_close(db, &err));
}

/* Frees what is held, beginning with the handle of number `first`, and the database in between. */
static void free_from(int first, held_t *held, braidb_t *db) {
    int step;
    for (step = 0; step < HANDLES; step++) {
        switch ((first + step) % HANDLES) {
        case 0: braidb_family_free(held->family); break;
        case 1: braidb_snapshot_free(held->snapshot); break;
        case 2: braidb_cursor_free(held->cursor); break;
        case 3: braidb_cursor_free(held->fresh); break;
        case 4: braidb_txn_free(held->txn); break;
        case 5: braidb_overlay_free(held->overlay); break;
        case 6: braidb_batch_free(held->batch); break;
        case 7: braidb_value_free(held->value); break;
        case 8: braidb_cursor_free(held->failed); break;
        default: braidb_db_free(db); break;
        }
    }
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    char *elsewhere = joined(dir, "-elsewhere");
    int first;
    for (first = 0; first < HANDLES; first++) {
        braidb_t *db = open_db(dir), *again;
        held_t held = hold(db);
        int is_closed = first % 2;
        if (is_closed) {
            OK(braidb_close(db, &err));
            every_call_is_refused(db, &held, elsewhere);
            /* The directory is free, although there are handles. */
            again = open_db(dir);
            OK(braidb_close(again, &err));
            braidb_db_free(again);
        }
        /* The last handle closes a database that was not closed. */
        free_from(first, &held, db);
        again = open_db(dir);
        has(again, NULL, NULL, "alan", NULL);
        OK(braidb_close(again, &err));
        braidb_db_free(again);
    }
    free(elsewhere);
    return 0;
}
