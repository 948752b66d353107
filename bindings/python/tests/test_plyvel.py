"""`braidb.plyvel` behaves as plyvel's documentation says. docs/python.md names the differences."""

import itertools
import os
import pathlib
import sys
import unittest
from unittest import mock

from braidb import plyvel
from case import Case

KEYS = [b"a1", b"a2", b"b1", b"b2", b"c1"]


class PlyvelCase(Case):
    def setUp(self):
        super().setUp()
        self.db = plyvel.DB(self.path(), create_if_missing=True)
        self.addCleanup(self.db.close)


class Databases(Case):
    def test_opening(self):
        with self.assertRaises(plyvel.Error):
            plyvel.DB(self.path())
        with self.assertRaises(plyvel.Error):
            plyvel.DB(self.path(), error_if_exists=True)
        db = plyvel.DB(self.path(), create_if_missing=True)
        self.assertEqual(db.name, self.path())
        with self.assertRaises(AttributeError):
            db.name = "other"
        self.assertFalse(db.closed)
        db.close()
        db.close()
        self.assertTrue(db.closed)
        self.assertIn("closed", repr(db))
        with plyvel.DB(os.fsencode(self.path())) as db:
            self.assertFalse(db.closed)
        self.assertTrue(db.closed)
        plyvel.DB(pathlib.Path(self.path())).close()
        with self.assertRaises(plyvel.Error):
            plyvel.DB(self.path(), error_if_exists=True)
        with self.assertRaises(plyvel.Error):
            plyvel.DB(self.path(), create_if_missing=True, error_if_exists=True)
        with self.assertRaises(TypeError):
            plyvel.DB(1)
        with self.assertRaises(TypeError):
            plyvel.DB(self.path(), True)

    def test_options(self):
        plyvel.DB(
            self.path(),
            create_if_missing=True,
            paranoid_checks=True,
            write_buffer_size=1 << 20,
            max_open_files=10,
            lru_cache_size=1 << 20,
            block_size=2 << 10,
            block_restart_interval=16,
            max_file_size=2 << 20,
            compression=None,
            bloom_filter_bits=10,
        ).close()
        plyvel.DB(self.path(), write_buffer_size=1, max_open_files=1, block_size=1, max_file_size=1, bloom_filter_bits=99).close()
        plyvel.DB(self.path(), compression=b"snappy").close()
        for wrong in ({"write_buffer_size": "1"}, {"lru_cache_size": "1"}, {"compression": 1}):
            with self.assertRaises(TypeError):
                plyvel.DB(self.path(), **wrong)
        with self.assertRaises(ValueError):
            plyvel.DB(self.path(), compression="other")

    def test_comparators(self):
        def compare(a, b):
            return (a > b) - (a < b)

        for wrong in ({"comparator": compare}, {"comparator_name": b"name"}):
            with self.assertRaises(ValueError):
                plyvel.DB(self.path(), create_if_missing=True, **wrong)
        with self.assertRaises(TypeError):
            plyvel.DB(self.path(), comparator=compare, comparator_name="name")
        with self.assertRaises(TypeError):
            plyvel.DB(self.path(), comparator=b"no callable", comparator_name=b"name")
        ordered = {"comparator": compare, "comparator_name": b"Bytes", "create_if_missing": True}
        with self.assertRaisesRegex(plyvel.Error, "orders keys as bytes.*BRAIDB_BYTEWISE_COMPARATORS"):
            plyvel.DB(self.path(), **ordered)
        with mock.patch.dict(os.environ, {"BRAIDB_BYTEWISE_COMPARATORS": "another, Bytes"}):
            plyvel.DB(self.path(), **ordered).close()

    def test_destroys_and_repairs(self):
        db = plyvel.DB(self.path(), create_if_missing=True)
        db.put(b"k", b"v")
        db.close()
        plyvel.repair_db(self.path())
        self.assertEqual(plyvel.DB(self.path()).get(b"k"), b"v")
        plyvel.destroy_db(self.path("missing"))
        db = plyvel.DB(self.path("other"), create_if_missing=True)
        db.put(b"k", b"v")
        db._db.flush()
        db.close()
        # A process may be waiting for the lock, so the file stays.
        lock = os.stat(self.path("other/LOCK")).st_ino
        plyvel.destroy_db(self.path("other"))
        self.assertEqual(os.listdir(self.path("other")), ["LOCK"])
        self.assertEqual(os.stat(self.path("other/LOCK")).st_ino, lock)
        db = plyvel.DB(self.path("damaged"), create_if_missing=True)
        db.put(b"k", b"v" * 1000)
        db._db.flush()
        db.close()
        table = next(name for name in os.listdir(self.path("damaged")) if name.endswith(".table"))
        os.truncate(self.path(f"damaged/{table}"), 30)
        with self.assertRaisesRegex(plyvel.Error, "skip-damaged"):
            plyvel.repair_db(self.path("damaged"))

    def test_stands_in_for_plyvel(self):
        self.assertTrue(plyvel.__leveldb_version__.startswith("1."))
        self.assertTrue(issubclass(plyvel.IOError, OSError) and issubclass(plyvel.IOError, plyvel.Error))
        self.assertTrue(issubclass(plyvel.CorruptionError, plyvel.Error))
        with mock.patch.dict(sys.modules, {"plyvel": plyvel}):
            import plyvel as imported
        self.assertIs(imported.DB, plyvel.DB)


class Entries(PlyvelCase):
    def test_gets_and_puts(self):
        db = self.db
        self.assertIsNone(db.get(b"k"))
        self.assertEqual(db.get(b"k", b"d"), b"d")
        self.assertEqual(db.get(b"k", default=b"d"), b"d")
        db.put(b"k", b"v", sync=True)
        db.put(b"buffer", bytearray(b"v"))
        db.put(b"view", memoryview(b"v"))
        for key in (b"k", b"buffer", b"view"):
            self.assertEqual(db.get(key, verify_checksums=True, fill_cache=False), b"v")
        db.delete(b"k", sync=True)
        self.assertIsNone(db.get(b"k"))
        for wrong in (1, "k", None):
            with self.assertRaises(TypeError):
                db.get(wrong)
        with self.assertRaises(TypeError):
            db.put(b"k", 1)
        with self.assertRaises(TypeError):
            db.get(b"k", b"d", True)

    def test_batches(self):
        db = self.db
        batch = db.write_batch(sync=True)
        batch.put(b"a", b"1")
        batch.put(b"b", memoryview(b"2"))
        batch.delete(b"a")
        self.assertEqual(list(db), [])
        batch.write()
        self.assertEqual(list(db), [(b"b", b"2")])
        size = batch.approximate_size()
        other = db.write_batch()
        other.put(b"c", b"0")
        batch.append(other)
        batch.append(batch)
        self.assertGreater(batch.approximate_size(), size)
        batch.write()
        self.assertEqual(db.get(b"c"), b"0")
        batch.clear()
        batch.write()
        with self.assertRaises(ZeroDivisionError):
            with db.write_batch() as batch:
                batch.put(b"c", b"3")
                1 / 0
        self.assertEqual(db.get(b"c"), b"3")
        with self.assertRaises(ZeroDivisionError):
            with db.write_batch(transaction=True) as batch:
                batch.put(b"d", b"4")
                1 / 0
        self.assertIsNone(db.get(b"d"))
        with db.write_batch(transaction=True) as batch:
            batch.put(b"d", b"4")
        self.assertEqual(db.get(b"d"), b"4")

    def test_snapshots(self):
        db = self.db
        db.put(b"a", b"1")
        snapshot = db.snapshot()
        db.put(b"b", b"2")
        self.assertEqual((snapshot.get(b"a"), snapshot.get(b"b"), snapshot.get(b"b", b"d")), (b"1", None, b"d"))
        self.assertEqual(list(snapshot), [(b"a", b"1")])
        self.assertEqual(list(snapshot.iterator(include_value=False)), [b"a"])
        entries = snapshot.iterator()
        raw = snapshot.raw_iterator()
        raw.seek_to_last()
        self.assertEqual(raw.item(), (b"a", b"1"))
        snapshot.release()
        snapshot.close()
        with self.assertRaises(RuntimeError):
            snapshot.get(b"a")
        with self.assertRaises(RuntimeError):
            snapshot.iterator()
        self.assertEqual(list(entries), [(b"a", b"1")])
        with db.snapshot() as snapshot:
            self.assertEqual(snapshot.get(b"b"), b"2")

    def test_facts_about_the_database(self):
        db = self.db
        for name in (b"leveldb.stats", b"leveldb.sstables", b"leveldb.num-files-at-level6", b"leveldb.approximate-memory-usage"):
            self.assertIsInstance(db.get_property(name), bytes)
        for name in (b"leveldb.num-files-at-level7", b"leveldb.num-files-at-levelx", b"other"):
            self.assertIsNone(db.get_property(name))
        with self.assertRaises(TypeError):
            db.get_property("leveldb.stats")
        for key in KEYS:
            db.put(key, bytes(1000))
        for bounds in ({}, {"start": b"a"}, {"stop": b"b"}, {"start": b"a", "stop": b"b"}):
            db.compact_range(**bounds)
        self.assertGreater(db.approximate_size(b"a", b"d"), 1000)
        self.assertEqual(db.approximate_sizes(), [])
        sizes = db.approximate_sizes((b"a", b"b"), (b"x", b"y"))
        self.assertGreater(sizes[0], sizes[1])
        for wrong in (lambda: db.approximate_size(1, 2), lambda: db.approximate_sizes(None), lambda: db.approximate_sizes((1, 2))):
            with self.assertRaises(TypeError):
                wrong()

    def test_all_calls_fail_after_a_close(self):
        db = self.db
        db.put(b"k", b"v")
        prefixed, batch, snapshot = db.prefixed_db(b"p"), db.write_batch(), db.snapshot()
        entries, of_snapshot, raw = db.iterator(), snapshot.iterator(), db.raw_iterator()
        next(entries)
        db.close()
        for call in [
            lambda: db.get(b"k"),
            lambda: db.put(b"k", b"v"),
            lambda: db.delete(b"k"),
            db.write_batch,
            db.iterator,
            db.raw_iterator,
            db.snapshot,
            db.compact_range,
            lambda: db.get_property(b"leveldb.stats"),
            lambda: db.approximate_size(b"a", b"b"),
            lambda: prefixed.get(b"k"),
            lambda: batch.put(b"k", b"v"),
            lambda: batch.delete(b"k"),
            lambda: batch.append(batch),
            batch.approximate_size,
            batch.clear,
            batch.write,
            batch.__enter__,
            lambda: snapshot.get(b"k"),
            lambda: next(entries),
            entries.prev,
            lambda: next(of_snapshot),
            raw.seek_to_first,
            raw.valid,
        ]:
            with self.assertRaises(RuntimeError):
                call()


class Prefixes(PlyvelCase):
    def test_prefixed_databases(self):
        db = self.db
        for key in KEYS:
            db.put(key, key)
        a, b = db.prefixed_db(b"a"), db.prefixed_db(b"b")
        self.assertIs(a.db, db)
        self.assertEqual(a.prefix, b"a")
        self.assertEqual(list(a), [(b"1", b"a1"), (b"2", b"a2")])
        a.put(b"3", b"new")
        self.assertEqual((db.get(b"a3"), a.get(b"3"), a.get(b"9", b"d")), (b"new", b"new", b"d"))
        a.delete(b"3")
        with a.write_batch() as batch:
            batch.put(b"4", b"a4")
            batch.delete(b"4")
        self.assertEqual(list(a.iterator(include_value=False)), [b"1", b"2"])
        self.assertEqual(list(b.iterator(start=b"2")), [(b"2", b"b2")])
        self.assertEqual(list(b.iterator(stop=b"2", include_stop=True, include_value=False)), [b"1", b"2"])
        self.assertEqual(list(b.iterator(prefix=b"1", include_key=False)), [b"b1"])
        self.assertEqual(list(b.iterator(reverse=True, include_value=False)), [b"2", b"1"])
        entries = b.iterator(include_value=False)
        entries.seek(b"2")
        self.assertEqual(list(entries), [b"2"])
        entries.seek_to_stop()
        self.assertEqual((entries.prev(), entries.prev()), (b"2", b"1"))
        with self.assertRaises(StopIteration):
            entries.prev()
        snapshot = a.snapshot()
        a.put(b"1", b"changed")
        self.assertEqual(snapshot.get(b"1"), b"a1")
        self.assertEqual(list(snapshot.iterator(include_value=False)), [b"1", b"2"])
        db.put(b"axy", b"deep")
        self.assertEqual(list(a.prefixed_db(b"x")), [(b"y", b"deep")])
        last = db.prefixed_db(b"\xff\xff")
        last.put(b"\xff", b"end")
        self.assertEqual(list(last), [(b"\xff", b"end")])


class Model:
    """An iterator of plyvel over a list of keys: a place between two of them."""

    def __init__(self, keys, reverse):
        self.keys, self.reverse = keys, reverse
        self.place = len(keys) if reverse else 0

    def step(self, forward):
        if forward and self.place < len(self.keys):
            self.place += 1
            return self.keys[self.place - 1]
        if not forward and self.place > 0:
            self.place -= 1
            return self.keys[self.place]
        return None

    def next(self):
        return self.step(not self.reverse)

    def prev(self):
        return self.step(self.reverse)

    def seek(self, target):
        self.place = sum(1 for key in self.keys if key < target)


class Iterators(PlyvelCase):
    def setUp(self):
        super().setUp()
        for key in KEYS:
            self.db.put(key, b"v" + key)

    def test_shapes(self):
        db = self.db
        self.assertEqual(list(db.iterator(prefix=b"c")), [(b"c1", b"vc1")])
        self.assertEqual(list(db.iterator(prefix=b"c", include_value=False)), [b"c1"])
        self.assertEqual(list(db.iterator(prefix=b"c", include_key=False)), [b"vc1"])
        self.assertEqual(list(db.iterator(prefix=b"c", include_key=False, include_value=False)), [None])

    def ranges(self):
        """All ranges with bounds on, between and beside keys: the arguments, and the keys that belong to them."""
        bounds = [None, b"a", b"a2", b"b1", b"bx", b"c1", b"d"]
        for start, stop, include_start, include_stop in itertools.product(bounds, bounds, (True, False), (True, False)):
            arguments = {"start": start, "stop": stop, "include_start": include_start, "include_stop": include_stop}
            yield arguments, [
                key
                for key in KEYS
                if (start is None or key > start or include_start and key == start)
                and (stop is None or key < stop or include_stop and key == stop)
            ]

    def test_ranges_both_ways(self):
        for arguments, keys in self.ranges():
            with self.subTest(**arguments):
                self.assertEqual(list(self.db.iterator(include_value=False, **arguments)), keys)
                self.assertEqual(list(self.db.iterator(include_value=False, reverse=True, **arguments)), keys[::-1])

    def test_every_walk_of_moves(self):
        """Tries all sequences of four moves, and compares each answer with the model."""
        moves = ["next", "prev", b"a", b"b1", b"b11", b"z", "start", "stop"]
        for reverse in (False, True):
            for walk in itertools.product(moves, repeat=4):
                entries, model = self.db.iterator(include_value=False, reverse=reverse), Model(KEYS, reverse)
                for move in (*walk, "next", "prev", "prev"):
                    if isinstance(move, bytes):
                        entries.seek(move)
                        model.seek(move)
                    elif move == "start":
                        entries.seek_to_start()
                        model.place = 0
                    elif move == "stop":
                        entries.seek_to_stop()
                        model.place = len(KEYS)
                    else:
                        try:
                            answer = next(entries) if move == "next" else entries.prev()
                        except StopIteration:
                            answer = None
                        if answer != getattr(model, move)():
                            self.fail(f"{walk}, reverse {reverse}: {move} returned {answer}")

    def test_seeks_stay_in_the_range(self):
        for reverse in (False, True):
            entries = self.db.iterator(start=b"a2", stop=b"b2", include_value=False, reverse=reverse)
            model = Model([b"a2", b"b1"], reverse)
            for target in (b"", b"a1", b"a2", b"b", b"b2", b"z"):
                for move in ("next", "prev"):
                    entries.seek(target)
                    model.seek(target)
                    try:
                        answer = next(entries) if move == "next" else entries.prev()
                    except StopIteration:
                        answer = None
                    self.assertEqual(answer, getattr(model, move)(), (target, move, reverse))

    def test_prefixes(self):
        self.assertEqual(list(self.db.iterator(prefix=b"b", include_value=False)), [b"b1", b"b2"])
        self.assertEqual(list(self.db.iterator(prefix=b"", include_value=False)), KEYS)
        self.assertEqual(list(self.db.iterator(prefix=b"b", include_value=False, include_start=False, include_stop=True)), [b"b1", b"b2"])
        for bound in ({"start": b"a"}, {"stop": b"a"}):
            with self.assertRaises(TypeError):
                self.db.iterator(prefix=b"a", **bound)

    def test_an_iterator_sees_one_moment(self):
        entries = self.db.iterator(include_value=False)
        self.db.put(b"b11", b"new")
        self.db.delete(b"a1")
        self.assertEqual(next(entries), b"a1")
        entries.seek(b"b1")
        self.assertEqual([next(entries), next(entries), entries.prev(), entries.prev(), entries.prev()], [b"b1", b"b2", b"b2", b"b1", b"a2"])

    def test_closing(self):
        entries = self.db.iterator()
        next(entries)
        entries.close()
        entries.close()
        for call in (lambda: next(entries), entries.prev, entries.seek_to_start, entries.seek_to_stop, lambda: entries.seek(b"a")):
            with self.assertRaises(RuntimeError):
                call()
        with self.db.iterator() as entries:
            next(entries)
        with self.assertRaises(RuntimeError):
            next(entries)

    def test_damage_is_told_until_a_seek(self):
        db = plyvel.DB(self.path("damaged"), create_if_missing=True)
        with db.write_batch() as batch:
            for number in range(10_000):
                batch.put(b"%06d" % number, bytes(100))
        db._db.flush()
        db.close()
        table = next(name for name in os.listdir(self.path("damaged")) if name.endswith(".table"))
        with open(self.path(f"damaged/{table}"), "r+b") as file:
            file.seek(os.path.getsize(file.name) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        db = plyvel.DB(self.path("damaged"))
        self.addCleanup(db.close)
        for reverse in (False, True):
            entries = db.iterator(include_value=False, reverse=reverse)
            for seek, move in ((None, entries.__next__), (entries.seek_to_start if reverse else entries.seek_to_stop, entries.prev)):
                if seek is not None:
                    seek()
                with self.assertRaises(plyvel.CorruptionError):
                    for _ in range(10_000):
                        move()
                for again in (entries.__next__, entries.prev, entries.__next__):
                    with self.assertRaises(plyvel.CorruptionError):
                        again()
            entries.seek(b"000007")
            self.assertEqual(next(entries), b"000006" if reverse else b"000007")

    def test_the_exception_of_a_block_goes_on(self):
        for transaction in (False, True):
            db = plyvel.DB(self.path("closed"), create_if_missing=True)
            with self.assertRaises(ZeroDivisionError) as told:
                with db.write_batch(transaction=transaction) as batch:
                    batch.put(b"k", b"v")
                    db.close()
                    1 / 0
            self.assertIn("ClosedError", told.exception.__notes__[0])

    def test_raw_iterators(self):
        raw = self.db.raw_iterator()
        self.assertFalse(raw.valid())
        for call in (raw.key, raw.value, raw.item, raw.next, raw.prev):
            with self.assertRaises(plyvel.IteratorInvalidError):
                call()
        raw.seek_to_first()
        self.assertEqual((raw.valid(), raw.key(), raw.value(), raw.item()), (True, b"a1", b"va1", (b"a1", b"va1")))
        raw.next()
        self.assertEqual(raw.key(), b"a2")
        raw.prev()
        raw.prev()
        self.assertFalse(raw.valid())
        raw.seek_to_last()
        self.assertEqual(raw.key(), b"c1")
        raw.next()
        self.assertFalse(raw.valid())
        raw.seek(b"b11")
        self.assertEqual(raw.key(), b"b2")
        raw.close()
        with self.assertRaises(RuntimeError):
            raw.valid()
        with self.db.raw_iterator() as raw:
            raw.seek_to_first()
        with self.assertRaises(RuntimeError):
            raw.next()


if __name__ == "__main__":
    unittest.main()
