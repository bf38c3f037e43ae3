"""Draws pairs of different texts for readers, evenly over bands of the Jaccard coefficient of 3-shingles.

usage: draw.py wide FOLDER --seed 1 web-pages=FILE:100 debian-docs=FILE:60 ...
       draw.py listed FOLDER --seed 1 --pairs pairs.csv --count 200 NAME=FILE

wide: candidates come from three wide nets, each asked in turn, so that none decides alone: bands of minima
over 3-shingles, bands of minima over words, and the same host or the same title. At most three pairs of two
hosts and two of a page.
listed: pairs of different texts that a run of the tool lists, a simple sample of each band; the key says how
many listed pairs each band has, so that what readers say can be weighted to the whole list.

FOLDER/pairs/NNN.txt is what a reader sees: both texts, and the lines that only one has. FOLDER/key.csv tells
what the pairs are, and is not for readers.
"""

import argparse
import collections
import csv
import difflib
import itertools
import os
import random
import re
import urllib.parse
import zlib

import corpus

BANDS = (0.02, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
BINS = 128
TEXT = 2500
LINES = 1500
# Buckets larger than this give a sample of their pairs.
BUCKET = 40
# Candidates of each net and band of which the exact coefficient is counted.
COUNTED = 200


def band_of(value):
    """Index of the band that holds the coefficient, or None below all."""
    if value < BANDS[0]:
        return None
    return max(0, min(sum(value > edge for edge in BANDS) - 1, len(BANDS) - 2))


def mixed(data):
    """32 bits of a string; CRC alone is linear, so it is multiplied and folded."""
    value = zlib.crc32(data.encode()) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return value >> 24 & 0xFFFFFFFF


def minima(items):
    """One-permutation minima: the smallest hash of each of BINS bins, None where a bin is empty."""
    found = [None] * BINS
    for item in items:
        value = mixed(item)
        at, rest = value % BINS, value // BINS
        if found[at] is None or rest < found[at]:
            found[at] = rest
    return found


def likeness(a, b):
    """Estimate of the Jaccard coefficient from two rows of minima."""
    used = equal = 0
    for x, y in zip(a, b):
        if x is not None or y is not None:
            used += 1
            equal += x == y
    return equal / used if used else 0.0


def host_of(name, url):
    """What counts as one host: of made-up hosts the part that means something."""
    parts = urllib.parse.urlsplit(url)
    path = parts.path.split("/")
    if name.startswith("newsgroups"):
        return path[1]
    if "descriptions" in name:
        return path[-1][:5]
    if "debian-docs" in name:
        return parts.netloc.split(".")[0]
    if name.startswith("bbc"):
        return url
    return parts.netloc.removeprefix("www.")


def title_of(text):
    first = text.lstrip().split("\n", 1)[0].lower()
    return re.sub(r"^(re|fwd?)\s*:\s*|\W+", " ", first).strip()


class Documents:
    """The documents of a corpus; shingles of those that are asked for."""

    def __init__(self, name, path):
        self.name = name
        rows = list(corpus.read(path))
        self.ids = [row[0] for row in rows]
        self.hosts = [host_of(name, row[1]) for row in rows]
        self.texts = [row[2].strip() for row in rows]
        self.sets = {}

    def shingles(self, place, width):
        if (place, width) not in self.sets:
            if len(self.sets) > 4000:
                self.sets.clear()
            self.sets[place, width] = corpus.shingles(self.texts[place], width)
        return self.sets[place, width]

    def jaccard(self, a, b, width):
        return corpus.jaccard(self.shingles(a, width), self.shingles(b, width))

    def containment(self, a, b, width):
        return corpus.containment(self.shingles(a, width), self.shingles(b, width))


def bucketed(keys, random_):
    """Pairs of places that share a key; of a large bucket a sample."""
    buckets = collections.defaultdict(list)
    for place, key in keys:
        buckets[key].append(place)
    pairs = set()
    for key in sorted(buckets):
        places = buckets[key]
        if len(places) > BUCKET:
            found = (tuple(sorted(random_.sample(places, 2))) for _ in range(BUCKET * 10))
        else:
            found = itertools.combinations(places, 2)
        pairs.update(found)
    return pairs


def banded(rows, width):
    """Keys of a net of bands: (place, (band, minima of its bins)), bands with an empty bin left out."""
    for place, row in enumerate(rows):
        for start in range(0, BINS, width):
            values = tuple(row[start : start + width])
            if None not in values:
                yield place, (start, values)


def nets(documents, random_):
    """The candidates of the three nets, and the minima over 3-shingles."""
    over_shingles, over_words = [], []
    for text in documents.texts:
        found = corpus.words(text)
        over_words.append(minima(set(found)))
        over_shingles.append(minima(set(map(" ".join, zip(found, found[1:], found[2:])))))
    titles = [(place, ("host", host)) for place, host in enumerate(documents.hosts)]
    titles += [(place, ("title", title_of(text))) for place, text in enumerate(documents.texts)]
    candidates = {
        "shingles": bucketed(banded(over_shingles, 2), random_),
        "words": bucketed(banded(over_words, 3), random_),
        "host or title": bucketed(titles, random_),
    }
    return candidates, over_shingles


def counted(documents, random_):
    """{net: [candidates of each band, in random order]}, by the exact coefficient."""
    candidates, rows = nets(documents, random_)
    found = {}
    for net, pairs in candidates.items():
        guessed = collections.defaultdict(list)
        ordered = sorted(pairs)
        random_.shuffle(ordered)
        for a, b in ordered[:300_000]:
            at = band_of(likeness(rows[a], rows[b]))
            if at is not None and len(guessed[at]) < COUNTED and documents.texts[a] != documents.texts[b]:
                guessed[at].append((a, b))
        found[net] = [[] for _ in BANDS[1:]]
        for a, b in itertools.chain.from_iterable(guessed[at] for at in sorted(guessed)):
            at = band_of(documents.jaccard(a, b, 3))
            if at is not None:
                found[net][at].append((a, b))
        for band in found[net]:
            random_.shuffle(band)
        print(
            f"{documents.name}, {net}: {len(pairs)} candidates, counted by band",
            [len(band) for band in found[net]],
        )
    return found


def drawn(documents, count, random_):
    """[(a, b, net)]: evenly over bands, nets in turn, within the limits on hosts and pages."""
    candidates = counted(documents, random_)
    turns = {at: itertools.cycle(sorted(candidates)) for at in range(len(BANDS) - 1)}
    hosts, pages, taken = collections.Counter(), collections.Counter(), {}

    def one(at):
        for _ in candidates:
            net = next(turns[at])
            while candidates[net][at]:
                a, b = candidates[net][at].pop()
                between = tuple(sorted((documents.hosts[a], documents.hosts[b])))
                if (a, b) not in taken and hosts[between] < 3 and max(pages[a], pages[b]) < 2:
                    hosts[between] += 1
                    pages.update((a, b))
                    taken[a, b] = net
                    return True
        return False

    # The bands in turn, beginning at a random one so that a count that does not divide by them favours none.
    open_bands = list(range(len(BANDS) - 1))
    random_.shuffle(open_bands)
    while open_bands and len(taken) < count:
        for at in list(open_bands):
            if len(taken) < count and not one(at):
                open_bands.remove(at)
    return [(a, b, net) for (a, b), net in taken.items()]


def shortened(text):
    if len(text) <= TEXT:
        return text
    head, tail = TEXT * 3 // 5, TEXT * 2 // 5 - 60
    return f"{text[:head]}\n[... {len(text) - head - tail} characters left out ...]\n{text[-tail:]}"


def nearest(line, others):
    """The line of the others that shares most words with this one, if it shares half of them."""
    own = set(line.split())
    best = max(others, key=lambda other: len(own & set(other.split())), default="")
    return best if 2 * len(own & set(best.split())) >= len(own) else ""


def differing(line, other):
    """Of a long line what the other line does not have, with some words around it; 400 characters at most."""
    own = line.split()
    matcher = difflib.SequenceMatcher(None, own[:3000], other.split()[:3000], autojunk=False)
    pieces = [
        " ".join(own[max(0, start - 4) : end + 4]) + (" [words left out here]" if start == end else "")
        for kind, start, end, _, _ in matcher.get_opcodes()
        if kind != "equal"
    ]
    text = " ... ".join(pieces)
    return text if len(text) <= 400 else text[:400] + "..."


def only(lines, others):
    """The lines that the others do not have: all, or spread over the whole; of a long one what differs."""
    known = set(others)
    own = [line for line in dict.fromkeys(lines) if line not in known]
    foreign = [line for line in dict.fromkeys(others) if line not in set(lines)][:400]
    shown, size, step = [], 0, max(1, -(-sum(min(len(line), 200) + 1 for line in own) // LINES))
    for line in own[::step]:
        if len(line) > 200:
            line = differing(line, nearest(line, foreign))
        if size + len(line) + 1 > LINES - 60:
            break
        shown.append(line)
        size += len(line) + 1
    if len(shown) < len(own):
        shown.append(f"[{len(shown)} of {len(own)} such lines, from the whole text]")
    return "\n".join(shown) if own else "[none]"


def sheet(first, second):
    """What a reader sees of two texts."""
    lines = [
        [" ".join(line.split()) for line in text.split("\n") if line.strip()] for text in (first, second)
    ]
    return (
        f"===== TEXT A ({len(first)} characters)\n{shortened(first)}\n\n"
        f"===== TEXT B ({len(second)} characters)\n{shortened(second)}\n\n"
        f"===== LINES ONLY IN A\n{only(lines[0], lines[1])}\n\n"
        f"===== LINES ONLY IN B\n{only(lines[1], lines[0])}\n"
    )


def write(folder, rows, random_):
    """Writes sheets and key; rows are (documents, a, b, further columns). Order and sides are random."""
    os.makedirs(os.path.join(folder, "pairs"), exist_ok=True)
    random_.shuffle(rows)
    with open(os.path.join(folder, "key.csv"), "w", newline="", encoding="utf-8") as file:
        key = csv.writer(file, lineterminator="\n")
        key.writerow(
            [
                "pair",
                "corpus",
                "a",
                "b",
                "a_id",
                "b_id",
                "a_host",
                "b_host",
                "j3",
                "j5",
                "containment3",
                "drawn_by",
                "stratum",
                "stratum_pairs",
            ]
        )
        for number, (documents, a, b, by, stratum, pairs) in enumerate(rows, 1):
            if random_.random() < 0.5:
                a, b = b, a
            with open(os.path.join(folder, "pairs", f"{number:03}.txt"), "w", encoding="utf-8") as page:
                page.write(sheet(documents.texts[a], documents.texts[b]))
            values = [documents.jaccard(a, b, 3), documents.jaccard(a, b, 5), documents.containment(a, b, 3)]
            key.writerow(
                [
                    f"{number:03}",
                    documents.name,
                    a,
                    b,
                    documents.ids[a],
                    documents.ids[b],
                    documents.hosts[a],
                    documents.hosts[b],
                ]
                + [f"{value:.4f}" for value in values]
                + [by, stratum, pairs]
            )


def named_band(at):
    return f"{BANDS[at]}-{BANDS[at + 1]}"


def wide(given, random_):
    rows = []
    for part in given.corpora:
        name, _, rest = part.partition("=")
        path, _, count = rest.rpartition(":")
        documents = Documents(name, path)
        found = drawn(documents, int(count), random_)
        print(f"{name}: {len(found)} pairs drawn")
        rows += [
            (documents, a, b, net, named_band(band_of(documents.jaccard(a, b, 3))), "") for a, b, net in found
        ]
    write(given.folder, rows, random_)


def listed(given, random_):
    name, _, path = given.corpora[0].partition("=")
    documents = Documents(name, path)
    places = {}
    for place, id_ in enumerate(documents.ids):
        places.setdefault(id_, place)
    bands = collections.defaultdict(list)
    with open(given.pairs, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            a, b = places[row["a_id"]], places[row["b_id"]]
            if documents.texts[a] != documents.texts[b]:
                at = band_of(documents.jaccard(a, b, 3))
                bands[-1 if at is None else at].append((a, b))
    # Evenly, and what a small band lacks goes to the others.
    wanted = collections.Counter()
    while sum(wanted.values()) < given.count and any(wanted[at] < len(bands[at]) for at in bands):
        for at in sorted(bands):
            if wanted[at] < len(bands[at]) and sum(wanted.values()) < given.count:
                wanted[at] += 1
    rows = [
        (documents, a, b, "listed", "below" if at < 0 else named_band(at), len(bands[at]))
        for at in sorted(bands)
        for a, b in random_.sample(bands[at], wanted[at])
    ]
    print({at: (wanted[at], len(bands[at])) for at in sorted(bands)})
    write(given.folder, rows, random_)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("how", choices=["wide", "listed"])
    arguments.add_argument("folder")
    arguments.add_argument("corpora", nargs="+", help="NAME=FILE:COUNT (wide), NAME=FILE (listed)")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--pairs")
    arguments.add_argument("--count", type=int, default=200)
    given = arguments.parse_args()
    (wide if given.how == "wide" else listed)(given, random.Random(given.seed))


if __name__ == "__main__":
    main()
