"""Exceptions of BraidDB. The compiled module raises them by their names.

Each message says what happened, where, and what to do. `code` is the name of the error in the C library without its prefix, such as
"LOCKED". `path` is the file or directory that the error is about.
"""

from __future__ import annotations


class Error(Exception):
    """Any error of BraidDB. Errors without a class of their own, such as "TIER", differ in `code`."""

    code: str
    path: str | None

    def __init__(self, message: str = "", code: str = "OTHER", path: str | None = None, errno: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.path = path


class IOError(Error, OSError):
    """The storage refused an operation. `errno` is the number of the operating system, if there is one."""

    def __init__(self, message: str = "", code: str = "IO", path: str | None = None, errno: int | None = None) -> None:
        super().__init__(message, code, path)
        self.errno = errno


class FullError(IOError):
    """The disk is full, and nothing was written. Deletes still find room."""


class MissingError(IOError):
    """There is no database in the directory."""


class ExistsError(IOError):
    """There is a database in the directory already."""


class CorruptionError(Error):
    """Bytes on disk are not those that were written."""


class LockedError(IOError):
    """The database is open already, in this process or in another one."""


class InvalidError(Error, ValueError):
    """An argument cannot work: an option, a key or value over the limits, a family of another database."""


class MissingFamilyError(Error, LookupError):
    """The database has no column family of this name."""


class PoisonedError(IOError):
    """An append or a sync failed, so writing stopped. Reads go on; open the database again to write."""


class ReadOnlyError(Error):
    """The database was opened to read."""


class ConflictError(Error):
    """Another write changed what the transaction had read. Nothing was written; begin it again."""


class ClosedError(Error, RuntimeError):
    """The database, or the object, was closed."""


class ForkedError(Error, RuntimeError):
    """The object was made before this process was forked, and belongs to the parent."""
