/* Transactions and overlays. */
#include "check.h"

/* The entries that a scan called back, as "key=value;", and after how many it stops. */
typedef struct {
    char text[200];
    int left;
    braidb_txn_t *txn;
    braidb_overlay_t *overlay;
} seen_t;

static int see(void *context, braidb_slice_t key, braidb_slice_t value) {
    seen_t *seen = (seen_t *)context;
    sprintf(seen->text + strlen(seen->text), "%.*s=%.*s;", (int)key.len, (const char *)key.data, (int)value.len,
            (const char *)value.data);
    if (seen->txn != NULL) {
        /* A callback may use the transaction. */
        OK(braidb_txn_put(seen->txn, NULL, key, braidb_text("seen"), &err));
        OK(braidb_txn_put(seen->txn, NULL, braidb_text("b"), braidb_text("unseen"), &err));
        /* It cannot end the transaction: the scan would wait for itself. */
        EXPECT(BRAIDB_INVALID, braidb_txn_commit(seen->txn, BRAIDB_DURABILITY_DEFAULT, &err));
        EXPECT(BRAIDB_INVALID, braidb_txn_rollback(seen->txn, &err));
    }
    if (seen->overlay != NULL) {
        /* A callback may stage writes. */
        OK(braidb_overlay_put(seen->overlay, NULL, key, braidb_text("seen"), &err));
        OK(braidb_overlay_put(seen->overlay, NULL, braidb_text("fog"), braidb_text("unseen"), &err));
    }
    return --seen->left == 0;
}

static seen_t nothing(int most) {
    seen_t seen;
    seen.text[0] = '\0';
    seen.left = most;
    seen.txn = NULL;
    seen.overlay = NULL;
    return seen;
}

static void transactions(braidb_t *db) {
    braidb_family_t *users;
    braidb_txn_t *txn;
    braidb_value_t *value;
    braidb_slice_t ada = braidb_text("ada"), alan = braidb_text("alan");
    char buffer[8];
    size_t len;
    seen_t seen;
    OK(braidb_family_create(db, "users", &users, &err));
    put(db, users, "ada", "1815");
    OK(braidb_txn_create(db, &txn, &err));
    OK(braidb_txn_put(txn, users, alan, braidb_text("1912"), &err));
    OK(braidb_txn_put(txn, NULL, alan, braidb_text("here"), &err));
    OK(braidb_txn_get(txn, users, ada, &value, &err));
    CHECK(braidb_value_len(value) == 4);
    braidb_value_free(value);
    EXPECT(BRAIDB_NOT_FOUND, braidb_txn_get(txn, NULL, ada, &value, &err));
    CHECK(value == NULL);
    OK(braidb_txn_get_into(txn, users, alan, buffer, sizeof buffer, &len, &err));
    CHECK(len == 4 && memcmp(buffer, "1912", 4) == 0);
    EXPECT(BRAIDB_SHORT_BUFFER, braidb_txn_get_into(txn, users, alan, buffer, 1, &len, &err));
    OK(braidb_txn_contains(txn, users, alan, &err));
    EXPECT(BRAIDB_NOT_FOUND, braidb_contains(db, users, NULL, alan, &err));
    seen = nothing(0);
    OK(braidb_txn_scan(txn, users, braidb_none(), braidb_none(), 0, see, &seen, &err));
    CHECK(strcmp(seen.text, "ada=1815;alan=1912;") == 0);
    seen = nothing(1);
    OK(braidb_txn_scan(txn, users, braidb_none(), braidb_none(), 1, see, &seen, &err));
    CHECK(strcmp(seen.text, "alan=1912;") == 0);
    seen = nothing(0);
    seen.txn = txn;
    OK(braidb_txn_scan(txn, NULL, braidb_text("a"), braidb_text("c"), 0, see, &seen, &err));
    CHECK(strcmp(seen.text, "alan=here;") == 0);
    EXPECT(BRAIDB_INVALID, braidb_txn_scan(txn, NULL, braidb_none(), braidb_none(), 0, NULL, NULL, &err));
    OK(braidb_txn_delete(txn, users, ada, &err));
    EXPECT(BRAIDB_NOT_FOUND, braidb_txn_contains(txn, users, ada, &err));
    OK(braidb_txn_commit(txn, BRAIDB_DURABILITY_SYNC, &err));
    EXPECT(BRAIDB_INVALID, braidb_txn_put(txn, users, ada, ada, &err));
    EXPECT(BRAIDB_INVALID, braidb_txn_commit(txn, BRAIDB_DURABILITY_DEFAULT, &err));
    braidb_txn_free(txn);
    braidb_txn_free(NULL);
    has(db, users, NULL, "ada", NULL);
    has(db, users, NULL, "alan", "1912");
    has(db, NULL, NULL, "alan", "seen");
    has(db, NULL, NULL, "b", "unseen");
    braidb_family_free(users);
}

static void conflicts(braidb_t *db) {
    braidb_txn_t *txn;
    braidb_value_t *value;
    put(db, NULL, "seats", "1");
    OK(braidb_txn_create(db, &txn, &err));
    OK(braidb_txn_get(txn, NULL, braidb_text("seats"), &value, &err));
    braidb_value_free(value);
    OK(braidb_txn_put(txn, NULL, braidb_text("guest"), braidb_text("ada"), &err));
    put(db, NULL, "seats", "0");
    EXPECT(BRAIDB_CONFLICT, braidb_txn_commit(txn, BRAIDB_DURABILITY_DEFAULT, &err));
    has(db, NULL, NULL, "guest", NULL);
    EXPECT(BRAIDB_INVALID, braidb_txn_rollback(txn, &err));
    braidb_txn_free(txn);

    OK(braidb_txn_create(db, &txn, &err));
    OK(braidb_txn_put(txn, NULL, braidb_text("guest"), braidb_text("alan"), &err));
    OK(braidb_txn_rollback(txn, &err));
    EXPECT(BRAIDB_INVALID, braidb_txn_delete(txn, NULL, braidb_text("guest"), &err));
    braidb_txn_free(txn);
    /* Freed while it runs. */
    OK(braidb_txn_create(db, &txn, &err));
    OK(braidb_txn_put(txn, NULL, braidb_text("guest"), braidb_text("alan"), &err));
    braidb_txn_free(txn);
    has(db, NULL, NULL, "guest", NULL);
    /* A refused durability does not end the transaction. */
    OK(braidb_txn_create(db, &txn, &err));
    EXPECT(BRAIDB_INVALID, braidb_txn_commit(txn, 9, &err));
    OK(braidb_txn_put(txn, NULL, braidb_text("guest"), braidb_text("grace"), &err));
    OK(braidb_txn_commit(txn, BRAIDB_DURABILITY_DEFAULT, &err));
    braidb_txn_free(txn);
    has(db, NULL, NULL, "guest", "grace");
}

static void overlays(braidb_t *db, braidb_t *another) {
    braidb_family_t *users, *foreign;
    braidb_overlay_t *overlay;
    braidb_value_t *value;
    braidb_slice_t fig = braidb_text("fig");
    char buffer[8];
    size_t len, count, bytes;
    seen_t seen;
    OK(braidb_family_create(db, "users", &users, &err));
    OK(braidb_family_create(another, "users", &foreign, &err));
    put(db, NULL, "fig", "base");
    OK(braidb_overlay_create(db, &overlay, &err));
    OK(braidb_overlay_put(overlay, NULL, fig, braidb_text("staged"), &err));
    OK(braidb_overlay_put(overlay, users, fig, braidb_text("user"), &err));
    OK(braidb_overlay_delete(overlay, users, braidb_text("alan"), &err));
    EXPECT(BRAIDB_FOREIGN, braidb_overlay_put(overlay, foreign, fig, fig, &err));
    OK(braidb_overlay_count(overlay, &count, &err));
    OK(braidb_overlay_bytes(overlay, &bytes, &err));
    CHECK(count == 3 && bytes > 20);
    OK(braidb_overlay_get(overlay, users, fig, &value, &err));
    CHECK(braidb_value_len(value) == 4);
    braidb_value_free(value);
    OK(braidb_overlay_get_into(overlay, NULL, fig, buffer, sizeof buffer, &len, &err));
    CHECK(len == 6 && memcmp(buffer, "staged", 6) == 0);
    EXPECT(BRAIDB_NOT_FOUND, braidb_overlay_contains(overlay, users, braidb_text("alan"), &err));
    OK(braidb_overlay_contains(overlay, NULL, fig, &err));
    seen = nothing(0);
    OK(braidb_overlay_scan(overlay, users, braidb_none(), braidb_none(), 1, see, &seen, &err));
    CHECK(strcmp(seen.text, "fig=user;") == 0);
    seen = nothing(0);
    OK(braidb_overlay_scan(overlay, NULL, braidb_text("f"), braidb_text("g"), 0, see, &seen, &err));
    CHECK(strcmp(seen.text, "fig=staged;") == 0);
    seen = nothing(0);
    seen.overlay = overlay;
    OK(braidb_overlay_scan(overlay, NULL, braidb_text("f"), braidb_text("g"), 0, see, &seen, &err));
    CHECK(strcmp(seen.text, "fig=staged;") == 0);
    seen = nothing(0);
    OK(braidb_overlay_scan(overlay, NULL, braidb_text("f"), braidb_text("g"), 0, see, &seen, &err));
    CHECK(strcmp(seen.text, "fig=seen;fog=unseen;") == 0);
    EXPECT(BRAIDB_INVALID, braidb_overlay_get_into(overlay, NULL, fig, NULL, 4, &len, &err));
    CHECK(len == 0);
    has(db, NULL, NULL, "fig", "base");
    EXPECT(BRAIDB_INVALID, braidb_overlay_commit(overlay, -1, &err));
    OK(braidb_overlay_commit(overlay, BRAIDB_DURABILITY_DEFAULT, &err));
    has(db, NULL, NULL, "fig", "seen");
    OK(braidb_overlay_count(overlay, &count, &err));
    CHECK(count == 0);
    OK(braidb_overlay_delete(overlay, NULL, fig, &err));
    OK(braidb_overlay_clear(overlay, &err));
    OK(braidb_overlay_commit(overlay, BRAIDB_DURABILITY_SYNC, &err));
    has(db, NULL, NULL, "fig", "seen");
    braidb_overlay_free(overlay);
    braidb_overlay_free(NULL);
    braidb_family_free(users);
    braidb_family_free(foreign);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    char *other_dir = joined(dir, "-another");
    braidb_t *db = open_db(dir), *another = open_db(other_dir);
    transactions(db);
    conflicts(db);
    overlays(db, another);
    OK(braidb_close(db, &err));
    OK(braidb_close(another, &err));
    braidb_db_free(db);
    braidb_db_free(another);
    free(other_dir);
    return 0;
}
