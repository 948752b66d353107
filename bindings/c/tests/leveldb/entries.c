/* Puts, deletes, gets and batches, with and without sync, their limits, and snapshots. */
#include "check.h"

enum { OVER = 64 * 1024 + 1 };

static leveldb_t *db;

/* Adds a line for each write of a batch to a text. */
static void on_put(void *text, const char *key, size_t klen, const char *value, size_t vlen) {
    sprintf((char *)text + strlen((char *)text), "%.*s=%.*s\n", (int)klen, key, (int)vlen, value);
}

static void on_delete(void *text, const char *key, size_t klen) {
    sprintf((char *)text + strlen((char *)text), "-%.*s\n", (int)klen, key);
}

static void batch_is(const leveldb_writebatch_t *batch, const char *lines) {
    char text[200] = "";
    leveldb_writebatch_iterate(batch, text, on_put, on_delete);
    CHECK(strcmp(text, lines) == 0);
}

static void single_keys(void) {
    leveldb_writeoptions_t *synced = leveldb_writeoptions_create();
    char *value, *err = NULL;
    size_t len;
    leveldb_writeoptions_set_sync(synced, 1);
    put(db, "plum", "blue");
    put(db, "plum", "red");
    has(db, read_now, "plum", "red");
    OK(leveldb_put(db, synced, "pear", 4, "green", 5, &err));
    OK(leveldb_delete(db, synced, "plum", 4, &err));
    OK(leveldb_delete(db, written, "missing", 7, &err));
    has(db, read_now, "plum", NULL);
    has(db, read_now, "pear", "green");
    /* No bytes are bytes too, and NULL stands for none. Keys may have zeros. */
    put(db, "", "");
    has(db, read_now, "", "");
    OK(leveldb_put(db, NULL, NULL, 0, NULL, 0, &err));
    OK(leveldb_put(db, written, "a\0b", 3, "c\0d", 3, &err));
    value = leveldb_get(db, NULL, "a\0b", 3, &len, &err);
    CHECK(err == NULL && len == 3 && memcmp(value, "c\0d", 3) == 0);
    free(value);
    has(db, read_now, "a", NULL);
    OK(leveldb_delete(db, written, "", 0, &err));
    OK(leveldb_delete(db, written, "a\0b", 3, &err));
    FAILS_WITH("Invalid argument: ", "key", leveldb_put(db, written, NULL, 3, "v", 1, &err));
    FAILS_WITH("Invalid argument: ", "db", leveldb_put(NULL, written, "k", 1, "v", 1, &err));
    /* A caller who wants no error gets none. */
    leveldb_put(NULL, written, "k", 1, "v", 1, NULL);
    leveldb_writeoptions_set_sync(synced, 0);
    leveldb_writeoptions_destroy(synced);
}

/* An error of before stays after success, and a failure puts its own in the place. */
static void places_of_errors(void) {
    char *err = joined("an error", " of before"), *before = err;
    leveldb_put(db, written, "k", 1, "v", 1, &err);
    CHECK(err == before && strcmp(err, "an error of before") == 0);
    leveldb_put(NULL, written, "k", 1, "v", 1, &err);
    CHECK(strncmp(err, "Invalid argument: ", 18) == 0);
    free(err);
    leveldb_free(NULL);
    OK(leveldb_delete(db, written, "k", 1, &err));
}

static void batches(void) {
    leveldb_writebatch_t *batch = leveldb_writebatch_create(), *other = leveldb_writebatch_create();
    char text[200] = "";
    batch_is(batch, "");
    leveldb_writebatch_put(batch, "one", 3, "1", 1);
    leveldb_writebatch_put(batch, "two", 3, "2", 1);
    leveldb_writebatch_delete(batch, "one", 3);
    batch_is(batch, "one=1\ntwo=2\n-one\n");
    OK(leveldb_write(db, written, batch, &err));
    has(db, read_now, "one", NULL);
    has(db, read_now, "two", "2");
    /* A batch that was written is as it was. */
    OK(leveldb_delete(db, written, "two", 3, &err));
    leveldb_writebatch_put(other, "three", 5, "3", 1);
    leveldb_writebatch_append(batch, other);
    batch_is(batch, "one=1\ntwo=2\n-one\nthree=3\n");
    batch_is(other, "three=3\n");
    /* No callback is called where it is NULL. */
    leveldb_writebatch_iterate(batch, text, on_put, NULL);
    CHECK(strcmp(text, "one=1\ntwo=2\nthree=3\n") == 0);
    text[0] = 0;
    leveldb_writebatch_iterate(batch, text, NULL, on_delete);
    CHECK(strcmp(text, "-one\n") == 0);
    OK(leveldb_write(db, written, batch, &err));
    has(db, read_now, "two", "2");
    has(db, read_now, "three", "3");
    leveldb_writebatch_append(other, other);
    batch_is(other, "three=3\nthree=3\n");
    leveldb_writebatch_clear(batch);
    batch_is(batch, "");
    OK(leveldb_write(db, written, batch, &err));
    FAILS_WITH("Invalid argument: ", "batch", leveldb_write(db, written, NULL, &err));
    leveldb_writebatch_destroy(batch);
    leveldb_writebatch_destroy(other);
}

/* A key over 64 KiB is refused. A batch with such a key is refused as a whole, also through another batch, until it is cleared. */
static void limits(void) {
    char *key = (char *)calloc(OVER, 1);
    leveldb_writebatch_t *batch = leveldb_writebatch_create(), *other = leveldb_writebatch_create();
    CHECK(key != NULL);
    OK(leveldb_put(db, written, key, OVER - 1, "v", 1, &err));
    OK(leveldb_delete(db, written, key, OVER - 1, &err));
    FAILS_WITH("Invalid argument: ", "65536", leveldb_put(db, written, key, OVER, "v", 1, &err));
    leveldb_writebatch_put(batch, "in the batch", 12, "v", 1);
    leveldb_writebatch_put(batch, key, OVER, "v", 1);
    leveldb_writebatch_append(other, batch);
    FAILS_WITH("Invalid argument: ", "65536", leveldb_write(db, written, batch, &err));
    FAILS_WITH("Invalid argument: ", "65536", leveldb_write(db, written, other, &err));
    has(db, read_now, "in the batch", NULL);
    leveldb_writebatch_clear(batch);
    OK(leveldb_write(db, written, batch, &err));
    leveldb_writebatch_put(batch, NULL, 5, "v", 1);
    leveldb_writebatch_append(other, batch);
    FAILS_WITH("Invalid argument: ", "key", leveldb_write(db, written, batch, &err));
    leveldb_writebatch_destroy(batch);
    leveldb_writebatch_destroy(other);
    free(key);
}

static void snapshots(const char *elsewhere) {
    leveldb_readoptions_t *before = leveldb_readoptions_create();
    const leveldb_snapshot_t *snapshot;
    leveldb_iterator_t *iterator;
    leveldb_t *other = open_db(elsewhere);
    size_t len;
    put(db, "state", "old");
    snapshot = leveldb_create_snapshot(db);
    leveldb_readoptions_set_snapshot(before, snapshot);
    put(db, "state", "new");
    has(db, before, "state", "old");
    has(db, read_now, "state", "new");
    iterator = leveldb_create_iterator(db, before);
    leveldb_iter_seek(iterator, "state", 5);
    stands_on(iterator, "state", "old");
    /* A database refuses the snapshot of another one. */
    FAILS_WITH("Invalid argument: ", "another database", leveldb_get(other, before, "state", 5, &len, &err));
    leveldb_readoptions_set_snapshot(before, NULL);
    has(db, before, "state", "new");
    leveldb_readoptions_set_snapshot(before, snapshot);
    leveldb_release_snapshot(db, snapshot);
    /* The iterator goes on, and reads with the options fail. */
    leveldb_iter_seek(iterator, "state", 5);
    stands_on(iterator, "state", "old");
    leveldb_iter_destroy(iterator);
    FAILS_WITH("Invalid argument: ", "released", leveldb_get(db, before, "state", 5, &len, &err));
    iterator = leveldb_create_iterator(db, before);
    leveldb_iter_seek_to_first(iterator);
    stands_on(iterator, NULL, NULL);
    FAILS_WITH("Invalid argument: ", "released", leveldb_iter_get_error(iterator, &err));
    leveldb_iter_destroy(iterator);
    leveldb_readoptions_destroy(before);
    leveldb_close(other);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    char *elsewhere = joined(dir, "-elsewhere");
    leveldb_readoptions_set_verify_checksums(read_now, 1);
    leveldb_readoptions_set_fill_cache(read_now, 0);
    db = open_db(dir);
    single_keys();
    places_of_errors();
    batches();
    limits();
    snapshots(elsewhere);
    leveldb_close(db);
    db = open_db(dir);
    has(db, read_now, "pear", "green");
    has(db, read_now, "three", "3");
    has(db, read_now, "state", "new");
    leveldb_close(db);
    leveldb_readoptions_destroy(read_now);
    leveldb_writeoptions_destroy(written);
    free(elsewhere);
    return 0;
}
