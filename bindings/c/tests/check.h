/* What the test programs share. Each gets a directory that is missing, and ends with 0 if all is as it should be. */
#ifndef CHECK_H
#define CHECK_H

#include <braidb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Ends the program unless the condition holds. */
#define CHECK(holds)                                                                    \
    do {                                                                                \
        if (!(holds)) {                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);         \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

/* Makes a call, in which &err is the place of the error, and ends the program unless it returns the code. */
#define EXPECT(code, call)                                                              \
    do {                                                                                \
        braidb_error_t *err = UNSET;                                                    \
        braidb_code_t got = (call);                                                     \
        expect(__FILE__, __LINE__, #call, code, got, err);                              \
    } while (0)

#define OK(call) EXPECT(BRAIDB_OK, call)

/* What the place of an error holds before the call: no error, and not NULL. */
static char unset;
#define UNSET ((braidb_error_t *)(void *)&unset)

static inline void expect(const char *file, int line, const char *call, braidb_code_t wanted, braidb_code_t got,
                          braidb_error_t *err) {
    int is_error = wanted != BRAIDB_OK && wanted != BRAIDB_NOT_FOUND && wanted != BRAIDB_SHORT_BUFFER;
    if (got != wanted || err == UNSET || (err != NULL) != is_error || (is_error && braidb_error_code(err) != wanted)) {
        fprintf(stderr, "%s:%d: %s: %s in place of %s: %s\n", file, line, call, braidb_code_name(got),
                braidb_code_name(wanted), err == UNSET ? "the place of the error was not filled" : braidb_error_message(err));
        exit(1);
    }
    braidb_error_free(err);
}

static inline int is_text(braidb_slice_t slice, const char *text) {
    return slice.data != NULL && slice.len == strlen(text) && memcmp(slice.data, text, slice.len) == 0;
}

static inline braidb_t *open_db(const char *path) {
    braidb_t *db = NULL;
    OK(braidb_open(path, NULL, &db, &err));
    CHECK(db != NULL);
    return db;
}

static inline void put(braidb_t *db, const braidb_family_t *family, const char *key, const char *value) {
    OK(braidb_put(db, family, braidb_text(key), braidb_text(value), &err));
}

/* Ends the program unless the key has the value; NULL: no value. */
static inline void has(const braidb_t *db, const braidb_family_t *family, const braidb_snapshot_t *snapshot, const char *key,
                       const char *text) {
    braidb_value_t *value;
    if (text == NULL) {
        EXPECT(BRAIDB_NOT_FOUND, braidb_get(db, family, snapshot, braidb_text(key), &value, &err));
        CHECK(value == NULL);
        return;
    }
    OK(braidb_get(db, family, snapshot, braidb_text(key), &value, &err));
    CHECK(is_text(braidb_slice(braidb_value_data(value), braidb_value_len(value)), text));
    braidb_value_free(value);
}

/* A text in memory of its own: the two parts. */
static inline char *joined(const char *one, const char *two) {
    char *both = (char *)malloc(strlen(one) + strlen(two) + 1);
    CHECK(both != NULL);
    strcpy(both, one);
    strcat(both, two);
    return both;
}

static inline const char *directory(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        exit(2);
    }
    /* A program that hangs is killed. */
    alarm(300);
    return argv[1];
}

#endif
