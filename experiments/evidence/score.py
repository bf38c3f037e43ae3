"""Precision, recall and F1 of the pairs that a run lists, with intervals.

usage: score.py pairs.csv DOCUMENTS TRUTH.csv [--at 0.8]
           truth by resemblance (a,b,jaccard): all other pairs are false
           B-cubed F1 as well, of the clusters that any chain of pairs links
       score.py pairs.csv DOCUMENTS LABELS.csv
           labels (a,b,label): pairs without a label do not count

DOCUMENTS is the JSONL or WET file that the run read. Run the tool with --all-pairs: truth holds all pairs of
documents.

The interval holds 95 % of draws with replacement of whole families: the `family` column of the labels, else
the `family` field of the documents, else the hosts of their URLs. What lies between two families is put
to the first.
"""

import argparse
import collections
import csv
import io
import itertools
import json
import random
import urllib.parse

import corpus


def table(path):
    with corpus.opened(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def families_of(path, rows):
    """The family of every document by place."""
    found = [urllib.parse.urlsplit(url).netloc.removeprefix("www.") for _, url, _ in rows]
    if ".wet" not in path and ".warc" not in path:
        with corpus.opened(path) as file:
            named = [json.loads(line).get("family") for line in file if line.strip()]
        found = [name or host for name, host in zip(named, found)]
    return found


def found_pairs(path, rows):
    """{(a, b): similarity} of pairs.csv, by place; a pair of unknown ids is of a run of other documents. Other
    tools give pairs a,b by place, or clusters, of which all pairs within one count."""
    places = {}
    for place, row in enumerate(rows):
        if row[0] in places:
            raise SystemExit(f"two documents have the id {row[0]}")
        places[row[0]] = place
    found, clusters = {}, {}
    for row in table(path):
        if "a" in row and "b" in row:
            found[min(int(row["a"]), int(row["b"])), max(int(row["a"]), int(row["b"]))] = 1.0
            continue
        if "cluster" in row and "record" in row:
            clusters.setdefault(row["cluster"], []).append(int(row["record"]))
            continue
        if row["a_id"] not in places or row["b_id"] not in places:
            raise SystemExit(f"{path} is of other documents: no {row['a_id']} or {row['b_id']}")
        a, b = sorted((places[row["a_id"]], places[row["b_id"]]))
        found[a, b] = float(row["similarity"])
    for records in clusters.values():
        found.update(dict.fromkeys(itertools.combinations(sorted(records), 2), 1.0))
    return found


def rates(hits, wrong, missed):
    precision = hits / (hits + wrong) if hits + wrong else 0.0
    recall = hits / (hits + missed) if hits + missed else 0.0
    return precision, recall, 2 * hits / (2 * hits + wrong + missed) if hits else 0.0


def interval(groups, draws, seed):
    """95 % of the rates of draws of whole groups; groups are rows of hits, wrong, missed."""
    random_ = random.Random(seed)
    found = []
    for _ in range(draws):
        drawn = random_.choices(groups, k=len(groups))
        found.append(rates(*map(sum, zip(*drawn))))
    return [
        (sorted(column)[int(0.025 * draws)], sorted(column)[int(0.975 * draws)]) for column in zip(*found)
    ]


def components(pairs):
    """The component of every document that has a pair."""
    parent = {}

    def root(document):
        while parent.setdefault(document, document) != document:
            parent[document] = parent[parent[document]]
            document = parent[document]
        return document

    for a, b in pairs:
        parent[root(a)] = root(b)
    return {document: root(document) for document in parent}


def bcubed(found, true):
    """{document: (precision, recall)} of every document that has a found or a true pair; clusters are what
    any chain of pairs links (Bagga and Baldwin 1998)."""
    clusters, classes = components(found), components(true)
    documents = clusters.keys() | classes.keys()
    # A document without a pair is a cluster of its own.
    names = {document: (clusters.get(document, ("alone", document)), classes.get(document, ("alone", document)))
             for document in documents}
    sizes = collections.Counter()
    for cluster, kind in names.values():
        sizes.update((("found", cluster), ("true", kind), ("both", cluster, kind)))
    return {
        document: (
            sizes["both", cluster, kind] / sizes["found", cluster],
            sizes["both", cluster, kind] / sizes["true", kind],
        )
        for document, (cluster, kind) in names.items()
    }


def harmonic(precision, recall, n):
    return 2 * precision * recall / (precision + recall) / n if precision + recall else 0.0


def bcubed_interval(scores, family, draws, seed):
    """B-cubed F1, and 95 % of those of draws of whole families."""
    groups = collections.defaultdict(lambda: [0.0, 0.0, 0])
    for document, (precision, recall) in scores.items():
        group = groups[family[document]]
        group[0] += precision
        group[1] += recall
        group[2] += 1
    groups = [groups[name] for name in sorted(groups)]
    random_ = random.Random(seed)
    drawn = sorted(harmonic(*map(sum, zip(*random_.choices(groups, k=len(groups))))) for _ in range(draws))
    return harmonic(*map(sum, zip(*groups))), drawn[int(0.025 * draws)], drawn[int(0.975 * draws)]


def auc(pairs):
    """Share of (positive, negative) pairs in order by score, ties half; None without both."""
    order = sorted(pairs)
    positives = sum(label for _, label in order)
    negatives = len(order) - positives
    if not positives or not negatives:
        return None
    below = right = at = 0
    while at < len(order):
        end = at
        while end < len(order) and order[end][0] == order[at][0]:
            end += 1
        here = sum(label for _, label in order[at:end])
        right += here * (below + (end - at - here) / 2)
        below += end - at - here
        at = end
    return right / positives / negatives


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("pairs")
    arguments.add_argument("documents")
    arguments.add_argument("truth")
    arguments.add_argument("--at", type=float, default=0.8, help="least resemblance of a true pair")
    arguments.add_argument("--draws", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()

    rows = list(corpus.read(given.documents))
    family = families_of(given.documents, rows)
    found = found_pairs(given.pairs, rows)
    truth = table(given.truth)
    closed = bool(truth) and "label" in truth[0]
    labelled, named = {}, {}
    for row in truth:
        pair = tuple(sorted((int(row["a"]), int(row["b"]))))
        labelled[pair] = row["label"] == "1" if closed else float(row["jaccard"]) >= given.at
        named[pair] = row.get("family")

    groups = collections.defaultdict(lambda: [0, 0, 0])
    for pair in labelled.keys() | (set() if closed else found.keys()):
        is_true, is_found = labelled.get(pair, False), pair in found
        if is_true or is_found:
            name = named.get(pair) or min(family[pair[0]], family[pair[1]])
            groups[name][0 if is_true and is_found else 1 if is_found else 2] += 1
        elif closed:
            groups[named.get(pair) or min(family[pair[0]], family[pair[1]])]
    groups = [groups[name] for name in sorted(groups)]
    if not groups:
        raise SystemExit("no pair is true, and none is listed")
    hits, wrong, missed = map(sum, zip(*groups))
    result = {
        "pairs_listed": len(found),
        "true": hits + missed,
        "hits": hits,
        "wrong": wrong,
        "missed": missed,
        "families": len(groups),
    }
    bounds = interval(groups, given.draws, given.seed)
    for name, value, (low, high) in zip(("precision", "recall", "f1"), rates(hits, wrong, missed), bounds):
        result[name] = [round(value, 4), round(low, 4), round(high, 4)]
    if closed:
        result["negatives"] = len(labelled) - hits - missed
        area = auc([(found.get(pair, 0.0), is_true) for pair, is_true in labelled.items()])
        result["auc"] = None if area is None else round(area, 4)
    else:
        true = [pair for pair, is_true in labelled.items() if is_true]
        scores = bcubed(found, true)
        result["bcubed"] = [round(value, 4) for value in bcubed_interval(scores, family, given.draws, given.seed)]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
