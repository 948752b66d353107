/* Forked children: the handles of the parent are dead there, and the parent loses nothing. */
#include "check.h"
#include <sys/types.h>
#include <sys/wait.h>
#include <pthread.h>
#include <unistd.h>

enum { FORKS = 20, KEYS = 4000 };

static braidb_t *db;

/* Writes while the process forks. */
static void *write_on(void *written) {
    int number;
    char key[16];
    for (number = 0; number < KEYS; number++) {
        sprintf(key, "%05d", number);
        put(db, NULL, key, key);
    }
    *(int *)written = number;
    return NULL;
}

/* What a child does with the handles of its parent. */
static void child(braidb_family_t *family, braidb_cursor_t *cursor, braidb_txn_t *txn, braidb_overlay_t *overlay,
                  braidb_snapshot_t *snapshot, const char *dir) {
    braidb_slice_t key = braidb_text("key"), found;
    braidb_value_t *value;
    braidb_family_t *opened;
    braidb_batch_t *batch = braidb_batch_create();
    const char **names;
    char *text, *own;
    size_t len;
    braidb_t *other;
#define FORKED(call) EXPECT(BRAIDB_FORKED, call)
    FORKED(braidb_put(db, NULL, key, key, &err));
    FORKED(braidb_get(db, family, NULL, key, &value, &err));
    FORKED(braidb_get(db, family, snapshot, key, &value, &err));
    OK(braidb_batch_put(batch, family, key, key, &err));
    FORKED(braidb_write(db, batch, BRAIDB_DURABILITY_SYNC, &err));
    FORKED(braidb_cursor_next(cursor, &err));
    FORKED(braidb_cursor_first(cursor, &err));
    FORKED(braidb_cursor_value(cursor, &found, &err));
    FORKED(braidb_txn_get(txn, NULL, key, &value, &err));
    FORKED(braidb_txn_put(txn, NULL, key, key, &err));
    FORKED(braidb_txn_commit(txn, BRAIDB_DURABILITY_DEFAULT, &err));
    FORKED(braidb_overlay_put(overlay, NULL, key, key, &err));
    FORKED(braidb_overlay_count(overlay, &len, &err));
    FORKED(braidb_overlay_commit(overlay, BRAIDB_DURABILITY_DEFAULT, &err));
    FORKED(braidb_snapshot_create(db, &snapshot, &err));
    FORKED(braidb_family_open(db, "family", &opened, &err));
    FORKED(braidb_family_list(db, &names, &len, &err));
    FORKED(braidb_stats(db, &text, &err));
    FORKED(braidb_recovery(db, &text, &err));
    FORKED(braidb_flush(db, &err));
    FORKED(braidb_persist(db, BRAIDB_DURABILITY_SYNC, &err));
    FORKED(braidb_close(db, &err));
    EXPECT(BRAIDB_LOCKED, braidb_open(dir, NULL, &other, &err));
    /* A database of its own works, and frees do nothing. */
    own = joined(dir, "-child");
    other = open_db(own);
    put(other, NULL, "key", "of the child");
    has(other, NULL, NULL, "key", "of the child");
    OK(braidb_close(other, &err));
    braidb_db_free(other);
    OK(braidb_destroy(own, NULL, &err));
    braidb_family_free(family);
    braidb_cursor_free(cursor);
    braidb_txn_free(txn);
    braidb_overlay_free(overlay);
    braidb_batch_free(batch);
    braidb_db_free(db);
    EXPECT(BRAIDB_LOCKED, braidb_open(dir, NULL, &other, &err));
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    braidb_family_t *family;
    braidb_cursor_t *cursor;
    braidb_txn_t *txn;
    braidb_overlay_t *overlay;
    braidb_snapshot_t *snapshot;
    braidb_slice_t key = braidb_text("key");
    pthread_t writer;
    int index, written = 0, entries = 0;
    db = open_db(dir);
    OK(braidb_family_create(db, "family", &family, &err));
    put(db, family, "key", "of the parent");
    OK(braidb_cursor_create(db, family, NULL, braidb_none(), braidb_none(), &cursor, &err));
    OK(braidb_cursor_first(cursor, &err));
    OK(braidb_snapshot_create(db, &snapshot, &err));
    OK(braidb_txn_create(db, &txn, &err));
    OK(braidb_txn_put(txn, family, key, braidb_text("of the transaction"), &err));
    OK(braidb_overlay_create(db, &overlay, &err));
    OK(braidb_overlay_put(overlay, family, key, braidb_text("of the overlay"), &err));
    CHECK(pthread_create(&writer, NULL, write_on, &written) == 0);
    for (index = 0; index < FORKS; index++) {
        int status = 0;
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            alarm(60);
            child(family, cursor, txn, overlay, snapshot, dir);
            _exit(0);
        }
        CHECK(waitpid(process, &status, 0) == process);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(pthread_join(writer, NULL) == 0 && written == KEYS);
    /* All handles of the parent work as before. */
    CHECK(is_text(braidb_cursor_key(cursor), "key"));
    OK(braidb_txn_rollback(txn, &err));
    OK(braidb_overlay_commit(overlay, BRAIDB_DURABILITY_DEFAULT, &err));
    has(db, family, snapshot, "key", "of the parent");
    has(db, family, NULL, "key", "of the overlay");
    OK(braidb_close(db, &err));
    braidb_cursor_free(cursor);
    braidb_txn_free(txn);
    braidb_overlay_free(overlay);
    braidb_snapshot_free(snapshot);
    braidb_family_free(family);
    braidb_db_free(db);

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
