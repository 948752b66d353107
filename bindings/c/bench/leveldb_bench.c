/*
 * Puts, gets and iterates over entries of 16 + 100 bytes, and prints the speed of each as a line. The program uses leveldb/c.h alone, so the
 * same source measures LevelDB and BraidDB:
 *
 *     cc -O2 leveldb_bench.c -o bench-leveldb -lleveldb
 *     cc -O2 leveldb_bench.c -o bench-braidb $(pkg-config --cflags --libs braidb-leveldb)
 *     ./bench-leveldb DIR [ENTRIES [SHUFFLED]]
 *
 * DIR is a directory that is missing. ENTRIES is 1000000 by default. SHUFFLED is 0 for puts in key order, and 1 by default. Gets are always
 * shuffled. Both stores get the same options: a buffer of 64 MiB, a cache of 256 MiB, filters of 10 bits a key, no compression, no sync.
 */
#define _POSIX_C_SOURCE 200809L
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_BYTES = 16, VALUE_BYTES = 100 };

/* A prime over every number of entries, so its multiples come to each entry once. */
static const unsigned long long STRIDE = 2654435761ull;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void check(char *err) {
    if (err != NULL) {
        fprintf(stderr, "%s\n", err);
        exit(1);
    }
}

static void tell(const char *what, unsigned long long entries, double seconds) {
    printf("%-8s %9.0f a second, %7.0f ns each\n", what, (double)entries / seconds, 1e9 * seconds / (double)entries);
    fflush(stdout);
}

/* The number in decimal digits. Much faster than sprintf, whose time would count for both stores. */
static void make_key(unsigned long long number, char *key) {
    int at;
    for (at = KEY_BYTES - 1; at >= 0; at--) {
        key[at] = (char)('0' + number % 10);
        number /= 10;
    }
}

static void make_value(unsigned long long number, char *value) {
    unsigned long long state = number + 1;
    size_t at;
    for (at = 0; at < VALUE_BYTES; at += sizeof state) {
        size_t left = VALUE_BYTES - at;
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(value + at, &state, left < sizeof state ? left : sizeof state);
    }
}

static leveldb_t *open_db(const char *dir) {
    leveldb_options_t *options = leveldb_options_create();
    char *err = NULL;
    leveldb_t *db;
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_error_if_exists(options, 1);
    leveldb_options_set_write_buffer_size(options, 64 << 20);
    leveldb_options_set_cache(options, leveldb_cache_create_lru(256 << 20));
    leveldb_options_set_filter_policy(options, leveldb_filterpolicy_create_bloom(10));
    leveldb_options_set_compression(options, leveldb_no_compression);
    db = leveldb_open(options, dir, &err);
    check(err);
    return db;
}

static void puts_all(leveldb_t *db, unsigned long long entries, int is_shuffled) {
    leveldb_writeoptions_t *options = leveldb_writeoptions_create();
    char key[KEY_BYTES], value[VALUE_BYTES], *err = NULL;
    unsigned long long at;
    double began = now();
    for (at = 0; at < entries; at++) {
        unsigned long long number = is_shuffled ? at * STRIDE % entries : at;
        make_key(number, key);
        make_value(number, value);
        leveldb_put(db, options, key, KEY_BYTES, value, VALUE_BYTES, &err);
        check(err);
    }
    tell("put", entries, now() - began);
}

static void gets_all(leveldb_t *db, unsigned long long entries) {
    leveldb_readoptions_t *options = leveldb_readoptions_create();
    char key[KEY_BYTES], value[VALUE_BYTES], *err = NULL;
    unsigned long long at;
    double began = now();
    for (at = 0; at < entries; at++) {
        unsigned long long number = (at + entries / 3) * STRIDE % entries;
        size_t len;
        char *found;
        make_key(number, key);
        found = leveldb_get(db, options, key, KEY_BYTES, &len, &err);
        check(err);
        make_value(number, value);
        if (found == NULL || len != VALUE_BYTES || memcmp(found, value, len) != 0) {
            fprintf(stderr, "key %.*s has another value than was put\n", KEY_BYTES, key);
            exit(1);
        }
        leveldb_free(found);
    }
    tell("get", entries, now() - began);
}

static void iterate_all(leveldb_t *db, unsigned long long entries) {
    leveldb_readoptions_t *options = leveldb_readoptions_create();
    leveldb_iterator_t *iterator;
    unsigned long long seen = 0, bytes = 0, sum = 0;
    char *err = NULL;
    double began = now();
    iterator = leveldb_create_iterator(db, options);
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        size_t klen, vlen;
        const char *key = leveldb_iter_key(iterator, &klen), *value = leveldb_iter_value(iterator, &vlen);
        sum += (unsigned char)key[klen - 1] + (unsigned char)value[vlen - 1];
        bytes += klen + vlen;
        seen++;
    }
    leveldb_iter_get_error(iterator, &err);
    check(err);
    /* Each last digit of a key counts at least 48. */
    if (seen != entries || bytes != entries * (KEY_BYTES + VALUE_BYTES) || sum < 48 * entries) {
        fprintf(stderr, "%llu entries of %llu bytes were seen\n", seen, bytes);
        exit(1);
    }
    leveldb_iter_destroy(iterator);
    tell("iterate", entries, now() - began);
}

int main(int argc, char **argv) {
    unsigned long long entries = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    leveldb_t *db;
    if (argc < 2 || argc > 4 || entries == 0) {
        fprintf(stderr, "usage: %s DIR [ENTRIES [SHUFFLED]]\n", argv[0]);
        return 2;
    }
    db = open_db(argv[1]);
    puts_all(db, entries, argc < 4 || atoi(argv[3]) != 0);
    gets_all(db, entries);
    iterate_all(db, entries);
    leveldb_close(db);
    return 0;
}
