/* Forked children: the handles of the parent are dead there, and the parent loses nothing. */
#include "check.h"
#include <sys/types.h>
#include <sys/wait.h>
#include <pthread.h>
#include <unistd.h>

enum { FORKS = 40, KEYS = 4000, STAGED = 500 };

static braidb_t *db;
static braidb_family_t *family;
static braidb_snapshot_t *snapshot;
static braidb_cursor_t *cursor;
static braidb_value_t *value;
/* These belong to the main thread. */
static braidb_txn_t *txn;
static braidb_overlay_t *overlay;
/* These change while the process forks. */
static braidb_txn_t *busy_txn;
static braidb_overlay_t *busy_overlay;
static int is_over;

static int over(void) {
    return __atomic_load_n(&is_over, __ATOMIC_RELAXED);
}

/* Writes while the process forks. */
static void *write_on(void *written) {
    int number;
    char key[16];
    for (number = 0; number < KEYS || !over(); number++) {
        sprintf(key, "%05d", number % KEYS);
        put(db, NULL, key, key);
    }
    *(int *)written = number;
    return NULL;
}

/* Stages writes, drops them, and reads in a transaction, while the process forks. */
static void *stage_on(void *unused) {
    int number;
    char key[16];
    for (number = 0; !over(); number++) {
        sprintf(key, "%d", number % STAGED);
        OK(braidb_overlay_put(busy_overlay, family, braidb_text(key), braidb_text(key), &err));
        OK(braidb_txn_put(busy_txn, family, braidb_text(key), braidb_text(key), &err));
        EXPECT(BRAIDB_NOT_FOUND, braidb_txn_contains(busy_txn, NULL, braidb_text(key), &err));
        if (number % STAGED == 0) {
            OK(braidb_overlay_clear(busy_overlay, &err));
        }
    }
    return unused;
}

#define FORKED(call) EXPECT(BRAIDB_FORKED, call)

/* Calls with the handles of the parent touch nothing. */
static void every_call_is_refused(const char *dir) {
    braidb_slice_t key = braidb_text("key"), found;
    braidb_value_t *read;
    braidb_family_t *opened;
    braidb_snapshot_t *taken;
    braidb_batch_t *batch = braidb_batch_create();
    braidb_t *other;
    const char **names;
    char *text, buffer[64];
    size_t len, count;
    FORKED(braidb_put(db, NULL, key, key, &err));
    FORKED(braidb_get(db, family, NULL, key, &read, &err));
    FORKED(braidb_get(db, family, snapshot, key, &read, &err));
    OK(braidb_batch_put(batch, family, key, key, &err));
    FORKED(braidb_write(db, batch, BRAIDB_DURABILITY_SYNC, &err));
    braidb_batch_free(batch);
    FORKED(braidb_cursor_status(cursor, &err));
    FORKED(braidb_cursor_entry(cursor, &key, &found, &err));
    key = braidb_text("key");
    FORKED(braidb_cursor_next_packed(cursor, buffer, sizeof buffer, &len, &count, &err));
    FORKED(braidb_cursor_next(cursor, &err));
    FORKED(braidb_cursor_first(cursor, &err));
    FORKED(braidb_cursor_value(cursor, &found, &err));
    FORKED(braidb_txn_get(txn, NULL, key, &read, &err));
    FORKED(braidb_txn_put(txn, NULL, key, key, &err));
    FORKED(braidb_txn_put(busy_txn, NULL, key, key, &err));
    FORKED(braidb_txn_commit(txn, BRAIDB_DURABILITY_DEFAULT, &err));
    FORKED(braidb_overlay_put(overlay, NULL, key, key, &err));
    FORKED(braidb_overlay_put(busy_overlay, NULL, key, key, &err));
    FORKED(braidb_overlay_count(overlay, &len, &err));
    FORKED(braidb_overlay_commit(overlay, BRAIDB_DURABILITY_DEFAULT, &err));
    FORKED(braidb_snapshot_create(db, &taken, &err));
    FORKED(braidb_family_open(db, "family", &opened, &err));
    FORKED(braidb_family_list(db, &names, &len, &err));
    FORKED(braidb_stats(db, &text, &err));
    FORKED(braidb_recovery(db, &text, &err));
    FORKED(braidb_flush(db, &err));
    FORKED(braidb_persist(db, BRAIDB_DURABILITY_SYNC, &err));
    FORKED(braidb_close(db, &err));
    EXPECT(BRAIDB_LOCKED, braidb_open(dir, NULL, &other, &err));
    CHECK(is_text(braidb_slice(braidb_value_data(value), braidb_value_len(value)), "of the parent"));
}

/* What a child does with the handles of its parent. */
static void child(const char *dir) {
    char *own = joined(dir, "-child");
    braidb_t *other;
    every_call_is_refused(dir);
    /* A database of its own works. */
    other = open_db(own);
    put(other, NULL, "key", "of the child");
    has(other, NULL, NULL, "key", "of the child");
    OK(braidb_close(other, &err));
    braidb_db_free(other);
    OK(braidb_destroy(own, NULL, &err));
    free(own);
    /* Frees do nothing to the parent, also of handles that its threads were changing. */
    braidb_overlay_free(busy_overlay);
    braidb_txn_free(busy_txn);
    braidb_family_free(family);
    braidb_cursor_free(cursor);
    braidb_txn_free(txn);
    braidb_overlay_free(overlay);
    braidb_snapshot_free(snapshot);
    braidb_value_free(value);
    braidb_db_free(db);
    EXPECT(BRAIDB_LOCKED, braidb_open(dir, NULL, &other, &err));
}

static void hold(void) {
    braidb_slice_t key = braidb_text("key");
    OK(braidb_family_create(db, "family", &family, &err));
    put(db, family, "key", "of the parent");
    OK(braidb_get(db, family, NULL, key, &value, &err));
    OK(braidb_cursor_create(db, family, NULL, braidb_none(), braidb_none(), &cursor, &err));
    OK(braidb_cursor_first(cursor, &err));
    OK(braidb_snapshot_create(db, &snapshot, &err));
    OK(braidb_txn_create(db, &txn, &err));
    OK(braidb_txn_put(txn, family, key, braidb_text("of the transaction"), &err));
    OK(braidb_overlay_create(db, &overlay, &err));
    OK(braidb_overlay_put(overlay, family, key, braidb_text("of the overlay"), &err));
    OK(braidb_txn_create(db, &busy_txn, &err));
    OK(braidb_overlay_create(db, &busy_overlay, &err));
}

static void fork_on(const char *dir) {
    int index;
    for (index = 0; index < FORKS; index++) {
        int status = 0;
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            alarm(60);
            child(dir);
            _exit(0);
        }
        CHECK(waitpid(process, &status, 0) == process);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* All handles of the parent work as before. */
static void go_on(void) {
    CHECK(is_text(braidb_cursor_key(cursor), "key"));
    OK(braidb_txn_rollback(txn, &err));
    OK(braidb_overlay_commit(overlay, BRAIDB_DURABILITY_DEFAULT, &err));
    OK(braidb_txn_rollback(busy_txn, &err));
    OK(braidb_overlay_clear(busy_overlay, &err));
    has(db, family, snapshot, "key", "of the parent");
    has(db, family, NULL, "key", "of the overlay");
    OK(braidb_close(db, &err));
    braidb_cursor_free(cursor);
    braidb_txn_free(txn);
    braidb_txn_free(busy_txn);
    braidb_overlay_free(overlay);
    braidb_overlay_free(busy_overlay);
    braidb_snapshot_free(snapshot);
    braidb_value_free(value);
    braidb_family_free(family);
    braidb_db_free(db);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    pthread_t writer, stager;
    int written = 0, entries = 0;
    db = open_db(dir);
    hold();
    CHECK(pthread_create(&writer, NULL, write_on, &written) == 0);
    CHECK(pthread_create(&stager, NULL, stage_on, NULL) == 0);
    fork_on(dir);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(writer, NULL) == 0 && written >= KEYS);
    CHECK(pthread_join(stager, NULL) == 0);
    go_on();

    db = open_db(dir);
    OK(braidb_cursor_create(db, NULL, NULL, braidb_none(), braidb_none(), &cursor, &err));
    while (braidb_cursor_next(cursor, NULL) == BRAIDB_OK) {
        entries++;
    }
    CHECK(entries == KEYS);
    OK(braidb_family_open(db, "family", &family, &err));
    has(db, family, NULL, "key", "of the overlay");
    braidb_cursor_free(cursor);
    braidb_family_free(family);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    return 0;
}
