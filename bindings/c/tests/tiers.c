/* Slow tiers: joining, copying and emptying one. */
#include "check.h"

/* The bytes that were left when a progress was called last, and how often it was called. */
typedef struct {
    uint64_t left_bytes;
    int calls;
} progress_t;

static void on_progress(void *context, uint64_t left_bytes) {
    progress_t *progress = (progress_t *)context;
    progress->left_bytes = left_bytes;
    progress->calls++;
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    char *slow = joined(dir, "-slow"), *copy = joined(dir, "-copy"), *slow_copy = joined(dir, "-slow-copy"), *json;
    braidb_options_t *options = braidb_options_create();
    braidb_tier_copy_t tier;
    progress_t progress;
    braidb_t *db;
    OK(braidb_options_add_slow_path(options, slow, &err));
    OK(braidb_open(dir, options, &db, &err));
    OK(braidb_stats(db, &json, &err));
    CHECK(strstr(json, slow) != NULL);
    braidb_free(json);
    put(db, NULL, "plum", "blue");

    /* A checkpoint needs a directory for each slow tier. */
    EXPECT(BRAIDB_TIER, braidb_checkpoint(db, copy, NULL, &err));
    tier.from = slow;
    tier.to = NULL;
    EXPECT(BRAIDB_INVALID, braidb_checkpoint_to(db, copy, &tier, 1, NULL, &err));
    tier.to = slow_copy;
    OK(braidb_checkpoint_to(db, copy, &tier, 1, &json, &err));
    CHECK(strstr(json, "\"copied_bytes\":") != NULL);
    braidb_free(json);

    EXPECT(BRAIDB_TIER, braidb_evacuate(db, slow_copy, NULL, NULL, &err));
    progress.left_bytes = 1;
    progress.calls = 0;
    OK(braidb_evacuate(db, slow, on_progress, &progress, &err));
    CHECK(progress.calls > 0 && progress.left_bytes == 0);
    OK(braidb_close(db, &err));
    EXPECT(BRAIDB_CLOSED, braidb_evacuate(db, slow, NULL, NULL, &err));
    EXPECT(BRAIDB_CLOSED, braidb_checkpoint_to(db, copy, &tier, 1, NULL, &err));
    braidb_db_free(db);

    db = open_db(copy);
    has(db, NULL, NULL, "plum", "blue");
    OK(braidb_stats(db, &json, &err));
    CHECK(strstr(json, slow_copy) != NULL);
    braidb_free(json);
    OK(braidb_evacuate(db, slow_copy, NULL, NULL, &err));
    OK(braidb_close(db, &err));
    braidb_db_free(db);

    /* By name, the same directory twice is refused. */
    OK(braidb_options_set(options, "slow_path", slow, &err));
    EXPECT(BRAIDB_INVALID, braidb_options_check(options, &err));
    braidb_options_free(options);
    free(slow);
    free(copy);
    free(slow_copy);
    return 0;
}
