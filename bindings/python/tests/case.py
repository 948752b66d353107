"""What all tests have in common: a directory that is removed at the end, and a database in it."""

import os
import shutil
import tempfile
import unittest

import braidb


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="braidb-python-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name="db"):
        return os.path.join(self.dir, name)

    def open(self, name="db", **options):
        """A database, which the end of the test closes. Its memory is small, as tests write little."""
        options.setdefault("block_cache_bytes", 1 << 20)
        db = braidb.open(self.path(name), **options)
        self.addCleanup(db.close)
        return db


def key(number):
    return b"%06d" % number


def fill(store, count):
    """Sets the keys from 0 to `count`, each to itself."""
    store.update((key(number), key(number)) for number in range(count))
