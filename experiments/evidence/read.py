"""What readers said of drawn pairs: how far they agree, what could go, and how runs fare on it.

usage: read.py KEY.csv READ.csv READ2.csv [--run CORPUS=PAIRS.csv,DOCUMENTS ...]

KEY.csv is made by draw.py, READ.csv (pair,label,removable,confidence) by each reader. Only pairs count on
which all readers agree whether one of the two can go. --run scores one setting, pooled over the corpora it is
given for. Of a key drawn from a list (draw.py listed) it tells the share of the list that can go, each pair
standing for as many as its band holds. Intervals hold 95 % of draws with replacement of whole hosts.
"""

import argparse
import collections
import json
import random

import corpus
import score

LABELS = ("same", "version", "contains", "frame", "different")
ANSWERS = ("yes", "no")


def answers(path, pairs):
    """{pair: (label, removable)} of one reader, who must have answered every pair in the protocol's words."""
    found = {}
    for row in score.table(path):
        pair, label, removable = row["pair"].zfill(3), row["label"].strip(), row["removable"].strip()
        if pair not in pairs or pair in found or label not in LABELS or removable not in ANSWERS:
            raise SystemExit(f"{path}: pair {pair} is unknown, twice there, or not in the protocol's words")
        found[pair] = label, removable
    if missing := sorted(pairs - found.keys()):
        raise SystemExit(f"{path}: no answer for {missing[:5]}, {len(missing)} in all")
    return found


def agreement(one, other):
    """(share of equal answers, Cohen's kappa) of two readers' answers to the same questions in order."""
    equal = sum(x == y for x, y in zip(one, other)) / len(one)
    counts = collections.Counter(one), collections.Counter(other)
    chance = sum(counts[0][word] * counts[1][word] for word in counts[0]) / len(one) ** 2
    return equal, (equal - chance) / (1 - chance) if chance < 1 else 1.0


def grouped(rows, of):
    """The rows' values by host, those between two hosts put to the first."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["corpus"], min(row["a_host"], row["b_host"])].append(of(row))
    return [groups[name] for name in sorted(groups)]


def weighted(rows, removable, draws=1000, seed=1):
    """Share of a list that can go, with its interval: a pair weighs what its band holds for each read one."""
    taken = collections.Counter(row["stratum"] for row in rows)
    groups = grouped(
        rows, lambda row: (int(row["stratum_pairs"]) / taken[row["stratum"]], removable[row["pair"]])
    )

    def share(drawn):
        values = [value for group in drawn for value in group]
        return sum(weight for weight, goes in values if goes) / sum(weight for weight, _ in values)

    random_ = random.Random(seed)
    found = sorted(share(random_.choices(groups, k=len(groups))) for _ in range(draws))
    return [
        round(value, 4) for value in (share(groups), found[int(0.025 * draws)], found[int(0.975 * draws)])
    ]


def run_rates(rows, removable, runs):
    """Rates of a run on the pairs of its corpora; runs: {corpus: set of listed pairs of ids}."""

    def outcome(row):
        listed = frozenset((row["a_id"], row["b_id"])) in runs[row["corpus"]]
        goes = removable[row["pair"]]
        return goes and listed, listed and not goes, goes and not listed

    groups = [list(map(sum, zip(*group))) for group in grouped(rows, outcome)]
    counts = list(map(sum, zip(*groups)))
    result = dict(zip(("hits", "wrong", "missed"), counts), pairs=len(rows))
    bounds = score.interval(groups, 1000, 1)
    for name, value, bound in zip(("precision", "recall", "f1"), score.rates(*counts), bounds):
        result[name] = [round(value, 4), round(bound[0], 4), round(bound[1], 4)]
    return result


def listed(part):
    """(corpus, pairs of ids that the run lists); the documents say that the run is of this corpus."""
    name, _, rest = part.partition("=")
    pairs, _, documents = rest.partition(",")
    known = list(corpus.read(documents))
    places = score.found_pairs(pairs, known)
    return name, {frozenset((known[a][0], known[b][0])) for a, b in places}


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("key")
    arguments.add_argument("readers", nargs="+")
    arguments.add_argument("--run", nargs="+", default=[])
    given = arguments.parse_args()
    key = score.table(given.key)
    pairs = {row["pair"] for row in key}
    readers = [answers(path, pairs) for path in given.readers]
    order = sorted(pairs)
    for name, at in (("label", 0), ("removable", 1)):
        for other in readers[1:]:
            words = [[reader[pair][at] for pair in order] for reader in (readers[0], other)]
            print(name, "agreement %.3f, kappa %.3f" % agreement(*words))
    removable = {
        pair: readers[0][pair][1] == "yes"
        for pair in order
        if len({reader[pair][1] for reader in readers}) == 1
    }
    agreed = [row for row in key if row["pair"] in removable]
    print(f"{len(agreed)} of {len(key)} agreed, {sum(removable.values())} removable")
    for stratum in sorted({row["stratum"] for row in agreed}):
        inside = [removable[row["pair"]] for row in agreed if row["stratum"] == stratum]
        print(f"3-shingles {stratum}: {sum(inside)} of {len(inside)} removable")
    for measure in ("j3", "j5", "containment3"):
        values = [(float(row[measure]), removable[row["pair"]]) for row in agreed]
        area = score.auc(values)
        if area is not None:
            best = max((two_f1(values, least), least) for least, _ in values)
            print(f"{measure}: AUC {area:.3f}, best F1 {best[0]:.3f} at {best[1]:.3f}")
    if agreed and all(row["stratum_pairs"] for row in agreed):
        print("share of the list that is removable:", weighted(agreed, removable))
    if given.run:
        runs = dict(listed(part) for part in given.run)
        print(json.dumps(run_rates([row for row in agreed if row["corpus"] in runs], removable, runs)))


def two_f1(values, least):
    """F1 of taking every value of at least `least`."""
    hits = sum(goes for value, goes in values if value >= least)
    taken = sum(value >= least for value, _ in values)
    return 2 * hits / (taken + sum(goes for _, goes in values))


if __name__ == "__main__":
    main()
