/*
 * The first five minutes in C: open, put, get, scan, write a batch, close.
 *
 *     cc -std=c99 fruit.c -o fruit $(pkg-config --cflags --libs braidb) && ./fruit DIR
 */
#include <braidb.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the text of an error. It gets the place of the error: C may read a second argument before the call in the first. */
static void check(braidb_code_t code, braidb_error_t **err) {
    if (code != BRAIDB_OK && code != BRAIDB_NOT_FOUND) {
        fprintf(stderr, "%s: %s\n", braidb_code_name(code), braidb_error_message(*err));
        braidb_error_free(*err);
        exit(1);
    }
}

static void print(const char *before, braidb_slice_t slice) {
    printf("%s%.*s", before, (int)slice.len, (const char *)slice.data);
}

int main(int argc, char **argv) {
    braidb_t *db;
    braidb_value_t *value;
    braidb_batch_t *batch;
    braidb_cursor_t *cursor;
    braidb_error_t *err;
    braidb_code_t code;

    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    /* Creates the database if there is none. NULL: the default options. */
    check(braidb_open(argv[1], NULL, &db, &err), &err);

    /* The first NULL is the default column family. */
    check(braidb_put(db, NULL, braidb_text("apple"), braidb_text("red"), &err), &err);
    code = braidb_get(db, NULL, NULL, braidb_text("apple"), &value, &err);
    check(code, &err);
    if (code == BRAIDB_OK) {
        print("apple is ", braidb_slice(braidb_value_data(value), braidb_value_len(value)));
        printf("\n");
        braidb_value_free(value);
    }

    /* All of a batch is written, or nothing. This one is on stable storage when the call returns. */
    batch = braidb_batch_create();
    check(braidb_batch_put(batch, NULL, braidb_text("lemon"), braidb_text("yellow"), &err), &err);
    check(braidb_batch_put(batch, NULL, braidb_text("plum"), braidb_text("blue"), &err), &err);
    check(braidb_write(db, batch, BRAIDB_DURABILITY_SYNC, &err), &err);
    braidb_batch_free(batch);

    /* A cursor shows one moment, in key order, and moves both ways. */
    check(braidb_cursor_create(db, NULL, NULL, braidb_text("b"), braidb_none(), &cursor, &err), &err);
    for (code = braidb_cursor_first(cursor, &err); code == BRAIDB_OK; code = braidb_cursor_next(cursor, &err)) {
        braidb_slice_t key, found;
        check(braidb_cursor_entry(cursor, &key, &found, &err), &err);
        print("", key);
        print(" is ", found);
        printf("\n");
    }
    check(code, &err);
    braidb_cursor_free(cursor);

    check(braidb_close(db, &err), &err);
    braidb_db_free(db);
    return 0;
}
