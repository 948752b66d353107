/* What the test programs share. Each gets a directory that is missing, and ends with 0 if all is as it should be. */
#ifndef CHECK_H
#define CHECK_H

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program unless the condition holds. */
#define CHECK(holds)                                                                    \
    do {                                                                                \
        if (!(holds)) {                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);         \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

/* Makes a call, in which &err is the place of the error, and ends the program unless it succeeds. */
#define OK(call)                                                                        \
    do {                                                                                \
        char *err = NULL;                                                               \
        call;                                                                           \
        expect(__FILE__, __LINE__, #call, NULL, NULL, err);                             \
    } while (0)

/* Ends the program unless the call fails with a text that begins with `begin` and has `part` in it. The place holds an error before. */
#define FAILS_WITH(begin, part, call)                                                   \
    do {                                                                                \
        char *err = joined("an error", " of before");                                   \
        call;                                                                           \
        expect(__FILE__, __LINE__, #call, begin, part, err);                            \
    } while (0)

static inline void expect(const char *file, int line, const char *call, const char *begin, const char *part, char *err) {
    int is_right = begin == NULL ? err == NULL : err != NULL && strncmp(err, begin, strlen(begin)) == 0 && strstr(err, part) != NULL;
    if (!is_right) {
        fprintf(stderr, "%s:%d: %s: got the error: %s\n", file, line, call, err == NULL ? "none" : err);
        exit(1);
    }
    leveldb_free(err);
}

/* A text in memory of its own: the two parts. */
static inline char *joined(const char *one, const char *two) {
    char *both = (char *)malloc(strlen(one) + strlen(two) + 1);
    CHECK(both != NULL);
    strcpy(both, one);
    strcat(both, two);
    return both;
}

static leveldb_writeoptions_t *written;
static leveldb_readoptions_t *read_now;

/* Opens the database, which is made if it is missing. */
static inline leveldb_t *open_db(const char *path) {
    leveldb_options_t *options = leveldb_options_create();
    leveldb_t *db = NULL;
    leveldb_options_set_create_if_missing(options, 1);
    OK(db = leveldb_open(options, path, &err));
    CHECK(db != NULL);
    leveldb_options_destroy(options);
    return db;
}

static inline void put(leveldb_t *db, const char *key, const char *value) {
    OK(leveldb_put(db, written, key, strlen(key), value, strlen(value), &err));
}

/* Ends the program unless the key has the value; NULL: no value. */
static inline void has(leveldb_t *db, const leveldb_readoptions_t *options, const char *key, const char *text) {
    size_t len = 99;
    char *value = NULL;
    OK(value = leveldb_get(db, options, key, strlen(key), &len, &err));
    CHECK((value != NULL) == (text != NULL));
    CHECK(len == (text == NULL ? 0 : strlen(text)));
    CHECK(text == NULL || memcmp(value, text, len) == 0);
    leveldb_free(value);
}

/* Ends the program unless the iterator stands on the entry; NULL: on none. */
static inline void stands_on(const leveldb_iterator_t *iterator, const char *key, const char *value) {
    size_t klen = 99, vlen = 99;
    const char *k = leveldb_iter_key(iterator, &klen), *v = leveldb_iter_value(iterator, &vlen);
    CHECK((leveldb_iter_valid(iterator) != 0) == (key != NULL));
    CHECK((k != NULL) == (key != NULL) && (v != NULL) == (key != NULL));
    CHECK(klen == (key == NULL ? 0 : strlen(key)) && vlen == (key == NULL ? 0 : strlen(value)));
    CHECK(key == NULL || (memcmp(k, key, klen) == 0 && memcmp(v, value, vlen) == 0));
}

static inline const char *directory(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        exit(2);
    }
    /* A program that hangs is killed. */
    alarm(300);
    written = leveldb_writeoptions_create();
    read_now = leveldb_readoptions_create();
    return argv[1];
}

#endif
