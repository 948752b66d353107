"""BraidDB, an embedded, ordered, persistent key-value store.

>>> import braidb
>>> with braidb.open("fruit.db") as db:
...     db[b"plum"] = b"blue"
...     for key, value in db.items(prefix=b"p"):
...         print(key, value)

docs/python.md has the guide. `braidb.plyvel` has the classes of plyvel on top of this store.
"""

from braidb._core import (
    Batch,
    Cursor,
    Database,
    Family,
    Reader,
    Snapshot,
    Store,
    Transaction,
    View,
    Walk,
    destroy,
    open,
    option_names,
    verify,
)
from braidb._errors import (
    ClosedError,
    ConflictError,
    CorruptionError,
    Error,
    ExistsError,
    ForkedError,
    FullError,
    InvalidError,
    IOError,
    LockedError,
    MissingError,
    MissingFamilyError,
    PoisonedError,
    ReadOnlyError,
)

__all__ = [
    "Batch",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "Cursor",
    "Database",
    "Error",
    "ExistsError",
    "Family",
    "ForkedError",
    "FullError",
    "IOError",
    "InvalidError",
    "LockedError",
    "MissingError",
    "MissingFamilyError",
    "PoisonedError",
    "ReadOnlyError",
    "Reader",
    "Snapshot",
    "Store",
    "Transaction",
    "View",
    "Walk",
    "destroy",
    "open",
    "option_names",
    "verify",
]
