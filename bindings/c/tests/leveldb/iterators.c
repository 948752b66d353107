/* Iterators both ways, properties, sizes and compaction, over entries in memory and in tables. */
#include "check.h"

enum { KEYS = 3000 };

static leveldb_t *db;

static void key_of(int number, char *key) {
    sprintf(key, "%06d", number);
}

/* Even numbers below KEYS, and each third of them is deleted again. */
static int is_there(int number) {
    return number >= 0 && number < KEYS && number % 2 == 0 && number % 6 != 0;
}

static void fill(void) {
    char key[8];
    int number;
    for (number = 0; number < KEYS; number += 2) {
        key_of(number, key);
        put(db, key, key);
    }
    for (number = 0; number < KEYS; number += 6) {
        key_of(number, key);
        OK(leveldb_delete(db, written, key, 6, &err));
    }
}

/* The iterator stands on the number, or on no entry if the number is not there. */
static void stands_on_number(const leveldb_iterator_t *iterator, int number) {
    char key[8];
    key_of(number, key);
    stands_on(iterator, is_there(number) ? key : NULL, key);
}

static int next_number(int number) {
    do {
        number++;
    } while (number < KEYS && !is_there(number));
    return number;
}

static int number_before(int number) {
    do {
        number--;
    } while (number >= 0 && !is_there(number));
    return number;
}

static void whole_walks(void) {
    leveldb_iterator_t *iterator = leveldb_create_iterator(db, read_now);
    int number = next_number(-1), entries = 0;
    stands_on(iterator, NULL, NULL);
    leveldb_iter_next(iterator);
    stands_on(iterator, NULL, NULL);
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        stands_on_number(iterator, number);
        number = next_number(number);
        entries++;
    }
    CHECK(number == KEYS && entries == KEYS / 3);
    OK(leveldb_iter_get_error(iterator, &err));
    /* Behind the end it stays until it jumps. */
    leveldb_iter_prev(iterator);
    leveldb_iter_next(iterator);
    stands_on(iterator, NULL, NULL);
    number = number_before(KEYS);
    for (leveldb_iter_seek_to_last(iterator); leveldb_iter_valid(iterator); leveldb_iter_prev(iterator)) {
        stands_on_number(iterator, number);
        number = number_before(number);
    }
    CHECK(number == -1);
    leveldb_iter_destroy(iterator);
}

/* Jumps and turns at will, compared with the numbers. */
static void turns(void) {
    leveldb_iterator_t *iterator = leveldb_create_iterator(db, read_now);
    unsigned chance = 1;
    int step, number = KEYS;
    for (step = 0; step < 20000; step++) {
        char key[8];
        chance = chance * 1103515245u + 12345u;
        if (!is_there(number) || (chance >> 16) % 8 == 0) {
            int sought = (int)((chance >> 8) % KEYS);
            key_of(sought, key);
            leveldb_iter_seek(iterator, key, 6);
            number = is_there(sought) ? sought : next_number(sought);
        } else if ((chance >> 16) % 8 < 5) {
            leveldb_iter_next(iterator);
            number = next_number(number);
        } else {
            leveldb_iter_prev(iterator);
            number = number_before(number);
        }
        stands_on_number(iterator, number);
    }
    OK(leveldb_iter_get_error(iterator, &err));
    leveldb_iter_destroy(iterator);
}

/* An iterator sees what there was when it was made. */
static void moment(void) {
    leveldb_iterator_t *iterator = leveldb_create_iterator(db, read_now);
    put(db, "zzz", "later");
    leveldb_iter_seek(iterator, "zzz", 3);
    stands_on(iterator, NULL, NULL);
    leveldb_iter_destroy(iterator);
    OK(leveldb_delete(db, written, "zzz", 3, &err));
}

/* Seeks to a key and to a value that the iterator lends. Walks and turns at an entry that is much larger than those beside it. */
static void lent_and_large(void) {
    enum { KEY = 20000, VALUE = 300000 };
    char *key = (char *)malloc(KEY + 1), *value = (char *)malloc(VALUE + 1);
    leveldb_iterator_t *iterator;
    const char *lent;
    size_t len;
    int turn;
    CHECK(key != NULL && value != NULL);
    memset(key, 'k', KEY);
    memset(value, 'v', VALUE);
    key[KEY] = value[VALUE] = 0;
    put(db, "j", key);
    put(db, key, value);
    put(db, "z", "last");
    iterator = leveldb_create_iterator(db, read_now);
    leveldb_iter_seek(iterator, "j", 1);
    for (turn = 0; turn < 3; turn++) {
        stands_on(iterator, "j", key);
        lent = leveldb_iter_value(iterator, &len);
        leveldb_iter_seek(iterator, lent, len);
        stands_on(iterator, key, value);
        lent = leveldb_iter_key(iterator, &len);
        leveldb_iter_seek(iterator, lent, len);
        stands_on(iterator, key, value);
        leveldb_iter_next(iterator);
        stands_on(iterator, "z", "last");
        leveldb_iter_prev(iterator);
        stands_on(iterator, key, value);
        lent = leveldb_iter_key(iterator, &len);
        leveldb_iter_seek(iterator, lent, len);
        stands_on(iterator, key, value);
        leveldb_iter_prev(iterator);
    }
    leveldb_iter_seek_to_first(iterator);
    stands_on_number(iterator, next_number(-1));
    leveldb_iter_prev(iterator);
    stands_on(iterator, NULL, NULL);
    leveldb_iter_seek_to_last(iterator);
    stands_on(iterator, "z", "last");
    leveldb_iter_next(iterator);
    stands_on(iterator, NULL, NULL);
    leveldb_iter_seek(iterator, key, KEY);
    stands_on(iterator, key, value);
    OK(leveldb_iter_get_error(iterator, &err));
    leveldb_iter_destroy(iterator);
    OK(leveldb_delete(db, written, "j", 1, &err));
    OK(leveldb_delete(db, written, key, KEY, &err));
    OK(leveldb_delete(db, written, "z", 1, &err));
    free(key);
    free(value);
}

static long property(const char *name) {
    char *text = leveldb_property_value(db, name);
    long number;
    CHECK(text != NULL);
    number = atol(text);
    leveldb_free(text);
    return number;
}

static long files(void) {
    char name[] = "leveldb.num-files-at-level0";
    long sum = 0;
    for (; name[sizeof name - 2] < '7'; name[sizeof name - 2]++) {
        sum += property(name);
    }
    CHECK(leveldb_property_value(db, name) == NULL);
    return sum;
}

static void has_property(const char *name, const char *part) {
    char *text = leveldb_property_value(db, name);
    CHECK(text != NULL && strstr(text, part) != NULL);
    leveldb_free(text);
}

static void facts(void) {
    const char *starts[] = {"", "000000", "a", "9"}, *limits[] = {"zz", "001500", "b", "1"};
    size_t start_lens[] = {0, 6, 1, 1}, limit_lens[] = {2, 6, 1, 1};
    uint64_t sizes[] = {7, 7, 7, 7};
    leveldb_approximate_sizes(db, 4, starts, start_lens, limits, limit_lens, sizes);
    CHECK(sizes[0] > 10 * KEYS / 3 && sizes[1] > 0 && sizes[1] < sizes[0] && sizes[2] == 0 && sizes[3] == 0);
    leveldb_approximate_sizes(db, 0, NULL, NULL, NULL, NULL, NULL);
    CHECK(property("leveldb.approximate-memory-usage") > 0);
    has_property("leveldb.stats", "Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n");
    has_property("leveldb.sstables", "--- level 6 ---\n");
    CHECK(leveldb_property_value(db, "leveldb.missing") == NULL);
    CHECK(leveldb_property_value(db, "stats") == NULL);
    CHECK(leveldb_property_value(db, "leveldb.num-files-at-levelx") == NULL);
}

static void compactions(void) {
    CHECK(files() == 0);
    leveldb_compact_range(db, "000000", 6, "001000", 6);
    leveldb_compact_range(db, "001000", 6, NULL, 0);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    CHECK(files() > 0);
    has_property("leveldb.sstables", "['000002' .. '");
}

int main(int argc, char **argv) {
    db = open_db(directory(argc, argv));
    fill();
    whole_walks();
    turns();
    moment();
    lent_and_large();
    facts();
    compactions();
    whole_walks();
    turns();
    lent_and_large();
    facts();
    leveldb_close(db);
    return 0;
}
