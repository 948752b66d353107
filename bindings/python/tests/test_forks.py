"""Forked children: objects of the parent refuse, their end does no harm, and the parent loses nothing."""

import gc
import multiprocessing
import os
import threading
import traceback
import unittest
import warnings

import braidb
from case import Case, fill, key

FORKS = 10


def in_child(work):
    """Runs `work` in a forked child. Returns its exit status: 0 if `work` raised nothing."""
    with warnings.catch_warnings():
        # Python warns of threads beside a fork. The test wants them.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class Forks(Case):
    def test_objects_of_the_parent_refuse(self):
        db = self.open()
        users = db.family("users")
        fill(db, 100)
        batch, snapshot, transaction, cursor, entries = db.batch(), db.snapshot(), db.transaction(), db.cursor(), db.items()
        view = db.get_view(key(1))
        batch.put(b"k", b"v")
        transaction.put(b"k", b"v")
        next(entries)
        cursor.first()
        writing, stop, written = threading.Event(), threading.Event(), 0

        def write():
            nonlocal written
            while not stop.is_set():
                db.put(b"w%d" % written, b"v")
                written += 1
                writing.set()

        writer = threading.Thread(target=write)
        writer.start()
        writing.wait()

        def child():
            nonlocal batch, snapshot, transaction, cursor, entries, users, db
            for call in [
                lambda: db.get(b"k"),
                lambda: db.put(b"k", b"v"),
                lambda: db.items(),
                lambda: db.stats(),
                lambda: db.families(),
                lambda: db.flush(),
                lambda: db.compact(),
                lambda: db.verify(),
                lambda: db.snapshot(),
                lambda: db.transaction(),
                lambda: db.batch(),
                lambda: db.close(),
                lambda: users.get(b"k"),
                lambda: users.put(b"k", b"v"),
                lambda: snapshot.get(b"k"),
                lambda: snapshot.close(),
                lambda: transaction.get(b"k"),
                lambda: transaction.commit(),
                lambda: transaction.rollback(),
                lambda: batch.put(b"k", b"v"),
                lambda: batch.write(),
                lambda: cursor.next(),
                lambda: cursor.key,
                lambda: cursor.close(),
                lambda: next(entries),
                lambda: entries.close(),
            ]:
                with self.assertRaisesRegex(braidb.ForkedError, "forked") as told:
                    call()
                self.assertEqual((told.exception.code, told.exception.path), ("FORKED", self.path()))
            for each in (db, batch, snapshot, transaction, cursor, entries):
                with self.assertRaises(ZeroDivisionError) as told:
                    with each:
                        1 / 0
                self.assertIn("ForkedError", told.exception.__notes__[0])
                with self.assertRaises(braidb.ForkedError):
                    with each:
                        pass
            self.assertEqual(bytes(view), key(1))
            with self.assertRaises(braidb.LockedError):
                braidb.open(self.path())
            with braidb.open(self.path(f"child-{os.getpid()}")) as own:
                own.put(b"k", b"of the child")
                self.assertEqual(own.get(b"k"), b"of the child")
            del each, batch, snapshot, transaction, cursor, entries, users, db
            gc.collect()
            with self.assertRaises(braidb.LockedError):
                braidb.open(self.path())

        try:
            for _ in range(FORKS):
                self.assertEqual(in_child(child), 0)
        finally:
            stop.set()
            writer.join()
        # All objects of the parent work as before.
        self.assertEqual(next(entries), (key(1), key(1)))
        self.assertTrue(cursor.next())
        batch.write()
        transaction.rollback()
        self.assertEqual(snapshot.get(key(5)), key(5))
        db.close()
        self.assertEqual(len(list(self.open())), 100 + 1 + written)

    def test_multiprocessing_opens_in_the_child(self):
        db = self.open()
        fill(db, 10)
        db.close()
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                self.assertEqual(pool.map(count, [self.path()] * 4), [10] * 4)


def count(path):
    """The entries of a database, which several processes may read at once."""
    with braidb.open(path, read_only=True) as db:
        return sum(1 for _ in db)


if __name__ == "__main__":
    unittest.main()
