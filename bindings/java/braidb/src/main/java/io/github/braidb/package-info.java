/**
 * BraidDB: an embedded, ordered, persistent key-value store. {@link io.github.braidb.BraidDb} is the place to begin.
 *
 * <p>Keys and values are arrays of bytes. Keys sort as unsigned bytes, and a key sorts before its extensions. A key has at most 65,536
 * bytes, a value 1 GiB; both may be empty. No argument is kept: the caller may change an array once a call has returned.
 *
 * <p>All errors are {@link io.github.braidb.BraidException}, which is unchecked and has a {@link io.github.braidb.BraidException.Code}. A
 * call on a closed object throws it with the code {@code CLOSED}. An argument that is null throws {@link NullPointerException}.
 */
package io.github.braidb;
