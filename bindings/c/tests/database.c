/* Whole databases: opening, closing, durability, flushes and merges, verification, checkpoints, facts. */
#include "check.h"
#include <dirent.h>
#include <sys/types.h>
#include <sys/wait.h>

static void opens(const char *dir) {
    braidb_t *db = open_db(dir), *other;
    CHECK(strcmp(braidb_path(db), dir) == 0 && braidb_path(NULL) == NULL);
    EXPECT(BRAIDB_LOCKED, braidb_open(dir, NULL, &other, &err));
    CHECK(other == NULL);
    put(db, NULL, "plum", "blue");
    OK(braidb_persist(db, BRAIDB_DURABILITY_SYNC, &err));
    EXPECT(BRAIDB_INVALID, braidb_persist(db, BRAIDB_DURABILITY_DEFAULT, &err));
    EXPECT(BRAIDB_INVALID, braidb_persist(db, 4, &err));
    OK(braidb_close(db, &err));
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    braidb_db_free(NULL);

    OK(braidb_open_read_only(dir, NULL, &db, &err));
    OK(braidb_open_read_only(dir, NULL, &other, &err));
    has(other, NULL, NULL, "plum", "blue");
    EXPECT(BRAIDB_READ_ONLY, braidb_put(db, NULL, braidb_text("pear"), braidb_text("green"), &err));
    EXPECT(BRAIDB_LOCKED, braidb_destroy(dir, NULL, &err));
    /* Freed without a close. */
    braidb_db_free(db);
    braidb_db_free(other);
}

static void works(const char *dir) {
    braidb_t *db = open_db(dir);
    size_t damages = 7;
    char *json;
    const char **names;
    double value;
    char key[16];
    int number;
    for (number = 0; number < 1000; number++) {
        sprintf(key, "%04d", number);
        put(db, NULL, key, "a value");
    }
    OK(braidb_recovery(db, &json, &err));
    CHECK(strstr(json, "\"entries\":") != NULL && strstr(json, "\"cut\":null") != NULL);
    braidb_free(json);
    OK(braidb_metric(db, "memory_bytes", &value, &err));
    CHECK(value > 0);
    OK(braidb_flush(db, &err));
    OK(braidb_metric(db, "memory_bytes", &value, &err));
    CHECK(value == 0);
    OK(braidb_metric(db, "user_ops_total", &value, &err));
    CHECK(value == 1000);
    EXPECT(BRAIDB_INVALID, braidb_metric(db, "user_ops", &value, &err));
    OK(braidb_settle(db, &err));
    OK(braidb_compact(db, &err));
    OK(braidb_verify(db, &damages, &json, &err));
    CHECK(damages == 0 && strstr(json, "\"damages\":[]") != NULL);
    braidb_free(json);
    OK(braidb_verify(db, &damages, NULL, &err));
    /* Each place is filled, although one is missing. */
    json = key;
    EXPECT(BRAIDB_INVALID, braidb_verify(db, NULL, &json, &err));
    CHECK(json == NULL);
    damages = 7;
    EXPECT(BRAIDB_INVALID, braidb_verify(NULL, &damages, NULL, &err));
    CHECK(damages == 0);
    damages = 7;
    EXPECT(BRAIDB_INVALID, braidb_family_list(db, NULL, &damages, &err));
    CHECK(damages == 0);
    names = (const char **)(void *)key;
    EXPECT(BRAIDB_INVALID, braidb_family_list(db, &names, NULL, &err));
    CHECK(names == NULL);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
}

static double syncs(const braidb_t *db) {
    double value;
    OK(braidb_metric(db, "log_syncs_total", &value, &err));
    return value;
}

/* What each durability promises, after a process that ended without a close. */
static void durabilities(const char *dir) {
    char *own = joined(dir, "-durable");
    braidb_t *db;
    double before;
    int status = 0;
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        db = open_db(own);
        OK(braidb_put_with(db, NULL, braidb_text("buffer"), braidb_text("kept"), BRAIDB_DURABILITY_BUFFER, &err));
        OK(braidb_put_with(db, NULL, braidb_text("none"), braidb_text("lost"), BRAIDB_DURABILITY_NONE, &err));
        has(db, NULL, NULL, "none", "lost");
        _exit(0);
    }
    CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    db = open_db(own);
    has(db, NULL, NULL, "buffer", "kept");
    has(db, NULL, NULL, "none", NULL);
    before = syncs(db);
    OK(braidb_put_with(db, NULL, braidb_text("a"), braidb_text("1"), BRAIDB_DURABILITY_BUFFER, &err));
    CHECK(syncs(db) == before);
    OK(braidb_put_with(db, NULL, braidb_text("a"), braidb_text("2"), BRAIDB_DURABILITY_SYNC, &err));
    CHECK(syncs(db) > before);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    OK(braidb_destroy(own, NULL, &err));
    free(own);
}

static void ranges(const char *dir) {
    braidb_t *db = open_db(dir);
    braidb_family_t *users;
    braidb_snapshot_t *before = NULL;
    braidb_value_t *value = NULL;
    braidb_range_t gone[2];
    OK(braidb_family_create(db, "ranges", &users, &err));
    put(db, users, "a", "1");
    put(db, users, "b", "2");
    put(db, users, "c", "3");
    put(db, users, "d", "4");
    OK(braidb_snapshot_create(db, &before, &err));
    gone[0].lower = braidb_none();
    gone[0].upper = braidb_text("b");
    gone[1].lower = braidb_text("c");
    gone[1].upper = braidb_text("d");
    OK(braidb_excise(db, users, gone, 2, &err));
    has(db, users, NULL, "a", NULL);
    has(db, users, NULL, "b", "2");
    has(db, users, NULL, "c", NULL);
    has(db, users, NULL, "d", "4");
    has(db, users, before, "b", "2");
    EXPECT(BRAIDB_EXCISED, braidb_get(db, users, before, braidb_text("a"), &value, &err));
    OK(braidb_excise(db, users, NULL, 0, &err));
    EXPECT(BRAIDB_INVALID, braidb_excise(db, users, NULL, 1, &err));
    /* A range of zeros takes nothing away; all keys are those from the empty key on. */
    gone[0].lower = gone[0].upper = braidb_none();
    EXPECT(BRAIDB_INVALID, braidb_excise(db, users, gone, 2, &err));
    has(db, users, NULL, "b", "2");
    gone[0].lower = braidb_text("");
    gone[0].upper = braidb_text("c");
    OK(braidb_excise(db, users, gone, 1, &err));
    has(db, users, NULL, "b", NULL);
    OK(braidb_compact_range(db, users, braidb_text("b"), braidb_none(), &err));
    OK(braidb_compact_range(db, NULL, braidb_none(), braidb_none(), &err));
    has(db, users, NULL, "d", "4");
    braidb_snapshot_free(before);
    braidb_family_free(users);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
}

static void facts(const char *dir) {
    braidb_t *db = open_db(dir);
    braidb_range_t ranges[2];
    braidb_estimate_t estimates[2];
    char *text;
    OK(braidb_stats(db, &text, &err));
    CHECK(strstr(text, "\"families\":[{") != NULL && strstr(text, "\"gets_total\":") != NULL);
    CHECK(strstr(text, "\"poisoned\":null") != NULL);
    braidb_free(text);
    OK(braidb_metrics(db, &text, &err));
    CHECK(strstr(text, "\nbraidb_gets_total ") != NULL && text[strlen(text) - 1] == '\n');
    braidb_free(text);

    ranges[0].lower = ranges[0].upper = ranges[1].lower = braidb_none();
    ranges[1].upper = braidb_text("0250");
    OK(braidb_estimate(db, NULL, ranges, 2, estimates, &err));
    /* The key plum is the last one. */
    CHECK(estimates[0].entries == 1001 && estimates[0].tombstones == 0);
    CHECK(estimates[0].bytes > estimates[1].bytes && estimates[0].value_bytes == 0);
    CHECK(estimates[1].entries > 100 && estimates[1].entries < 500);
    OK(braidb_estimate(db, NULL, NULL, 0, NULL, &err));
    EXPECT(BRAIDB_INVALID, braidb_estimate(db, NULL, NULL, 1, estimates, &err));
    CHECK(estimates[0].entries == 0);
    /* A range that fails leaves no results of those before it. */
    ranges[1].upper = braidb_slice(NULL, 1);
    EXPECT(BRAIDB_INVALID, braidb_estimate(db, NULL, ranges, 2, estimates, &err));
    CHECK(estimates[0].entries == 0 && estimates[1].entries == 0);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
}

static void copies(const char *dir) {
    braidb_t *db = open_db(dir);
    braidb_options_t *options;
    char *copy = joined(dir, "-copy"), *json;
    size_t damages = 7;
    OK(braidb_checkpoint(db, copy, &json, &err));
    CHECK(strstr(json, "\"files\":") != NULL);
    braidb_free(json);
    EXPECT(BRAIDB_EXISTS, braidb_checkpoint(db, copy, NULL, &err));
    put(db, NULL, "plum", "violet");
    OK(braidb_close(db, &err));
    braidb_db_free(db);

    OK(braidb_verify_path(copy, NULL, &damages, &json, &err));
    CHECK(damages == 0 && strstr(json, "\"notes\":[]") != NULL);
    braidb_free(json);
    OK(braidb_verify_path(copy, NULL, &damages, NULL, &err));
    db = open_db(copy);
    has(db, NULL, NULL, "plum", "blue");
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    options = braidb_options_create();
    OK(braidb_options_set(options, "background_threads", "0", &err));
    EXPECT(BRAIDB_INVALID, braidb_destroy(copy, options, &err));
    braidb_options_free(options);
    OK(braidb_destroy(copy, NULL, &err));
    EXPECT(BRAIDB_MISSING, braidb_destroy(copy, NULL, &err));
    EXPECT(BRAIDB_MISSING, braidb_verify_path(copy, NULL, &damages, NULL, &err));
    free(copy);
}

/* Flips a bit near the beginning of each table. Returns how many tables there are. */
static int flip_tables(const char *dir) {
    DIR *listed = opendir(dir);
    struct dirent *entry;
    int tables = 0;
    CHECK(listed != NULL);
    while ((entry = readdir(listed)) != NULL) {
        const char *end = strstr(entry->d_name, ".table");
        char *begin, *path;
        FILE *file;
        int byte;
        if (end == NULL) {
            continue;
        }
        begin = joined(dir, "/");
        path = joined(begin, entry->d_name);
        file = fopen(path, "r+b");
        CHECK(file != NULL && fseek(file, 64, SEEK_SET) == 0);
        byte = fgetc(file);
        CHECK(byte != EOF && fseek(file, 64, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
        free(path);
        free(begin);
        tables++;
    }
    closedir(listed);
    return tables;
}

static void damage(const char *dir) {
    braidb_t *db = open_db(dir);
    braidb_error_t *err;
    braidb_value_t *value;
    braidb_cursor_t *cursor;
    size_t damages = 0;
    char *json;
    OK(braidb_compact(db, &err));
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    OK(braidb_verify_path(dir, NULL, &damages, NULL, &err));
    CHECK(damages == 0);
    CHECK(flip_tables(dir) > 0);

    OK(braidb_verify_path(dir, NULL, &damages, &json, &err));
    CHECK(damages > 0 && strstr(json, ".table") != NULL);
    braidb_free(json);
    db = open_db(dir);
    CHECK(braidb_get(db, NULL, NULL, braidb_text("0000"), &value, &err) == BRAIDB_CORRUPTION);
    CHECK(value == NULL && strstr(braidb_error_path(err), ".table") != NULL);
    CHECK(strstr(braidb_error_message(err), "is damaged at byte") != NULL);
    braidb_error_free(err);
    /* A cursor that met damage goes on from elsewhere only. */
    OK(braidb_cursor_create(db, NULL, NULL, braidb_none(), braidb_none(), &cursor, &err));
    EXPECT(BRAIDB_CORRUPTION, braidb_cursor_first(cursor, &err));
    EXPECT(BRAIDB_CORRUPTION, braidb_cursor_status(cursor, &err));
    EXPECT(BRAIDB_CORRUPTION, braidb_cursor_next(cursor, &err));
    CHECK(!braidb_cursor_valid(cursor));
    OK(braidb_cursor_last(cursor, &err));
    CHECK(is_text(braidb_cursor_key(cursor), "plum"));
    braidb_cursor_free(cursor);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
}

/* What a salvage found. */
typedef struct {
    int entries, holes;
    char lost[16];
} salvaged_t;

static int on_entry(void *context, braidb_slice_t key, braidb_slice_t value) {
    (void)value;
    CHECK(key.len > 0);
    ((salvaged_t *)context)->entries++;
    return 0;
}

static int on_hole(void *context, const braidb_hole_t *hole) {
    salvaged_t *salvaged = (salvaged_t *)context;
    CHECK(hole->high.data != NULL && hole->high.len < sizeof salvaged->lost && strstr(hole->path, ".table") != NULL);
    /* The block lies at the beginning of its table. */
    CHECK(hole->offset == 0 && hole->what[0] != '\0' && is_text(hole->low, "0000"));
    memcpy(salvaged->lost, hole->high.data, hole->high.len);
    salvaged->lost[hole->high.len] = '\0';
    salvaged->holes++;
    return 0;
}

/* One block of 1,001 entries is damaged. */
static void salvage(const char *dir) {
    braidb_options_t *options = braidb_options_create();
    braidb_t *db;
    salvaged_t salvaged = {0, 0, ""};
    OK(braidb_options_set(options, "open_damaged", "true", &err));
    EXPECT(BRAIDB_INVALID, braidb_open(dir, options, &db, &err));
    OK(braidb_open_read_only(dir, options, &db, &err));
    OK(braidb_salvage(db, NULL, braidb_none(), braidb_none(), on_entry, on_hole, &salvaged, &err));
    CHECK(salvaged.holes == 1 && salvaged.entries == 1000 - atoi(salvaged.lost));
    OK(braidb_salvage(db, NULL, braidb_text("plum"), braidb_none(), on_entry, on_hole, &salvaged, &err));
    CHECK(salvaged.holes == 1 && salvaged.entries == 1001 - atoi(salvaged.lost));
    EXPECT(BRAIDB_INVALID, braidb_salvage(db, NULL, braidb_none(), braidb_none(), on_entry, NULL, NULL, &err));
    braidb_options_free(options);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    opens(dir);
    works(dir);
    durabilities(dir);
    facts(dir);
    ranges(dir);
    copies(dir);
    damage(dir);
    salvage(dir);
    return 0;
}
