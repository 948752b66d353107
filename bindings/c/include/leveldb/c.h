/*
 * LevelDB's C interface, of version 1.23, over BraidDB. A program that was written for leveldb/c.h compiles with this header unchanged,
 * and a program that was compiled with LevelDB's header runs with this library. docs/c.md lists what differs.
 *
 * ERRORS. A function with an errptr reports an error there: *errptr becomes a text in memory of malloc, which you free by leveldb_free.
 * Before the call *errptr is NULL, or a text of malloc, which the function frees if it puts another one there. Success leaves *errptr as
 * it is. A text begins with "Corruption: ", "Not implemented: ", "Invalid argument: " or "IO error: ".
 *
 * ARGUMENTS. A handle is one that the library returned and that was not destroyed. Bytes have the length that is passed with them, and no
 * thread changes them during the call. The library copies them. A flag is 0, or anything else for yes.
 *
 * THREADS. Any number of threads may use a database, a snapshot, and options that do not change. One thread at a time may use a batch or
 * an iterator; functions that take a const one may run beside each other. No thread may use a handle that another one destroys or closes.
 *
 * AFTER leveldb_close the directory is free, whatever handles there are. Iterators and snapshots may be destroyed later; an iterator that
 * moves has no entry any more.
 *
 * FORKS. In a forked child all handles that were opened before the fork fail, and the parent loses nothing.
 *
 * PANICS. A bug in the library does not end your process: the call fails with "IO error: ", and the text tells where.
 *
 * CALLBACKS must return. A longjmp or a C++ exception through a callback ends the process.
 */
#ifndef BRAIDB_LEVELDB_C_H
#define BRAIDB_LEVELDB_C_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAIDB_LEVELDB_API extern

/* ---- Types --------------------------------------------------------------------------------------------------------------------------- */

typedef struct leveldb_t leveldb_t;                           /* an open database */
typedef struct leveldb_options_t leveldb_options_t;           /* how to open one */
typedef struct leveldb_readoptions_t leveldb_readoptions_t;   /* how to read */
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t; /* how to write */
typedef struct leveldb_writebatch_t leveldb_writebatch_t;     /* writes that happen together or not at all */
typedef struct leveldb_iterator_t leveldb_iterator_t;         /* a place among the entries */
typedef struct leveldb_snapshot_t leveldb_snapshot_t;         /* the database at one moment */
typedef struct leveldb_cache_t leveldb_cache_t;               /* the size of a cache of blocks */
typedef struct leveldb_comparator_t leveldb_comparator_t;     /* an order of keys */
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t; /* how filters are made */
typedef struct leveldb_env_t leveldb_env_t;                   /* files and threads of the system */
typedef struct leveldb_logger_t leveldb_logger_t;             /* no function makes one */

/* Names that LevelDB's header declares, and that no function uses. */
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;

/* ---- Databases ----------------------------------------------------------------------------------------------------------------------- */

/* Opens the database in the directory `name`. Creates this directory if the options say so, and none above it. Returns NULL after an error. A
   directory of LevelDB itself is refused. */
BRAIDB_LEVELDB_API leveldb_t *leveldb_open(const leveldb_options_t *options, const char *name, char **errptr);

/* Closes the database. All writes are on the disk then. */
BRAIDB_LEVELDB_API void leveldb_close(leveldb_t *db);

/* Keys have at most 64 KiB, and values 1 GiB. */
BRAIDB_LEVELDB_API void leveldb_put(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key, size_t keylen, const char *val,
                                    size_t vallen, char **errptr);

/* A missing key is no error. */
BRAIDB_LEVELDB_API void leveldb_delete(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key, size_t keylen, char **errptr);

/* Writes all of the batch, which stays as it is. Batches have at most 2 GiB. Refuses a batch to which something could not be added. */
BRAIDB_LEVELDB_API void leveldb_write(leveldb_t *db, const leveldb_writeoptions_t *options, leveldb_writebatch_t *batch, char **errptr);

/* The value, in memory that you free by leveldb_free, and its length in *vallen. NULL and 0 for a missing key, which is no error. */
BRAIDB_LEVELDB_API char *leveldb_get(leveldb_t *db, const leveldb_readoptions_t *options, const char *key, size_t keylen, size_t *vallen,
                                     char **errptr);

/* An iterator over the entries that there are now, or in the snapshot of the options. It stands on none until it jumps. */
BRAIDB_LEVELDB_API leveldb_iterator_t *leveldb_create_iterator(leveldb_t *db, const leveldb_readoptions_t *options);

BRAIDB_LEVELDB_API const leveldb_snapshot_t *leveldb_create_snapshot(leveldb_t *db);

/* Reads with options that still name the snapshot fail from here on. */
BRAIDB_LEVELDB_API void leveldb_release_snapshot(leveldb_t *db, const leveldb_snapshot_t *snapshot);

/* The text of a property, which you free: leveldb.num-files-at-levelN with N from 0 to 6, leveldb.stats, leveldb.sstables,
   leveldb.approximate-memory-usage. NULL for others. */
BRAIDB_LEVELDB_API char *leveldb_property_value(leveldb_t *db, const char *propname);

/* About how many bytes each range has, memory included. A start belongs to its range, and a limit does not. */
BRAIDB_LEVELDB_API void leveldb_approximate_sizes(leveldb_t *db, int num_ranges, const char *const *range_start_key,
                                                  const size_t *range_start_key_len, const char *const *range_limit_key,
                                                  const size_t *range_limit_key_len, uint64_t *sizes);

/* Merges what lies from one key to the other, both included. NULL is before or behind all keys. */
BRAIDB_LEVELDB_API void leveldb_compact_range(leveldb_t *db, const char *start_key, size_t start_key_len, const char *limit_key,
                                              size_t limit_key_len);

/* Deletes the database in the directory `name`, which must not be open. A missing one is no error. The directory and its empty file LOCK
   stay. */
BRAIDB_LEVELDB_API void leveldb_destroy_db(const leveldb_options_t *options, const char *name, char **errptr);

/* Reads every byte of the database. Changes nothing: it succeeds if nothing is damaged, and otherwise tells what to do. */
BRAIDB_LEVELDB_API void leveldb_repair_db(const leveldb_options_t *options, const char *name, char **errptr);

/* ---- Iterators ----------------------------------------------------------------------------------------------------------------------- */

BRAIDB_LEVELDB_API void leveldb_iter_destroy(leveldb_iterator_t *iterator);

/* Whether the iterator stands on an entry. It stands on none behind both ends, and after an error. */
BRAIDB_LEVELDB_API uint8_t leveldb_iter_valid(const leveldb_iterator_t *iterator);

BRAIDB_LEVELDB_API void leveldb_iter_seek_to_first(leveldb_iterator_t *iterator);
BRAIDB_LEVELDB_API void leveldb_iter_seek_to_last(leveldb_iterator_t *iterator);

/* Jumps to the first entry whose key is `k` or larger. */
BRAIDB_LEVELDB_API void leveldb_iter_seek(leveldb_iterator_t *iterator, const char *k, size_t klen);

/* Moves by one entry. An iterator that stands on none stays where it is. */
BRAIDB_LEVELDB_API void leveldb_iter_next(leveldb_iterator_t *iterator);
BRAIDB_LEVELDB_API void leveldb_iter_prev(leveldb_iterator_t *iterator);

/* The key and the value on which the iterator stands, until it moves. NULL and the length 0 if it stands on no entry. */
BRAIDB_LEVELDB_API const char *leveldb_iter_key(const leveldb_iterator_t *iterator, size_t *klen);
BRAIDB_LEVELDB_API const char *leveldb_iter_value(const leveldb_iterator_t *iterator, size_t *vlen);

/* The first error of the iterator, which stays. */
BRAIDB_LEVELDB_API void leveldb_iter_get_error(const leveldb_iterator_t *iterator, char **errptr);

/* ---- Batches ------------------------------------------------------------------------------------------------------------------------- */

BRAIDB_LEVELDB_API leveldb_writebatch_t *leveldb_writebatch_create(void);
BRAIDB_LEVELDB_API void leveldb_writebatch_destroy(leveldb_writebatch_t *batch);
BRAIDB_LEVELDB_API void leveldb_writebatch_clear(leveldb_writebatch_t *batch);
BRAIDB_LEVELDB_API void leveldb_writebatch_put(leveldb_writebatch_t *batch, const char *key, size_t klen, const char *val, size_t vlen);
BRAIDB_LEVELDB_API void leveldb_writebatch_delete(leveldb_writebatch_t *batch, const char *key, size_t klen);

/* Calls back for each write, in order: with the state, the key and its length, and for a put the value and its length. */
BRAIDB_LEVELDB_API void leveldb_writebatch_iterate(const leveldb_writebatch_t *batch, void *state,
                                                   void (*put)(void *, const char *, size_t, const char *, size_t),
                                                   void (*deleted)(void *, const char *, size_t));

/* Adds the writes of `source`, which may be the same batch. */
BRAIDB_LEVELDB_API void leveldb_writebatch_append(leveldb_writebatch_t *destination, const leveldb_writebatch_t *source);

/* ---- Options of an open -------------------------------------------------------------------------------------------------------------- */

BRAIDB_LEVELDB_API leveldb_options_t *leveldb_options_create(void);
BRAIDB_LEVELDB_API void leveldb_options_destroy(leveldb_options_t *options);

/* Whether a missing database is created. Default: no. */
BRAIDB_LEVELDB_API void leveldb_options_set_create_if_missing(leveldb_options_t *options, uint8_t yes);

/* Whether an open fails if there is a database. Default: no. */
BRAIDB_LEVELDB_API void leveldb_options_set_error_if_exists(leveldb_options_t *options, uint8_t yes);

/* Any comparator makes leveldb_open fail, unless the environment variable BRAIDB_BYTEWISE_COMPARATORS has its name. */
BRAIDB_LEVELDB_API void leveldb_options_set_comparator(leveldb_options_t *options, leveldb_comparator_t *comparator);

/* Sizes that BraidDB does not take become the nearest ones that it takes. */
BRAIDB_LEVELDB_API void leveldb_options_set_write_buffer_size(leveldb_options_t *options, size_t bytes);
BRAIDB_LEVELDB_API void leveldb_options_set_max_open_files(leveldb_options_t *options, int files);
BRAIDB_LEVELDB_API void leveldb_options_set_block_size(leveldb_options_t *options, size_t bytes);
BRAIDB_LEVELDB_API void leveldb_options_set_max_file_size(leveldb_options_t *options, size_t bytes);

/* Each database that is opened with these options gets a cache of the size of this one. */
BRAIDB_LEVELDB_API void leveldb_options_set_cache(leveldb_options_t *options, leveldb_cache_t *cache);

/* ---- Options of an open that have no effect ------------------------------------------------------------------------------------------ */

BRAIDB_LEVELDB_API void leveldb_options_set_paranoid_checks(leveldb_options_t *options, uint8_t yes);
BRAIDB_LEVELDB_API void leveldb_options_set_filter_policy(leveldb_options_t *options, leveldb_filterpolicy_t *policy);
BRAIDB_LEVELDB_API void leveldb_options_set_env(leveldb_options_t *options, leveldb_env_t *env);
BRAIDB_LEVELDB_API void leveldb_options_set_info_log(leveldb_options_t *options, leveldb_logger_t *logger);
BRAIDB_LEVELDB_API void leveldb_options_set_block_restart_interval(leveldb_options_t *options, int entries);

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
BRAIDB_LEVELDB_API void leveldb_options_set_compression(leveldb_options_t *options, int kind);

/* ---- Comparators and filter policies ------------------------------------------------------------------------------------------------- */

/* `compare` is never called. `name` is called by leveldb_options_set_comparator. */
BRAIDB_LEVELDB_API leveldb_comparator_t *leveldb_comparator_create(void *state, void (*destructor)(void *),
                                                                   int (*compare)(void *, const char *, size_t, const char *, size_t),
                                                                   const char *(*name)(void *));

/* Calls the destructor with the state. */
BRAIDB_LEVELDB_API void leveldb_comparator_destroy(leveldb_comparator_t *comparator);

/* Only the destructor is ever called. */
BRAIDB_LEVELDB_API leveldb_filterpolicy_t *leveldb_filterpolicy_create(void *state, void (*destructor)(void *),
                                                                       char *(*create_filter)(void *, const char *const *, const size_t *,
                                                                                              int, size_t *),
                                                                       uint8_t (*key_may_match)(void *, const char *, size_t, const char *,
                                                                                                size_t),
                                                                       const char *(*name)(void *));
BRAIDB_LEVELDB_API leveldb_filterpolicy_t *leveldb_filterpolicy_create_bloom(int bits_per_key);

/* Calls the destructor with the state. */
BRAIDB_LEVELDB_API void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t *policy);

/* ---- Options of reads and writes ----------------------------------------------------------------------------------------------------- */

BRAIDB_LEVELDB_API leveldb_readoptions_t *leveldb_readoptions_create(void);
BRAIDB_LEVELDB_API void leveldb_readoptions_destroy(leveldb_readoptions_t *options);

/* NULL reads what there is now. */
BRAIDB_LEVELDB_API void leveldb_readoptions_set_snapshot(leveldb_readoptions_t *options, const leveldb_snapshot_t *snapshot);

/* No effect: every block is checked when it is read from a file. */
BRAIDB_LEVELDB_API void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t *options, uint8_t yes);

/* No effect: blocks that are read once do not drive out others. */
BRAIDB_LEVELDB_API void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t *options, uint8_t yes);

BRAIDB_LEVELDB_API leveldb_writeoptions_t *leveldb_writeoptions_create(void);
BRAIDB_LEVELDB_API void leveldb_writeoptions_destroy(leveldb_writeoptions_t *options);

/* With sync a write is on stable storage when the call returns. Without, a killed process loses nothing, and a power failure the last
   writes. */
BRAIDB_LEVELDB_API void leveldb_writeoptions_set_sync(leveldb_writeoptions_t *options, uint8_t yes);

/* ---- Cache, environment, memory, version --------------------------------------------------------------------------------------------- */

BRAIDB_LEVELDB_API leveldb_cache_t *leveldb_cache_create_lru(size_t capacity);
BRAIDB_LEVELDB_API void leveldb_cache_destroy(leveldb_cache_t *cache);

BRAIDB_LEVELDB_API leveldb_env_t *leveldb_create_default_env(void);
BRAIDB_LEVELDB_API void leveldb_env_destroy(leveldb_env_t *env);

/* A directory for tests, which is made: that of the environment variable TEST_TMPDIR, or one of the user. You free the text. */
BRAIDB_LEVELDB_API char *leveldb_env_get_test_directory(leveldb_env_t *env);

/* Frees memory that the library returned. NULL is fine. */
BRAIDB_LEVELDB_API void leveldb_free(void *ptr);

/* The version of LevelDB whose interface this is: 1 and 23. */
BRAIDB_LEVELDB_API int leveldb_major_version(void);
BRAIDB_LEVELDB_API int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif

#endif
