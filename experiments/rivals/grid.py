"""Many settings of other tools on sets with a known truth, a row for each: ../results/rivals/grid.csv.

    python grid.py ROWS.csv datasketch|find-simdoc|text-dedup SET=DOCUMENTS,TRUTH,KIND …    KIND: chosen, held-out

Sketches are made once for each width of shingles, and every threshold is tried on them. A pair is true from a Jaccard
coefficient of .8 on. A row has the tool, its setting, the bytes of a sketch, the set, precision, recall and F1. What
needs more than a limit of candidates, or of time, is stopped and has no row. ../tables.py takes the best of a tool. See
README.md for what must be installed.
"""

import csv
import hashlib
import itertools
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import rivals

sys.path.insert(0, str(Path(__file__).parent.parent / "evidence"))
import score

AT = 0.8
MOST_CANDIDATES = 5_000_000
FIELDS = ["command", "tool", "setting", "bytes", "kind", "set", "precision", "recall", "f1", "true", "listed"]


def shingles(text, width):
    tokens = rivals.words(text)
    return {" ".join(tokens[i : i + width]) for i in range(max(len(tokens) - width + 1, 1))}


def datasketch(texts):
    """Yields (setting, bytes, pairs): widths of shingles, permutations, the threshold of the LSH, and what its
    candidates are checked by, if they are."""
    import numpy
    from datasketch import MinHash, MinHashLSH

    for width in (3, 5):
        # The package's own hash function, called once for both lengths of the signature.
        hashed = [
            [struct.unpack("<I", hashlib.sha1(s.encode()).digest()[:4])[0] for s in shingles(text, width)] for text in texts
        ]
        for permutations in (128, 256):
            sketches = MinHash.bulk(hashed, num_perm=permutations, hashfunc=int)
            values = numpy.array([sketch.hashvalues for sketch in sketches])
            for threshold in (0.6, 0.7, 0.8, 0.9):
                index, candidates = MinHashLSH(threshold=threshold, num_perm=permutations), []
                for number, sketch in enumerate(sketches):
                    candidates.extend((other, number) for other in index.query(sketch))
                    index.insert(number, sketch)
                    if len(candidates) > MOST_CANDIDATES:
                        break
                if len(candidates) > MOST_CANDIDATES:
                    print(f"{width} words, {permutations}, {threshold}: too many candidates", file=sys.stderr)
                    continue
                estimates = []
                for start in range(0, len(candidates), 100_000):
                    a, b = numpy.array(candidates[start : start + 100_000]).T
                    estimates.extend((values[a] == values[b]).mean(axis=1).tolist())
                for least in (None, 0.7, 0.75, 0.78, 0.8, 0.82, 0.85, 0.9):
                    pairs = {pair for pair, estimate in zip(candidates, estimates) if least is None or estimate >= least}
                    checked = "unchecked" if least is None else f"estimate from {least}"
                    setting = f"{width}-shingles, {permutations} permutations, LSH {threshold}, {checked}"
                    yield setting, 4 * permutations, pairs


def find_simdoc(texts):
    """Yields (setting, bytes, pairs): space, width of shingles and radius; sketches of 640 bits. One run at the widest
    radius has the distances of all narrower ones."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lines:
        for text in texts:
            lines.write((" ".join(rivals.words(text)) or "-") + "\n")
        lines.flush()
        for space, width, radii in (
            ("jaccard", 3, (0.1, 0.12, 0.14, 0.16, 0.18, 0.2)),
            ("jaccard", 5, (0.1, 0.14, 0.16, 0.18, 0.2, 0.22, 0.25)),
            ("cosine", 3, (0.1, 0.12, 0.14)),
        ):
            command = [rivals.SIMDOC, lines.name, space, str(width), str(max(radii))]
            try:
                told = subprocess.run(command, check=True, timeout=rivals.LIMIT, capture_output=True, text=True).stdout
            except subprocess.TimeoutExpired:
                print(f"{space} {width}: stopped after {rivals.LIMIT:.0f} s", file=sys.stderr)
                continue
            found = [(int(a), int(b), 1 - float(s)) for a, b, s in itertools.islice(csv.reader(told.splitlines()), 1, None)]
            for radius in radii:
                pairs = {(a, b) for a, b, distance in found if distance <= radius + 1e-9}
                yield f"{space}, {width}-shingles, radius {radius}", 80, pairs


def text_dedup(texts):
    """Yields (setting, bytes, pairs): all pairs within a cluster, as it tells clusters alone."""
    for threshold in (0.7, 0.8, 0.9):
        flags = f"--ngram 5 --num_perm 250 --threshold {threshold} --min_length 5".split()
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "clusters.csv")
            try:
                rivals.text_dedup("minhash", flags)(texts, out)
            except subprocess.TimeoutExpired:
                print(f"{threshold}: stopped after {rivals.LIMIT:.0f} s", file=sys.stderr)
                continue
            yield f"MinHash, 5-shingles, 250 permutations, threshold {threshold}", 1000, set(score.found_pairs(out, []))


TOOLS = {"datasketch": datasketch, "find-simdoc": find_simdoc, "text-dedup": text_dedup}


def main():
    rows, tool, *sets = sys.argv[1:]
    known = []
    if os.path.exists(rows):
        with open(rows, newline="", encoding="utf-8") as file:
            known = list(csv.DictReader(file))
    for given in sets:
        name, _, files = given.partition("=")
        documents, truth, kind = files.split(",")
        command = f"grid.py {tool} {name}={os.path.basename(documents)},{os.path.basename(truth)},{kind}"
        true = {
            tuple(sorted((int(row["a"]), int(row["b"])))) for row in score.table(truth) if float(row["jaccard"]) >= AT
        }
        made = []
        for setting, size, pairs in TOOLS[tool](list(rivals.read(documents))):
            hits = len(pairs & true)
            rates = score.rates(hits, len(pairs) - hits, len(true) - hits)
            numbers = [f"{rate:.4f}" for rate in rates]
            made.append(dict(zip(FIELDS, [command, tool, setting, size, kind, name, *numbers, len(true), len(pairs)])))
            print(name, setting, numbers, file=sys.stderr, flush=True)
        known = [row for row in known if (row["tool"], row["set"]) != (tool, name)] + made
        with open(rows, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(known)


if __name__ == "__main__":
    main()
