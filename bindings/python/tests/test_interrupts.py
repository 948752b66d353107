"""Ctrl-C ends long work with KeyboardInterrupt, and the database is in order afterwards.

Loops run in C here, so the interpreter looks for signals only where BraidDB asks it to. Without the look a test would not end; after a minute
it is stopped.
"""

import collections
import contextlib
import faulthandler
import itertools
import os
import signal
import threading
import unittest

from case import Case, fill, key

KEYS = 20_000
# Seconds after which a test is stopped.
PATIENCE = 60


def threads():
    """The names of the threads of this process."""
    names = []
    for task in os.listdir("/proc/self/task"):
        # A thread may end meanwhile.
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    return names


class Interrupts(Case):
    def setUp(self):
        super().setUp()
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        # A runner may ignore the signal.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def interrupted(self, forever, thread=None):
        """Exhausts an iterator without an end, and sends the signal when it has begun, and when the process has a thread of this name."""
        begun = threading.Event()

        def send():
            begun.wait()
            while thread is not None and thread not in threads():
                pass
            os.kill(os.getpid(), signal.SIGINT)

        sender = threading.Thread(target=send)
        sender.start()
        begin = map(lambda _: begun.set(), [None])
        with self.assertRaises(KeyboardInterrupt):
            collections.deque(itertools.chain(begin, forever), maxlen=0)
        sender.join()

    def in_order(self, db, name="db"):
        self.assertEqual(sum(1 for _ in db), KEYS)
        db.put(b"k", b"v")
        self.assertEqual(db.pop(b"k"), b"v")
        self.assertEqual(db.verify()["damages"], [])
        self.assertIsNone(db.stats()["poisoned"])
        db.close()
        self.assertEqual(sum(1 for _ in self.open(name)), KEYS)

    def test_iterations(self):
        db = self.open()
        fill(db, KEYS)
        for walk in (db.items, db.keys, db.values, db.snapshot().items):
            self.interrupted(itertools.chain.from_iterable(iter(walk, None)))
        transaction = db.transaction()
        self.interrupted(itertools.chain.from_iterable(iter(transaction.items, None)))
        self.in_order(db)

    def test_compactions_and_verifications(self):
        db = self.open()
        fill(db, KEYS)
        for work in (db.compact, lambda: db.compact(key(0), key(9)), db.verify):
            self.interrupted(iter(work, False))
        self.in_order(db)

    def test_waits_for_a_lock(self):
        db = self.open()
        fill(db, KEYS)
        self.interrupted(iter(lambda: self.open(wait_for_lock=3_600), db))
        self.in_order(db)

    def test_evacuations(self):
        slow = self.path("slow")
        db = self.open(slow_paths=[slow], fast_share=0, separation_threshold=None)
        fill(db, KEYS)
        large = db.family("large")
        large.update((key(number), bytes(1 << 10)) for number in range(4_000))
        db.compact()
        db.settle()
        db.close()
        # The least rate: 1 MiB a second. The evacuation would take longer than a user waits.
        db = self.open(merge_bytes_per_second=1 << 20)
        self.assertGreater(sum(tier["bytes"] for tier in db.stats()["tiers"] if tier["path"] == slow), 4 << 20)
        self.interrupted(iter(lambda: db.evacuate(slow), True), thread="braidb-python")
        self.assertIn(slow, [tier["path"] for tier in db.stats()["tiers"]])
        db.close()
        db = self.open()
        db.evacuate(slow)
        self.assertEqual(db.stats()["tiers"], [])
        self.assertEqual(sum(1 for _ in db.family("large")), 4_000)
        self.in_order(db)

    def test_a_compaction_ends_at_once(self):
        # The least rate: 1 MiB a second. The compaction would take longer than a user waits.
        db = self.open(merge_bytes_per_second=1 << 20, separation_threshold=None)
        fill(db, KEYS)
        large = db.family("large")
        for _ in range(2):
            large.update((key(number), bytes(1 << 10)) for number in range(2_000))
            db.flush()
        self.interrupted(iter(db.compact, False), thread="braidb-python")
        self.assertIn("braidb-python", threads(), "the call did not wait for the merge that it had begun")
        self.in_order(db)


if __name__ == "__main__":
    unittest.main()
