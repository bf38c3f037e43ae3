"""Scores what a run removes, by counting on the texts: ../results/removal/rows.csv.

usage: removal.py SIMFLIP ROWS.csv [--seeds N] SET=DOCUMENTS,KIND ...      KIND: chosen, held-out, generated

Every set is run with each setting and seed; its rows take the place of those that it had. Documents are sets of shingles of words (corpus.py), compared by products of
sparse matrices, without a hash. A row has:

duplicates      different texts of which another, fuller one (for a resemblance: an earlier one) has enough
recall_all  of these, the share that was removed
recall      removed / (removed + missed): missed are texts that are kept though a kept one before them has enough
share, low, high   the same as the run printed it, from its sample, with its interval; covers: whether it holds recall
precision   of the texts that were removed as near-duplicates, the share of which a kept text has enough
held        mean share of the removed texts' 3-word shingles that stands in the kept text that has most of them
lost_half   removed texts of which less than half stands in any kept text

Needs numpy and scipy.
"""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy
import scipy.sparse

import corpus

SETTINGS = {
    "default": ([], 5, "resemblance", 0.8),
    "--similarity .5": (["--similarity", "0.5"], 5, "resemblance", 0.5),
    "--preset removable": (["--preset", "removable"], 3, "containment", 0.82),
    "--verify containment": (["--verify", "containment"], 5, "containment", 0.82),
}
FIELDS = [
    "set", "kind", "setting", "seed", "documents", "texts", "removed", "duplicates", "recall_all", "recall", "share", "low", "high", "covers",
    "precision", "held", "lost_half", "cpu_seconds", "kernel",
]
ROWS = 256


def matrix(texts, width):
    """A row for each text, with a one for each of its shingles."""
    numbers, starts, columns = {}, [0], []
    for text in texts:
        columns.extend({numbers.setdefault(shingle, len(numbers)) for shingle in corpus.shingles(text, width)})
        starts.append(len(columns))
    ones = numpy.ones(len(columns), numpy.float32)
    return scipy.sparse.csr_matrix((ones, columns, starts), shape=(len(texts), max(len(numbers), 1)))


def run(program, documents, options, seed, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, "dedup", documents, "--out", folder, "--write", "removed", "--quiet", "--threads", "1", "--seed", str(seed), *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    with open(os.path.join(folder, "removed.csv"), encoding="utf-8", newline="") as file:
        removed = {int(row["row"]) for row in csv.DictReader(file)}
    return report, removed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Truth:
    """The texts of a set, and what each has of each other."""

    def __init__(self, texts, width):
        self.shingles = matrix(texts, width)
        self.transposed = self.shingles.T.tocsr()
        self.sizes = numpy.diff(self.shingles.indptr)

    def blocks(self):
        """Some texts at a time: their numbers, and how many shingles each has in common with every text."""
        for first in range(0, len(self.sizes), ROWS):
            last = min(first + ROWS, len(self.sizes))
            yield numpy.arange(first, last), (self.shingles[first:last] @ self.transposed).toarray()

    def enough(self, numbers, shared, measure, threshold):
        """Whether each text has enough of each of these, and may stay in its place."""
        own, all_sizes, order = self.sizes[numbers, None], self.sizes[None, :], numpy.arange(len(self.sizes))[None, :]
        earlier = order < numbers[:, None]
        with numpy.errstate(divide="ignore", invalid="ignore"):
            if measure == "containment":
                fuller = (all_sizes > own) | (all_sizes == own) & earlier
                has, before = shared / own, fuller
            else:
                has, before = shared / (own + all_sizes - shared), earlier
        has = numpy.nan_to_num(has)
        has[numpy.arange(len(numbers)), numbers] = 0
        # Rounding of a quotient is no reason to miss.
        return has >= threshold - 1e-6, before

    def pairs(self, measure, threshold):
        """Pairs of a text and one that has enough of it: their numbers, and whether the second may stay in the first one's place."""
        found = []
        for numbers, shared in self.blocks():
            has, before = self.enough(numbers, shared, measure, threshold)
            rows, others = numpy.nonzero(has)
            found.append((numbers[rows], others, before[rows, others]))
        return [numpy.concatenate(part) for part in zip(*found)]


def any_of(texts, number):
    """Which texts are in a list of them."""
    found = numpy.zeros(number, bool)
    found[texts] = True
    return found


def score(runs, pairs, measure, truth):
    """Fills the rows of runs of one setting. Each has the texts that it kept."""
    texts, others, before = pairs
    # Of two texts of one size either may stay.
    same = truth.sizes[texts] == truth.sizes[others] if measure == "containment" else numpy.zeros(len(texts), bool)
    for kept, row in runs:
        gone, by_kept, number = ~kept, kept[others], len(kept)
        duplicates = any_of(texts[before & ~same | by_kept & same], number)
        missed = int((any_of(texts[by_kept & before], number) & kept).sum())
        right = int((any_of(texts[by_kept], number) & gone).sum())
        removed = int(gone.sum())
        row |= {
            "removed": removed,
            "duplicates": int(duplicates.sum()),
            "recall_all": ratio((duplicates & gone).sum(), duplicates.sum()),
            "recall": ratio(removed, removed + missed),
            "precision": ratio(right, removed),
        }


def score_held(runs, truth):
    """Fills in what the kept texts hold of the removed ones, of runs of any settings."""
    shares = [[] for _ in runs]
    for numbers, shared in truth.blocks():
        for (kept, _), found in zip(runs, shares):
            of = ~kept[numbers]
            most = shared[of][:, kept].max(axis=1, initial=0)
            found.extend(most / numpy.maximum(truth.sizes[numbers[of]], 1))
    for (_, row), found in zip(runs, shares):
        row["held"] = float(numpy.mean(found)) if found else ""
        row["lost_half"] = sum(share < 0.5 for share in found)


def ratio(part, whole):
    return float(part / whole) if whole else ""


def main(arguments):
    seeds = 1
    if "--seeds" in arguments:
        at = arguments.index("--seeds")
        seeds = int(arguments[at + 1])
        del arguments[at : at + 2]
    program, rows, *sets = arguments
    known = []
    if os.path.exists(rows):
        with open(rows, encoding="utf-8", newline="") as file:
            known = list(csv.DictReader(file))
    for given in sets:
        name, rest = given.split("=", 1)
        documents, kind = rest.rsplit(",", 1)
        all_texts = [text for _, _, text in corpus.read(documents)]
        numbers = {}
        of_document = [numbers.setdefault(text, len(numbers)) for text in all_texts]
        truths = {width: Truth(list(numbers), width) for width in (3, 5)}
        runs = []
        for setting, (options, width, measure, threshold) in SETTINGS.items():
            of_setting = []
            for seed in range(seeds):
                with tempfile.TemporaryDirectory() as folder:
                    report, removed, cpu = run(program, documents, options, seed, os.path.join(folder, "out"))
                row = {"set": name, "kind": kind, "setting": setting, "seed": seed, "documents": len(all_texts), "texts": len(numbers)}
                row |= {"cpu_seconds": cpu, "kernel": report["tool"]["kernel"]}
                found = ((report.get("recall_estimate") or {}).get("documents") or {}).get("recall")
                if found:
                    row |= {rate: found[rate] for rate in ("share", "low", "high")}
                # A text is removed if all of its documents are.
                kept = any_of([text for document, text in enumerate(of_document) if document not in removed], len(numbers))
                of_setting.append((kept, row))
            score(of_setting, truths[width].pairs(measure, threshold), measure, truths[width])
            runs += of_setting
        score_held(runs, truths[3])
        for _, row in runs:
            if row["recall"] != "" and "share" in row:
                row["covers"] = int(row["low"] <= row["recall"] <= row["high"])
            row |= {field: round(value, 4) for field, value in row.items() if isinstance(value, float)}
            print(*(f"{field}={row.get(field, '')}" for field in FIELDS), flush=True)
        known = [old for old in known if old["set"] != name] + [row for _, row in runs]
        with open(rows, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(known)


if __name__ == "__main__":
    main(sys.argv[1:])
