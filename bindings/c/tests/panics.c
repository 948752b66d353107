/*
 * Panics planted in each function. The library plants one where the environment variable BRAIDB_C_PANIC names the function, if it was built
 * with debug assertions.
 */
#include "check.h"
#include <fcntl.h>

static braidb_t *db;
static braidb_options_t *options;
static braidb_family_t *family;
static braidb_snapshot_t *snapshot;
static braidb_batch_t *batch;
static braidb_cursor_t *cursor;
static braidb_value_t *value;
static braidb_txn_t *txn;
static braidb_overlay_t *overlay;
static braidb_error_t *error;
static const char *dir;
static int planted;
/* stderr goes to a file, in which the text of each panic must stand. At the end the file goes to where stderr went before. */
static int stderr_before, printed;

static void show_printed(void) {
    char text[4096];
    ssize_t bytes;
    off_t at = 0;
    while ((bytes = pread(printed, text, sizeof text, at)) > 0 && write(stderr_before, text, (size_t)bytes) == bytes) {
        at += bytes;
    }
}

static void print_to_file(const char *path) {
    printed = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    stderr_before = dup(2);
    CHECK(printed >= 0 && stderr_before >= 0 && dup2(printed, 2) == 2 && atexit(show_printed) == 0);
}

/* Whether the library printed, since the last look, that a panic was planted in the function. */
static int is_printed(const char *function) {
    static off_t seen;
    char text[4096], wanted[64];
    ssize_t bytes = pread(printed, text, sizeof text - 1, seen);
    CHECK(bytes >= 0);
    text[bytes] = '\0';
    seen = lseek(printed, 0, SEEK_END);
    sprintf(wanted, "planted in %s\n", function);
    return strstr(text, wanted) != NULL;
}

static void plant(const char *function) {
    CHECK(setenv("BRAIDB_C_PANIC", function, 1) == 0);
    planted++;
}

static void unplant(void) {
    CHECK(unsetenv("BRAIDB_C_PANIC") == 0);
}

/* The call panics in the function of this name, and the error tells where. */
static void check_panic(const char *function, int line, braidb_code_t code, braidb_error_t *err) {
    unplant();
    CHECK(is_printed(function));
    if (code != BRAIDB_PANIC || braidb_error_code(err) != BRAIDB_PANIC || strstr(braidb_error_message(err), function) == NULL ||
        strstr(braidb_error_message(err), "panics.rs:") == NULL) {
        fprintf(stderr, "%s:%d: %s returned %s: %s\n", __FILE__, line, function, braidb_code_name(code), braidb_error_message(err));
        exit(1);
    }
    braidb_error_free(err);
}

#define PANICS(function, ...)                                                 \
    do {                                                                      \
        braidb_error_t *err = NULL;                                           \
        braidb_code_t code;                                                   \
        plant(#function);                                                     \
        code = function(__VA_ARGS__, &err);                                   \
        check_panic(#function, __LINE__, code, err);                          \
    } while (0)

/* A function without a code returns its neutral value. */
#define IS_NEUTRAL(function, holds)                                           \
    do {                                                                      \
        int is_neutral;                                                       \
        plant(#function);                                                     \
        is_neutral = (holds);                                                 \
        unplant();                                                            \
        CHECK(is_printed(#function) && is_neutral && "neutral: " #function);  \
    } while (0)

/* A function that frees, frees. The panic does not leave it. */
#define FREES(function, handle)                                               \
    do {                                                                      \
        plant(#function);                                                     \
        function(handle);                                                     \
        unplant();                                                            \
        CHECK(is_printed(#function) && "frees: " #function);                  \
    } while (0)

static int on_put(void *context, braidb_slice_t of, braidb_slice_t key, braidb_slice_t written) {
    (void)context, (void)of, (void)key, (void)written;
    return 0;
}

static int on_delete(void *context, braidb_slice_t of, braidb_slice_t key) {
    (void)context, (void)of, (void)key;
    return 0;
}

static int on_entry(void *context, braidb_slice_t key, braidb_slice_t found) {
    (void)context, (void)key, (void)found;
    return 0;
}

static int on_hole(void *context, const braidb_hole_t *hole) {
    (void)context, (void)hole;
    return 0;
}

static void make(void) {
    braidb_t *twice;
    options = braidb_options_create();
    db = open_db(dir);
    OK(braidb_family_create(db, "family", &family, &err));
    OK(braidb_snapshot_create(db, &snapshot, &err));
    batch = braidb_batch_create();
    OK(braidb_batch_put(batch, family, braidb_text("key"), braidb_text("value"), &err));
    put(db, NULL, "key", "value");
    OK(braidb_get(db, NULL, NULL, braidb_text("key"), &value, &err));
    OK(braidb_cursor_create(db, NULL, NULL, braidb_none(), braidb_none(), &cursor, &err));
    OK(braidb_cursor_first(cursor, &err));
    OK(braidb_txn_create(db, &txn, &err));
    OK(braidb_overlay_create(db, &overlay, &err));
    CHECK(braidb_open(dir, NULL, &twice, &error) == BRAIDB_LOCKED);
}

static void without_codes(void) {
    IS_NEUTRAL(braidb_version, braidb_version() == NULL);
    IS_NEUTRAL(braidb_abi_version, braidb_abi_version() == UINT32_MAX);
    IS_NEUTRAL(braidb_error_code, braidb_error_code(error) == BRAIDB_PANIC);
    IS_NEUTRAL(braidb_error_message, braidb_error_message(error) == NULL);
    IS_NEUTRAL(braidb_error_path, braidb_error_path(error) == NULL);
    IS_NEUTRAL(braidb_error_offset, braidb_error_offset(error) == 0);
    IS_NEUTRAL(braidb_code_name, braidb_code_name(BRAIDB_OK) == NULL);
    IS_NEUTRAL(braidb_options_create, braidb_options_create() == NULL);
    IS_NEUTRAL(braidb_options_names, braidb_options_names() == NULL);
    IS_NEUTRAL(braidb_path, braidb_path(db) == NULL);
    IS_NEUTRAL(braidb_family_name, braidb_family_name(family) == NULL);
    IS_NEUTRAL(braidb_value_data, braidb_value_data(value) == NULL);
    IS_NEUTRAL(braidb_value_len, braidb_value_len(value) == 0);
    IS_NEUTRAL(braidb_batch_create, braidb_batch_create() == NULL);
    IS_NEUTRAL(braidb_batch_count, braidb_batch_count(batch) == 0);
    IS_NEUTRAL(braidb_batch_bytes, braidb_batch_bytes(batch) == 0);
    IS_NEUTRAL(braidb_cursor_valid, braidb_cursor_valid(cursor) == 0);
    IS_NEUTRAL(braidb_cursor_key, braidb_cursor_key(cursor).data == NULL);
}

static void with_codes(void) {
    braidb_slice_t key = braidb_text("key"), found;
    braidb_range_t range;
    braidb_estimate_t estimate;
    const char **names;
    char buffer[8], *text;
    void *memory, *handle = NULL;
    size_t len, count;
    double number;
    int32_t is_swapped;
    range.lower = range.upper = braidb_none();
    PANICS(braidb_options_set, options, "block_bytes", "4096");
    PANICS(braidb_options_add_slow_path, options, dir);
    PANICS(braidb_options_check, options);
    PANICS(braidb_open, dir, options, (braidb_t **)&handle);
    PANICS(braidb_open_read_only, dir, options, (braidb_t **)&handle);
    PANICS(braidb_close, db);
    PANICS(braidb_persist, db, BRAIDB_DURABILITY_SYNC);
    PANICS(braidb_flush, db);
    PANICS(braidb_compact, db);
    PANICS(braidb_compact_range, db, family, range.lower, range.upper);
    PANICS(braidb_excise, db, family, &range, 1);
    PANICS(braidb_settle, db);
    PANICS(braidb_verify, db, &len, &text);
    PANICS(braidb_verify_path, dir, options, &len, &text);
    PANICS(braidb_destroy, dir, options);
    PANICS(braidb_checkpoint, db, dir, &text);
    PANICS(braidb_recovery, db, &text);
    PANICS(braidb_family_open, db, "family", (braidb_family_t **)&handle);
    PANICS(braidb_family_create, db, "family", (braidb_family_t **)&handle);
    PANICS(braidb_family_list, db, &names, &len);
    PANICS(braidb_put, db, family, key, key);
    PANICS(braidb_put_with, db, family, key, key, BRAIDB_DURABILITY_SYNC);
    PANICS(braidb_delete, db, family, key);
    PANICS(braidb_delete_with, db, family, key, BRAIDB_DURABILITY_SYNC);
    PANICS(braidb_get, db, family, snapshot, key, (braidb_value_t **)&handle);
    PANICS(braidb_get_into, db, family, snapshot, key, buffer, sizeof buffer, &len);
    PANICS(braidb_contains, db, family, snapshot, key);
    PANICS(braidb_get_many, db, family, snapshot, &key, 1, &found, &memory);
    PANICS(braidb_put_if_absent, db, family, key, key, (braidb_value_t **)&handle);
    PANICS(braidb_compare_and_swap, db, family, key, NULL, &key, &is_swapped);
    PANICS(braidb_batch_clear, batch);
    PANICS(braidb_batch_put, batch, family, key, key);
    PANICS(braidb_batch_delete, batch, family, key);
    PANICS(braidb_batch_put_packed, batch, family, braidb_none(), 0);
    PANICS(braidb_batch_append, batch, batch);
    PANICS(braidb_batch_iterate, batch, on_put, on_delete, NULL);
    PANICS(braidb_write, db, batch, BRAIDB_DURABILITY_DEFAULT);
    PANICS(braidb_snapshot_create, db, (braidb_snapshot_t **)&handle);
    PANICS(braidb_cursor_create, db, family, snapshot, range.lower, range.upper, (braidb_cursor_t **)&handle);
    PANICS(braidb_cursor_first, cursor);
    EXPECT(BRAIDB_PANIC, braidb_cursor_status(cursor, &err));
    PANICS(braidb_cursor_last, cursor);
    PANICS(braidb_cursor_seek, cursor, key);
    PANICS(braidb_cursor_seek_for_prev, cursor, key);
    OK(braidb_cursor_first(cursor, &err));
    PANICS(braidb_cursor_next, cursor);
    OK(braidb_cursor_first(cursor, &err));
    PANICS(braidb_cursor_prev, cursor);
    PANICS(braidb_cursor_value, cursor, &found);
    PANICS(braidb_cursor_entry, cursor, &key, &found);
    PANICS(braidb_cursor_next_packed, cursor, buffer, sizeof buffer, &len, &count);
    PANICS(braidb_cursor_prev_packed, cursor, buffer, sizeof buffer, &len, &count);
    PANICS(braidb_cursor_status, cursor);
    PANICS(braidb_txn_create, db, (braidb_txn_t **)&handle);
    PANICS(braidb_txn_put, txn, family, key, key);
    PANICS(braidb_txn_delete, txn, family, key);
    PANICS(braidb_txn_get, txn, family, key, (braidb_value_t **)&handle);
    PANICS(braidb_txn_get_into, txn, family, key, buffer, sizeof buffer, &len);
    PANICS(braidb_txn_contains, txn, family, key);
    PANICS(braidb_txn_scan, txn, family, range.lower, range.upper, 0, on_entry, NULL);
    PANICS(braidb_txn_commit, txn, BRAIDB_DURABILITY_DEFAULT);
    PANICS(braidb_txn_rollback, txn);
    PANICS(braidb_overlay_create, db, (braidb_overlay_t **)&handle);
    PANICS(braidb_overlay_put, overlay, family, key, key);
    PANICS(braidb_overlay_delete, overlay, family, key);
    PANICS(braidb_overlay_get, overlay, family, key, (braidb_value_t **)&handle);
    PANICS(braidb_overlay_get_into, overlay, family, key, buffer, sizeof buffer, &len);
    PANICS(braidb_overlay_contains, overlay, family, key);
    PANICS(braidb_overlay_scan, overlay, family, range.lower, range.upper, 0, on_entry, NULL);
    PANICS(braidb_overlay_count, overlay, &len);
    PANICS(braidb_overlay_bytes, overlay, &len);
    PANICS(braidb_overlay_clear, overlay);
    PANICS(braidb_overlay_commit, overlay, BRAIDB_DURABILITY_DEFAULT);
    PANICS(braidb_evacuate, db, dir, NULL, NULL);
    PANICS(braidb_checkpoint_to, db, dir, NULL, 0, &text);
    PANICS(braidb_salvage, db, family, range.lower, range.upper, on_entry, on_hole, NULL);
    PANICS(braidb_stats, db, &text);
    PANICS(braidb_metric, db, "memory_bytes", &number);
    PANICS(braidb_metrics, db, &text);
    PANICS(braidb_estimate, db, family, &range, 1, &estimate);
    CHECK(handle == NULL);
}

static void frees(void) {
    char *text;
    OK(braidb_stats(db, &text, &err));
    FREES(braidb_free, text);
    free(text);
    FREES(braidb_error_free, error);
    FREES(braidb_options_free, options);
    FREES(braidb_family_free, family);
    FREES(braidb_snapshot_free, snapshot);
    FREES(braidb_batch_free, batch);
    FREES(braidb_cursor_free, cursor);
    FREES(braidb_value_free, value);
    FREES(braidb_txn_free, txn);
    FREES(braidb_overlay_free, overlay);
    FREES(braidb_db_free, db);
}

int main(int argc, char **argv) {
    char *file;
    dir = directory(argc, argv);
    file = joined(dir, "-stderr");
    print_to_file(file);
    free(file);
    make();
    without_codes();
    with_codes();
    /* The database works after all that. */
    put(db, family, "after", "the panics");
    has(db, family, NULL, "after", "the panics");
    frees();
    db = open_db(dir);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    printf("%d panics were planted\n", planted);
    return 0;
}
