/* Closing with open iterators and snapshots, and destroying them in every order. */
#include "check.h"

/* What is left when the database is closed. */
typedef struct {
    leveldb_iterator_t *standing, *fresh;
    leveldb_readoptions_t *options;
    const leveldb_snapshot_t *snapshot;
} held_t;

static held_t hold(leveldb_t *db) {
    held_t held;
    put(db, "ada", "1815");
    put(db, "alan", "1912");
    held.snapshot = leveldb_create_snapshot(db);
    held.options = leveldb_readoptions_create();
    leveldb_readoptions_set_snapshot(held.options, held.snapshot);
    held.standing = leveldb_create_iterator(db, read_now);
    leveldb_iter_seek_to_first(held.standing);
    stands_on(held.standing, "ada", "1815");
    held.fresh = leveldb_create_iterator(db, held.options);
    return held;
}

/* An iterator of a closed database has no entry after any movement, and tells why. */
static void has_ended(leveldb_iterator_t *iterator) {
    stands_on(iterator, NULL, NULL);
    FAILS_WITH("Invalid argument: ", "closed", leveldb_iter_get_error(iterator, &err));
}

static void moves_no_more(held_t *held, int movement) {
    stands_on(held->standing, "ada", "1815");
    OK(leveldb_iter_get_error(held->standing, &err));
    switch (movement) {
    case 0: leveldb_iter_next(held->standing), leveldb_iter_seek_to_first(held->fresh); break;
    case 1: leveldb_iter_prev(held->standing), leveldb_iter_seek_to_last(held->fresh); break;
    default: leveldb_iter_seek(held->standing, "b", 1), leveldb_iter_seek(held->fresh, "a", 1); break;
    }
    has_ended(held->standing);
    has_ended(held->fresh);
    leveldb_iter_next(held->standing);
    has_ended(held->standing);
}

/* Destroys what is held, beginning with the handle of number `first`. `db` may be a database that was closed. */
static void destroy_from(int first, held_t *held, leveldb_t *db) {
    int step;
    for (step = 0; step < 4; step++) {
        switch ((first + step) % 4) {
        case 0: leveldb_iter_destroy(held->standing); break;
        case 1: leveldb_iter_destroy(held->fresh); break;
        case 2: leveldb_readoptions_destroy(held->options); break;
        default: leveldb_release_snapshot(db, held->snapshot); break;
        }
    }
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    int turn;
    for (turn = 0; turn < 12; turn++) {
        leveldb_t *db = open_db(dir), *again;
        held_t held = hold(db);
        leveldb_close(db);
        /* The directory is free, although there are handles. */
        again = open_db(dir);
        has(again, read_now, "ada", "1815");
        moves_no_more(&held, turn % 3);
        destroy_from(turn % 4, &held, db);
        put(again, "ada", "1815");
        leveldb_close(again);
    }
    /* Destroying nothing does nothing. */
    leveldb_close(NULL);
    leveldb_iter_destroy(NULL);
    leveldb_release_snapshot(NULL, NULL);
    leveldb_options_destroy(NULL);
    leveldb_readoptions_destroy(NULL);
    leveldb_writeoptions_destroy(NULL);
    leveldb_writebatch_destroy(NULL);
    leveldb_cache_destroy(NULL);
    leveldb_env_destroy(NULL);
    return 0;
}
