"""What concerns a whole database: opening, options, errors, reports, checkpoints, ranges."""

import errno
import os
import pathlib
import unittest

import braidb
from case import Case, fill, key


class Opening(Case):
    def test_options_have_names(self):
        names = braidb.option_names()
        self.assertIn("memtable_bytes", names)
        self.assertNotIn("", names)
        values = {
            "memtable_bytes": 1 << 20,
            "background_merges": False,
            "merge_bytes_per_second": None,
            "wait_for_lock": 0.25,
            "guards": "none",
            "durability": "sync",
            "fast_share": 30,
            "create_new": True,
        }
        self.assertLessEqual(set(values), set(names))
        self.open(**values)
        for wrong, error, text in [
            ({"memtable_bites": 1}, braidb.InvalidError, "no option `memtable_bites`.*option_names"),
            ({"memtable_bytes": 1}, braidb.InvalidError, "memtable_bytes.*between"),
            ({"memtable_bytes": "many"}, braidb.InvalidError, "memtable_bytes"),
            ({"memtable_bytes": 1.5}, TypeError, "memtable_bytes"),
            ({"memtable_bytes": b"1"}, TypeError, "memtable_bytes"),
            ({"wait_for_lock": "1s"}, TypeError, "seconds"),
            ({"durability": "always"}, braidb.InvalidError, "durability"),
        ]:
            with self.assertRaisesRegex(error, text):
                braidb.open(self.path("wrong"), **wrong)
        self.assertFalse(os.path.exists(self.path("wrong")))

    def test_paths(self):
        with braidb.open(pathlib.Path(self.path())) as db:
            self.assertEqual(db.path, self.path())
            self.assertIn(self.path(), repr(db))
        with self.assertRaises(TypeError):
            braidb.open(12)

    def test_refusals_have_classes_and_remedies(self):
        with self.assertRaisesRegex(braidb.MissingError, "`create=True`") as told:
            self.open(create=False)
        self.assertEqual((told.exception.code, told.exception.path), ("MISSING", self.path()))
        self.assertIsInstance(told.exception, OSError)
        db = self.open()
        self.assertTrue(issubclass(braidb.LockedError, braidb.IOError), "plyvel raises its IOError for a locked database")
        with self.assertRaisesRegex(braidb.LockedError, "close that one first") as told:
            self.open()
        self.assertEqual(told.exception.code, "LOCKED")
        db.close()
        with self.assertRaises(braidb.ExistsError):
            self.open(create_new=True)
        with open(self.path("file"), "w"):
            pass
        with self.assertRaisesRegex(braidb.Error, "choose an empty or a new directory") as told:
            self.open("file/db")
        self.assertEqual(told.exception.code, "NOT_A_DATABASE")

    def test_an_error_of_the_system_has_its_number(self):
        with self.assertRaises(braidb.IOError) as told:
            self.open("x" * 300)
        self.assertIsInstance(told.exception, OSError)
        self.assertEqual((told.exception.errno, told.exception.code), (errno.ENAMETOOLONG, "IO"))
        self.assertIn("xxx", str(told.exception))

    def test_reads_only(self):
        db = self.open()
        users = db.family("users")
        users.put(b"ada", b"1815")
        db.close()
        reader, another = self.open(read_only=True), self.open(read_only=True)
        self.assertEqual(reader.family("users").get(b"ada"), b"1815")
        self.assertEqual(another.get(b"ada", family=another.family("users")), b"1815")
        with self.assertRaisesRegex(braidb.ReadOnlyError, r"braidb\.open\(path\)"):
            reader.put(b"k", b"v")

    def test_limits_are_told(self):
        db = self.open()
        with self.assertRaisesRegex(braidb.InvalidError, "the limit is 65536") as told:
            db.put(bytes(65_537), b"")
        self.assertEqual(told.exception.code, "TOO_LARGE")
        self.assertIsInstance(told.exception, ValueError)
        with self.assertRaisesRegex(braidb.InvalidError, "durability"):
            db.put(b"k", b"v", durability="maybe")

    def test_slow_tiers(self):
        slow = self.path("slow")
        db = self.open(slow_paths=[slow])
        fill(db, 10)
        self.assertIn(slow, [tier["path"] for tier in db.stats()["tiers"]])
        report = db.checkpoint(self.path("copy"), tiers={slow: self.path("slow-copy")})
        self.assertGreater(report["files"], 0)
        db.evacuate(slow)
        self.assertEqual(db.stats()["tiers"], [])
        self.assertEqual(len(list(self.open("copy"))), 10)


class Reports(Case):
    def test_stats_and_metrics(self):
        db = self.open()
        db.put(b"key", b"value")
        stats = db.stats()
        self.assertEqual(stats["user_bytes_total"], 8)
        self.assertEqual(stats["families"][0]["name"], "default")
        self.assertIsNone(stats["poisoned"])
        lines = db.metrics().splitlines()
        self.assertIn("braidb_user_bytes_total 8", lines)

    def test_verifies_itself_and_a_path(self):
        db = self.open()
        fill(db, 1_000)
        db.flush()
        report = db.verify()
        self.assertEqual(report["damages"], [])
        self.assertGreater(report["bytes"], 1_000)
        db.close()
        self.assertEqual(braidb.verify(self.path())["damages"], [])
        table = next(name for name in os.listdir(self.path()) if name.endswith(".table"))
        with open(self.path(f"db/{table}"), "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
        damages = braidb.verify(self.path())["damages"]
        self.assertTrue(damages)
        self.assertIn(table, damages[0]["path"])
        db = self.open()
        with self.assertRaisesRegex(braidb.CorruptionError, "is damaged at byte") as told:
            list(db)
        self.assertIn(table, told.exception.path)

    def test_tells_what_recovery_did(self):
        db = self.open()
        fill(db, 10)
        db.close()
        self.assertEqual(self.open().recovery()["cut"], None)

    def test_checkpoints_are_databases(self):
        db = self.open()
        fill(db, 100)
        report = db.checkpoint(self.path("monday"))
        self.assertGreater(report["files"], 0)
        db.delete(key(0))
        self.assertEqual(len(list(self.open("monday"))), 100)
        with self.assertRaises(braidb.ExistsError):
            db.checkpoint(self.path("monday"))

    def test_estimates(self):
        db = self.open()
        fill(db, 10_000)
        db.flush()
        half = db.estimate(key(0), key(5_000))
        self.assertTrue(4_000 < half["entries"] < 6_000, half)
        self.assertEqual(db.approximate_size(key(0), key(5_000)), half["bytes"])
        self.assertLess(half["bytes"], db.approximate_size())

    def test_excises_ranges(self):
        db = self.open()
        fill(db, 100)
        db.excise([(key(10), key(20)), (key(90), None)])
        self.assertEqual(len(list(db)), 80)
        db.excise([(None, None)])
        self.assertEqual(list(db), [])
        with self.assertRaises(TypeError):
            db.excise([("a", "b")])

    def test_a_snapshot_from_before_an_excise_says_so(self):
        db = self.open()
        fill(db, 100)
        before = db.snapshot()
        db.excise([(key(10), key(20))])
        with self.assertRaisesRegex(braidb.Error, "take a new snapshot") as told:
            before.get(key(15))
        self.assertEqual(told.exception.code, "EXCISED")
        self.assertEqual(before.get(key(5)), key(5))

    def test_compacts(self):
        db = self.open()
        users = db.family("users")
        for store in (db, users):
            fill(store, 1_000)
            for number in range(1_000):
                store.delete(key(number))

        def tables(family):
            return sum(level["tables"] for level in db.stats()["families"][family]["levels"])

        users.compact(key(0), key(10))
        self.assertEqual(tables(1), 0)
        db.compact()
        self.assertEqual((tables(0), tables(1)), (0, 0))
        db.settle()

    def test_destroys(self):
        db = self.open()
        with self.assertRaises(braidb.LockedError):
            braidb.destroy(self.path())
        db.close()
        braidb.destroy(self.path())
        with self.assertRaises(braidb.MissingError):
            braidb.destroy(self.path())


if __name__ == "__main__":
    unittest.main()
