"""The iterators of `braidb.plyvel`, and what its classes with iterators have in common."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Generator
from types import TracebackType
from typing import Any, Final

from braidb import _core
from braidb._errors import ClosedError, Error


class IteratorInvalidError(Error):
    """The raw iterator stands on no entry."""


def _bytes(value: Any, what: str) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{what} must be bytes")
    return value


@contextlib.contextmanager
def _noted(raised: BaseException | None) -> Generator[None, None, None]:
    """Lets the exception that ends a block go on, with a note of an error of the end of the block."""
    try:
        yield
    except Error as error:
        if raised is None:
            raise
        raised.add_note(f"the end of the block failed too: {type(error).__name__}: {error}")


class _Ranges(abc.ABC):
    """What DB, PrefixedDB and Snapshot have in common: iterators over their keys."""

    # The prefix of all keys, which the caller does not see.
    _prefix: bytes = b""

    @abc.abstractmethod
    def _moment(self) -> tuple[_core.Snapshot, bool]:
        """A snapshot of the entries, and whether the iterator closes it."""

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
        snapshot, owns = self._moment()
        return Iterator(snapshot, owns, range_, reverse, include_key, include_value)


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

    __slots__ = (
        "_ahead",
        "_ended",
        "_failed",
        "_forward",
        "_hidden",
        "_kind",
        "_owns",
        "_place",
        "_range",
        "_reverse",
        "_snapshot",
        "_walk",
    )

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
        # Whether the walk has failed. It fails again in both directions, until a seek.
        self._failed = False
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
            if self._forward == forward or self._failed:
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
        self._failed = False
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
        except Error:
            self._failed = True
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
        except Error:
            self._failed = True
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
        with _noted(value):
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
        self._cursor.__exit__(kind, value, traceback)
