/*
 * BraidDB: an embedded, ordered, persistent key-value store.
 *
 * A database is a sorted map from bytes to bytes in a directory, inside your process. docs/c.md has an introduction.
 *
 * ERRORS. Nearly every function returns a code: BRAIDB_OK, BRAIDB_NOT_FOUND if there is nothing, or an error. The last argument is a place
 * for the details of an error, or NULL. The function always fills the place: with NULL, or with an error that you free by
 * braidb_error_free. What the place held before does not matter. There is no "last error" of a thread. A function that cannot return a
 * result fills the place of each result with NULL or 0. BRAIDB_NOT_FOUND and BRAIDB_SHORT_BUFFER come without an error.
 *
 * WRITES. A write that returned BRAIDB_POISONED or BRAIDB_PANIC is undecided: the next open may find it. After any other error, nothing of
 * it was written.
 *
 * ARGUMENTS. A handle is one that the library returned and that was not freed. Bytes, texts and arrays have the length that is passed with
 * them, or end with a NUL, and no thread changes them during the call. Places for the results of a call do not overlap. NULL where a
 * function needs something is BRAIDB_INVALID.
 *
 * WHO FREES. You free each handle by the function that ends in _free, and memory that a function gives as void * or char * by braidb_free
 * (the free of the C library). Freeing NULL does nothing. Handles may be freed in any order: each keeps what it needs alive. A function
 * that returns const char * lends the text; it belongs to the handle, or to the library. The library never keeps your bytes: it copies them
 * during the call.
 *
 * CLOSING. braidb_close closes the database, whatever handles there are. Later calls with any of them return BRAIDB_CLOSED. These go on:
 * the functions of batches, values and errors, braidb_close, braidb_path, braidb_family_name, braidb_cursor_valid, braidb_cursor_key, and all
 * that free. Without a close, freeing the last handle closes the database, and errors stay unseen.
 *
 * THREADS. Any number of threads may use a database, family, snapshot, value, transaction or overlay at the same time. One thread at a time
 * may use a cursor, a batch, options or an error; another one may go on with it. No thread may use a handle that another one is freeing.
 * While one thread ends a transaction, calls of others with it return BRAIDB_INVALID. The library's own threads take no
 * signals but those of faults.
 *
 * FORKS. In a forked child all handles that were opened before the fork are dead: calls return BRAIDB_FORKED and touch nothing, and the
 * parent loses nothing. A child may free them, which gives little memory back. It must not free a batch, a cursor, options or an error with which
 * another thread was in a call at the fork. A child may open databases of its own.
 *
 * PANICS. A bug in the library does not end your process: the call returns BRAIDB_PANIC, and the error tells where. The text also goes to
 * stderr. Functions that return no code return NULL or 0 then, mostly. Close the database, and please report the bug. Where memory runs out,
 * the library ends the process by abort().
 *
 * CALLBACKS must return. A longjmp through a callback is undefined. An exception of C++ that leaves a callback ends the process by abort().
 * A callback may call the library, but must not free a handle, or change bytes, that the running call uses. A child that is forked in a
 * callback must not return from it; it ends by _exit.
 *
 * A slice with a pointer of NULL and the length 0 is zero bytes. Where a slice is a bound of a range, it is no bound; the empty key as a
 * bound has a pointer that is not NULL. An empty std::string_view may have a pointer of NULL.
 */
#ifndef BRAIDB_H
#define BRAIDB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAIDB_API extern

/* Rises when a function is removed or changes what it takes or returns. Compare it with braidb_abi_version(). */
#define BRAIDB_ABI_VERSION 0

/* ---- Types --------------------------------------------------------------------------------------------------------------------------- */

typedef struct braidb_t braidb_t;                   /* an open database */
typedef struct braidb_options_t braidb_options_t;   /* how to open one */
typedef struct braidb_family_t braidb_family_t;     /* a sorted map of its own in a database; NULL: the default family */
typedef struct braidb_batch_t braidb_batch_t;       /* writes that happen together or not at all */
typedef struct braidb_snapshot_t braidb_snapshot_t; /* the database at one moment; NULL: now */
typedef struct braidb_cursor_t braidb_cursor_t;     /* a place among the entries of a range */
typedef struct braidb_value_t braidb_value_t;       /* a value that was read */
typedef struct braidb_txn_t braidb_txn_t;           /* reads and writes that take effect together, if nothing changed what was read */
typedef struct braidb_overlay_t braidb_overlay_t;   /* staged writes over the database */
typedef struct braidb_error_t braidb_error_t;       /* what went wrong */

/* Bytes that belong to the caller, or to a handle of the library. */
typedef struct {
    const uint8_t *data;
    size_t len;
} braidb_slice_t;

static inline braidb_slice_t braidb_slice(const void *data, size_t len) {
    braidb_slice_t slice;
    slice.data = (const uint8_t *)data;
    slice.len = len;
    return slice;
}

/* The bytes of a text, without its NUL. */
static inline braidb_slice_t braidb_text(const char *text) {
    return braidb_slice(text, strlen(text));
}

/* No bytes: no bound of a range. */
static inline braidb_slice_t braidb_none(void) {
    return braidb_slice(NULL, 0);
}

typedef int32_t braidb_code_t;
enum {
    BRAIDB_OK = 0,
    BRAIDB_NOT_FOUND = 1,      /* no such key, or no entry there */
    BRAIDB_IO = 2,             /* the storage refused an operation; nothing of a write was written */
    BRAIDB_CORRUPTION = 3,     /* bytes on disk are not those that were written; path and offset tell where */
    BRAIDB_MISSING = 4,        /* no database there, and the options do not create one */
    BRAIDB_EXISTS = 5,         /* a database there, and the options ask for a new one */
    BRAIDB_NOT_A_DATABASE = 6, /* the directory holds something else */
    BRAIDB_UNSUPPORTED = 7,    /* written by a newer version */
    BRAIDB_LOCKED = 8,         /* open elsewhere */
    BRAIDB_LOCK_LOST = 9,      /* the file LOCK was removed or replaced; nothing more is written */
    BRAIDB_TIER = 10,          /* the directory of a slow tier cannot be used */
    BRAIDB_INVALID = 11,       /* an argument, an option or a name that does not work */
    BRAIDB_TOO_LARGE = 12,     /* a key over 64 KiB, a value over 1 GiB, or a batch over 2 GiB */
    BRAIDB_FOREIGN = 13,       /* a handle of another database */
    BRAIDB_FULL = 14,          /* the disk is full; nothing was written */
    BRAIDB_POISONED = 15,      /* a write or its sync failed, and may be there after the next open; open the database again */
    BRAIDB_CLOSED = 16,        /* the database was closed */
    BRAIDB_FORKED = 17,        /* the handle belongs to the parent of this process */
    BRAIDB_PANIC = 18,         /* a bug in the library; a write may be there after the next open */
    BRAIDB_CONFLICT = 19,      /* another write changed what the transaction had read; begin it again */
    BRAIDB_READ_ONLY = 20,     /* the database was opened to read */
    BRAIDB_MISSING_FAMILY = 21,/* no column family of this name */
    BRAIDB_SHORT_BUFFER = 22,  /* the value is longer than the buffer; its length was returned */
    BRAIDB_OTHER = 23,         /* an error that has no code yet; the message tells */
    BRAIDB_EXCISED = 24        /* the snapshot is older than an excise of the keys; take a new snapshot */
};

/* What an acknowledged write promises. */
typedef int32_t braidb_durability_t;
enum {
    BRAIDB_DURABILITY_DEFAULT = 0, /* that of the options, which is BUFFER if they set none */
    BRAIDB_DURABILITY_NONE = 1,    /* a kill may lose the latest writes */
    BRAIDB_DURABILITY_BUFFER = 2,  /* a kill loses nothing; a power failure may lose the latest writes */
    BRAIDB_DURABILITY_SYNC = 3     /* nothing is lost, and nothing that was written before */
};

/* A range of keys: from lower, which belongs to it, to upper, which does not. braidb_none() is no bound. */
typedef struct {
    braidb_slice_t lower;
    braidb_slice_t upper;
} braidb_range_t;

/* What a range holds, about. */
typedef struct {
    uint64_t entries;     /* puts and deletes, also such that newer ones hide */
    uint64_t tombstones;  /* how many of the entries are deletes */
    uint64_t bytes;       /* bytes of keys and values */
    uint64_t value_bytes; /* bytes of the values that lie apart from their keys */
} braidb_estimate_t;

/* A slow tier of a database, and the directory of its copy, which must be missing or empty. */
typedef struct {
    const char *from;
    const char *to;
} braidb_tier_copy_t;

/* Keys about which a damaged database tells nothing: from low to high, both included; all keys from low on if high is braidb_none(). */
typedef struct {
    braidb_slice_t low;
    braidb_slice_t high;
    const char *path; /* the damaged file */
    uint64_t offset;  /* where the damage begins */
    const char *what; /* what is wrong */
} braidb_hole_t;

/* Each returns 0 to go on, and anything else to stop. What the slices lead to is there until the callback returns. */
typedef int (*braidb_put_callback)(void *context, braidb_slice_t family, braidb_slice_t key, braidb_slice_t value);
typedef int (*braidb_delete_callback)(void *context, braidb_slice_t family, braidb_slice_t key);
typedef int (*braidb_entry_callback)(void *context, braidb_slice_t key, braidb_slice_t value);
typedef int (*braidb_hole_callback)(void *context, const braidb_hole_t *hole);
/* Gets the bytes that are left to do. */
typedef void (*braidb_progress_callback)(void *context, uint64_t left_bytes);

/* ---- The library --------------------------------------------------------------------------------------------------------------------- */

/* The version of the library, such as "0.1.0". */
BRAIDB_API const char *braidb_version(void);
/* The BRAIDB_ABI_VERSION with which the library was built. */
BRAIDB_API uint32_t braidb_abi_version(void);
/* Frees memory that a function of the library gave. */
BRAIDB_API void braidb_free(void *memory);

/* ---- Errors -------------------------------------------------------------------------------------------------------------------------- */

/* All take NULL as "no error": BRAIDB_OK, an empty text, NULL, 0. */
BRAIDB_API braidb_code_t braidb_error_code(const braidb_error_t *error);
/* What happened, where, and what to do about it. */
BRAIDB_API const char *braidb_error_message(const braidb_error_t *error);
/* The file or directory, or NULL. */
BRAIDB_API const char *braidb_error_path(const braidb_error_t *error);
/* Where in the file the damage begins, for BRAIDB_CORRUPTION. */
BRAIDB_API uint64_t braidb_error_offset(const braidb_error_t *error);
BRAIDB_API void braidb_error_free(braidb_error_t *error);
/* The name of a code, such as "BRAIDB_LOCKED". */
BRAIDB_API const char *braidb_code_name(braidb_code_t code);

/* ---- Options ------------------------------------------------------------------------------------------------------------------------- */

/* The defaults, which are meant for every load. */
BRAIDB_API braidb_options_t *braidb_options_create(void);
BRAIDB_API void braidb_options_free(braidb_options_t *options);
/*
 * Sets an option of docs/options.md, or a tuning option, by its name. Numbers are decimal; switches are "true" or "false"; "none" stands
 * for no bound where an option has that. durability: "none", "buffer" or "sync". wait_for_lock: "500ms". slow_path adds a directory.
 * guards: "none", "balanced" or "sampled:BITS:DECREMENT". memory_policy: "none", "basic", "eager" or "adaptive:PERCENT". value_layout:
 * "ordered" or "trie:LEVELS". max_runs_per_guard_at: "level:LEVEL:RUNS". Ranges are checked by the open, and by braidb_options_check.
 */
BRAIDB_API braidb_code_t braidb_options_set(braidb_options_t *options, const char *name, const char *value, braidb_error_t **err);
/* Adds the directory of a slow tier. The path may be any bytes, as opposed to that of the option slow_path. */
BRAIDB_API braidb_code_t braidb_options_add_slow_path(braidb_options_t *options, const char *path, braidb_error_t **err);
/* Whether the options can work together. */
BRAIDB_API braidb_code_t braidb_options_check(const braidb_options_t *options, braidb_error_t **err);
/* The names of all options, one a line. */
BRAIDB_API const char *braidb_options_names(void);

/* ---- Databases ----------------------------------------------------------------------------------------------------------------------- */

/* Opens the database in a directory, and creates it if it is missing. options may be NULL, and may be freed afterwards. */
BRAIDB_API braidb_code_t braidb_open(const char *path, const braidb_options_t *options, braidb_t **db, braidb_error_t **err);
/* Opens a database to read. Nothing on the device changes. Many processes may do so while none writes. */
BRAIDB_API braidb_code_t braidb_open_read_only(const char *path, const braidb_options_t *options, braidb_t **db, braidb_error_t **err);
/* Makes all writes durable and releases the directory. The database is closed after an error too. Closing again does nothing. */
BRAIDB_API braidb_code_t braidb_close(braidb_t *db, braidb_error_t **err);
/* Frees the handle. The database stays open while other handles of it are there, unless it was closed. */
BRAIDB_API void braidb_db_free(braidb_t *db);
/* The directory, as it was given. */
BRAIDB_API const char *braidb_path(const braidb_t *db);
/* Raises the durability of all earlier writes. BRAIDB_DURABILITY_DEFAULT is refused. */
BRAIDB_API braidb_code_t braidb_persist(braidb_t *db, braidb_durability_t durability, braidb_error_t **err);
/* Writes all of memory to tables. */
BRAIDB_API braidb_code_t braidb_flush(braidb_t *db, braidb_error_t **err);
/* Merges everything, so that deleted and overwritten data gives its room back. */
BRAIDB_API braidb_code_t braidb_compact(braidb_t *db, braidb_error_t **err);
/* The same for the parts of a family that meet a range, which are about as large as a table. braidb_none() is no bound. */
BRAIDB_API braidb_code_t braidb_compact_range(braidb_t *db, const braidb_family_t *family, braidb_slice_t lower, braidb_slice_t upper,
                                              braidb_error_t **err);
/*
 * Takes all entries of count ranges away that were written before the call, and gives their room back. The ranges vanish together, on stable
 * storage, in about the time of a flush. Snapshots from before it return BRAIDB_EXCISED where they touch a range. A range without any bound
 * is BRAIDB_INVALID; all keys lie between braidb_text("") and braidb_none().
 */
BRAIDB_API braidb_code_t braidb_excise(braidb_t *db, const braidb_family_t *family, const braidb_range_t *ranges, size_t count,
                                       braidb_error_t **err);
/* Waits until background work has nothing to do. */
BRAIDB_API braidb_code_t braidb_settle(braidb_t *db, braidb_error_t **err);
/*
 * Reads every byte and checks it. Damage is no error: damages gets how many ranges are damaged, and json a report, which you free. json may
 * be NULL.
 */
BRAIDB_API braidb_code_t braidb_verify(braidb_t *db, size_t *damages, char **json, braidb_error_t **err);
/* The same for a database that is not open, and that may refuse to open. options may be NULL. */
BRAIDB_API braidb_code_t braidb_verify_path(const char *path, const braidb_options_t *options, size_t *damages, char **json,
                                            braidb_error_t **err);
/* Deletes the database in a directory, which must not be open. Other files stay, and so do slow tiers. options may be NULL. */
BRAIDB_API braidb_code_t braidb_destroy(const char *path, const braidb_options_t *options, braidb_error_t **err);
/*
 * Makes a second database in dir, which must be missing or empty, of what this one holds now. Files are linked where that is possible. json
 * gets a report, which you free, or is NULL.
 */
BRAIDB_API braidb_code_t braidb_checkpoint(braidb_t *db, const char *dir, char **json, braidb_error_t **err);
/* What the open found in the logs, as JSON, which you free. */
BRAIDB_API braidb_code_t braidb_recovery(const braidb_t *db, char **json, braidb_error_t **err);

/* ---- Column families ----------------------------------------------------------------------------------------------------------------- */

/* A family that exists; else BRAIDB_MISSING_FAMILY. */
BRAIDB_API braidb_code_t braidb_family_open(braidb_t *db, const char *name, braidb_family_t **family, braidb_error_t **err);
/* A family, created if it does not exist. */
BRAIDB_API braidb_code_t braidb_family_create(braidb_t *db, const char *name, braidb_family_t **family, braidb_error_t **err);
BRAIDB_API const char *braidb_family_name(const braidb_family_t *family);
BRAIDB_API void braidb_family_free(braidb_family_t *family);
/* The names of all families, "default" among them, in the order of their creation. One braidb_free frees the array and the names. */
BRAIDB_API braidb_code_t braidb_family_list(const braidb_t *db, const char ***names, size_t *count, braidb_error_t **err);

/* ---- Single keys --------------------------------------------------------------------------------------------------------------------- */

/* family may be NULL in all of them: the default family. snapshot may be NULL: now. */
BRAIDB_API braidb_code_t braidb_put(braidb_t *db, const braidb_family_t *family, braidb_slice_t key, braidb_slice_t value,
                                    braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_put_with(braidb_t *db, const braidb_family_t *family, braidb_slice_t key, braidb_slice_t value,
                                         braidb_durability_t durability, braidb_error_t **err);
/* A missing key is no error. */
BRAIDB_API braidb_code_t braidb_delete(braidb_t *db, const braidb_family_t *family, braidb_slice_t key, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_delete_with(braidb_t *db, const braidb_family_t *family, braidb_slice_t key,
                                            braidb_durability_t durability, braidb_error_t **err);
/* The value without a copy. It keeps a block, or a segment of memory, from being freed, so free it soon. */
BRAIDB_API braidb_code_t braidb_get(const braidb_t *db, const braidb_family_t *family, const braidb_snapshot_t *snapshot,
                                    braidb_slice_t key, braidb_value_t **value, braidb_error_t **err);
/*
 * Copies the value into a buffer, and its length to len. If it is longer than capacity: BRAIDB_SHORT_BUFFER, and nothing is copied. buffer
 * may be NULL if capacity is 0.
 */
BRAIDB_API braidb_code_t braidb_get_into(const braidb_t *db, const braidb_family_t *family, const braidb_snapshot_t *snapshot,
                                         braidb_slice_t key, void *buffer, size_t capacity, size_t *len, braidb_error_t **err);
/* BRAIDB_OK if the key is there, BRAIDB_NOT_FOUND if not. */
BRAIDB_API braidb_code_t braidb_contains(const braidb_t *db, const braidb_family_t *family, const braidb_snapshot_t *snapshot,
                                         braidb_slice_t key, braidb_error_t **err);
/*
 * The values of many keys at one moment, in less time than as many gets. values has room for count slices, and may be the array of the keys.
 * The slices lead into memory, which you free when you need no value any more. A missing key has data NULL.
 */
BRAIDB_API braidb_code_t braidb_get_many(const braidb_t *db, const braidb_family_t *family, const braidb_snapshot_t *snapshot,
                                         const braidb_slice_t *keys, size_t count, braidb_slice_t *values, void **memory,
                                         braidb_error_t **err);

/* Sets the key if it is not there. If it is, present gets its value, which you free, and nothing is written. present may be NULL. */
BRAIDB_API braidb_code_t braidb_put_if_absent(braidb_t *db, const braidb_family_t *family, braidb_slice_t key, braidb_slice_t value,
                                              braidb_value_t **present, braidb_error_t **err);
/*
 * Sets the key to *new_value if its value is *old_value, and tells whether it did. NULL for one of them is an absent key: with NULL for
 * new_value the key is deleted.
 */
BRAIDB_API braidb_code_t braidb_compare_and_swap(braidb_t *db, const braidb_family_t *family, braidb_slice_t key,
                                                 const braidb_slice_t *old_value, const braidb_slice_t *new_value, int32_t *is_swapped,
                                                 braidb_error_t **err);

BRAIDB_API const uint8_t *braidb_value_data(const braidb_value_t *value);
BRAIDB_API size_t braidb_value_len(const braidb_value_t *value);
BRAIDB_API void braidb_value_free(braidb_value_t *value);

/* ---- Batches ------------------------------------------------------------------------------------------------------------------------- */

BRAIDB_API braidb_batch_t *braidb_batch_create(void);
/* A batch with writes to families keeps their database open until it is cleared or freed. */
BRAIDB_API void braidb_batch_free(braidb_batch_t *batch);
BRAIDB_API braidb_code_t braidb_batch_clear(braidb_batch_t *batch, braidb_error_t **err);
/* A write that is refused leaves the batch as it was. All families of a batch belong to one database. */
BRAIDB_API braidb_code_t braidb_batch_put(braidb_batch_t *batch, const braidb_family_t *family, braidb_slice_t key, braidb_slice_t value,
                                          braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_batch_delete(braidb_batch_t *batch, const braidb_family_t *family, braidb_slice_t key,
                                             braidb_error_t **err);
/*
 * Adds count writes at once, or none. Each is packed as the length of its key (4 bytes, little-endian), the length of its value (the same),
 * the key and the value. A delete has the length 0xFFFFFFFF for its value, and no value.
 * Each counts with 18 bytes besides key and value towards the limit of 2 GiB.
 */
BRAIDB_API braidb_code_t braidb_batch_put_packed(braidb_batch_t *batch, const braidb_family_t *family, braidb_slice_t packed, size_t count,
                                                 braidb_error_t **err);
/* Adds all writes of other, which may be the same batch. */
BRAIDB_API braidb_code_t braidb_batch_append(braidb_batch_t *batch, const braidb_batch_t *other, braidb_error_t **err);
/* Calls back for each write, in their order. The callbacks must not change or free the batch. */
BRAIDB_API braidb_code_t braidb_batch_iterate(const braidb_batch_t *batch, braidb_put_callback on_put, braidb_delete_callback on_delete,
                                              void *context, braidb_error_t **err);
BRAIDB_API size_t braidb_batch_count(const braidb_batch_t *batch);
/* The bytes that the batch takes in the log, approximately. */
BRAIDB_API size_t braidb_batch_bytes(const braidb_batch_t *batch);
/* Writes all of the batch or nothing. The batch keeps its writes. */
BRAIDB_API braidb_code_t braidb_write(braidb_t *db, const braidb_batch_t *batch, braidb_durability_t durability, braidb_error_t **err);

/* ---- Snapshots ----------------------------------------------------------------------------------------------------------------------- */

/* A snapshot keeps old versions from being dropped, so free it soon. */
BRAIDB_API braidb_code_t braidb_snapshot_create(braidb_t *db, braidb_snapshot_t **snapshot, braidb_error_t **err);
BRAIDB_API void braidb_snapshot_free(braidb_snapshot_t *snapshot);

/* ---- Cursors ------------------------------------------------------------------------------------------------------------------------- */

/*
 * A cursor shows the moment when it was created, or that of the snapshot. It begins on no entry; braidb_cursor_next moves a new one to the
 * first entry, and braidb_cursor_prev to the last. Each movement returns BRAIDB_OK if the cursor stands on an entry then, and
 * BRAIDB_NOT_FOUND if it ran over an end, from which it comes back by a movement the other way. After an error only first, last and the
 * seeks move it again. lower belongs to the range, upper does not; braidb_none() is no bound.
 */
BRAIDB_API braidb_code_t braidb_cursor_create(braidb_t *db, const braidb_family_t *family, const braidb_snapshot_t *snapshot,
                                              braidb_slice_t lower, braidb_slice_t upper, braidb_cursor_t **cursor, braidb_error_t **err);
BRAIDB_API void braidb_cursor_free(braidb_cursor_t *cursor);
BRAIDB_API braidb_code_t braidb_cursor_first(braidb_cursor_t *cursor, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_cursor_last(braidb_cursor_t *cursor, braidb_error_t **err);
/* To the first entry whose key is key or larger. */
BRAIDB_API braidb_code_t braidb_cursor_seek(braidb_cursor_t *cursor, braidb_slice_t key, braidb_error_t **err);
/* To the last entry whose key is key or smaller. */
BRAIDB_API braidb_code_t braidb_cursor_seek_for_prev(braidb_cursor_t *cursor, braidb_slice_t key, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_cursor_next(braidb_cursor_t *cursor, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_cursor_prev(braidb_cursor_t *cursor, braidb_error_t **err);
/* 1 if the cursor stands on an entry, else 0. */
BRAIDB_API int32_t braidb_cursor_valid(const braidb_cursor_t *cursor);
/*
 * The key, or data NULL if the cursor stands on no entry. It is lent until the cursor moves or is freed, or braidb_cursor_value,
 * braidb_cursor_entry or a packed call reads a value: reading ahead may move the key. A seek may go to the lent key.
 */
BRAIDB_API braidb_slice_t braidb_cursor_key(const braidb_cursor_t *cursor);
/* The value, lent as long as the key. It is read now, so a walk over keys alone reads no values that lie apart. */
BRAIDB_API braidb_code_t braidb_cursor_value(braidb_cursor_t *cursor, braidb_slice_t *value, braidb_error_t **err);
/* Key and value at once, lent until the next such call, until the cursor moves, or is freed. */
BRAIDB_API braidb_code_t braidb_cursor_entry(braidb_cursor_t *cursor, braidb_slice_t *key, braidb_slice_t *value, braidb_error_t **err);
/*
 * Copies many entries at once into a buffer, in the form of braidb_batch_put_packed: the entry on which the cursor stands and those behind
 * it, as many as fit. A cursor that stands on no entry moves first, as by braidb_cursor_next. used gets their bytes, and count their number.
 * The cursor then stands on the first entry that was not copied. BRAIDB_NOT_FOUND: there is none. BRAIDB_SHORT_BUFFER: not even one fits, used
 * gets the bytes that it needs, and the cursor stands on it. An error behind some entries comes from the next call.
 */
BRAIDB_API braidb_code_t braidb_cursor_next_packed(braidb_cursor_t *cursor, void *buffer, size_t capacity, size_t *used, size_t *count,
                                                   braidb_error_t **err);
/* The same against key order: the entry on which the cursor stands, and those before it. */
BRAIDB_API braidb_code_t braidb_cursor_prev_packed(braidb_cursor_t *cursor, void *buffer, size_t capacity, size_t *used, size_t *count,
                                                   braidb_error_t **err);
/* The error of the last movement, for loops that ask braidb_cursor_valid only. */
BRAIDB_API braidb_code_t braidb_cursor_status(const braidb_cursor_t *cursor, braidb_error_t **err);

/* ---- Transactions -------------------------------------------------------------------------------------------------------------------- */

/*
 * All reads are of the moment when the transaction was created, with its own writes over them. The commit writes all, unless another write
 * changed a key or a range that was read: BRAIDB_CONFLICT, and nothing was written. Begin again with a new transaction then. A commit and a
 * rollback end the transaction, also with an error: later calls return BRAIDB_INVALID until it is freed. It goes on where the call was refused:
 * a number that is no durability, or a call from the callback of its own scan (BRAIDB_INVALID). Freeing rolls back.
 */
BRAIDB_API braidb_code_t braidb_txn_create(braidb_t *db, braidb_txn_t **txn, braidb_error_t **err);
BRAIDB_API void braidb_txn_free(braidb_txn_t *txn);
BRAIDB_API braidb_code_t braidb_txn_put(braidb_txn_t *txn, const braidb_family_t *family, braidb_slice_t key, braidb_slice_t value,
                                        braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_txn_delete(braidb_txn_t *txn, const braidb_family_t *family, braidb_slice_t key, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_txn_get(const braidb_txn_t *txn, const braidb_family_t *family, braidb_slice_t key, braidb_value_t **value,
                                        braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_txn_get_into(const braidb_txn_t *txn, const braidb_family_t *family, braidb_slice_t key, void *buffer,
                                             size_t capacity, size_t *len, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_txn_contains(const braidb_txn_t *txn, const braidb_family_t *family, braidb_slice_t key,
                                             braidb_error_t **err);
/*
 * Calls back for each entry of a range. What was called back, and the space between, counts as read. The callback may use the transaction,
 * but does not see what it writes, and cannot end it. It must not wait for a thread that ends it.
 */
BRAIDB_API braidb_code_t braidb_txn_scan(const braidb_txn_t *txn, const braidb_family_t *family, braidb_slice_t lower,
                                         braidb_slice_t upper, int32_t is_backward, braidb_entry_callback on_entry, void *context,
                                         braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_txn_commit(braidb_txn_t *txn, braidb_durability_t durability, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_txn_rollback(braidb_txn_t *txn, braidb_error_t **err);

/* ---- Overlays ------------------------------------------------------------------------------------------------------------------------ */

/*
 * Staged writes that the reads of the overlay see over the database, and a commit writes in one batch. An overlay finds no conflicts. After
 * a commit it is empty and may be used again; after a commit that failed all is still staged.
 */
BRAIDB_API braidb_code_t braidb_overlay_create(braidb_t *db, braidb_overlay_t **overlay, braidb_error_t **err);
BRAIDB_API void braidb_overlay_free(braidb_overlay_t *overlay);
BRAIDB_API braidb_code_t braidb_overlay_put(braidb_overlay_t *overlay, const braidb_family_t *family, braidb_slice_t key,
                                            braidb_slice_t value, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_overlay_delete(braidb_overlay_t *overlay, const braidb_family_t *family, braidb_slice_t key,
                                               braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_overlay_get(const braidb_overlay_t *overlay, const braidb_family_t *family, braidb_slice_t key,
                                            braidb_value_t **value, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_overlay_get_into(const braidb_overlay_t *overlay, const braidb_family_t *family, braidb_slice_t key,
                                                 void *buffer, size_t capacity, size_t *len, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_overlay_contains(const braidb_overlay_t *overlay, const braidb_family_t *family, braidb_slice_t key,
                                                 braidb_error_t **err);
/* Calls back for each entry of a range at this moment. The callback may stage writes, which it does not see. */
BRAIDB_API braidb_code_t braidb_overlay_scan(const braidb_overlay_t *overlay, const braidb_family_t *family, braidb_slice_t lower,
                                             braidb_slice_t upper, int32_t is_backward, braidb_entry_callback on_entry, void *context,
                                             braidb_error_t **err);
/* The number of keys that are staged. */
BRAIDB_API braidb_code_t braidb_overlay_count(const braidb_overlay_t *overlay, size_t *count, braidb_error_t **err);
/* The bytes that the staged writes take in the log, approximately. */
BRAIDB_API braidb_code_t braidb_overlay_bytes(const braidb_overlay_t *overlay, size_t *bytes, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_overlay_clear(braidb_overlay_t *overlay, braidb_error_t **err);
BRAIDB_API braidb_code_t braidb_overlay_commit(braidb_overlay_t *overlay, braidb_durability_t durability, braidb_error_t **err);

/* ---- Slow tiers ---------------------------------------------------------------------------------------------------------------------- */

/* Moves everything off a slow tier and takes the tier out of the database. on_progress gets the bytes that are left, or is NULL. */
BRAIDB_API braidb_code_t braidb_evacuate(braidb_t *db, const char *path, braidb_progress_callback on_progress, void *context,
                                         braidb_error_t **err);
/* braidb_checkpoint of a database with slow tiers: tiers has the directory of each, and a directory for its copy. */
BRAIDB_API braidb_code_t braidb_checkpoint_to(braidb_t *db, const char *dir, const braidb_tier_copy_t *tiers, size_t count, char **json,
                                              braidb_error_t **err);

/* ---- Salvage ------------------------------------------------------------------------------------------------------------------------- */

/*
 * Calls back for each entry of a range that can be proved, and for each hole, in key order. Use it where braidb_verify finds damage: on a
 * copy of the directory, opened to read with the option open_damaged.
 */
BRAIDB_API braidb_code_t braidb_salvage(const braidb_t *db, const braidb_family_t *family, braidb_slice_t lower, braidb_slice_t upper,
                                        braidb_entry_callback on_entry, braidb_hole_callback on_hole, void *context, braidb_error_t **err);

/* ---- Facts --------------------------------------------------------------------------------------------------------------------------- */

/* What the database holds now, and what it did since this open, as JSON, which you free. */
BRAIDB_API braidb_code_t braidb_stats(const braidb_t *db, char **json, braidb_error_t **err);
/* One number of the statistics, by its name there. Names that end in _total count since the open. */
BRAIDB_API braidb_code_t braidb_metric(const braidb_t *db, const char *name, double *value, braidb_error_t **err);
/* All numbers as text that Prometheus reads: "braidb_NAME NUMBER", one a line. You free it. */
BRAIDB_API braidb_code_t braidb_metrics(const braidb_t *db, char **text, braidb_error_t **err);
/* Estimates what each of count ranges holds, without reading them. */
BRAIDB_API braidb_code_t braidb_estimate(const braidb_t *db, const braidb_family_t *family, const braidb_range_t *ranges, size_t count,
                                         braidb_estimate_t *estimates, braidb_error_t **err);

#ifdef __cplusplus
}
#endif

#endif /* BRAIDB_H */
