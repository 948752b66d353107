"""The classes of plyvel 1.5.1 on top of BraidDB.

Programs for plyvel run with `from braidb import plyvel`, or after `sys.modules["plyvel"] = braidb.plyvel`. A database of LevelDB is not opened:
the files are those of BraidDB. docs/python.md lists what differs.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from braidb import _core
from braidb._errors import ClosedError, CorruptionError, Error, IOError, MissingError

__all__ = [
    "DB",
    "CorruptionError",
    "Error",
    "IOError",
    "Iterator",
    "IteratorInvalidError",
    "PrefixedDB",
    "RawIterator",
    "Snapshot",
    "WriteBatch",
    "destroy_db",
    "repair_db",
]

__version__ = "1.5.1"
# The version of LevelDB whose functions plyvel 1.5.1 has.
__leveldb_version__ = "1.23"

# The names of comparators that order keys as bytes, with commas between them. An open refuses other comparators.
_COMPARATORS = "BRAIDB_BYTEWISE_COMPARATORS"


class IteratorInvalidError(Error):
    """The raw iterator stands on no entry."""


def _comparator(comparator: Callable[[bytes, bytes], int] | None, name: bytes | None) -> None:
    """Refuses a comparator, unless the user says that it orders keys as bytes."""
    if (comparator is None) != (name is None):
        raise ValueError("'comparator' and 'comparator_name' must be given together")
    if comparator is None or name is None:
        return
    if not callable(comparator):
        raise TypeError("'comparator' must be callable")
    if not isinstance(name, bytes):
        raise TypeError("'comparator_name' must be bytes")
    declared = [each.strip() for each in os.environ.get(_COMPARATORS, "").split(",")]
    if not name or name.decode(errors="replace") not in declared:
        raise Error(
            f"comparator {name!r}: BraidDB orders keys as bytes, and no other order would find them again; "
            f"encode keys so that they sort as bytes, or, if this comparator does order them as bytes, "
            f"name it in the environment variable {_COMPARATORS}",
            "UNSUPPORTED",
        )


def _within(value: Any, low: int, high: int) -> int:
    """The whole number that is nearest to `value` in a range. LevelDB refuses no size either."""
    return min(max(operator.index(value), low), high)


def _options(
    paranoid_checks: bool | None,
    write_buffer_size: int | None,
    max_open_files: int | None,
    lru_cache_size: int | None,
    block_size: int | None,
    block_restart_interval: int | None,
    max_file_size: int | None,
    compression: str | bytes | None,
    bloom_filter_bits: int,
    comparator: Callable[[bytes, bytes], int] | None,
    comparator_name: bytes | None,
) -> dict[str, Any]:
    """The options of BraidDB for those of LevelDB. `paranoid_checks`, `block_restart_interval` and `compression` have no effect."""
    if isinstance(compression, bytes):
        compression = compression.decode()
    if compression is not None and not isinstance(compression, str):
        raise TypeError("'compression' must be None or a str")
    if compression not in (None, "snappy"):
        raise ValueError("'compression' must be None or 'snappy'")
    _comparator(comparator, comparator_name)
    options: dict[str, Any] = {}
    if write_buffer_size is not None:
        options["memtable_bytes"] = _within(write_buffer_size, 4 << 10, 2 << 30)
    if max_open_files is not None:
        options["open_files"] = _within(max_open_files, 16, 1_000_000)
    if lru_cache_size is not None:
        options["block_cache_bytes"] = _within(lru_cache_size, 0, 1 << 40)
    if block_size is not None:
        options["block_bytes"] = _within(block_size, 64, 1 << 20)
    if max_file_size is not None:
        options["table_bytes"] = _within(max_file_size, 1 << 20, 1 << 30)
    if bloom_filter_bits > 0:
        options["filter_bits_per_key"] = _within(bloom_filter_bits, 1, 32)
    return options


def _bytes(value: Any, what: str) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{what} must be bytes")
    return value


class DB:
    """A database."""

    def __init__(
        self,
        name: str | bytes | os.PathLike[str],
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: bool | None = None,
        write_buffer_size: int | None = None,
        max_open_files: int | None = None,
        lru_cache_size: int | None = None,
        block_size: int | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | None = None,
        compression: str | bytes | None = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Callable[[bytes, bytes], int] | None = None,
        comparator_name: bytes | None = None,
    ) -> None:
        self._name = name
        path = os.fsdecode(name)
        options = _options(
            paranoid_checks,
            write_buffer_size,
            max_open_files,
            lru_cache_size,
            block_size,
            block_restart_interval,
            max_file_size,
            compression,
            bloom_filter_bits,
            comparator,
            comparator_name,
        )
        if error_if_exists and not create_if_missing and not os.path.lexists(os.path.join(path, "CURRENT")):
            # `create_new` would create the database.
            raise MissingError(f"there is no database in {path}; `create_if_missing=True` creates one", "MISSING", path)
        self._db = _core.open(path, create=create_if_missing, create_new=error_if_exists, **options)

    @property
    def name(self) -> str | bytes | os.PathLike[str]:
        """The name with which the database was opened."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether the database was closed."""
        return self._db.closed

    def close(self) -> None:
        """Closes the database. All later calls raise RuntimeError."""
        self._db.close()

    def __enter__(self) -> DB:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<braidb.plyvel.DB with name {self._name!r}{' (closed)' if self.closed else ''}>"

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """The value of a key, or `default`."""
        return self._db.get(key, default)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets a key to a value."""
        self._db.put(key, value, durability="sync" if sync else None)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Removes a key. A missing key is no error."""
        self._db.delete(key, durability="sync" if sync else None)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """An empty batch."""
        return WriteBatch(self, b"", transaction, sync)

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator:
        """An iterator over a range."""
        range_ = _Range(b"", start, stop, include_start, include_stop, prefix)
        return Iterator(self._db.snapshot(), True, range_, reverse, include_key, include_value)

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator with the calls of LevelDB's own."""
        return RawIterator(self._db.cursor())

    def snapshot(self) -> Snapshot:
        """The database as it is now."""
        return Snapshot(self, b"")

    def get_property(self, name: bytes) -> bytes | None:
        """A property by its name, such as b"leveldb.stats"; None if there is no such property."""
        return _property(self._db.stats(), _bytes(name, "the name"))

    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None:
        """Compacts a range."""
        self._db.compact(start, stop)

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        """About how many bytes a range has in files and memory."""
        return self._db.approximate_size(_bytes(start, "the start"), _bytes(stop, "the stop"))

    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]:
        """As `approximate_size`, of several ranges."""
        return [self.approximate_size(start, stop) for start, stop in ranges]

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """The keys that begin with a prefix, without it."""
        return PrefixedDB(db=self, prefix=prefix)


class PrefixedDB:
    """A view of a database in which all keys have a prefix that the caller does not see."""

    def __init__(self, *, db: DB, prefix: bytes) -> None:
        self._db = db
        self._prefix = _bytes(prefix, "the prefix")

    @property
    def db(self) -> DB:
        """The database."""
        return self._db

    @property
    def prefix(self) -> bytes:
        """The prefix of all keys."""
        return self._prefix

    def __repr__(self) -> str:
        return f"<braidb.plyvel.PrefixedDB with prefix {self._prefix!r}>"

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """The value of a key, or `default`."""
        return self._db.get(self._prefix + key, default)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets a key to a value."""
        self._db.put(self._prefix + key, value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Removes a key. A missing key is no error."""
        self._db.delete(self._prefix + key, sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """An empty batch."""
        return WriteBatch(self._db, self._prefix, transaction, sync)

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator:
        """An iterator over a range."""
        range_ = _Range(self._prefix, start, stop, include_start, include_stop, prefix)
        return Iterator(self._db._db.snapshot(), True, range_, reverse, include_key, include_value)

    def snapshot(self) -> Snapshot:
        """The database as it is now."""
        return Snapshot(self._db, self._prefix)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """The keys that begin with this prefix and a further one."""
        return PrefixedDB(db=self._db, prefix=self._prefix + prefix)


class WriteBatch:
    """Writes that happen together or not at all."""

    def __init__(self, db: DB, prefix: bytes, transaction: bool, sync: bool) -> None:
        self._batch = db._db.batch(durability="sync" if sync else None)
        self._prefix = prefix
        self._transaction = transaction

    def put(self, key: bytes, value: Any) -> None:
        """Adds a put."""
        self._batch.put(self._prefix + key if self._prefix else key, value)

    def delete(self, key: bytes) -> None:
        """Adds a delete."""
        self._batch.delete(self._prefix + key if self._prefix else key)

    def clear(self) -> None:
        """Removes all writes."""
        self._batch.clear()

    def append(self, source: WriteBatch) -> None:
        """Adds all writes of another batch."""
        self._batch.append(source._batch)

    def approximate_size(self) -> int:
        """About how many bytes the writes have."""
        return self._batch.bytes

    def write(self) -> None:
        """Writes all, or nothing. The batch keeps its writes."""
        self._batch.write()

    def __enter__(self) -> WriteBatch:
        len(self._batch)  # Fails if the database is closed.
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None or not self._transaction:
            self.write()
        self.clear()


class Snapshot:
    """The database at one moment."""

    def __init__(self, db: DB, prefix: bytes) -> None:
        self._snapshot = db._db.snapshot()
        self._prefix = prefix

    def close(self) -> None:
        """Lets the moment go. A second call does nothing."""
        self._snapshot.close()

    release = close

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """The value of a key, or `default`."""
        return self._snapshot.get(self._prefix + key if self._prefix else key, default)

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Iterator:
        """An iterator over a range."""
        range_ = _Range(self._prefix, start, stop, include_start, include_stop, prefix)
        return Iterator(self._snapshot, False, range_, reverse, include_key, include_value)

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator with the calls of LevelDB's own."""
        return RawIterator(self._snapshot.cursor())


def _behind(prefix: bytes) -> bytes | None:
    """The smallest key behind all keys that begin with a prefix; None if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


class _Range:
    """The keys that an iterator covers, with the prefix that its caller does not see."""

    __slots__ = ("hidden", "include_start", "include_stop", "start", "stop")

    def __init__(
        self,
        hidden: bytes,
        start: bytes | None,
        stop: bytes | None,
        include_start: bool,
        include_stop: bool,
        prefix: bytes | None,
    ) -> None:
        self.hidden = hidden
        if prefix is not None:
            if start is not None or stop is not None:
                raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
            hidden = hidden + _bytes(prefix, "the prefix")
        if start is None:
            self.start, self.include_start = hidden or None, True
        else:
            self.start, self.include_start = hidden + _bytes(start, "the start"), include_start
        if stop is None:
            self.stop, self.include_stop = _behind(hidden), False
        else:
            self.stop, self.include_stop = hidden + _bytes(stop, "the stop"), include_stop


# A place between two entries is _START, _END, or a pair of a key and whether the place is behind the key.
_Place = tuple[bytes, bool] | None
_START: Final = (b"", False)
_END: Final = None


class Iterator:
    """A place between two entries of a range, with `next` and `prev` to move over them.

    Entries come from an iterator of BraidDB, which fetches them in chunks. A turn and a seek begin another one at the place, on the same
    snapshot.
    """

    __slots__ = ("_ahead", "_ended", "_forward", "_hidden", "_kind", "_owns", "_place", "_range", "_reverse", "_snapshot", "_walk")

    def __init__(
        self,
        snapshot: _core.Snapshot,
        owns: bool,
        range_: _Range,
        reverse: bool,
        include_key: bool,
        include_value: bool,
    ) -> None:
        self._snapshot = snapshot
        # Whether the snapshot ends with this iterator.
        self._owns = owns
        self._range = range_
        self._reverse = bool(reverse)
        if include_key and include_value:
            self._kind = "items"
        elif include_value:
            self._kind = "values"
        else:
            self._kind = "keys" if include_key else "nothing"
        # How many bytes of each key the caller does not see. Values have no such bytes, and `nothing` is no bytes at all.
        self._hidden = len(range_.hidden) if include_key else 0
        # The walk from the place, if there is one: whether it goes in key order, and whether it came to its end.
        self._walk: Any = None
        self._forward = True
        self._ended = False
        # The walk, if `next` goes on with it.
        self._ahead: Any = None
        self._place: _Place = _END if reverse else _START
        # The moment of the iterator is that of its creation, even if the snapshot is closed.
        self._begin(not self._reverse)

    def _begin(self, forward: bool) -> Any:
        """Begins a walk from the place."""
        range_, place = self._range, self._place
        low, low_in, high, high_in = range_.start, range_.include_start, range_.stop, range_.include_stop
        if forward and place is _END or not forward and place is _START:
            low, low_in, high, high_in = b"", True, b"", False
        elif place is not _END and place is not _START:
            key, behind = place
            if forward:
                if low is None or key > low:
                    low, low_in = key, not behind
                elif key == low:
                    low_in = low_in and not behind
            elif high is None or key < high:
                high, high_in = key, behind
            elif key == high:
                high_in = high_in and behind
        make = getattr(self._snapshot, "keys" if self._kind == "nothing" else self._kind)
        self._walk = make(low, high, reverse=not forward, include_start=low_in, include_stop=high_in)
        self._forward, self._ended = forward, False
        self._ahead = self._walk if forward != self._reverse else None
        return self._walk

    def _turn(self, forward: bool) -> Any:
        """The walk in a direction, which begins where the other one stands."""
        if self._snapshot is None:
            raise ClosedError("the iterator was closed; make another one", "CLOSED")
        if self._walk is not None:
            if self._forward == forward:
                return self._walk
            key = self._walk.key
            if self._ended:
                self._place = _END if self._forward else _START
            elif key is not None:
                self._place = (key, self._forward)
        return self._begin(forward)

    def _jump(self, place: _Place) -> None:
        if self._snapshot is None:
            raise ClosedError("the iterator was closed; make another one", "CLOSED")
        self._walk = self._ahead = None
        self._place = place

    def _shaped(self, entry: Any) -> Any:
        """An entry without what the caller does not see."""
        if self._kind == "nothing":
            return None
        if self._kind == "items":
            return entry[0][self._hidden :], entry[1]
        return entry[self._hidden :]

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        walk = self._ahead
        if walk is None:
            walk = self._turn(not self._reverse)
        try:
            entry = next(walk)
        except StopIteration:
            self._ended = True
            raise
        return self._shaped(entry) if self._hidden or self._kind == "nothing" else entry

    def prev(self) -> Any:
        """Moves one entry back and returns it. Raises StopIteration at the begin."""
        walk = self._turn(self._reverse)
        try:
            entry = next(walk)
        except StopIteration:
            self._ended = True
            raise
        return self._shaped(entry) if self._hidden or self._kind == "nothing" else entry

    def seek(self, target: bytes) -> None:
        """Moves in front of the first key of the range that is `target` or larger."""
        range_ = self._range
        target = range_.hidden + _bytes(target, "the target")
        if range_.start is not None:
            target = max(target, range_.start)
        if range_.stop is not None:
            target = min(target, range_.stop)
        self._jump((target, False))

    def seek_to_start(self) -> None:
        """Moves in front of the first key of the range."""
        self._jump(_START)

    def seek_to_stop(self) -> None:
        """Moves behind the last key of the range."""
        self._jump(_END)

    def close(self) -> None:
        """Lets the moment go. A second call does nothing."""
        walk, snapshot = self._walk, self._snapshot
        self._walk = self._ahead = self._snapshot = None  # type: ignore[assignment]
        if walk is not None:
            walk.close()
        if snapshot is not None and self._owns:
            snapshot.close()

    def __enter__(self) -> Iterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class RawIterator:
    """A place on an entry, with the calls of LevelDB's own iterator."""

    def __init__(self, cursor: _core.Cursor) -> None:
        self._cursor = cursor

    def valid(self) -> bool:
        """Whether the iterator stands on an entry."""
        return self._cursor.key is not None

    def seek_to_first(self) -> None:
        """Moves to the first entry."""
        self._cursor.first()

    def seek_to_last(self) -> None:
        """Moves to the last entry."""
        self._cursor.last()

    def seek(self, target: bytes) -> None:
        """Moves to the first entry whose key is `target` or larger."""
        self._cursor.seek(target)

    def next(self) -> None:
        """Moves to the next entry. Raises IteratorInvalidError if it stands on none."""
        self.key()
        self._cursor.next()

    def prev(self) -> None:
        """Moves to the entry before. Raises IteratorInvalidError if it stands on none."""
        self.key()
        self._cursor.prev()

    def key(self) -> bytes:
        """The key. Raises IteratorInvalidError if it stands on no entry."""
        key = self._cursor.key
        if key is None:
            raise IteratorInvalidError("the iterator stands on no entry; move it to one first", "NOT_FOUND")
        return key

    def value(self) -> bytes:
        """The value. Raises IteratorInvalidError if it stands on no entry."""
        self.key()
        value = self._cursor.value
        assert value is not None
        return value

    def item(self) -> tuple[bytes, bytes]:
        """The key and the value."""
        return self.key(), self.value()

    def close(self) -> None:
        """Lets the moment go. A second call does nothing."""
        self._cursor.close()

    def __enter__(self) -> RawIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _property(stats: dict[str, Any], name: bytes) -> bytes | None:
    """The property of LevelDB that has a name."""
    levels = stats["families"][0]["levels"]
    if name == b"leveldb.stats":
        lines = ["Level  Files Size(MB)"]
        lines += [f"{level['level']:5} {level['tables']:6} {level['bytes'] / (1 << 20):8.0f}" for level in levels]
        return "\n".join([*lines, ""]).encode()
    if name == b"leveldb.sstables":
        return "".join(f"--- level {level['level']} ---\n{level['tables']} tables\n" for level in levels).encode()
    if name == b"leveldb.approximate-memory-usage":
        return str(stats["memory_bytes"] + stats["cache_bytes"] + stats["table_memory_bytes"]).encode()
    number = name.removeprefix(b"leveldb.num-files-at-level")
    # LevelDB has seven levels.
    if number != name and number.isdigit() and int(number) < 7:
        return str(next((level["tables"] for level in levels if level["level"] == int(number)), 0)).encode()
    return None


def repair_db(
    name: str | bytes | os.PathLike[str],
    *,
    paranoid_checks: bool | None = None,
    write_buffer_size: int | None = None,
    max_open_files: int | None = None,
    lru_cache_size: int | None = None,
    block_size: int | None = None,
    block_restart_interval: int | None = None,
    max_file_size: int | None = None,
    compression: str | bytes | None = "snappy",
    bloom_filter_bits: int = 0,
    comparator: Callable[[bytes, bytes], int] | None = None,
    comparator_name: bytes | None = None,
) -> None:
    """Verifies a database. One without damage is left as it is; a damaged one is not repaired in place."""
    path = os.fsdecode(name)
    _comparator(comparator, comparator_name)
    damages = _core.verify(path)["damages"]
    if damages:
        raise Error(
            f"{path} has {len(damages)} damages, the first in {damages[0]['path']}: {damages[0]['what']}. "
            f"It is not repaired in place; go back to a copy, or write what is whole to a new one with `braidb dump --skip-damaged`",
            "CORRUPTION",
            path,
        )


def destroy_db(name: str | bytes | os.PathLike[str]) -> None:
    """Deletes a database, and its directory if nothing else is in it. A missing one is no error."""
    path = os.fsdecode(name)
    try:
        _core.destroy(path)
    except MissingError:
        return
    os.remove(os.path.join(path, "LOCK"))
    if not os.listdir(path):
        os.rmdir(path)
