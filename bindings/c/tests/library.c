/* The library, its errors, and options by name. */
#include "check.h"
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

static void versions(void) {
    CHECK(strcmp(braidb_version(), "0.1.0") == 0);
    CHECK(braidb_abi_version() == BRAIDB_ABI_VERSION);
    braidb_free(NULL);
}

/* Leaves the process memory for small things, but not for the stack of a thread, which has 2 MiB. */
static void limit_memory(void) {
    unsigned long pages;
    struct rlimit limit;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    limit.rlim_cur = limit.rlim_max = (rlim_t)(pages * (unsigned long)sysconf(_SC_PAGESIZE) + (1 << 20));
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* A kernel that refuses a thread is an error that tells what to do. */
static void a_refused_thread(const char *dir) {
    int status = 0;
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        braidb_t *db;
        braidb_error_t *err;
        limit_memory();
        CHECK(braidb_open(dir, NULL, &db, &err) == BRAIDB_IO && db == NULL);
        CHECK(strstr(braidb_error_message(err), "could not start background threads for") != NULL);
        CHECK(strstr(braidb_error_message(err), "raise the limits of threads and memory") != NULL);
        CHECK(strcmp(braidb_error_path(err), dir) == 0);
        braidb_error_free(err);
        _exit(0);
    }
    CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void errors(const char *dir) {
    braidb_t *db;
    braidb_error_t *err = NULL;
    CHECK(braidb_error_code(NULL) == BRAIDB_OK && strcmp(braidb_error_message(NULL), "") == 0);
    CHECK(braidb_error_path(NULL) == NULL && braidb_error_offset(NULL) == 0);
    braidb_error_free(NULL);
    CHECK(strcmp(braidb_code_name(BRAIDB_OK), "BRAIDB_OK") == 0);
    CHECK(strcmp(braidb_code_name(BRAIDB_SHORT_BUFFER), "BRAIDB_SHORT_BUFFER") == 0);
    CHECK(strcmp(braidb_code_name(-7), "no code of BraidDB") == 0);

    CHECK(braidb_open_read_only(dir, NULL, &db, &err) == BRAIDB_MISSING);
    CHECK(db == NULL && braidb_error_code(err) == BRAIDB_MISSING);
    CHECK(strstr(braidb_error_message(err), "there is no database in") != NULL);
    CHECK(strcmp(braidb_error_path(err), dir) == 0 && braidb_error_offset(err) == 0);
    braidb_error_free(err);
    /* The error need not be taken. */
    CHECK(braidb_open_read_only(dir, NULL, &db, NULL) == BRAIDB_MISSING);

    /* What is NULL where it must not be is told by its name. */
    CHECK(braidb_flush(NULL, &err) == BRAIDB_INVALID);
    CHECK(strstr(braidb_error_message(err), "`db`") != NULL);
    braidb_error_free(err);
    EXPECT(BRAIDB_INVALID, braidb_open(dir, NULL, NULL, &err));
    EXPECT(BRAIDB_INVALID, braidb_open(NULL, NULL, &db, &err));
    EXPECT(BRAIDB_INVALID, braidb_cursor_next(NULL, &err));
    /* Messages tell C what to do. */
    CHECK(braidb_open_read_only(dir, NULL, &db, &err) == BRAIDB_MISSING);
    CHECK(strstr(braidb_error_message(err), "create_if_missing") != NULL && strstr(braidb_error_message(err), "::") == NULL);
    braidb_error_free(err);
}

/* The default options take every value here. */
static const char *const SETTINGS[][2] = {
    {"background_merges", "true"},
    {"background_threads", "2"},
    {"block_cache_bytes", "1048576"},
    {"create_if_missing", "true"},
    {"create_new", "true"},
    {"durability", "sync"},
    {"fast_bytes", "none"},
    {"fast_share", "50"},
    {"filter_bits_per_key", "10"},
    {"memory_limit", "none"},
    {"memtable_bytes", "8388608"},
    {"merge_bytes_per_second", "none"},
    {"open_damaged", "false"},
    {"open_files", "512"},
    {"wait_for_lock", "250ms"},
    {"active_percent", "5"},
    {"block_bytes", "4096"},
    {"gap_entries", "none"},
    {"gap_puts", "512"},
    {"guards", "sampled:20:2"},
    {"hot_keys_percent", "0"},
    {"l0_slowdown_tables", "7"},
    {"l0_stop_tables", "19"},
    {"log_bytes", "67108864"},
    {"log_rewrite_percent", "20"},
    {"log_table_percent", "40"},
    {"manifest_bytes", "1048576"},
    {"max_runs_per_guard", "4"},
    {"max_runs_per_guard_at", "level:6:1"},
    {"memory_policy", "adaptive:20"},
    {"merges_for_readers", "false"},
    {"overlap_samples", "false"},
    {"pipeline_segments", "3"},
    {"separation_threshold", "none"},
    {"table_bytes", "1048576"},
    {"value_layout", "ordered"},
};

static void options(const char *dir) {
    braidb_t *db;
    size_t count = sizeof SETTINGS / sizeof SETTINGS[0], names = 0, index;
    const char *rest;
    braidb_options_t *options = braidb_options_create();
    CHECK(options != NULL);
    for (index = 0; index < count; index++) {
        OK(braidb_options_set(options, SETTINGS[index][0], SETTINGS[index][1], &err));
    }
    OK(braidb_options_check(options, &err));
    /* slow_path is the one option that the table lacks: it would need a directory. */
    for (rest = braidb_options_names(); *rest != '\0'; rest = strchr(rest, '\n') + 1) {
        for (index = 0; index < count; index++) {
            size_t len = strlen(SETTINGS[index][0]);
            if (strncmp(rest, SETTINGS[index][0], len) == 0 && rest[len] == '\n') {
                break;
            }
        }
        CHECK(index < count || strncmp(rest, "slow_path\n", 10) == 0);
        names++;
    }
    CHECK(names == count + 1);

    OK(braidb_open(dir, options, &db, &err));
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    /* create_new was set. */
    EXPECT(BRAIDB_EXISTS, braidb_open(dir, options, &db, &err));
    braidb_options_free(options);
    braidb_options_free(NULL);
}

static void values_of_options(void) {
    braidb_options_t *options = braidb_options_create();
    OK(braidb_options_set(options, "durability", "none", &err));
    OK(braidb_options_set(options, "durability", "buffer", &err));
    OK(braidb_options_set(options, "guards", "none", &err));
    OK(braidb_options_set(options, "guards", "balanced", &err));
    OK(braidb_options_set(options, "memory_policy", "none", &err));
    OK(braidb_options_set(options, "memory_policy", "basic", &err));
    OK(braidb_options_set(options, "memory_policy", "eager", &err));
    OK(braidb_options_set(options, "value_layout", "trie:1", &err));
    OK(braidb_options_set(options, "separation_threshold", "4096", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "block_byte", "4096", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "block_bytes", "4 KiB", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "block_bytes", NULL, &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "block_bytes", "\xff", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "durability", "full", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "create_new", "yes", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "wait_for_lock", "250", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "guards", "sampled:20", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "memory_policy", "adaptive", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "value_layout", "trie:", &err));
    /* The setter of the engine would panic. */
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "max_runs_per_guard_at", "level:0:1", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_set(options, "max_runs_per_guard_at", "level:7:1", &err));
    OK(braidb_options_check(options, &err));
    OK(braidb_options_set(options, "block_bytes", "1", &err));
    EXPECT(BRAIDB_INVALID, braidb_options_check(options, &err));
    braidb_options_free(options);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    versions();
    a_refused_thread(dir);
    errors(dir);
    options(dir);
    values_of_options();
    return 0;
}
