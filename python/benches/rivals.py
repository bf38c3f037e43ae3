"""Processor time of signatures and of whole dedup, beside rensa and datasketch, on one list of texts.

    python rivals.py OUT.csv FILE.warc.wet.gz…

Every row is the least of three runs in this process, as seconds of processor time over all threads, so that what
else the machine does counts for little. `texts`: the clock starts with texts in a list. `shingles`: with shingles in
lists of `str`, which rensa and datasketch need and simflip makes itself, so it has no such row. All make 128
positions a text from runs of five words, lower case, as simflip does. simflip runs on one thread. `parquet`: the
clock starts with the same texts in a file; once the package's command line reads it, in a process of its own, once
pyarrow does, and `simflip.dedup` takes the table.

Needs simflip (a release build), rensa, datasketch, numpy and pyarrow.
"""

import csv
import gzip
import importlib.metadata
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import datasketch
import simflip
import pyarrow as pa
import pyarrow.parquet as pq
import rensa

POSITIONS, THRESHOLD, RUNS = 128, 0.8, 3


def pages(path):
    """The texts of the conversion records of a WET file."""
    with gzip.open(path) as file:
        while line := file.readline():
            if not line.startswith(b"WARC/"):
                continue
            header = {}
            while (line := file.readline().strip()):
                name, _, value = line.partition(b":")
                header[name.lower()] = value.strip()
            body = file.read(int(header[b"content-length"]))
            if header[b"warc-type"] == b"conversion":
                yield body.decode("utf-8", "replace")


def shingles(text, width=5):
    """The distinct runs of words; those there are, if there are fewer words."""
    words = re.findall(r"[^\W_]+", text.lower())
    return list({" ".join(words[at : at + width]) for at in range(max(1, len(words) - width + 1))})


def clock():
    """Processor seconds of this process and of those that it has waited for."""
    of_others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of_others.ru_utime + of_others.ru_stime


def timed(work):
    """The least processor time of some runs, and what the last came to."""
    best = float("inf")
    for _ in range(RUNS):
        began = clock()
        result = work()
        best = min(best, clock() - began)
    return best, result


def by_command_line(path, folder):
    """The pages that stay, as many as the command line says of a Parquet file."""
    out = Path(folder, "result")
    options = ["--out", out, "--write", "pairs", "--threads", "1", "--quiet", "--force"]
    command = [sys.executable, "-m", "simflip", "dedup", path, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    outcome = json.loads((out / "report.json").read_text())["outcome"]
    return outcome["kept"]


def rensa_signatures(sets):
    return rensa.RMinHash.digest_matrix_from_token_sets(sets, POSITIONS, 42)


def rensa_kept(sets):
    lsh = rensa.RMinHashLSH(threshold=THRESHOLD, num_perm=POSITIONS, num_bands=16)
    kept = 0
    for row, minhash in enumerate(rensa.RMinHash.from_token_sets(sets, POSITIONS, 42)):
        if not any(lsh.is_similar(minhash, other) for other in map(stored.__getitem__, lsh.query(minhash))):
            lsh.insert(row, minhash)
            stored[row] = minhash
            kept += 1
    stored.clear()
    return kept


stored = {}


def datasketch_signatures(sets):
    return [datasketch_signature(tokens) for tokens in sets]


def datasketch_signature(tokens):
    minhash = datasketch.MinHash(num_perm=POSITIONS)
    minhash.update_batch([token.encode() for token in tokens])
    return minhash


def datasketch_kept(sets):
    lsh = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=POSITIONS)
    kept = 0
    for row, minhash in enumerate(datasketch_signatures(sets)):
        if not any(minhash.jaccard(stored[other]) >= THRESHOLD for other in lsh.query(minhash)):
            lsh.insert(row, minhash)
            stored[row] = minhash
            kept += 1
    stored.clear()
    return kept


def main(out, files):
    with tempfile.TemporaryDirectory() as folder:
        measure(out, files, folder)


def measure(out, files, folder):
    texts = [text for path in files for text in pages(path)]
    sets = [shingles(text) for text in texts]
    minhash = {"method": "minhash", "permutations": POSITIONS, "threads": 1}
    cut = lambda: [shingles(text) for text in texts]  # noqa: E731
    whole = lambda **settings: len(simflip.dedup(texts, threads=1, **settings).kept)  # noqa: E731
    stored_texts = Path(folder, "pages.parquet")
    pq.write_table(pa.table({"id": [str(row) for row in range(len(texts))], "text": texts}), stored_texts)
    rows = [
        ("signatures", "simflip", "texts", lambda: simflip.sketch(texts, **minhash)),
        ("signatures", "rensa", "texts", lambda: rensa_signatures(cut())),
        ("signatures", "rensa", "shingles", lambda: rensa_signatures(sets)),
        ("signatures", "datasketch", "texts", lambda: datasketch_signatures(cut())),
        ("signatures", "datasketch", "shingles", lambda: datasketch_signatures(sets)),
        ("dedup", "simflip, minhash", "texts", lambda: whole(method="minhash", permutations=POSITIONS)),
        ("dedup", "simflip, both", "texts", whole),
        ("parquet", "simflip, command line", "file", lambda: by_command_line(stored_texts, folder)),
        ("parquet", "simflip, table", "file", lambda: len(simflip.dedup(pq.read_table(stored_texts), threads=1).kept)),
        ("dedup", "rensa", "texts", lambda: rensa_kept(cut())),
        ("dedup", "rensa", "shingles", lambda: rensa_kept(sets)),
        ("dedup", "datasketch", "texts", lambda: datasketch_kept(cut())),
        ("dedup", "datasketch", "shingles", lambda: datasketch_kept(sets)),
    ]
    with open(out, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["task", "tool", "version", "from", "texts", "text_bytes", "cpu_seconds", "kept"])
        for task, tool, start, work in rows:
            seconds, result = timed(work)
            version = simflip.__version__ if tool.startswith("simflip") else importlib.metadata.version(tool)
            kept = "" if task == "signatures" else result
            size = sum(len(text.encode()) for text in texts)
            table.writerow([task, tool, version, start, len(texts), size, f"{seconds:.4f}", kept])
            file.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
