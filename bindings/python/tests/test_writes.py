"""Writes that belong together: batches and transactions."""

import threading
import time
import unittest

import braidb
from case import Case, fill, key


class Batches(Case):
    def test_a_batch_is_written_at_its_end(self):
        db = self.open()
        users = db.family("users")
        db.put(b"stale", b"1")
        with db.batch(durability="sync") as batch:
            batch.put(b"total", b"1")
            batch.put(b"ada", b"1815", family=users)
            batch.delete(b"stale")
            batch[b"more"] = b"2"
            del batch[b"total"]
            self.assertEqual(len(batch), 5)
            self.assertGreater(batch.bytes, 20)
            self.assertNotIn(b"more", db)
        self.assertEqual((dict(db.items()), dict(users.items())), ({b"more": b"2"}, {b"ada": b"1815"}))
        self.assertEqual(len(batch), 0)

    def test_an_exception_drops_it(self):
        db = self.open()
        with self.assertRaises(ZeroDivisionError):
            with db.batch() as batch:
                batch.put(b"k", b"v")
                1 / 0
        self.assertEqual((list(db), len(batch)), ([], 0))

    def test_puts_beside_the_end_of_a_block_stay(self):
        db = self.open()
        batch = db.batch(durability="sync")

        def put():
            for number in range(2_000):
                batch.put(key(number), b"")

        putter = threading.Thread(target=put)
        putter.start()
        while putter.is_alive():
            with batch:
                pass
        with batch:
            pass
        self.assertEqual(list(db), [key(number) for number in range(2_000)])

    def test_a_failed_end_keeps_the_writes(self):
        db = self.open()
        with self.assertRaises(braidb.InvalidError):
            with db.batch() as batch:
                batch.put(b"k", b"v")
                batch.put(bytes(65_537), b"v")
        self.assertEqual((list(db), len(batch)), ([], 1))

    def test_a_batch_can_be_written_again(self):
        db = self.open()
        batch = db.batch()
        batch.put(b"k", b"v")
        batch.write()
        db.delete(b"k")
        batch.write(durability="none")
        self.assertIn(b"k", db)
        other = db.batch()
        other.put(b"other", b"1")
        batch.append(other)
        batch.append(batch)
        self.assertEqual((len(batch), len(other)), (4, 1))
        batch.write()
        self.assertIn(b"other", db)
        db.delete(b"other")
        batch.clear()
        batch.delete(b"k")
        batch.write()
        self.assertNotIn(b"k", db)

    def test_what_is_too_large_is_refused_as_a_whole(self):
        db = self.open()
        batch = db.batch()
        batch.put(b"k", b"v")
        batch.put(bytes(65_537), b"v")
        with self.assertRaises(braidb.InvalidError):
            batch.write()
        self.assertEqual(list(db), [])
        with self.assertRaises(braidb.InvalidError):
            db.batch(durability="maybe")


class Transactions(Case):
    def test_commits_at_the_end(self):
        db = self.open()
        users = db.family("users")
        with db.transaction(durability="sync") as transaction:
            transaction[b"k"] = b"v"
            transaction.put(b"ada", b"1815", family=users)
            self.assertEqual(transaction[b"k"], b"v")
            self.assertEqual(transaction.get(b"ada", family=users), b"1815")
            self.assertNotIn(b"k", db)
        self.assertEqual((db[b"k"], users[b"ada"]), (b"v", b"1815"))
        with db.transaction() as transaction:
            del transaction[b"k"]
            transaction.delete(b"ada", family=users)
            transaction.commit()
            with self.assertRaises(braidb.ClosedError):
                transaction.get(b"k")
            transaction = db.transaction()
            transaction.rollback()
            transaction.rollback()
        self.assertEqual((list(db), list(users)), ([], []))

    def test_an_exception_rolls_back(self):
        db = self.open()
        with self.assertRaises(ZeroDivisionError):
            with db.transaction() as transaction:
                transaction.put(b"k", b"v")
                1 / 0
        self.assertNotIn(b"k", db)

    def test_conflicts_are_told(self):
        db = self.open()
        db.put(b"seats", b"1")
        with self.assertRaisesRegex(braidb.ConflictError, "db.transact") as told:
            with db.transaction() as booking:
                booking.get(b"seats")
                booking.put(b"seats", b"0")
                db.put(b"seats", b"0")
        self.assertEqual(told.exception.code, "CONFLICT")

    def test_iterators_conflict_with_new_entries(self):
        db = self.open()
        fill(db, 100)
        transaction = db.transaction()
        self.assertEqual(len(list(transaction.items(key(10), key(20)))), 10)
        transaction.put(b"sum", b"10")
        db.put(key(15) + b"x", b"")
        with self.assertRaises(braidb.ConflictError):
            transaction.commit()
        # The first entry alone was read, so the others may change.
        transaction = db.transaction()
        self.assertEqual(transaction.first(), (key(0), key(0)))
        self.assertEqual(next(transaction.items()), (key(0), key(0)))
        transaction.put(b"first", b"0")
        db.put(key(50) + b"x", b"")
        transaction.commit()

    def test_iterates_with_its_own_writes(self):
        db = self.open()
        fill(db, 3_000)
        transaction = db.transaction()
        transaction.delete(key(0))
        transaction.put(key(1), b"new")
        transaction.put(b"9", b"last")
        items = dict(transaction.items())
        self.assertEqual((len(items), items[key(1)], items[b"9"]), (3_000, b"new", b"last"))
        self.assertEqual(list(transaction.items(reverse=True)), sorted(items.items(), reverse=True))
        self.assertEqual(list(transaction.keys(prefix=b"00029", reverse=True))[0], key(299))
        self.assertEqual(transaction.last(), (b"9", b"last"))
        with self.assertRaisesRegex(braidb.InvalidError, "no cursor"):
            transaction.cursor()
        transaction.rollback()

    def test_iterates_over_writes_of_the_loop(self):
        db = self.open()
        db.update((b"%d" % number, b"") for number in range(1, 7))
        transaction = db.transaction()
        seen = []
        for found in transaction.keys():
            seen.append(found)
            transaction.delete(b"%d" % (int(found) + 1))
        self.assertEqual(seen, [b"1", b"3", b"5"])
        transaction.rollback()

    def test_transact_of_a_function_that_commits(self):
        db = self.open()

        def work(transaction):
            transaction.put(b"k", b"v")
            transaction.commit()
            return 7

        self.assertEqual((db.transact(work), db[b"k"]), (7, b"v"))

    def test_transact_begins_again(self):
        db = self.open()
        db.put(b"count", b"0")
        tries = []

        def add(transaction):
            count = int(transaction[b"count"])
            if not tries:
                db.put(b"count", b"5")
            tries.append(count)
            transaction.put(b"count", b"%d" % (count + 1))
            return count

        self.assertEqual(db.transact(add, durability="sync"), 5)
        self.assertEqual((tries, db[b"count"]), ([0, 5], b"6"))
        with self.assertRaises(KeyError):
            db.transact(lambda transaction: transaction[b"missing"])
        self.assertEqual(db.transact(lambda transaction: None), None)

    def test_transact_outlasts_excises(self):
        """Transactions that read in the ranges conflict while excises run. These conflicts are not counted."""
        db = self.open()
        excises, tries, over = [], [], threading.Event()

        def excise():
            while not over.is_set():
                db.put(b"k", b"")
                db.excise([(None, None)])
                excises.append(None)

        def work(transaction):
            tries.append(None)
            transaction.get(b"k")
            transaction.put(b"done", b"")
            if len(tries) == 120:
                over.set()
            # A whole excise passes after the read.
            seen = len(excises)
            while len(excises) < seen + 2 and not over.is_set():
                time.sleep(0)

        exciser = threading.Thread(target=excise)
        exciser.start()
        self.addCleanup(exciser.join)
        self.addCleanup(over.set)
        db.transact(work)
        self.assertGreaterEqual(len(tries), 120)
        self.assertIn(b"done", db)

    def test_transact_gives_up(self):
        db = self.open()
        db.put(b"count", b"0")
        tries = []

        def conflict(transaction):
            transaction.get(b"count")
            transaction.put(b"count", b"1")
            db.put(b"count", b"%d" % len(tries))
            tries.append(None)

        with self.assertRaises(braidb.ConflictError):
            db.transact(conflict)
        self.assertEqual(len(tries), 100)


if __name__ == "__main__":
    unittest.main()
