/* Eight threads share a database, a snapshot, options, and an iterator that does not move. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, KEYS = 2000 };

static leveldb_t *db;
static leveldb_readoptions_t *before;
static leveldb_iterator_t *standing;

static void *work(void *argument) {
    int thread = *(int *)argument, number, entries = 0;
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    leveldb_iterator_t *iterator;
    char key[16], prefix[4];
    for (number = 0; number < KEYS; number++) {
        sprintf(key, "%d/%05d", thread, number);
        if (number % 2 == 0) {
            put(db, key, key);
        } else {
            leveldb_writebatch_clear(batch);
            leveldb_writebatch_put(batch, key, strlen(key), key, strlen(key));
            OK(leveldb_write(db, written, batch, &err));
        }
        has(db, read_now, key, key);
        has(db, before, key, NULL);
        stands_on(standing, "begin", "with");
        if (number == KEYS / 2) {
            leveldb_compact_range(db, NULL, 0, NULL, 0);
        }
    }
    iterator = leveldb_create_iterator(db, read_now);
    sprintf(prefix, "%d/", thread);
    leveldb_iter_seek(iterator, prefix, 2);
    for (; leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        size_t len;
        entries += strncmp(leveldb_iter_key(iterator, &len), prefix, 2) == 0;
    }
    OK(leveldb_iter_get_error(iterator, &err));
    CHECK(entries == KEYS);
    leveldb_iter_destroy(iterator);
    leveldb_writebatch_destroy(batch);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int numbers[THREADS], index, entries = 0;
    const leveldb_snapshot_t *snapshot;
    leveldb_iterator_t *iterator;
    db = open_db(directory(argc, argv));
    put(db, "begin", "with");
    snapshot = leveldb_create_snapshot(db);
    before = leveldb_readoptions_create();
    leveldb_readoptions_set_snapshot(before, snapshot);
    standing = leveldb_create_iterator(db, before);
    leveldb_iter_seek_to_last(standing);
    for (index = 0; index < THREADS; index++) {
        numbers[index] = index;
        CHECK(pthread_create(&threads[index], NULL, work, &numbers[index]) == 0);
    }
    for (index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    leveldb_iter_destroy(standing);
    leveldb_release_snapshot(db, snapshot);
    iterator = leveldb_create_iterator(db, read_now);
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        entries++;
    }
    CHECK(entries == THREADS * KEYS + 1);
    leveldb_iter_destroy(iterator);
    leveldb_close(db);
    return 0;
}
