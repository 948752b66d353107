/* Forked children: the handles of the parent are dead there, and the parent loses nothing. */
#include "check.h"
#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>

enum { FORKS = 20, KEYS = 4000 };

static leveldb_t *db;

/* Writes while the process forks. */
static void *write_on(void *done) {
    int number;
    char key[16];
    for (number = 0; number < KEYS; number++) {
        sprintf(key, "%05d", number);
        put(db, key, key);
    }
    *(int *)done = number;
    return NULL;
}

/* What a child does with the handles of its parent. */
static void child(leveldb_iterator_t *iterator, const leveldb_snapshot_t *snapshot, const char *dir) {
    leveldb_readoptions_t *before = leveldb_readoptions_create();
    leveldb_options_t *options = leveldb_options_create();
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    const char *first = "", *limit = "z";
    const size_t first_len = 0, limit_len = 1;
    uint64_t size = 7;
    size_t len;
    char *own = joined(dir, "-child");
    leveldb_t *other = NULL;
    leveldb_readoptions_set_snapshot(before, snapshot);
    leveldb_writebatch_put(batch, "key", 3, "value", 5);
#define FORKED(call) FAILS_WITH("Invalid argument: ", "forked", call)
    FORKED(leveldb_put(db, written, "key", 3, "value", 5, &err));
    FORKED(leveldb_delete(db, written, "key", 3, &err));
    FORKED(leveldb_write(db, written, batch, &err));
    FORKED(leveldb_get(db, read_now, "key", 3, &len, &err));
    FORKED(leveldb_get(db, before, "key", 3, &len, &err));
    leveldb_iter_next(iterator);
    stands_on(iterator, NULL, NULL);
    FORKED(leveldb_iter_get_error(iterator, &err));
    leveldb_iter_seek_to_first(iterator);
    stands_on(iterator, NULL, NULL);
    leveldb_iter_destroy(iterator);
    iterator = leveldb_create_iterator(db, before);
    leveldb_iter_seek_to_first(iterator);
    FORKED(leveldb_iter_get_error(iterator, &err));
    leveldb_iter_destroy(iterator);
    CHECK(leveldb_property_value(db, "leveldb.stats") == NULL);
    leveldb_approximate_sizes(db, 1, &first, &first_len, &limit, &limit_len, &size);
    CHECK(size == 0);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_release_snapshot(db, leveldb_create_snapshot(db));
    leveldb_release_snapshot(db, snapshot);
    FAILS_WITH("IO error: ", "open already", leveldb_open(options, dir, &err));
    /* A database of its own works, and a close of the parent's does nothing. */
    other = open_db(own);
    put(other, "key", "of the child");
    has(other, read_now, "key", "of the child");
    leveldb_close(other);
    OK(leveldb_destroy_db(options, own, &err));
    leveldb_close(db);
    FAILS_WITH("IO error: ", "open already", leveldb_open(options, dir, &err));
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    leveldb_readoptions_t *before = leveldb_readoptions_create();
    const leveldb_snapshot_t *snapshot;
    leveldb_iterator_t *iterator;
    pthread_t writer;
    int index, done = 0, entries = 0;
    db = open_db(dir);
    put(db, "key", "of the parent");
    put(db, "last", "of the parent");
    snapshot = leveldb_create_snapshot(db);
    leveldb_readoptions_set_snapshot(before, snapshot);
    iterator = leveldb_create_iterator(db, before);
    leveldb_iter_seek_to_first(iterator);
    CHECK(pthread_create(&writer, NULL, write_on, &done) == 0);
    for (index = 0; index < FORKS; index++) {
        int status = 0;
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            alarm(60);
            child(iterator, snapshot, dir);
            _exit(0);
        }
        CHECK(waitpid(process, &status, 0) == process);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(pthread_join(writer, NULL) == 0 && done == KEYS);
    /* All handles of the parent work as before. */
    stands_on(iterator, "key", "of the parent");
    leveldb_iter_next(iterator);
    stands_on(iterator, "last", "of the parent");
    leveldb_iter_destroy(iterator);
    has(db, before, "00000", NULL);
    leveldb_release_snapshot(db, snapshot);
    leveldb_close(db);

    db = open_db(dir);
    iterator = leveldb_create_iterator(db, read_now);
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        entries++;
    }
    CHECK(entries == KEYS + 2);
    leveldb_iter_destroy(iterator);
    leveldb_close(db);
    return 0;
}
