/*
 * Eight threads on one database: each writes keys of its own and a counter of all, and reads. All of them use one snapshot, one value, one
 * transaction and one overlay. At the end threads call while the database is closed.
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>

enum { THREADS = 8, KEYS = 2000, COUNTS = 50 };

static braidb_t *db;
static braidb_family_t *family;
static braidb_snapshot_t *snapshot;
static braidb_value_t *value;
static braidb_txn_t *shared_txn;
static braidb_overlay_t *overlay;

/* Adds one to the counter, in a transaction that begins again after a conflict. */
static void count(void) {
    for (;;) {
        char text[16] = "0";
        size_t len;
        braidb_txn_t *txn;
        braidb_error_t *err;
        braidb_code_t code;
        OK(braidb_txn_create(db, &txn, &err));
        code = braidb_txn_get_into(txn, NULL, braidb_text("counter"), text, sizeof text - 1, &len, &err);
        CHECK(code == BRAIDB_OK || code == BRAIDB_NOT_FOUND);
        text[code == BRAIDB_OK ? len : 1] = '\0';
        sprintf(text, "%d", atoi(text) + 1);
        OK(braidb_txn_put(txn, NULL, braidb_text("counter"), braidb_text(text), &err));
        code = braidb_txn_commit(txn, BRAIDB_DURABILITY_DEFAULT, &err);
        braidb_txn_free(txn);
        braidb_error_free(err);
        if (code == BRAIDB_OK) {
            return;
        }
        CHECK(code == BRAIDB_CONFLICT);
    }
}

/* Uses the handles that all threads share. */
static void share(const char *key) {
    braidb_value_t *found;
    has(db, family, snapshot, "before", "the threads");
    has(db, family, snapshot, key, NULL);
    CHECK(is_text(braidb_slice(braidb_value_data(value), braidb_value_len(value)), "the threads"));
    OK(braidb_txn_put(shared_txn, family, braidb_text(key), braidb_text("of the transaction"), &err));
    OK(braidb_txn_get(shared_txn, family, braidb_text(key), &found, &err));
    braidb_value_free(found);
    EXPECT(BRAIDB_NOT_FOUND, braidb_txn_contains(shared_txn, NULL, braidb_text(key), &err));
    OK(braidb_overlay_put(overlay, NULL, braidb_text(key), braidb_text("of the overlay"), &err));
    OK(braidb_overlay_contains(overlay, NULL, braidb_text(key), &err));
}

static void *work(void *argument) {
    int thread = *(int *)argument, number;
    char key[16];
    for (number = 0; number < KEYS; number++) {
        sprintf(key, "%d/%05d", thread, number);
        put(db, family, key, key);
        has(db, family, NULL, key, key);
        if (number % (KEYS / COUNTS) == 0) {
            count();
            share(key);
        }
        if (number == KEYS / 2) {
            OK(braidb_flush(db, &err));
        }
    }
    return NULL;
}

static void run(void *(*work_on)(void *)) {
    pthread_t threads[THREADS];
    int numbers[THREADS], index;
    for (index = 0; index < THREADS; index++) {
        numbers[index] = index;
        CHECK(pthread_create(&threads[index], NULL, work_on, &numbers[index]) == 0);
    }
    for (index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
}

static int count_entry(void *entries, braidb_slice_t key, braidb_slice_t found) {
    (void)key, (void)found;
    ++*(int *)entries;
    return 0;
}

static void all_is_there(void) {
    int entries = 0;
    braidb_cursor_t *cursor;
    braidb_error_t *err;
    char sum[16];
    size_t staged;
    sprintf(sum, "%d", THREADS * COUNTS);
    has(db, NULL, NULL, "counter", sum);
    OK(braidb_cursor_create(db, family, NULL, braidb_none(), braidb_none(), &cursor, &err));
    while (braidb_cursor_next(cursor, &err) == BRAIDB_OK) {
        entries++;
    }
    CHECK(err == NULL && entries == THREADS * KEYS + 1);
    braidb_cursor_free(cursor);
    OK(braidb_overlay_count(overlay, &staged, &err));
    CHECK(staged == THREADS * COUNTS);
    entries = 0;
    OK(braidb_txn_scan(shared_txn, family, braidb_none(), braidb_none(), 0, count_entry, &entries, &err));
    CHECK(entries == THREADS * COUNTS + 1);
    OK(braidb_txn_rollback(shared_txn, &err));
}

/* Calls until the database is closed. Each call works, or is refused. */
static void *call_until_closed(void *argument) {
    int thread = *(int *)argument, calls = 0;
    braidb_cursor_t *cursor = NULL;
    char key[16];
    sprintf(key, "%d", thread);
    for (;;) {
        braidb_error_t *err = NULL;
        braidb_code_t code = BRAIDB_OK;
        braidb_value_t *found = NULL;
        switch (calls++ % 6) {
        case 0: code = braidb_put(db, family, braidb_text(key), braidb_text(key), &err); break;
        case 1: code = braidb_get(db, family, snapshot, braidb_text(key), &found, &err); break;
        case 2: code = braidb_overlay_put(overlay, family, braidb_text(key), braidb_text(key), &err); break;
        case 3: code = braidb_overlay_commit(overlay, BRAIDB_DURABILITY_DEFAULT, &err); break;
        case 4: code = braidb_cursor_create(db, family, NULL, braidb_none(), braidb_none(), &cursor, &err); break;
        default:
            code = braidb_cursor_last(cursor, &err);
            braidb_cursor_free(cursor);
            cursor = NULL;
        }
        braidb_value_free(found);
        braidb_error_free(err);
        if (code == BRAIDB_CLOSED) {
            break;
        }
        CHECK(code == BRAIDB_OK || code == BRAIDB_NOT_FOUND);
        if (thread == 0 && calls == 1000) {
            OK(braidb_close(db, &err));
        }
    }
    braidb_cursor_free(cursor);
    return NULL;
}

/* A signal of the process goes to a thread of the program. The library's threads were begun with the signal open. */
static void no_thread_of_the_library_takes_a_signal(void) {
    sigset_t signals;
    int taken = 0;
    CHECK(sigemptyset(&signals) == 0 && sigaddset(&signals, SIGUSR1) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
    /* A thread that takes the signal ends the process. */
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(sigwait(&signals, &taken) == 0 && taken == SIGUSR1);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    db = open_db(dir);
    no_thread_of_the_library_takes_a_signal();
    OK(braidb_family_create(db, "shared", &family, &err));
    put(db, family, "before", "the threads");
    OK(braidb_get(db, family, NULL, braidb_text("before"), &value, &err));
    OK(braidb_snapshot_create(db, &snapshot, &err));
    OK(braidb_txn_create(db, &shared_txn, &err));
    OK(braidb_overlay_create(db, &overlay, &err));
    run(work);
    all_is_there();
    run(call_until_closed);
    braidb_overlay_free(overlay);
    braidb_txn_free(shared_txn);
    braidb_snapshot_free(snapshot);
    braidb_value_free(value);
    braidb_family_free(family);
    braidb_db_free(db);
    db = open_db(dir);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    return 0;
}
