/*
 * Panics planted in each function. The library plants one where the environment variable BRAIDB_C_PANIC names the function, if it was built
 * with debug assertions.
 */
#include "check.h"

static leveldb_t *db;
static leveldb_options_t *options;
static leveldb_writebatch_t *batch;
static leveldb_iterator_t *iterator;
static const leveldb_snapshot_t *snapshot;
static leveldb_cache_t *cache;
static leveldb_comparator_t *comparator;
static leveldb_filterpolicy_t *policy;
static leveldb_env_t *env;
static const char *dir;
static int planted;

static void plant(const char *function) {
    CHECK(setenv("BRAIDB_C_PANIC", function, 1) == 0);
    planted++;
}

static void unplant(void) {
    CHECK(unsetenv("BRAIDB_C_PANIC") == 0);
}

/* The error tells that the function of this name panicked, and where. */
static void check_panic(const char *function, int line, char *err) {
    unplant();
    if (err == NULL || strncmp(err, "IO error: ", 10) != 0 || strstr(err, function) == NULL || strstr(err, "panics.rs:") == NULL) {
        fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, line, function, err == NULL ? "no error" : err);
        exit(1);
    }
    leveldb_free(err);
}

/* The function fails. Behind an unplant() other calls may bring the error to light. */
#define FAILS(function, ...)                                                  \
    do {                                                                      \
        char *err = NULL;                                                     \
        plant(#function);                                                     \
        __VA_ARGS__;                                                          \
        check_panic(#function, __LINE__, err);                                \
    } while (0)

/* A function without an error returns its neutral value, or does nothing. */
#define IS_NEUTRAL(function, holds)                                           \
    do {                                                                      \
        int is_neutral;                                                       \
        plant(#function);                                                     \
        is_neutral = (holds);                                                 \
        unplant();                                                            \
        CHECK(is_neutral && "neutral: " #function);                           \
    } while (0)

/* A function that destroys, destroys. */
#define FREES(function, ...)                                                  \
    do {                                                                      \
        plant(#function);                                                     \
        function(__VA_ARGS__);                                                \
        unplant();                                                            \
    } while (0)

static void make(void) {
    options = leveldb_options_create();
    batch = leveldb_writebatch_create();
    cache = leveldb_cache_create_lru(1 << 20);
    comparator = leveldb_comparator_create(NULL, NULL, NULL, NULL);
    policy = leveldb_filterpolicy_create_bloom(10);
    env = leveldb_create_default_env();
    db = open_db(dir);
    put(db, "key", "value");
    snapshot = leveldb_create_snapshot(db);
}

static void databases(void) {
    const char *start = "a", *limit = "z";
    const size_t one = 1;
    uint64_t size = 7;
    size_t len = 7;
    FAILS(leveldb_open, CHECK(leveldb_open(options, dir, &err) == NULL));
    FAILS(leveldb_put, leveldb_put(db, written, "key", 3, "planted", 7, &err));
    FAILS(leveldb_delete, leveldb_delete(db, written, "key", 3, &err));
    FAILS(leveldb_write, leveldb_write(db, written, batch, &err));
    FAILS(leveldb_get, CHECK(leveldb_get(db, read_now, "key", 3, &len, &err) == NULL && len == 0));
    FAILS(leveldb_destroy_db, leveldb_destroy_db(options, dir, &err));
    FAILS(leveldb_repair_db, leveldb_repair_db(options, dir, &err));
    IS_NEUTRAL(leveldb_create_snapshot, leveldb_create_snapshot(db) == NULL);
    IS_NEUTRAL(leveldb_property_value, leveldb_property_value(db, "leveldb.stats") == NULL);
    IS_NEUTRAL(leveldb_approximate_sizes, (leveldb_approximate_sizes(db, 1, &start, &one, &limit, &one, &size), size == 0));
    IS_NEUTRAL(leveldb_compact_range, (leveldb_compact_range(db, NULL, 0, NULL, 0), 1));
}

static void renew(void) {
    leveldb_iter_destroy(iterator);
    iterator = leveldb_create_iterator(db, read_now);
    leveldb_iter_seek_to_first(iterator);
    stands_on(iterator, "key", "value");
}

static void iterators(void) {
    size_t len;
    FAILS(leveldb_create_iterator, iterator = leveldb_create_iterator(db, read_now), unplant(), leveldb_iter_seek_to_first(iterator),
          stands_on(iterator, NULL, NULL), leveldb_iter_get_error(iterator, &err));
    renew();
    FAILS(leveldb_iter_seek_to_first, leveldb_iter_seek_to_first(iterator), unplant(), leveldb_iter_get_error(iterator, &err));
    renew();
    FAILS(leveldb_iter_seek_to_last, leveldb_iter_seek_to_last(iterator), unplant(), leveldb_iter_get_error(iterator, &err));
    renew();
    FAILS(leveldb_iter_seek, leveldb_iter_seek(iterator, "k", 1), unplant(), leveldb_iter_get_error(iterator, &err));
    renew();
    FAILS(leveldb_iter_next, leveldb_iter_next(iterator), unplant(), leveldb_iter_get_error(iterator, &err));
    stands_on(iterator, NULL, NULL);
    renew();
    FAILS(leveldb_iter_prev, leveldb_iter_prev(iterator), unplant(), leveldb_iter_get_error(iterator, &err));
    renew();
    FAILS(leveldb_iter_get_error, leveldb_iter_get_error(iterator, &err));
    IS_NEUTRAL(leveldb_iter_valid, leveldb_iter_valid(iterator) == 0);
    IS_NEUTRAL(leveldb_iter_key, leveldb_iter_key(iterator, &len) == NULL);
    IS_NEUTRAL(leveldb_iter_value, leveldb_iter_value(iterator, &len) == NULL);
    stands_on(iterator, "key", "value");
}

static void never_put(void *state, const char *key, size_t klen, const char *value, size_t vlen) {
    (void)state, (void)key, (void)klen, (void)value, (void)vlen;
    CHECK(0);
}

static void never_deleted(void *state, const char *key, size_t klen) {
    never_put(state, key, klen, NULL, 0);
}

/* A batch to which a write could not be added is not written. */
static void batches(void) {
    FAILS(leveldb_writebatch_put, leveldb_writebatch_put(batch, "key", 3, "planted", 7), unplant(),
          leveldb_write(db, written, batch, &err));
    leveldb_writebatch_clear(batch);
    FAILS(leveldb_writebatch_delete, leveldb_writebatch_delete(batch, "key", 3), unplant(), leveldb_write(db, written, batch, &err));
    leveldb_writebatch_clear(batch);
    FAILS(leveldb_writebatch_append, leveldb_writebatch_append(batch, batch), unplant(), leveldb_write(db, written, batch, &err));
    leveldb_writebatch_clear(batch);
    FAILS(leveldb_writebatch_clear, leveldb_writebatch_clear(batch), unplant(), leveldb_write(db, written, batch, &err));
    leveldb_writebatch_clear(batch);
    leveldb_writebatch_put(batch, "other", 5, "value", 5);
    IS_NEUTRAL(leveldb_writebatch_iterate, (leveldb_writebatch_iterate(batch, NULL, never_put, never_deleted), 1));
    OK(leveldb_write(db, written, batch, &err));
}

static void creations(void) {
    IS_NEUTRAL(leveldb_writebatch_create, leveldb_writebatch_create() == NULL);
    IS_NEUTRAL(leveldb_options_create, leveldb_options_create() == NULL);
    IS_NEUTRAL(leveldb_comparator_create, leveldb_comparator_create(NULL, NULL, NULL, NULL) == NULL);
    IS_NEUTRAL(leveldb_filterpolicy_create, leveldb_filterpolicy_create(NULL, NULL, NULL, NULL, NULL) == NULL);
    IS_NEUTRAL(leveldb_filterpolicy_create_bloom, leveldb_filterpolicy_create_bloom(10) == NULL);
    IS_NEUTRAL(leveldb_readoptions_create, leveldb_readoptions_create() == NULL);
    IS_NEUTRAL(leveldb_writeoptions_create, leveldb_writeoptions_create() == NULL);
    IS_NEUTRAL(leveldb_cache_create_lru, leveldb_cache_create_lru(0) == NULL);
    IS_NEUTRAL(leveldb_create_default_env, leveldb_create_default_env() == NULL);
    IS_NEUTRAL(leveldb_env_get_test_directory, leveldb_env_get_test_directory(env) == NULL);
    IS_NEUTRAL(leveldb_major_version, leveldb_major_version() == 1);
    IS_NEUTRAL(leveldb_minor_version, leveldb_minor_version() == 23);
}

/* An option that could not be set is as it was. */
static void setters(void) {
    IS_NEUTRAL(leveldb_options_set_comparator, (leveldb_options_set_comparator(options, comparator), 1));
    IS_NEUTRAL(leveldb_options_set_filter_policy, (leveldb_options_set_filter_policy(options, policy), 1));
    IS_NEUTRAL(leveldb_options_set_create_if_missing, (leveldb_options_set_create_if_missing(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_error_if_exists, (leveldb_options_set_error_if_exists(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_paranoid_checks, (leveldb_options_set_paranoid_checks(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_env, (leveldb_options_set_env(options, env), 1));
    IS_NEUTRAL(leveldb_options_set_info_log, (leveldb_options_set_info_log(options, NULL), 1));
    IS_NEUTRAL(leveldb_options_set_write_buffer_size, (leveldb_options_set_write_buffer_size(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_max_open_files, (leveldb_options_set_max_open_files(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_cache, (leveldb_options_set_cache(options, cache), 1));
    IS_NEUTRAL(leveldb_options_set_block_size, (leveldb_options_set_block_size(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_block_restart_interval, (leveldb_options_set_block_restart_interval(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_max_file_size, (leveldb_options_set_max_file_size(options, 1), 1));
    IS_NEUTRAL(leveldb_options_set_compression, (leveldb_options_set_compression(options, leveldb_no_compression), 1));
    IS_NEUTRAL(leveldb_readoptions_set_verify_checksums, (leveldb_readoptions_set_verify_checksums(read_now, 1), 1));
    IS_NEUTRAL(leveldb_readoptions_set_fill_cache, (leveldb_readoptions_set_fill_cache(read_now, 0), 1));
    IS_NEUTRAL(leveldb_readoptions_set_snapshot, (leveldb_readoptions_set_snapshot(read_now, snapshot), 1));
    IS_NEUTRAL(leveldb_writeoptions_set_sync, (leveldb_writeoptions_set_sync(written, 1), 1));
    has(db, read_now, "other", "value");
}

static void frees(void) {
    char *text = leveldb_property_value(db, "leveldb.stats");
    FREES(leveldb_free, text);
    free(text);
    FREES(leveldb_iter_destroy, iterator);
    FREES(leveldb_release_snapshot, db, snapshot);
    FREES(leveldb_writebatch_destroy, batch);
    FREES(leveldb_options_destroy, options);
    FREES(leveldb_readoptions_destroy, read_now);
    FREES(leveldb_writeoptions_destroy, written);
    FREES(leveldb_comparator_destroy, comparator);
    FREES(leveldb_filterpolicy_destroy, policy);
    FREES(leveldb_cache_destroy, cache);
    FREES(leveldb_env_destroy, env);
    FREES(leveldb_close, db);
}

int main(int argc, char **argv) {
    dir = directory(argc, argv);
    make();
    databases();
    iterators();
    batches();
    creations();
    setters();
    /* The options are as they were, so the open refuses nothing but a database that is open. */
    FAILS_WITH("IO error: ", "open already", leveldb_open(options, dir, &err));
    put(db, "after", "the panics");
    frees();
    db = open_db(dir);
    has(db, NULL, "key", "value");
    has(db, NULL, "after", "the panics");
    leveldb_close(db);
    printf("%d panics were planted\n", planted);
    return 0;
}
