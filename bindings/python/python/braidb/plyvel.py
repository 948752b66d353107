"""The classes of plyvel 1.5.1 on top of BraidDB.

Programs for plyvel run with `from braidb import plyvel`, or after `sys.modules["plyvel"] = braidb.plyvel`. A database of LevelDB is not opened:
the files are those of BraidDB. docs/python.md lists what differs.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from braidb import _core
from braidb._errors import CorruptionError, Error, IOError, MissingError
from braidb._plyvel_iterators import Iterator, IteratorInvalidError, RawIterator, _bytes, _noted, _Ranges

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


class DB(_Ranges):
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
        self._db.__exit__(kind, value, traceback)

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

    def _moment(self) -> tuple[_core.Snapshot, bool]:
        return self._db.snapshot(), True

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


class PrefixedDB(_Ranges):
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

    def _moment(self) -> tuple[_core.Snapshot, bool]:
        return self._db._db.snapshot(), True

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
        if kind is None or self._transaction:
            self._batch.__exit__(kind, value, traceback)
            return
        with _noted(value):
            self._batch.__exit__(None, None, None)


class Snapshot(_Ranges):
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
        self._snapshot.__exit__(kind, value, traceback)

    def get(
        self, key: bytes, default: Any = None, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> Any:
        """The value of a key, or `default`."""
        return self._snapshot.get(self._prefix + key if self._prefix else key, default)

    def _moment(self) -> tuple[_core.Snapshot, bool]:
        return self._snapshot, False

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator with the calls of LevelDB's own."""
        return RawIterator(self._snapshot.cursor())


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
    """Deletes a database: all its files but an empty LOCK, which keeps the directory. A missing one is no error."""
    with contextlib.suppress(MissingError):
        _core.destroy(os.fsdecode(name))
