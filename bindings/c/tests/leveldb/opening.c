/* Opening and its options, comparators and filter policies, the environment, deleting and repairing. */
#include "check.h"
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

static const char *dir;
static leveldb_options_t *options;

/* Opens by `options`, and closes again. */
static void opens(void) {
    leveldb_t *db = NULL;
    OK(db = leveldb_open(options, dir, &err));
    CHECK(db != NULL);
    leveldb_close(db);
}

static void fails_to_open(const char *path, const char *begin, const char *part) {
    leveldb_t *db = (leveldb_t *)&options;
    FAILS_WITH(begin, part, db = leveldb_open(options, path, &err));
    CHECK(db == NULL);
}

static void creation(void) {
    leveldb_t *db;
    fails_to_open(dir, "Invalid argument: ", "does not exist (create_if_missing is false)");
    leveldb_options_set_error_if_exists(options, 1);
    fails_to_open(dir, "Invalid argument: ", "does not exist (create_if_missing is false)");
    leveldb_options_set_create_if_missing(options, 1);
    opens();
    fails_to_open(dir, "Invalid argument: ", "exists (error_if_exists is true)");
    leveldb_options_set_create_if_missing(options, 0);
    fails_to_open(dir, "Invalid argument: ", "exists (error_if_exists is true)");
    leveldb_options_set_error_if_exists(options, 0);
    opens();
    db = open_db(dir);
    fails_to_open(dir, "IO error: ", "open already");
    leveldb_close(db);
    FAILS_WITH("Invalid argument: ", "options", CHECK(leveldb_open(NULL, dir, &err) == NULL));
    FAILS_WITH("Invalid argument: ", "name", CHECK(leveldb_open(options, NULL, &err) == NULL));
}

/* An open creates the last directory of its path alone, as LevelDB's does. */
static void parents(void) {
    char *parent = joined(dir, "-parent"), *below = joined(parent, "/below"), *deep = joined(below, "/deep/");
    struct stat found;
    leveldb_t *db;
    fails_to_open(deep, "IO error: ", below);
    leveldb_options_set_create_if_missing(options, 1);
    fails_to_open(below, "IO error: ", "No such file or directory");
    CHECK(stat(parent, &found) != 0);
    CHECK(mkdir(parent, 0777) == 0);
    fails_to_open(deep, "IO error: ", "create it first");
    db = open_db(below);
    leveldb_close(db);
    /* The directory is there now, and opens again. */
    db = open_db(below);
    put(db, "key", "value");
    leveldb_close(db);
    CHECK(chdir(parent) == 0);
    db = open_db("beside");
    leveldb_close(db);
    CHECK(stat("beside/CURRENT", &found) == 0 && chdir("/") == 0);
    leveldb_options_set_create_if_missing(options, 0);
    free(deep);
    free(below);
    free(parent);
}

/* Sizes that BraidDB does not take become others. */
static void sizes(void) {
    leveldb_cache_t *none = leveldb_cache_create_lru(0), *all = leveldb_cache_create_lru(SIZE_MAX);
    leveldb_options_set_write_buffer_size(options, SIZE_MAX);
    leveldb_options_set_max_open_files(options, INT_MAX);
    leveldb_options_set_block_size(options, SIZE_MAX);
    leveldb_options_set_max_file_size(options, SIZE_MAX);
    leveldb_options_set_cache(options, all);
    opens();
    leveldb_options_set_write_buffer_size(options, 0);
    leveldb_options_set_max_open_files(options, INT_MIN);
    leveldb_options_set_block_size(options, 0);
    leveldb_options_set_max_file_size(options, 0);
    leveldb_options_set_cache(options, none);
    leveldb_cache_destroy(all);
    leveldb_cache_destroy(none);
    opens();
}

/* A buffer of the least size is written to tables by itself. */
static void small_buffer(void) {
    leveldb_t *db;
    char key[8], *sstables;
    int number;
    OK(db = leveldb_open(options, dir, &err));
    for (number = 0; number < 400; number++) {
        sprintf(key, "%06d", number);
        put(db, key, "of a small buffer");
    }
    sstables = leveldb_property_value(db, "leveldb.sstables");
    CHECK(strstr(sstables, "['0") != NULL);
    leveldb_free(sstables);
    leveldb_close(db);
}

static void without_effect(void) {
    leveldb_env_t *env = leveldb_create_default_env();
    leveldb_options_set_paranoid_checks(options, 1);
    leveldb_options_set_env(options, env);
    leveldb_options_set_env(options, NULL);
    leveldb_options_set_info_log(options, NULL);
    leveldb_options_set_block_restart_interval(options, -1);
    leveldb_options_set_compression(options, leveldb_snappy_compression);
    leveldb_options_set_cache(options, NULL);
    leveldb_env_destroy(env);
    opens();
}

/* ---- Comparators and filter policies ---- */

static int calls;

static void count_call(void *state) {
    ++*(int *)state;
}

static int compare(void *state, const char *a, size_t alen, const char *b, size_t blen) {
    (void)a, (void)alen, (void)b, (void)blen;
    count_call(state);
    return 0;
}

static const char *name(void *state) {
    (void)state;
    return "of.two.worlds";
}

static const char *no_name(void *state) {
    (void)state;
    return NULL;
}

static void declare(const char *names) {
    CHECK(setenv("BRAIDB_BYTEWISE_COMPARATORS", names, 1) == 0);
}

static void comparators(void) {
    leveldb_comparator_t *comparator = leveldb_comparator_create(&calls, count_call, compare, name);
    leveldb_comparator_t *nameless = leveldb_comparator_create(&calls, NULL, compare, no_name);
    leveldb_options_set_comparator(options, comparator);
    fails_to_open(dir, "Not implemented: ", "of.two.worlds");
    fails_to_open(dir, "Not implemented: ", "order of bytes");
    fails_to_open(dir, "Not implemented: ", "BRAIDB_BYTEWISE_COMPARATORS");
    declare("of.two");
    fails_to_open(dir, "Not implemented: ", "of.two.worlds");
    declare("another, of.two.worlds");
    opens();
    /* The database keeps no name: all comparators that are declared read it alike. */
    leveldb_options_set_comparator(options, NULL);
    opens();
    declare("");
    leveldb_options_set_comparator(options, nameless);
    fails_to_open(dir, "Not implemented: ", "without a name");
    leveldb_options_set_comparator(options, NULL);
    CHECK(calls == 0);
    leveldb_comparator_destroy(comparator);
    CHECK(calls == 1);
    leveldb_comparator_destroy(nameless);
    leveldb_comparator_destroy(NULL);
    CHECK(calls == 1);
}

static char *create_filter(void *state, const char *const *keys, const size_t *lens, int count, size_t *len) {
    (void)keys, (void)lens, (void)count;
    count_call(state);
    *len = 0;
    return NULL;
}

static uint8_t key_may_match(void *state, const char *key, size_t len, const char *filter, size_t filter_len) {
    (void)key, (void)len, (void)filter, (void)filter_len;
    count_call(state);
    return 0;
}

static void filter_policies(void) {
    leveldb_filterpolicy_t *bloom = leveldb_filterpolicy_create_bloom(10);
    leveldb_filterpolicy_t *own = leveldb_filterpolicy_create(&calls, count_call, create_filter, key_may_match, name);
    leveldb_t *db;
    calls = 0;
    leveldb_options_set_filter_policy(options, bloom);
    opens();
    leveldb_options_set_filter_policy(options, own);
    OK(db = leveldb_open(options, dir, &err));
    put(db, "key", "value");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    /* The policy would deny the key. */
    has(db, read_now, "key", "value");
    leveldb_close(db);
    CHECK(calls == 0);
    leveldb_options_set_filter_policy(options, NULL);
    leveldb_filterpolicy_destroy(own);
    leveldb_filterpolicy_destroy(bloom);
    CHECK(calls == 1);
}

/* ---- The environment ---- */

static void test_directory(void) {
    leveldb_env_t *env = leveldb_create_default_env();
    char *wanted = joined(dir, "-tests/below"), *text;
    struct stat found;
    CHECK(setenv("TEST_TMPDIR", wanted, 1) == 0);
    text = leveldb_env_get_test_directory(env);
    CHECK(strcmp(text, wanted) == 0 && stat(text, &found) == 0 && S_ISDIR(found.st_mode));
    leveldb_free(text);
    CHECK(unsetenv("TEST_TMPDIR") == 0);
    text = leveldb_env_get_test_directory(env);
    CHECK(strncmp(text, "/tmp/leveldbtest-", 17) == 0);
    leveldb_free(text);
    leveldb_env_destroy(env);
    free(wanted);
    CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
}

/* ---- Deleting, repairing, and directories of others ---- */

static void write_file(const char *path, const char *file, const char *text) {
    char *place = joined(path, file);
    FILE *stream = fopen(place, "w");
    CHECK(stream != NULL && fputs(text, stream) >= 0 && fclose(stream) == 0);
    free(place);
}

static void database_of_leveldb(void) {
    char *theirs = joined(dir, "-theirs");
    CHECK(mkdir(theirs, 0777) == 0);
    write_file(theirs, "/CURRENT", "MANIFEST-000002\n");
    write_file(theirs, "/MANIFEST-000002", "theirs");
    write_file(theirs, "/000005.ldb", "theirs");
    leveldb_options_set_create_if_missing(options, 1);
    fails_to_open(theirs, "Invalid argument: ", "LevelDB");
    fails_to_open(theirs, "Invalid argument: ", "braidb load");
    FAILS_WITH("Invalid argument: ", "LevelDB", leveldb_destroy_db(options, theirs, &err));
    FAILS_WITH("Invalid argument: ", "LevelDB", leveldb_repair_db(options, theirs, &err));
    leveldb_options_set_create_if_missing(options, 0);
    free(theirs);
}

/* Changes a byte in the middle of each table. Returns how many there are. */
static int damage(void) {
    DIR *files = opendir(dir);
    struct dirent *entry;
    int damaged = 0;
    CHECK(files != NULL);
    while ((entry = readdir(files)) != NULL) {
        if (strstr(entry->d_name, ".table") != NULL) {
            char *below = joined(dir, "/"), *path = joined(below, entry->d_name);
            FILE *stream = fopen(path, "r+b");
            long middle;
            int byte;
            CHECK(stream != NULL && fseek(stream, 0, SEEK_END) == 0);
            middle = ftell(stream) / 2;
            CHECK(fseek(stream, middle, SEEK_SET) == 0 && (byte = fgetc(stream)) != EOF);
            CHECK(fseek(stream, middle, SEEK_SET) == 0 && fputc(byte ^ 1, stream) != EOF && fclose(stream) == 0);
            damaged++;
            free(below);
            free(path);
        }
    }
    CHECK(closedir(files) == 0);
    return damaged;
}

static void repairs(void) {
    leveldb_t *db = open_db(dir);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    FAILS_WITH("IO error: ", "open already", leveldb_repair_db(options, dir, &err));
    leveldb_close(db);
    OK(leveldb_repair_db(options, dir, &err));
    opens();
    CHECK(damage() > 0);
    FAILS_WITH("Not implemented: ", "dump --skip-damaged", leveldb_repair_db(options, dir, &err));
}

static void deletions(void) {
    leveldb_t *db;
    OK(leveldb_destroy_db(options, dir, &err));
    OK(leveldb_destroy_db(options, dir, &err));
    FAILS_WITH("Invalid argument: ", "nothing to repair", leveldb_repair_db(options, dir, &err));
    fails_to_open(dir, "Invalid argument: ", "does not exist");
    db = open_db(dir);
    has(db, read_now, "key", NULL);
    FAILS_WITH("IO error: ", "open already", leveldb_destroy_db(options, dir, &err));
    put(db, "key", "of a new database");
    leveldb_close(db);
    OK(leveldb_destroy_db(options, dir, &err));
}

int main(int argc, char **argv) {
    dir = directory(argc, argv);
    options = leveldb_options_create();
    CHECK(unsetenv("BRAIDB_BYTEWISE_COMPARATORS") == 0);
    creation();
    parents();
    sizes();
    small_buffer();
    without_effect();
    comparators();
    filter_policies();
    test_directory();
    database_of_leveldb();
    repairs();
    deletions();
    leveldb_options_destroy(options);
    return 0;
}
