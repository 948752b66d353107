"""Eight threads on one database."""

import itertools
import threading
import unittest

import braidb
from case import Case, key

THREADS = 8
KEYS = 500


class Threads(Case):
    def run_all(self, work):
        """Runs `work` with the numbers of all threads. Raises what a thread raised."""
        raised = []

        def body(number):
            try:
                work(number)
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=body, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]

    def test_writers_and_readers(self):
        db = self.open(memtable_bytes=1 << 20)
        users = db.family("users")

        def work(number):
            mine = b"%d/" % number
            for count in range(KEYS):
                db.put(mine + key(count), key(count))
                with db.batch() as batch:
                    batch.put(mine + key(count), key(count), family=users)
                self.assertEqual(db.get(mine + key(count)), key(count))
                if count % 100 == 0:
                    self.assertEqual(sum(1 for _ in db.items(prefix=mine)), count + 1)
                    with db.snapshot() as snapshot:
                        self.assertEqual(len(list(snapshot.keys(prefix=mine, family=users))), count + 1)
                    db.flush()

        self.run_all(work)
        self.assertEqual((len(list(db)), len(list(users))), (THREADS * KEYS, THREADS * KEYS))
        self.assertEqual(db.verify()["damages"], [])

    def test_one_iterator_for_all(self):
        db = self.open()
        db.update((key(number), b"") for number in range(10_000))
        entries, seen = db.keys(), [[] for _ in range(THREADS)]
        self.run_all(lambda number: seen[number].extend(entries))
        self.assertEqual(sorted(sum(seen, [])), [key(number) for number in range(10_000)])

    def test_one_object_of_each_kind_for_all(self):
        db = self.open()
        batch, transaction = db.batch(), db.transaction()

        def write(number):
            for count in range(KEYS):
                batch.put(b"b%d/" % number + key(count), b"")
                transaction.put(b"t%d/" % number + key(count), b"")
                if count == KEYS // 2:
                    with batch:
                        self.assertIn(b"t%d/" % number + key(count), transaction)

        self.run_all(write)
        batch.write()
        transaction.commit()
        self.assertEqual(len(list(db)), 2 * THREADS * KEYS)
        cursor, moves = db.cursor(), []

        def read(_number):
            while True:
                try:
                    if not cursor.next():
                        return
                    moves.append(None)
                    cursor.key, cursor.value
                except braidb.InvalidError as error:
                    self.assertEqual(str(error), "another thread moves the cursor")

        self.run_all(read)
        self.assertEqual(len(moves), 2 * THREADS * KEYS)

    def test_transactions_count_exactly(self):
        db = self.open()
        db.put(b"count", b"0")

        def add(transaction):
            transaction.put(b"count", b"%d" % (int(transaction[b"count"]) + 1))

        def work(_number):
            for _ in range(25):
                db.transact(add)

        self.run_all(work)
        self.assertEqual(int(db[b"count"]), 25 * THREADS)

    def test_a_close_beside_calls(self):
        db = self.open()
        barrier = threading.Barrier(THREADS)

        def work(number):
            barrier.wait()
            with self.assertRaises(braidb.ClosedError):
                for count in itertools.count():
                    if number == 0 and count == KEYS // 10:
                        db.close()
                    db.put(b"%d/" % number + key(count), b"v")
                    next(db.items(prefix=b"1/"), None)

        self.run_all(work)
        self.open()


if __name__ == "__main__":
    unittest.main()
