/* Entries: families, single keys, batches, snapshots and cursors. */
#include "check.h"

static void families(braidb_t *db) {
    braidb_family_t *users, *again;
    const char **names;
    size_t count;
    EXPECT(BRAIDB_MISSING_FAMILY, braidb_family_open(db, "users", &users, &err));
    CHECK(users == NULL);
    OK(braidb_family_create(db, "users", &users, &err));
    OK(braidb_family_open(db, "users", &again, &err));
    braidb_family_free(again);
    EXPECT(BRAIDB_INVALID, braidb_family_create(db, "", &again, &err));
    CHECK(again == NULL);
    OK(braidb_family_open(db, "users", &again, &err));
    CHECK(strcmp(braidb_family_name(again), "users") == 0 && braidb_family_name(NULL) == NULL);
    put(db, users, "ada", "1815");
    has(db, again, NULL, "ada", "1815");
    has(db, NULL, NULL, "ada", NULL);
    OK(braidb_family_list(db, &names, &count, &err));
    CHECK(count == 2 && strcmp(names[0], "default") == 0 && strcmp(names[1], "users") == 0);
    braidb_free(names);
    braidb_family_free(users);
    braidb_family_free(again);
    braidb_family_free(NULL);
}

static void keys(braidb_t *db) {
    static const char with_nul[] = {'a', '\0', 'b'};
    static char large[(64 << 10) + 1];
    braidb_value_t *value;
    char buffer[4];
    size_t len = 99;
    put(db, NULL, "plum", "blue");
    OK(braidb_put_with(db, NULL, braidb_text("pear"), braidb_text("green"), BRAIDB_DURABILITY_SYNC, &err));
    OK(braidb_put_with(db, NULL, braidb_text("pear"), braidb_text("gold"), BRAIDB_DURABILITY_DEFAULT, &err));
    EXPECT(BRAIDB_INVALID, braidb_put_with(db, NULL, braidb_text("pear"), braidb_none(), 4, &err));
    has(db, NULL, NULL, "pear", "gold");
    OK(braidb_contains(db, NULL, NULL, braidb_text("pear"), &err));
    OK(braidb_delete(db, NULL, braidb_text("pear"), &err));
    OK(braidb_delete_with(db, NULL, braidb_text("pear"), BRAIDB_DURABILITY_NONE, &err));
    EXPECT(BRAIDB_NOT_FOUND, braidb_contains(db, NULL, NULL, braidb_text("pear"), &err));
    has(db, NULL, NULL, "pear", NULL);

    OK(braidb_get_into(db, NULL, NULL, braidb_text("plum"), buffer, sizeof buffer, &len, &err));
    CHECK(len == 4 && memcmp(buffer, "blue", 4) == 0);
    buffer[0] = 'x';
    EXPECT(BRAIDB_SHORT_BUFFER, braidb_get_into(db, NULL, NULL, braidb_text("plum"), buffer, 3, &len, &err));
    CHECK(len == 4 && buffer[0] == 'x');
    EXPECT(BRAIDB_SHORT_BUFFER, braidb_get_into(db, NULL, NULL, braidb_text("plum"), NULL, 0, &len, &err));
    EXPECT(BRAIDB_INVALID, braidb_get_into(db, NULL, NULL, braidb_text("plum"), NULL, 4, &len, &err));
    CHECK(len == 0);
    EXPECT(BRAIDB_NOT_FOUND, braidb_get_into(db, NULL, NULL, braidb_text("pear"), buffer, 4, &len, &err));
    CHECK(len == 0);

    /* Any bytes, and none. */
    OK(braidb_put(db, NULL, braidb_none(), braidb_none(), &err));
    OK(braidb_get(db, NULL, NULL, braidb_text(""), &value, &err));
    CHECK(value != NULL && braidb_value_len(value) == 0 && braidb_value_data(value) != NULL);
    braidb_value_free(value);
    CHECK(braidb_value_len(NULL) == 0 && braidb_value_data(NULL) == NULL);
    braidb_value_free(NULL);
    OK(braidb_get_into(db, NULL, NULL, braidb_none(), NULL, 0, &len, &err));
    OK(braidb_put(db, NULL, braidb_slice(with_nul, 3), braidb_slice(with_nul, 3), &err));
    OK(braidb_get_into(db, NULL, NULL, braidb_slice(with_nul, 3), buffer, 4, &len, &err));
    CHECK(len == 3 && memcmp(buffer, with_nul, 3) == 0);
    has(db, NULL, NULL, "a", NULL);
    OK(braidb_delete(db, NULL, braidb_slice(with_nul, 3), &err));
    OK(braidb_delete(db, NULL, braidb_none(), &err));

    EXPECT(BRAIDB_TOO_LARGE, braidb_put(db, NULL, braidb_slice(large, sizeof large), braidb_none(), &err));
    EXPECT(BRAIDB_INVALID, braidb_put(db, NULL, braidb_slice(NULL, 3), braidb_none(), &err));
    EXPECT(BRAIDB_INVALID, braidb_put(db, NULL, braidb_slice("a", (size_t)-1), braidb_none(), &err));
}

/* Writes that depend on what is there. */
static void conditional_writes(braidb_t *db) {
    braidb_family_t *users;
    braidb_value_t *present;
    braidb_slice_t key = braidb_text("once"), one = braidb_text("1"), two = braidb_text("2");
    int32_t is_swapped = 7;
    OK(braidb_family_create(db, "users", &users, &err));
    OK(braidb_put_if_absent(db, users, key, one, &present, &err));
    CHECK(present == NULL);
    OK(braidb_put_if_absent(db, users, key, two, &present, &err));
    CHECK(is_text(braidb_slice(braidb_value_data(present), braidb_value_len(present)), "1"));
    braidb_value_free(present);
    OK(braidb_put_if_absent(db, NULL, key, two, &present, &err));
    CHECK(present == NULL);
    OK(braidb_compare_and_swap(db, NULL, key, &one, &one, &is_swapped, &err));
    CHECK(is_swapped == 0);
    OK(braidb_compare_and_swap(db, users, key, &one, &two, &is_swapped, &err));
    CHECK(is_swapped == 1);
    has(db, users, NULL, "once", "2");
    OK(braidb_compare_and_swap(db, users, key, &two, NULL, &is_swapped, &err));
    CHECK(is_swapped == 1);
    has(db, users, NULL, "once", NULL);
    OK(braidb_compare_and_swap(db, users, key, NULL, &one, &is_swapped, &err));
    CHECK(is_swapped == 1);
    OK(braidb_compare_and_swap(db, users, key, NULL, &two, &is_swapped, &err));
    CHECK(is_swapped == 0);
    has(db, users, NULL, "once", "1");
    /* The value that is there need not be taken. */
    OK(braidb_put_if_absent(db, users, key, two, NULL, &err));
    has(db, users, NULL, "once", "1");
    OK(braidb_put_if_absent(db, users, braidb_text("twice"), two, NULL, &err));
    has(db, users, NULL, "twice", "2");
    braidb_family_free(users);
}

static void many_keys(braidb_t *db) {
    braidb_slice_t wanted[4], found[4];
    void *memory;
    put(db, NULL, "empty", "");
    wanted[0] = wanted[3] = braidb_text("plum");
    wanted[1] = braidb_text("pear");
    wanted[2] = braidb_text("empty");
    OK(braidb_get_many(db, NULL, NULL, wanted, 4, found, &memory, &err));
    CHECK(is_text(found[0], "blue") && found[1].data == NULL && found[1].len == 0);
    CHECK(found[2].data != NULL && found[2].len == 0 && is_text(found[3], "blue"));
    CHECK(memory != NULL);
    braidb_free(memory);
    OK(braidb_get_many(db, NULL, NULL, NULL, 0, NULL, &memory, &err));
    braidb_free(memory);
    wanted[1] = braidb_slice(NULL, 1);
    EXPECT(BRAIDB_INVALID, braidb_get_many(db, NULL, NULL, wanted, 4, found, &memory, &err));
    CHECK(memory == NULL && found[0].data == NULL);
    found[0] = braidb_text("before");
    EXPECT(BRAIDB_INVALID, braidb_get_many(db, NULL, NULL, wanted, 1, found, NULL, &err));
    CHECK(found[0].data == NULL);
    memory = wanted;
    EXPECT(BRAIDB_INVALID, braidb_get_many(db, NULL, NULL, wanted, 1, NULL, &memory, &err));
    CHECK(memory == NULL);
    memory = wanted;
    EXPECT(BRAIDB_INVALID, braidb_get_many(db, NULL, NULL, NULL, 1, found, &memory, &err));
    CHECK(memory == NULL && found[0].data == NULL);
    /* The values may take the places of the keys. */
    wanted[1] = braidb_text("pear");
    OK(braidb_get_many(db, NULL, NULL, wanted, 4, wanted, &memory, &err));
    CHECK(is_text(wanted[0], "blue") && wanted[1].data == NULL && wanted[2].data != NULL && is_text(wanted[3], "blue"));
    braidb_free(memory);
}

/* What a batch told: each write, and how many are to come before it stops. */
typedef struct {
    char text[200];
    int left;
} told_t;

static int tell(told_t *told, const char *verb, braidb_slice_t family, braidb_slice_t key, braidb_slice_t value) {
    char *end = told->text + strlen(told->text);
    sprintf(end, "%s %.*s/%.*s=%.*s;", verb, (int)family.len, (const char *)family.data, (int)key.len, (const char *)key.data,
            (int)value.len, (const char *)value.data);
    return --told->left == 0;
}

static int on_put(void *context, braidb_slice_t family, braidb_slice_t key, braidb_slice_t value) {
    return tell((told_t *)context, "put", family, key, value);
}

static int on_delete(void *context, braidb_slice_t family, braidb_slice_t key) {
    return tell((told_t *)context, "delete", family, key, braidb_text(""));
}

static void tells(const braidb_batch_t *batch, int most, const char *text) {
    told_t told;
    told.text[0] = '\0';
    told.left = most;
    OK(braidb_batch_iterate(batch, on_put, on_delete, &told, &err));
    if (strcmp(told.text, text) != 0) {
        fprintf(stderr, "%s in place of %s\n", told.text, text);
        exit(1);
    }
}

static void batches(braidb_t *db, braidb_t *another) {
    static const char packed[] = "\4\0\0\0\1\0\0\0kiwi7\4\0\0\0\377\377\377\377plum";
    static const size_t packed_bytes = sizeof packed - 1;
    static char large[(64 << 10) + 1];
    braidb_batch_t *batch = braidb_batch_create(), *other = braidb_batch_create();
    braidb_family_t *users, *foreign;
    OK(braidb_family_create(db, "users", &users, &err));
    OK(braidb_family_create(another, "strangers", &foreign, &err));
    OK(braidb_batch_put(batch, NULL, braidb_text("fig"), braidb_text("1"), &err));
    OK(braidb_batch_put(batch, users, braidb_text("alan"), braidb_text("1912"), &err));
    OK(braidb_batch_delete(batch, NULL, braidb_text("plum"), &err));
    CHECK(braidb_batch_count(batch) == 3 && braidb_batch_count(NULL) == 0);
    CHECK(braidb_batch_bytes(batch) > 15 && braidb_batch_bytes(NULL) == 0);

    /* What is refused leaves the batch as it was. */
    EXPECT(BRAIDB_TOO_LARGE, braidb_batch_put(batch, NULL, braidb_slice(large, sizeof large), braidb_none(), &err));
    EXPECT(BRAIDB_FOREIGN, braidb_batch_put(batch, foreign, braidb_text("x"), braidb_text("y"), &err));
    EXPECT(BRAIDB_FOREIGN, braidb_write(another, batch, BRAIDB_DURABILITY_DEFAULT, &err));
    tells(batch, 0, "put default/fig=1;put users/alan=1912;delete default/plum=;");
    tells(batch, 2, "put default/fig=1;put users/alan=1912;");
    EXPECT(BRAIDB_INVALID, braidb_batch_iterate(batch, NULL, on_delete, NULL, &err));

    /* A write keeps the batch. */
    OK(braidb_write(db, batch, BRAIDB_DURABILITY_DEFAULT, &err));
    OK(braidb_write(db, batch, BRAIDB_DURABILITY_SYNC, &err));
    CHECK(braidb_batch_count(batch) == 3);
    has(db, NULL, NULL, "fig", "1");
    has(db, users, NULL, "alan", "1912");
    has(db, NULL, NULL, "plum", NULL);

    OK(braidb_batch_put_packed(other, NULL, braidb_slice(packed, packed_bytes), 2, &err));
    tells(other, 0, "put default/kiwi=7;delete default/plum=;");
    EXPECT(BRAIDB_INVALID, braidb_batch_put_packed(other, NULL, braidb_slice(packed, packed_bytes), 1, &err));
    EXPECT(BRAIDB_INVALID, braidb_batch_put_packed(other, NULL, braidb_slice(packed, packed_bytes - 1), 2, &err));
    EXPECT(BRAIDB_INVALID, braidb_batch_put_packed(other, NULL, braidb_slice(packed, 7), 1, &err));
    CHECK(braidb_batch_count(other) == 2);
    OK(braidb_batch_append(other, batch, &err));
    tells(other, 0, "put default/kiwi=7;delete default/plum=;put default/fig=1;put users/alan=1912;delete default/plum=;");
    OK(braidb_batch_append(other, other, &err));
    CHECK(braidb_batch_count(other) == 10);
    tells(other, 1, "put default/kiwi=7;");
    OK(braidb_batch_clear(batch, &err));
    CHECK(braidb_batch_count(batch) == 0);
    /* No writes bind a batch to no database. */
    OK(braidb_batch_put_packed(batch, users, braidb_none(), 0, &err));
    OK(braidb_batch_delete(batch, foreign, braidb_text("x"), &err));
    EXPECT(BRAIDB_FOREIGN, braidb_batch_append(batch, other, &err));
    EXPECT(BRAIDB_INVALID, braidb_batch_append(batch, NULL, &err));
    OK(braidb_write(another, batch, BRAIDB_DURABILITY_DEFAULT, &err));
    braidb_batch_free(batch);
    braidb_batch_free(other);
    braidb_batch_free(NULL);
    braidb_family_free(users);
    braidb_family_free(foreign);
}

static void snapshots(braidb_t *db, braidb_t *another) {
    braidb_snapshot_t *before;
    braidb_family_t *users;
    braidb_slice_t key = braidb_text("moment"), found;
    braidb_value_t *value;
    void *memory;
    OK(braidb_family_create(db, "users", &users, &err));
    put(db, NULL, "moment", "old");
    put(db, users, "moment", "old too");
    OK(braidb_snapshot_create(db, &before, &err));
    put(db, NULL, "moment", "new");
    OK(braidb_delete(db, users, key, &err));
    has(db, NULL, before, "moment", "old");
    has(db, users, before, "moment", "old too");
    has(db, users, NULL, "moment", NULL);
    OK(braidb_contains(db, users, before, key, &err));
    OK(braidb_contains(db, NULL, before, key, &err));
    EXPECT(BRAIDB_NOT_FOUND, braidb_contains(db, users, NULL, key, &err));
    OK(braidb_get_many(db, NULL, before, &key, 1, &found, &memory, &err));
    CHECK(is_text(found, "old"));
    braidb_free(memory);
    OK(braidb_get_many(db, users, before, &key, 1, &found, &memory, &err));
    CHECK(is_text(found, "old too"));
    braidb_free(memory);
    OK(braidb_get_many(db, users, NULL, &key, 1, &found, &memory, &err));
    CHECK(found.data == NULL);
    braidb_free(memory);
    EXPECT(BRAIDB_FOREIGN, braidb_get(another, NULL, before, key, &value, &err));
    EXPECT(BRAIDB_FOREIGN, braidb_get(another, users, NULL, key, &value, &err));
    EXPECT(BRAIDB_FOREIGN, braidb_put(another, users, key, key, &err));
    braidb_snapshot_free(before);
    braidb_snapshot_free(NULL);
    braidb_family_free(users);
}

/* The cursor stands on an entry, or on none if key is NULL. */
static void stands(braidb_cursor_t *cursor, const char *key, const char *text) {
    braidb_slice_t found, value;
    CHECK(braidb_cursor_valid(cursor) == (key != NULL));
    if (key == NULL) {
        CHECK(braidb_cursor_key(cursor).data == NULL);
        EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_value(cursor, &value, &err));
        EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_entry(cursor, &found, &value, &err));
        CHECK(found.data == NULL && value.data == NULL);
        return;
    }
    CHECK(is_text(braidb_cursor_key(cursor), key));
    OK(braidb_cursor_value(cursor, &value, &err));
    CHECK(is_text(value, text));
    OK(braidb_cursor_entry(cursor, &found, &value, &err));
    CHECK(is_text(found, key) && is_text(value, text));
    value = found;
    EXPECT(BRAIDB_INVALID, braidb_cursor_entry(cursor, NULL, &value, &err));
    CHECK(value.data == NULL);
}

static void cursors(braidb_t *db) {
    braidb_family_t *fruit;
    braidb_snapshot_t *before;
    braidb_cursor_t *cursor;
    OK(braidb_family_create(db, "fruit", &fruit, &err));
    put(db, fruit, "apple", "red");
    put(db, fruit, "lemon", "yellow");
    put(db, fruit, "plum", "blue");
    OK(braidb_snapshot_create(db, &before, &err));
    put(db, fruit, "quince", "gold");

    OK(braidb_cursor_create(db, fruit, NULL, braidb_none(), braidb_none(), &cursor, &err));
    stands(cursor, NULL, NULL);
    OK(braidb_cursor_next(cursor, &err));
    stands(cursor, "apple", "red");
    OK(braidb_cursor_last(cursor, &err));
    stands(cursor, "quince", "gold");
    EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_next(cursor, &err));
    stands(cursor, NULL, NULL);
    OK(braidb_cursor_prev(cursor, &err));
    OK(braidb_cursor_prev(cursor, &err));
    stands(cursor, "plum", "blue");
    OK(braidb_cursor_next(cursor, &err));
    stands(cursor, "quince", "gold");
    OK(braidb_cursor_first(cursor, &err));
    EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_prev(cursor, &err));
    OK(braidb_cursor_seek(cursor, braidb_text("b"), &err));
    stands(cursor, "lemon", "yellow");
    OK(braidb_cursor_seek(cursor, braidb_text("lemon"), &err));
    stands(cursor, "lemon", "yellow");
    OK(braidb_cursor_seek_for_prev(cursor, braidb_text("m"), &err));
    stands(cursor, "lemon", "yellow");
    /* A seek to the key that the cursor lent. */
    OK(braidb_cursor_seek(cursor, braidb_cursor_key(cursor), &err));
    stands(cursor, "lemon", "yellow");
    OK(braidb_cursor_next(cursor, &err));
    OK(braidb_cursor_seek_for_prev(cursor, braidb_cursor_key(cursor), &err));
    stands(cursor, "plum", "blue");
    OK(braidb_cursor_seek(cursor, braidb_cursor_key(cursor), &err));
    stands(cursor, "plum", "blue");
    EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_seek_for_prev(cursor, braidb_text("a"), &err));
    OK(braidb_cursor_status(cursor, &err));
    EXPECT(BRAIDB_INVALID, braidb_cursor_seek(cursor, braidb_slice(NULL, 1), &err));
    /* A movement that failed leaves the cursor on no entry, until it jumps. */
    EXPECT(BRAIDB_INVALID, braidb_cursor_status(cursor, &err));
    EXPECT(BRAIDB_INVALID, braidb_cursor_next(cursor, &err));
    CHECK(!braidb_cursor_valid(cursor) && braidb_cursor_key(cursor).data == NULL);
    OK(braidb_cursor_first(cursor, &err));
    OK(braidb_cursor_status(cursor, &err));
    braidb_cursor_free(cursor);
    braidb_cursor_free(NULL);
    CHECK(!braidb_cursor_valid(NULL) && braidb_cursor_key(NULL).data == NULL);

    /* Bounds, and the moment of a snapshot. */
    OK(braidb_cursor_create(db, fruit, before, braidb_text("lemon"), braidb_none(), &cursor, &err));
    OK(braidb_cursor_last(cursor, &err));
    stands(cursor, "plum", "blue");
    OK(braidb_cursor_prev(cursor, &err));
    EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_prev(cursor, &err));
    OK(braidb_cursor_seek(cursor, braidb_text("a"), &err));
    stands(cursor, "lemon", "yellow");
    braidb_cursor_free(cursor);
    OK(braidb_cursor_create(db, fruit, NULL, braidb_text("b"), braidb_text("plum"), &cursor, &err));
    OK(braidb_cursor_prev(cursor, &err));
    stands(cursor, "lemon", "yellow");
    EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_next(cursor, &err));
    braidb_cursor_free(cursor);
    /* The empty key is a bound, if it has a pointer. */
    OK(braidb_cursor_create(db, fruit, NULL, braidb_none(), braidb_text(""), &cursor, &err));
    EXPECT(BRAIDB_NOT_FOUND, braidb_cursor_first(cursor, &err));
    braidb_cursor_free(cursor);
    braidb_snapshot_free(before);
    braidb_family_free(fruit);
}

/* Entries as they are packed: "key=value;" for each of count. */
static const char *unpacked(const uint8_t *packed, size_t bytes, size_t count) {
    static char text[200];
    size_t at = 0;
    text[0] = '\0';
    for (; count > 0; count--) {
        size_t key_len = packed[at], value_len = packed[at + 4];
        sprintf(text + strlen(text), "%.*s=%.*s;", (int)key_len, (const char *)packed + at + 8, (int)value_len,
                (const char *)packed + at + 8 + key_len);
        at += 8 + key_len + value_len;
    }
    CHECK(at == bytes);
    return text;
}

typedef braidb_code_t (*pack_t)(braidb_cursor_t *, void *, size_t, size_t *, size_t *, braidb_error_t **);

/* The call packs these entries, or none. */
static void packs(pack_t pack, braidb_cursor_t *cursor, size_t capacity, const char *text) {
    uint8_t buffer[100];
    size_t used = 99, count = 99;
    buffer[capacity] = 0xab;
    if (text == NULL) {
        EXPECT(BRAIDB_NOT_FOUND, pack(cursor, buffer, capacity, &used, &count, &err));
        CHECK(used == 0 && count == 0);
        return;
    }
    OK(pack(cursor, buffer, capacity, &used, &count, &err));
    CHECK(used <= capacity && buffer[capacity] == 0xab && count > 0);
    CHECK(strcmp(unpacked(buffer, used, count), text) == 0);
}

/* Many entries at once. Each of the three takes 16, 19 or 16 bytes. */
static void packed_entries(braidb_t *db) {
    braidb_family_t *packed, *copy;
    braidb_cursor_t *cursor;
    braidb_batch_t *batch = braidb_batch_create();
    uint8_t buffer[100];
    size_t used, count;
    OK(braidb_family_create(db, "packed", &packed, &err));
    OK(braidb_family_create(db, "copy", &copy, &err));
    put(db, packed, "apple", "red");
    put(db, packed, "lemon", "yellow");
    put(db, packed, "plum", "blue");
    OK(braidb_cursor_create(db, packed, NULL, braidb_none(), braidb_none(), &cursor, &err));
    packs(braidb_cursor_next_packed, cursor, 99, "apple=red;lemon=yellow;plum=blue;");
    packs(braidb_cursor_next_packed, cursor, 99, NULL);
    stands(cursor, NULL, NULL);
    packs(braidb_cursor_prev_packed, cursor, 35, "plum=blue;lemon=yellow;");
    stands(cursor, "apple", "red");
    packs(braidb_cursor_prev_packed, cursor, 16, "apple=red;");
    packs(braidb_cursor_prev_packed, cursor, 16, NULL);
    /* From the entry to which a seek came. One that does not fit waits. */
    OK(braidb_cursor_seek(cursor, braidb_text("b"), &err));
    EXPECT(BRAIDB_SHORT_BUFFER, braidb_cursor_next_packed(cursor, buffer, 18, &used, &count, &err));
    CHECK(used == 19 && count == 0);
    EXPECT(BRAIDB_SHORT_BUFFER, braidb_cursor_next_packed(cursor, NULL, 0, &used, &count, &err));
    CHECK(used == 19 && count == 0);
    stands(cursor, "lemon", "yellow");
    packs(braidb_cursor_next_packed, cursor, 34, "lemon=yellow;");
    stands(cursor, "plum", "blue");
    EXPECT(BRAIDB_INVALID, braidb_cursor_next_packed(cursor, NULL, 8, &used, &count, &err));
    EXPECT(BRAIDB_INVALID, braidb_cursor_next_packed(cursor, buffer, sizeof buffer, NULL, &count, &err));
    CHECK(count == 0);
    EXPECT(BRAIDB_INVALID, braidb_cursor_prev_packed(NULL, buffer, sizeof buffer, &used, &count, &err));
    /* A batch takes what a cursor packed. */
    OK(braidb_cursor_first(cursor, &err));
    OK(braidb_cursor_next_packed(cursor, buffer, sizeof buffer, &used, &count, &err));
    OK(braidb_batch_put_packed(batch, copy, braidb_slice(buffer, used), count, &err));
    OK(braidb_write(db, batch, BRAIDB_DURABILITY_DEFAULT, &err));
    has(db, copy, NULL, "lemon", "yellow");
    has(db, copy, NULL, "plum", "blue");
    braidb_batch_free(batch);
    braidb_cursor_free(cursor);
    braidb_family_free(packed);
    braidb_family_free(copy);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    char *other_dir = joined(dir, "-another");
    braidb_t *db = open_db(dir), *another = open_db(other_dir);
    families(db);
    keys(db);
    conditional_writes(db);
    many_keys(db);
    batches(db, another);
    snapshots(db, another);
    cursors(db);
    packed_entries(db);
    OK(braidb_close(db, &err));
    OK(braidb_close(another, &err));
    braidb_db_free(db);
    braidb_db_free(another);
    free(other_dir);
    return 0;
}
