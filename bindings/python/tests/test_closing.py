"""What is left after a close: every object refuses by name, and none keeps the directory."""

import gc
import subprocess
import sys
import threading
import unittest

import braidb
from case import Case, fill, key


# A program that opens a database and does not close it.
PROGRAM = """
import threading
import braidb

db = braidb.open({path!r})
db.update((b"%06d" % number, b"v") for number in range(1_000))
snapshot, entries = db.snapshot(), db.items()
next(entries)
begun = threading.Event()

def forever():
    while True:
        db.put(b"k", b"v", durability="sync")
        begun.set()

"""


class Closing(Case):
    def test_every_object_refuses(self):
        db = self.open()
        fill(db, 100)
        users = db.family("users")
        batch, snapshot, transaction = db.batch(), db.snapshot(), db.transaction()
        batch.put(b"k", b"v")
        cursor = db.cursor()
        cursor.first()
        begun, fresh = db.items(), snapshot.items()
        next(begun)
        of_transaction = transaction.items()
        next(of_transaction)
        db.close()
        db.close()
        self.assertTrue(db.closed)
        self.assertIn("closed", repr(db))
        calls = {
            "reads": [
                *(lambda store=store: store.get(b"k") for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store[b"k"] for store in (db, users, snapshot, transaction)),
                *(lambda store=store: b"k" in store for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.contains(b"k") for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.get_view(b"k") for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.get_many([b"k"]) for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.items() for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.keys() for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.values() for store in (db, users, snapshot, transaction)),
                *(lambda store=store: iter(store) for store in (db, users, snapshot, transaction)),
                *(lambda store=store: reversed(store) for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.first() for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.last() for store in (db, users, snapshot, transaction)),
                *(lambda store=store: store.cursor() for store in (db, users, snapshot)),
            ],
            "writes": [
                *(lambda store=store: store.put(b"k", b"v") for store in (db, users, batch, transaction)),
                *(lambda store=store: store.delete(b"k") for store in (db, users, batch, transaction)),
                *(lambda store=store: store.__setitem__(b"k", b"v") for store in (db, users, batch, transaction)),
                *(lambda store=store: store.__delitem__(b"k") for store in (db, users, batch, transaction)),
                *(lambda store=store: store.setdefault(b"k", b"v") for store in (db, users)),
                *(lambda store=store: store.pop(b"k", None) for store in (db, users)),
                *(lambda store=store: store.update({b"k": b"v"}) for store in (db, users)),
                *(lambda store=store: store.compare_and_swap(b"k", None, None) for store in (db, users)),
                batch.write,
                lambda: batch.append(batch),
                batch.clear,
                lambda: len(batch),
                lambda: batch.bytes,
                transaction.commit,
                lambda: db.transact(lambda transaction: None),
            ],
            "ranges": [
                *(lambda store=store: store.estimate() for store in (db, users)),
                *(lambda store=store: store.approximate_size() for store in (db, users)),
                *(lambda store=store: store.excise([(None, None)]) for store in (db, users)),
                *(lambda store=store: store.compact() for store in (db, users)),
                *(lambda store=store: store.compact(b"a", b"b") for store in (db, users)),
            ],
            "iterators": [
                lambda: next(begun),
                lambda: next(fresh),
                lambda: next(of_transaction),
                lambda: begun.key,
                cursor.first,
                cursor.last,
                cursor.next,
                cursor.prev,
                lambda: cursor.seek(b"k"),
                lambda: cursor.seek_for_prev(b"k"),
                lambda: cursor.key,
                lambda: cursor.value,
            ],
            "database": [
                lambda: db.family("users"),
                db.families,
                db.batch,
                db.transaction,
                db.snapshot,
                db.stats,
                db.metrics,
                db.recovery,
                db.verify,
                lambda: db.checkpoint(self.path("copy")),
                lambda: db.evacuate(self.path("slow")),
                db.flush,
                db.persist,
                db.settle,
            ],
        }
        for group, all_of_group in calls.items():
            for number, call in enumerate(all_of_group):
                with self.subTest(group=group, number=number):
                    with self.assertRaises(braidb.ClosedError) as told:
                        call()
                    self.assertIsInstance(told.exception, RuntimeError)
                    self.assertEqual(told.exception.code, "CLOSED")
        # Closes of what was open do nothing, and the directory is free.
        for each in (begun, fresh, cursor, snapshot):
            each.close()
        transaction.rollback()
        self.assertEqual(len(list(self.open())), 100)

    def test_every_method_is_tried(self):
        """Compares the names in `test_every_object_refuses` with the methods that there are."""
        with open(__file__) as file:
            source = file.read()
        work_closed = {"close", "closed", "path", "name", "rollback"}
        for kind in (braidb.Database, braidb.Family, braidb.Snapshot, braidb.Transaction, braidb.Batch, braidb.Cursor, braidb.Walk):
            for name in dir(kind):
                if not name.startswith("_") and name not in work_closed:
                    self.assertTrue(f".{name}(" in source or f".{name}," in source, f"{kind.__name__}.{name}")

    def test_closed_objects_say_which(self):
        db = self.open()
        fill(db, 100)
        entries, cursor, snapshot = db.items(), db.cursor(), db.snapshot()
        of_snapshot = snapshot.items()
        for each, call, text in [
            (entries, lambda: next(entries), "iterator"),
            (cursor, cursor.next, "cursor"),
            (snapshot, lambda: snapshot.get(b"k"), "snapshot"),
        ]:
            with each:
                pass
            each.close()
            with self.assertRaisesRegex(braidb.ClosedError, text):
                call()
        # What was made of a snapshot keeps its moment.
        fill(db, 200)
        self.assertEqual(sum(1 for _ in of_snapshot), 100)

    def test_leaked_iterators_do_not_keep_the_directory(self):
        db = self.open()
        fill(db, 1_000)
        leaked = [db.items() for _ in range(100)] + [db.snapshot().keys() for _ in range(100)]
        for entries in leaked:
            next(entries)
        db.close()
        again = self.open()
        self.assertEqual(len(list(again)), 1_000)
        del leaked
        again.close()

    def test_a_database_without_names_is_closed(self):
        db = braidb.open(self.path())
        db.put(b"k", b"v")
        entries = db.items()
        del db
        self.assertEqual(next(entries), (b"k", b"v"))
        with self.assertRaises(braidb.LockedError):
            braidb.open(self.path())
        del entries
        gc.collect()
        self.assertEqual(self.open()[b"k"], b"v")

    def test_the_exception_of_a_block_goes_on(self):
        db = self.open()
        batch, transaction = db.batch(), db.transaction()
        with self.assertRaises(ZeroDivisionError) as told:
            with batch:
                db.close()
                1 / 0
        self.assertIn("ClosedError", told.exception.__notes__[0])
        with self.assertRaises(ZeroDivisionError):
            with db, transaction:
                1 / 0
        for each in (batch, transaction):
            with self.assertRaises(braidb.ClosedError):
                with each:
                    pass

    def last_drops(self, drop):
        """Calls `drop` ten times with the only reference to a database, in a list. Returns how often another thread ran meanwhile."""
        ran = 0
        # The interpreter's lock goes to another thread only where a thread releases it by itself.
        before = sys.getswitchinterval()
        sys.setswitchinterval(1_000)
        try:
            for number in range(10):
                db = [braidb.open(self.path(str(number)))]
                db[0].put(b"k", b"v")
                lock, seen = threading.Lock(), []
                lock.acquire()

                def wait(lock=lock, seen=seen):
                    with lock:
                        seen.append(None)

                waiter = threading.Thread(target=wait)
                waiter.start()
                lock.release()
                drop(db)
                ran += len(seen)
                waiter.join()
        finally:
            sys.setswitchinterval(before)
        return ran

    def test_the_last_drop_lets_other_threads_run(self):
        self.assertGreater(self.last_drops(lambda db: db.clear()), 0)

    def test_the_collector_of_garbage_lets_other_threads_run(self):
        def drop(db):
            cycle = [db.pop()]
            cycle.append(cycle)
            del cycle
            gc.collect()

        self.assertGreater(self.last_drops(drop), 0)

    def test_a_program_that_ends_closes(self):
        for name, program in {
            "global": "",
            "cycle": "loop = [db, snapshot, entries]; loop.append(loop); del db, snapshot, entries",
            "kept": "import builtins; builtins.kept = db",
            "thread": "threading.Thread(target=lambda: db.put(b'last', b'')).start()",
            "daemon": "threading.Thread(target=forever, daemon=True).start(); begun.wait()",
            "exception": "raise SystemExit(0)",
        }.items():
            with self.subTest(program=name):
                source = PROGRAM.format(path=self.path(name)) + program
                done = subprocess.run([sys.executable, "-X", "dev", "-c", source], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                db = self.open(name)
                self.assertEqual(sum(1 for _ in db.keys(prefix=b"0")), 1_000)
                self.assertEqual(db.verify()["damages"], [])

    def test_a_context_closes_after_an_exception(self):
        with self.assertRaises(ZeroDivisionError):
            with braidb.open(self.path()) as db:
                1 / 0
        self.assertTrue(db.closed)
        self.open()


if __name__ == "__main__":
    unittest.main()
