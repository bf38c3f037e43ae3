"""FAISS binary indexes on the hashes of `experiments -- dial --dump DIR`: rows for experiments/results/dial.

    python3 -m venv venv && venv/bin/pip install faiss-cpu numpy
    venv/bin/python experiments/rivals/faiss_binary.py DIR/NAME experiments/results/dial/NAME.csv

One thread, processor time, the fastest of three rounds. FAISS wants distances below its radius, so it is asked for one more.
Every setting is exact by the pigeonhole principle and is held against the number of pairs that a full scan finds for the
first queries. The second argument is the file of rows that the experiment wrote: the corpus, the distances and the
columns are taken from it, and a file beside it is written.
"""

import csv
import sys
import time

import faiss
import numpy

# Distance, number of keys, bits of each, bits flipped in each.
SETTINGS = [(3, 4, 16, 0), (3, 2, 32, 1), (6, 7, 9, 0), (6, 4, 16, 1), (10, 6, 10, 1), (10, 4, 16, 2)]
QUERIES = {3: 20_000, 6: 2_000, 10: 500}


def pairs_of(index, queries, radius):
    """Pairs at distance 1 to radius, and the processor seconds of the fastest of three rounds."""
    best = float("inf")
    for _ in range(3):
        before = time.process_time()
        limits, distances, _ = index.range_search(queries, radius + 1)
        best = min(best, time.process_time() - before)
    return int((distances > 0).sum()), best


def main():
    base, rows = sys.argv[1], sys.argv[2]
    faiss.omp_set_num_threads(1)
    stored = numpy.fromfile(base + ".stored.u64", dtype="<u8").view(numpy.uint8).reshape(-1, 8)
    queries = numpy.fromfile(base + ".queries.u64", dtype="<u8").view(numpy.uint8).reshape(-1, 8)
    with open(rows) as file:
        like = list(csv.DictReader(file))
    flat = faiss.IndexBinaryFlat(64)
    flat.add(stored)
    out = open(rows.removesuffix(".csv") + "-faiss.csv", "w", newline="")
    writer = csv.DictWriter(out, fieldnames=like[0].keys(), lineterminator="\n")
    writer.writeheader()
    for radius, keys, bits, flips in SETTINGS:
        if not any(row["radius"] == str(radius) for row in like):
            continue
        asked = queries[: QUERIES[radius]]
        exact, _ = pairs_of(flat, asked[:200], radius)
        start = time.process_time()
        index = faiss.IndexBinaryMultiHash(64, keys, bits)
        index.add(stored)
        build, size = time.process_time() - start, faiss.serialize_index_binary(index).nbytes
        index.nflip = flips
        found, _ = pairs_of(index, asked[:200], radius)
        assert found == exact, f"{keys} x {bits}, {flips} flips: {found} pairs of {exact}"
        pairs, seconds = pairs_of(index, asked, radius)
        name = f"FAISS multi-hash {keys} x {bits}, {flips} flips"
        row = {key: like[0][key] for key in ("corpus", "corpus_hash", "seed", "revision", "machine")}
        row |= {key: like[0][key] for key in ("source", "documents", "stored")}
        row |= {
            "queries": len(asked), "radius": radius, "method": name, "index": f"faiss {faiss.__version__}",
            "mode": "all", "budget": "", "recall": "1.00000", "recall_with_distance_0": "1.00000",
            "pairs": pairs, "threads": 1, "cpu_seconds": f"{seconds:.5f}",
            "queries_per_cpu_second": f"{len(asked) / seconds:.0f}", "bytes": size, "bytes_by": "serialised",
            "tables": f"{size / 8 / len(stored):.4f}", "build_cpu_seconds": f"{build:.4f}",
        }
        writer.writerow(row)
        out.flush()
        print(name, radius, f"{len(asked) / seconds:.0f} queries/s", f"{size / len(stored):.0f} bytes a hash", flush=True)


main()
