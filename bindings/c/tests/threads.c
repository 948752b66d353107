/* Eight threads on one database: each writes keys of its own and a counter of all, and reads. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, KEYS = 2000, COUNTS = 50 };

static braidb_t *db;
static braidb_family_t *family;

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

static void *work(void *argument) {
    int thread = *(int *)argument, number;
    char key[16];
    for (number = 0; number < KEYS; number++) {
        sprintf(key, "%d/%05d", thread, number);
        put(db, family, key, key);
        has(db, family, NULL, key, key);
        if (number % (KEYS / COUNTS) == 0) {
            count();
        }
        if (number == KEYS / 2) {
            OK(braidb_flush(db, &err));
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int numbers[THREADS], index, entries = 0;
    braidb_cursor_t *cursor;
    braidb_error_t *err;
    char sum[16];
    db = open_db(directory(argc, argv));
    OK(braidb_family_create(db, "shared", &family, &err));
    for (index = 0; index < THREADS; index++) {
        numbers[index] = index;
        CHECK(pthread_create(&threads[index], NULL, work, &numbers[index]) == 0);
    }
    for (index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    sprintf(sum, "%d", THREADS * COUNTS);
    has(db, NULL, NULL, "counter", sum);
    OK(braidb_cursor_create(db, family, NULL, braidb_none(), braidb_none(), &cursor, &err));
    while (braidb_cursor_next(cursor, &err) == BRAIDB_OK) {
        entries++;
    }
    CHECK(err == NULL && entries == THREADS * KEYS);
    braidb_cursor_free(cursor);
    braidb_family_free(family);
    OK(braidb_close(db, &err));
    braidb_db_free(db);
    return 0;
}
