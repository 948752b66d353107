"""Measures `braidb` and `braidb.plyvel` beside plyvel: puts, batches of 1,000, gets, and iteration.

    python bench/beside_plyvel.py [--entries 1000000] [--rounds 5] [--dir DIR]

Each round runs all stores in turns, each in a new process, on a new database with keys of 16 bytes and values of 100 in random order. It
prints the medians, in thousands of operations a second, and how many times plyvel's. plyvel has to be installed.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

STORES = ("plyvel", "braidb", "braidb.plyvel")
PHASES = ("put", "batch", "get", "iterate", "reverse")
BATCH = 1_000


def entries(count):
    """Keys in random order, which are the same for each store, each with its value."""
    chance = random.Random(1)
    numbers = list(range(count))
    chance.shuffle(numbers)
    value = chance.randbytes(1 << 20)
    return [(b"%016d" % number, value[(start := number % 1_000_000) : start + 100]) for number in numbers]


def opened(store, path):
    if store == "braidb":
        import braidb

        return braidb.open(path, block_cache_bytes=1 << 30)
    plyvel = __import__("braidb.plyvel", fromlist=["DB"]) if store == "braidb.plyvel" else __import__("plyvel")
    # Both get the same memory: LevelDB's own defaults are 4 MiB and 8 MiB.
    return plyvel.DB(path, create_if_missing=True, write_buffer_size=64 << 20, lru_cache_size=1 << 30, bloom_filter_bits=10)


def run(store, count, path):
    """Runs all phases on one store. Prints the seconds that each took."""
    rows = entries(count)
    keys = [key for key, _ in rows]
    random.Random(2).shuffle(keys)
    is_native = store == "braidb"

    def put(db):
        for key, value in rows:
            db.put(key, value)

    def batch(db):
        make = db.batch if is_native else db.write_batch
        for start in range(0, count, BATCH):
            with make() as writes:
                for key, value in rows[start : start + BATCH]:
                    writes.put(key, value)

    def get(db):
        for key in keys:
            if db.get(key) is None:
                raise SystemExit(f"{store} lost {key!r}")

    def iterate(db, reverse=False):
        walk = db.items(reverse=reverse) if is_native else db.iterator(reverse=reverse)
        if sum(1 for _, _ in walk) != count:
            raise SystemExit(f"{store} lost entries")

    phases = [("put", put), ("batch", batch), ("get", get), ("iterate", iterate), ("reverse", lambda db: iterate(db, True))]
    db = None
    for name, phase in phases:
        if name in ("put", "batch"):
            if db is not None:
                db.close()
            shutil.rmtree(path, ignore_errors=True)
            db = opened(store, path)
        start = time.perf_counter()
        phase(db)
        print(name, time.perf_counter() - start, flush=True)
    db.close()
    shutil.rmtree(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default="beside-plyvel.tmp")
    parser.add_argument("--store", choices=STORES, help="run this one alone, and print its seconds")
    arguments = parser.parse_args()
    if arguments.store:
        return run(arguments.store, arguments.entries, arguments.dir)
    seconds = {(store, phase): [] for store in STORES for phase in PHASES}
    for number in range(arguments.rounds):
        for store in STORES[number % len(STORES) :] + STORES[: number % len(STORES)]:
            command = [sys.executable, os.path.abspath(__file__), "--store", store]
            command += ["--entries", str(arguments.entries), "--dir", arguments.dir]
            for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
                phase, took = line.split()
                seconds[store, phase].append(float(took))
    print(f"thousands a second, medians of {arguments.rounds}; in brackets how many times plyvel's")
    print(f"{'':10}" + "".join(f"{store:>22}" for store in STORES))
    for phase in PHASES:
        medians = [statistics.median(seconds[store, phase]) for store in STORES]
        cells = [f"{arguments.entries / median / 1_000:8.0f} ({medians[0] / median:.2f})" for median in medians]
        print(f"{phase:10}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
