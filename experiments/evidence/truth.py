"""All pairs of documents whose sets of word 5-shingles have a Jaccard coefficient of .5 or more, exactly.

usage: truth.py IN.jsonl|IN.warc.wet.gz OUT.truth.csv [--width 5] [--least 0.5] [--check KNOWN.csv.gz]

A prefix filter brings up the candidates, their sets are then intersected. Nothing is estimated. Documents
without any word take no part. OUT has a,b,jaccard: places of the two documents from 0, a < b; four digits.
"""

import argparse
import collections
import csv
import io
import itertools
import math

import corpus


def join(sets, least):
    """Yields (a, b, jaccard) of every two of the sets with a coefficient of at least `least`; a < b."""
    same = collections.defaultdict(list)
    frequency = collections.Counter()
    for place, items in enumerate(sets):
        if items:
            same[frozenset(items)].append(place)
    distinct = sorted(same, key=len)
    for items in distinct:
        frequency.update(items)
    for places in same.values():
        for a, b in itertools.combinations(places, 2):
            yield a, b, 1.0

    # Items by rank, rarest first; an item that only one set has cannot be shared and is not indexed.
    ranked = {
        item: rank
        for rank, (item, _) in enumerate(sorted(frequency.items(), key=lambda x: (x[1], repr(x[0]))))
    }
    alone = sum(1 for count in frequency.values() if count == 1)
    del frequency
    rows = [sorted(ranked[item] for item in items) for items in distinct]
    del ranked
    holders = collections.defaultdict(list)
    kept = [set(row) for row in rows]
    for place, row in enumerate(rows):
        size = len(row)
        # Two sets that share least * size items share one among the first size - ceil(least * size) + 1.
        needed = math.ceil(least * size - 1e-9)
        shared = collections.Counter()
        for at, item in enumerate(row[: size - needed + 1]):
            if item < alone:
                continue
            for other, other_at in holders[item]:
                other_size = len(rows[other])
                if other_size + 1e-9 < needed:
                    continue
                # What the two can share at most, from here on.
                wanted = math.ceil(least / (1 + least) * (size + other_size) - 1e-9)
                if shared[other] + min(size - at, other_size - other_at) >= wanted:
                    shared[other] += 1
                else:
                    shared[other] = -size
            holders[item].append((place, at))
        for other, count in shared.items():
            if count > 0:
                common = len(kept[place] & kept[other])
                coefficient = common / (size + len(rows[other]) - common)
                if coefficient >= least - 1e-12:
                    for a, b in itertools.product(same[distinct[place]], same[distinct[other]]):
                        yield min(a, b), max(a, b), coefficient


def known_pairs(path):
    """{(a, b): jaccard} of a truth file."""
    with corpus.opened(path) as file:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        return {(int(row["a"]), int(row["b"])): float(row["jaccard"]) for row in rows}


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("documents")
    arguments.add_argument("out")
    arguments.add_argument("--width", type=int, default=5)
    arguments.add_argument("--least", type=float, default=0.5)
    arguments.add_argument("--check", help="a truth file of the same documents to be equal to")
    given = arguments.parse_args()
    # Shingles as numbers: the sets of a whole corpus stay small.
    numbers = {}
    sets = [
        {numbers.setdefault(shingle, len(numbers)) for shingle in corpus.shingles(text, given.width)}
        for _, _, text in corpus.read(given.documents)
    ]
    del numbers
    pairs = sorted(join(sets, given.least))
    with open(given.out, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["a", "b", "jaccard"])
        rows.writerows((a, b, f"{coefficient:.4f}") for a, b, coefficient in pairs)
    high = sum(1 for pair in pairs if pair[2] >= 0.8)
    print(f"{given.out}: {len(sets)} documents, {len(pairs)} pairs at {given.least}, {high} at .8")
    if given.check:
        known = known_pairs(given.check)
        mine = {(a, b): coefficient for a, b, coefficient in pairs}
        missing, more = sorted(known.keys() - mine.keys()), sorted(mine.keys() - known.keys())
        other = [pair for pair in known.keys() & mine.keys() if abs(known[pair] - mine[pair]) > 0.000051]
        print(
            f"known {len(known)}, missing {len(missing)} {missing[:5]},",
            f"more {len(more)} {more[:5]}, other value {len(other)}",
        )
        raise SystemExit(bool(missing or more or other))


if __name__ == "__main__":
    main()
