"""Reads and writes of entries: single keys, ranges, families, cursors, views."""

import array
import faulthandler
import gc
import itertools
import unittest

import braidb
from case import Case, fill, key


class Keys(Case):
    def test_puts_gets_and_deletes(self):
        db = self.open()
        db.put(b"plum", b"blue")
        self.assertEqual(db.get(b"plum"), b"blue")
        self.assertIsNone(db.get(b"pear"))
        self.assertEqual(db.get(b"pear", b"none"), b"none")
        self.assertTrue(db.contains(b"plum"))
        db.delete(b"plum")
        db.delete(b"plum")
        self.assertIsNone(db.get(b"plum"))
        db.put(b"", b"")
        self.assertEqual(db.get(b""), b"")

    def test_is_a_mapping(self):
        db = self.open()
        db[b"plum"] = b"blue"
        self.assertEqual(db[b"plum"], b"blue")
        self.assertIn(b"plum", db)
        self.assertNotIn(b"pear", db)
        with self.assertRaises(KeyError) as missing:
            db[b"pear"]
        self.assertEqual(missing.exception.args, (b"pear",))
        self.assertEqual(db.setdefault(b"plum", b"red"), b"blue")
        self.assertEqual(db.setdefault(b"pear", b"green"), b"green")
        self.assertEqual(list(db), [b"pear", b"plum"])
        self.assertEqual(list(reversed(db)), [b"plum", b"pear"])
        self.assertEqual(db.pop(b"pear"), b"green")
        self.assertEqual(db.pop(b"pear", None), None)
        self.assertEqual(db.pop(b"pear", b"x"), b"x")
        with self.assertRaises(KeyError):
            db.pop(b"pear")
        with self.assertRaises(TypeError):
            db.pop(b"pear", 1, 2)
        del db[b"plum"]
        self.assertEqual(dict(db.items()), {})
        with self.assertRaises(TypeError):
            len(db)

    def test_update_takes_mappings_pairs_and_stores(self):
        db = self.open()
        db.update({b"a": b"1", b"b": bytearray(b"2")})
        db.update([(b"c", b"3")], durability="sync")
        users = db.family("users")
        users.update(db)
        self.assertEqual(dict(users.items()), {b"a": b"1", b"b": b"2", b"c": b"3"})
        users.update([[b"c", b"4"], (b"d", b"5"), iter([b"e", b"6"])])
        self.assertEqual(list(users.items(b"c")), [(b"c", b"4"), (b"d", b"5"), (b"e", b"6")])
        for wrong in ([b"d"], [b"d", b"4", b"5"], (b"d",)):
            with self.assertRaisesRegex(ValueError, "length"):
                db.update([wrong])
        with self.assertRaises(TypeError):
            db.update([(b"d", b"4"), (b"e", "5")])
        self.assertNotIn(b"d", db)

    def test_takes_all_that_has_bytes(self):
        db = self.open()
        backwards = memoryview(b"eulb")[::-1]
        for number, value in enumerate([b"blue", bytearray(b"blue"), memoryview(b"xblue")[1:], array.array("B", b"blue"), backwards]):
            db.put(bytearray(b"%d" % number), value)
            self.assertEqual(db.get(memoryview(b"%d" % number)), b"blue")

    def test_str_is_refused_with_the_remedy(self):
        db = self.open()
        for call in [
            lambda: db.get("plum"),
            lambda: db.put("plum", b"blue"),
            lambda: db.put(b"plum", "blue"),
            lambda: db["plum"],
            lambda: "plum" in db,
            lambda: db.items("a"),
            lambda: db.get_many(["plum"]),
            lambda: db.batch().put("plum", b"blue"),
        ]:
            with self.assertRaisesRegex(TypeError, r"\.encode\(\)"):
                call()
        for other in (None, 12, array.array("i", [1])):
            with self.assertRaisesRegex(TypeError, "buffer of bytes"):
                db.get(other)

    def test_gets_many_keys(self):
        db = self.open()
        fill(db, 10)
        self.assertEqual(db.get_many([key(3), b"x", bytearray(key(1))]), [key(3), None, key(1)])
        self.assertEqual(db.get_many(iter([])), [])
        before = db.snapshot()
        db.delete(key(3))
        self.assertEqual(before.get_many([key(3)]), [key(3)])
        with db.transaction() as transaction:
            transaction.put(b"new", b"1")
            self.assertEqual(transaction.get_many([b"new", key(3), key(4)]), [b"1", None, key(4)])

    def test_swaps_a_value_if_it_is_the_old_one(self):
        db = self.open()
        self.assertTrue(db.compare_and_swap(b"state", None, b"new"))
        self.assertFalse(db.compare_and_swap(b"state", None, b"other"))
        self.assertTrue(db.compare_and_swap(b"state", b"new", b"done"))
        self.assertTrue(db.compare_and_swap(b"state", b"done", None))
        self.assertNotIn(b"state", db)

    def test_views_are_buffers_without_a_copy(self):
        db = self.open()
        db.put(b"plum", b"blue")
        self.assertIsNone(db.get_view(b"pear"))
        view = db.get_view(b"plum")
        seen = memoryview(view)
        self.assertTrue(seen.readonly)
        self.assertEqual((bytes(seen), bytes(view), len(view), seen.nbytes), (b"blue", b"blue", 4, 4))
        with self.assertRaises(TypeError):
            seen[0] = 1
        db.put(b"copy", view)
        self.assertEqual(db.get(b"copy"), b"blue")
        # The value stays as it was, also after the database is gone.
        db.put(b"plum", b"red")
        db.close()
        del view
        self.assertEqual(seen.tobytes(), b"blue")


class Ranges(Case):
    def setUp(self):
        super().setUp()
        self.db = self.open()
        fill(self.db, 5_000)

    def test_both_ways_over_all(self):
        expected = [key(number) for number in range(5_000)]
        self.assertEqual(list(self.db.keys()), expected)
        self.assertEqual(list(self.db.values()), expected)
        self.assertEqual(list(self.db.items()), [(each, each) for each in expected])
        self.assertEqual(list(self.db.keys(reverse=True)), expected[::-1])
        self.assertEqual(list(self.db.values(reverse=True)), expected[::-1])
        self.assertEqual(list(self.db.items(reverse=True)), [(each, each) for each in expected[::-1]])

    def test_bounds(self):
        keys = self.db.keys
        self.assertEqual(list(keys(key(7), key(9))), [key(7), key(8)])
        self.assertEqual(list(keys(start=key(7), stop=key(9), include_start=False, include_stop=True)), [key(8), key(9)])
        self.assertEqual(list(keys(key(4_998))), [key(4_998), key(4_999)])
        self.assertEqual(list(keys(stop=key(2), reverse=True)), [key(1), key(0)])
        self.assertEqual(list(keys(key(9), key(7))), [])
        self.assertEqual(list(keys(key(9), key(9), include_stop=True)), [key(9)])
        self.assertEqual(list(keys(prefix=b"00124")), [key(number) for number in range(1_240, 1_250)])
        self.assertEqual(list(keys(prefix=b"00124", reverse=True))[0], key(1_249))
        self.assertEqual(list(keys(prefix=b"")), list(keys()))
        self.db.put(b"\xff\xff", b"last")
        self.assertEqual(list(keys(prefix=b"\xff")), [b"\xff\xff"])
        for bound in ({"start": b"a"}, {"stop": b"a"}):
            with self.assertRaisesRegex(TypeError, "prefix"):
                keys(prefix=b"a", **bound)

    def test_an_iterator_sees_one_moment(self):
        entries = self.db.keys()
        self.assertEqual(next(entries), key(0))
        fill(self.db.family("other"), 10)
        for number in range(5_000):
            self.db.delete(key(number))
        self.assertEqual(sum(1 for _ in entries), 4_999)
        self.assertIsNone(next(entries, None))

    def test_a_finalizer_may_use_the_iterator(self):
        """Python 3.11 collects garbage within the call that makes a pair."""
        faulthandler.dump_traceback_later(60, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        entries, seen = self.db.items(), []

        class Garbage:
            def __init__(self):
                self.cycle = self

            def __del__(self):
                seen.extend(itertools.islice(entries, 1))

        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        self.addCleanup(gc.enable)
        gc.set_threshold(1)
        entry = None
        while entry is not None or not seen:
            gc.disable()
            for _ in range(3):
                Garbage()
            # The next object that is tracked makes the interpreter collect.
            gc.enable()
            entry = next(entries, None)
            seen += [entry] if entry else []
        self.assertEqual(sorted(seen), list(self.db.items()))

    def test_large_values_come_one_by_one(self):
        large = self.db.family("large")
        for number in range(4):
            large.put(key(number), bytes([number]) * (300 << 10))
        self.assertEqual([(name, value[0], len(value)) for name, value in large.items()], [(key(n), n, 300 << 10) for n in range(4)])
        self.assertEqual([value[0] for value in large.values(reverse=True)], [3, 2, 1, 0])
        self.assertEqual(len(list(large.keys())), 4)

    def test_first_and_last(self):
        self.assertEqual(self.db.first(), (key(0), key(0)))
        self.assertEqual(self.db.last(), (key(4_999), key(4_999)))
        empty = self.db.family("empty")
        self.assertIsNone(empty.first())
        self.assertIsNone(empty.last())

    def test_an_iterator_knows_its_key(self):
        entries = self.db.values(stop=key(2))
        self.assertIsNone(entries.key)
        next(entries)
        self.assertEqual(entries.key, key(0))
        self.assertEqual(list(entries), [key(1)])
        self.assertIsNone(entries.key)

    def test_cursors_move_both_ways(self):
        cursor = self.db.cursor()
        self.assertIsNone(cursor.key)
        self.assertTrue(cursor.next())
        self.assertEqual((cursor.key, cursor.value), (key(0), key(0)))
        self.assertTrue(cursor.seek(b"0012345"))
        self.assertEqual(cursor.key, key(1_235))
        self.assertTrue(cursor.prev())
        self.assertEqual(cursor.key, key(1_234))
        self.assertTrue(cursor.seek_for_prev(b"0012345"))
        self.assertEqual(cursor.key, key(1_234))
        self.assertTrue(cursor.last())
        self.assertFalse(cursor.next())
        self.assertIsNone(cursor.key)
        self.assertIsNone(cursor.value)
        self.assertTrue(cursor.prev())
        self.assertEqual(cursor.key, key(4_999))
        self.assertTrue(cursor.first())
        self.assertFalse(cursor.prev())
        bounded = self.db.cursor(prefix=b"00124")
        self.assertTrue(bounded.first() and bounded.key == key(1_240))
        self.assertTrue(bounded.last() and bounded.key == key(1_249))
        self.assertFalse(bounded.next())


class Families(Case):
    def test_families_are_apart(self):
        db = self.open()
        users = db.family("users")
        self.assertEqual(users.name, "users")
        users.put(b"ada", b"1815")
        self.assertNotIn(b"ada", db)
        self.assertEqual(db.get(b"ada", family=users), b"1815")
        self.assertTrue(db.contains(b"ada", family=users))
        self.assertEqual(list(db.keys(family=users)), [b"ada"])
        self.assertEqual(db.first(family=users), (b"ada", b"1815"))
        self.assertEqual(bytes(db.get_view(b"ada", family=users)), b"1815")
        self.assertEqual(db.families(), ["default", "users"])
        self.assertEqual(db.family("users", create=False).get(b"ada"), b"1815")
        with self.assertRaisesRegex(braidb.MissingFamilyError, r"db\.family\(name, create=True\)"):
            db.family("usres", create=False)
        with self.assertRaises(braidb.InvalidError):
            db.family("")

    def test_families_of_others_are_refused(self):
        db, other = self.open(), self.open("other")
        users, foreign = db.family("users"), other.family("users")
        snapshot, batch = db.snapshot(), db.batch()
        for call in [
            lambda: db.get(b"k", family=foreign),
            lambda: db.items(family=foreign),
            lambda: snapshot.get(b"k", family=foreign),
            lambda: batch.put(b"k", b"v", family=foreign),
        ]:
            with self.assertRaisesRegex(braidb.InvalidError, "belongs to another database"):
                call()
        with self.assertRaisesRegex(braidb.InvalidError, "already"):
            users.get(b"k", family=users)

    def test_snapshots_read_families(self):
        db = self.open()
        users = db.family("users")
        users.put(b"ada", b"1815")
        with db.snapshot() as before:
            users.delete(b"ada")
            self.assertEqual(before.get(b"ada", family=users), b"1815")
            self.assertEqual(list(before.items(family=users)), [(b"ada", b"1815")])
            self.assertEqual(before.last(family=users), (b"ada", b"1815"))
            self.assertNotIn(b"ada", before)
            cursor = before.cursor(family=users)
            self.assertTrue(cursor.first())
        self.assertEqual(list(users), [])


if __name__ == "__main__":
    unittest.main()
