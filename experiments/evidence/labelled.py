"""Pairs that their source labels: duplicates (1) and others that look alike (0).

usage: labelled.py copies WEB-PAGES.warc.wet.gz OUT       one URL fetched twice; other pages of a host
       labelled.py licences LICENCES.jsonl OUT            rules of one licence; rules of two licences
       labelled.py transplants WEB-PAGES.warc.wet.gz OUT  one text in two frames; two texts in one frame
       labelled.py versions DEBIAN-DOCS.warc.wet.gz OUT   one path in two releases; other pages of a package

Writes OUT.jsonl, the documents to run the tool on, and OUT.labels.csv: places of both from 0, label, kind,
family (what to resample: host, licence, package), exact coefficients of word 3- and 5-shingles, ids.
LICENCES.jsonl is made by heldout.py. Texts of two documents of a labelled pair are never the same.
"""

import argparse
import collections
import csv
import hashlib
import itertools
import re
import urllib.parse

import corpus
import truth

# Lines that stand on so many URLs of a host are its frame.
FRAME = 3
# Names that stand for many licences, not one.
MANY = re.compile(
    r"proprietary|commercial|other-|unknown|generic|public-domain|free-unknown|unicode-|warranty|cla\b|patent"
)


def number(*parts):
    return int(hashlib.md5("\x1f".join(map(str, parts)).encode()).hexdigest()[:12], 16)


def shuffled(items, *key):
    """The items in an order that depends on nothing but them."""
    return sorted(items, key=lambda item: (number(*key, item), item))


class Set:
    """Documents and labelled pairs on the way to their two files."""

    def __init__(self, rows):
        self.rows = list(rows)
        self.pairs = []
        self.known = set()

    def sets(self, place, width):
        return corpus.shingles(self.rows[place][2], width)

    def label(self, a, b, label, kind, family):
        """Adds a pair unless its texts are the same or it is there; tells whether it did."""
        a, b = sorted((a, b))
        if self.rows[a][2].strip() == self.rows[b][2].strip() or (a, b) in self.known:
            return False
        self.known.add((a, b))
        self.pairs.append((a, b, label, kind, family))
        return True

    def keep(self, wanted):
        """Drops all documents but the wanted ones; before pairs are labelled."""
        self.rows = [row for place, row in enumerate(self.rows) if place in wanted]

    def write(self, out):
        corpus.write_jsonl(out + ".jsonl", self.rows)
        with open(out + ".labels.csv", "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["a", "b", "label", "kind", "family", "j3", "j5", "a_id", "b_id"])
            for a, b, label, kind, family in sorted(self.pairs):
                by = [f"{corpus.jaccard(self.sets(a, width), self.sets(b, width)):.4f}" for width in (3, 5)]
                rows.writerow([a, b, label, kind, family, *by, self.rows[a][0], self.rows[b][0]])
        count = collections.Counter((label, kind) for _, _, label, kind, _ in self.pairs)
        families = {label: len({pair[4] for pair in self.pairs if pair[2] == label}) for label in (0, 1)}
        print(f"{out}: {len(self.rows)} documents, {dict(count)}, families {families}")


# An archived capture: when, and of what. Redirects hide which captures show one page.
_CAPTURE = re.compile(r"^https?://web\.archive\.org/web/\d+[a-z_]*/(?=https?:)")


def page_of(url):
    """The URL without the mark of a second fetch; of an archived capture the URL that was captured."""
    return re.sub(r":80(?=/)", "", _CAPTURE.sub("", re.sub(r"[?&]copy=\d+$", "", url)))


def host_of(url):
    return urllib.parse.urlsplit(url).netloc.removeprefix("www.")


def near(rows, width, least):
    """[(a, b)] of all rows whose shingles have a coefficient of at least `least`."""
    numbers = {}
    sets = [
        {numbers.setdefault(item, len(numbers)) for item in corpus.shingles(row[2], width)} for row in rows
    ]
    return [(a, b) for a, b, _ in truth.join(sets, least)]


def copies(path):
    """All pages of the hosts that have a labelled pair, so that frames can be counted by host."""
    rows = list(corpus.read(path))
    pages = collections.defaultdict(list)
    for place, row in enumerate(rows):
        pages[page_of(row[1])].append(place)
    # A front page shows other things every day. Of a page with many captures at most six pairs.
    positive = {
        pair
        for page, places in sorted(pages.items())
        if urllib.parse.urlsplit(page).path not in ("", "/")
        for pair in shuffled(itertools.combinations(places, 2), page)[:6]
    }
    hosts = collections.defaultdict(list)
    for a, b in near(rows, 5, 0.5):
        host = host_of(rows[a][1])
        if (
            host == host_of(rows[b][1])
            and not _CAPTURE.match(rows[a][1])
            and page_of(rows[a][1]) != page_of(rows[b][1])
        ):
            hosts[host].append((a, b))
    negative = {}
    for host, found in hosts.items():
        different = [(a, b) for a, b in found if rows[a][2].strip() != rows[b][2].strip()]
        negative.update(dict.fromkeys(shuffled(different, host)[:4], host))
    used = {host_of(rows[place][1]) for pair in [*positive, *negative] for place in pair}
    kept = [place for place, row in enumerate(rows) if host_of(row[1]) in used]
    at = {place: new for new, place in enumerate(kept)}
    made = Set(rows[place] for place in kept)
    for a, b in positive:
        captured = _CAPTURE.match(rows[a][1]) or _CAPTURE.match(rows[b][1])
        made.label(
            at[a], at[b], 1, "captured twice" if captured else "fetched twice", host_of(page_of(rows[a][1]))
        )
    for (a, b), host in negative.items():
        made.label(at[a], at[b], 0, "other page of the host", host)
    return made


def licences(path):
    """Texts of a licence and notices that name it apart; of a licence at most six pairs of each kind."""
    import json

    rows = []
    with corpus.opened(path) as file:
        for line in file:
            row = json.loads(line)
            one = re.fullmatch(r"[a-z0-9.+-]+", row["label"]) and not MANY.search(row["label"])
            if one and not row["deprecated"] and row["kind"] in ("text", "notice"):
                rows.append(
                    (row["id"], row["url"], row["text"], {"label": row["label"], "kind": row["kind"]})
                )
    made = Set(rows)
    of = [row[3] for row in rows]
    lengths = [len(corpus.words(row[2])) for row in rows]
    by_label = collections.defaultdict(list)
    for place, label in enumerate(of):
        by_label[label["label"], label["kind"]].append(place)
    for (label, kind), places in sorted(by_label.items()):
        # A variant of a text has about its length: rules also hold parts of licences.
        variants = [
            (a, b)
            for a, b in itertools.combinations(places, 2)
            if min(lengths[a], lengths[b]) > 0.6 * max(lengths[a], lengths[b])
        ]
        taken = 0
        for a, b in shuffled(variants, label) if kind == "text" else []:
            taken += taken < 6 and made.label(a, b, 1, "text of one licence", label)
    each = collections.Counter()
    for a, b in shuffled(near(rows, 5, 0.5), "licences"):
        one, other = sorted((of[a]["label"], of[b]["label"]))
        if of[a]["kind"] != of[b]["kind"]:
            continue
        kind = of[a]["kind"]
        if one == other and kind == "notice" and each[one, "same"] < 6:
            each[one, "same"] += made.label(a, b, 1, "notice of one licence, alike", one)
        # Two labels by rule, at most twice; a label against all others at most eight times.
        if one != other and each[one, other] < 2 and max(each[one], each[other]) < 8:
            if made.label(a, b, 0, f"{kind} of two licences", one):
                each.update(((one, other), one, other))
    return made


def transplants(path):
    """Frames are lines on three or more URLs of a host that stand before or after the main text."""
    rows = list(corpus.read(path))
    hosts = collections.defaultdict(list)
    for place, row in enumerate(rows):
        hosts[host_of(row[1])].append(place)
    parts = {}
    for host, places in hosts.items():
        on = collections.defaultdict(set)
        for place in places:
            for line in set(rows[place][2].strip().split("\n")):
                on[line].add(page_of(rows[place][1]))
        for place in places:
            lines = rows[place][2].strip().split("\n")
            frame = [len(on[line]) >= FRAME for line in lines]
            main = [at for at, is_frame in enumerate(frame) if not is_frame]
            if not main:
                continue
            # The main text lies between the page's own first and last long lines, without frame lines.
            long = [at for at in main if len(corpus.words(lines[at])) >= 12]
            if not long:
                continue
            head, tail = [lines[at] for at in range(long[0]) if frame[at]], [
                lines[at] for at in range(long[-1] + 1, len(lines)) if frame[at]
            ]
            body = [lines[at] for at in range(long[0], long[-1] + 1) if not frame[at]]
            # The title on top is the page's own.
            title = [lines[0]] if not frame[0] and long[0] > 0 else []
            size = len(corpus.words("\n".join(title + body))), len(corpus.words("\n".join(head + tail)))
            if size[0] >= 80 and size[1] >= 40:
                parts[place] = (title, head, body, tail)
    by_host = collections.defaultdict(list)
    for place in parts:
        by_host[host_of(rows[place][1])].append(place)
    used = sorted(
        host
        for host, places in by_host.items()
        if len(hosts[host]) >= 4 and not _CAPTURE.match(rows[by_host[host][0]][1])
    )
    kept = [place for host in used for place in hosts[host]]
    made = Set(rows[place] for place in kept)
    at = {place: new for new, place in enumerate(kept)}

    def page(frame, main, url):
        text = "\n".join(parts[main][0] + parts[frame][1] + parts[main][2] + parts[frame][3])
        made.rows.append((f"made:{number(rows[frame][0], rows[main][0]):012x}", url, text))
        return len(made.rows) - 1

    filled_with = set()
    for turn, host in enumerate(used):
        for own in shuffled(by_host[host], "own")[:4]:
            # Main texts and frames of another host.
            other_host = used[(turn + 1 + number(own) % (len(used) - 1)) % len(used)]
            # A text is put into a host's frame once: three times would make it frame.
            free = [place for place in shuffled(by_host[other_host], own) if (host, place) not in filled_with]
            if not free:
                continue
            other = free[0]
            filled_with.add((host, other))
            under = urllib.parse.urljoin(rows[other][1], f"/made-{own}")
            moved = page(other, own, under)
            made.label(at[own], moved, 1, "one text, two frames", host)
            under = urllib.parse.urljoin(rows[own][1], f"/made-{other}-{own}")
            filled = page(own, other, under)
            made.label(at[own], filled, 0, "one frame, two texts", host)
            # Two pages as they are.
            others = [
                place
                for place in by_host[host]
                if place != own and page_of(rows[place][1]) != page_of(rows[own][1])
            ]
            if others:
                made.label(at[own], at[shuffled(others, own)[0]], 0, "one frame, as found", host)
    return made


# Pages that hold no text of their own.
_NO_PAGE = re.compile(r"/(search|py-modindex|genindex|toc|contents|dir_[0-9a-f]+)[^/]*$")


def versions(path):
    """Pages of the packages that have both kinds; at most six pairs of each for a package."""
    rows = [
        row for row in corpus.read(path) if len(corpus.words(row[2])) >= 50 and not _NO_PAGE.search(row[1])
    ]
    places = collections.defaultdict(lambda: collections.defaultdict(list))
    paths, releases, packages = [], [], []
    for place, row in enumerate(rows):
        parts = urllib.parse.urlsplit(row[1])
        package, release = parts.netloc.split(".")[:2]
        # Versions that stand in names: python3.11-doc and python3.13-doc are one package.
        package = re.sub(r"\d+(-\d+)*", "0", package)
        folder, _, name = parts.path.rpartition("/")
        paths.append(re.sub(r"(?<=[a-z])\d+(\.\d+)+", "0", folder) + "/" + name)
        releases.append(release)
        packages.append(package)
        places[package][paths[-1]].append(place)
    pairs = []
    for package, by_path in sorted(places.items()):
        found = [
            pair
            for same in by_path.values()
            for pair in itertools.combinations(same, 2)
            if releases[pair[0]] != releases[pair[1]] and rows[pair[0]][2].strip() != rows[pair[1]][2].strip()
        ]
        pairs += [(*pair, 1, "one path, two releases", package) for pair in shuffled(found, package)[:6]]
    for package, by_path in sorted(places.items()):
        # Front pages often repeat another page of their package, and a file of one name is often there twice.
        own = sorted(place for same in by_path.values() for place in same)
        own = [place for place in own if not re.search(r"/(index|README)[^/]*$", paths[place])]
        names = {place: paths[place].rsplit("/", 1)[-1] for place in own}
        found = [(own[a], own[b]) for a, b in near([rows[place] for place in own], 5, 0.3)]
        found = [
            (a, b) for a, b in found if names[a] != names[b] and rows[a][2].strip() != rows[b][2].strip()
        ]
        pairs += [(*pair, 0, "other page of the package", package) for pair in shuffled(found, package)[:6]]
    used = {pair[4] for pair in pairs}
    kept = [place for place in range(len(rows)) if packages[place] in used]
    # Packages with hundreds of pages: those that are in pairs, and some more.
    count, wanted = collections.Counter(), {place for pair in pairs for place in pair[:2]}
    chosen = set(wanted)
    for place in shuffled(kept, "more"):
        if place not in wanted and count[packages[place]] < 20:
            count[packages[place]] += 1
            chosen.add(place)
    order = sorted(chosen)
    at = {place: new for new, place in enumerate(order)}
    made = Set(rows[place] for place in order)
    for a, b, label, kind, package in pairs:
        made.label(at[a], at[b], label, kind, package)
    return made


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("set", choices=["copies", "licences", "transplants", "versions"])
    arguments.add_argument("source")
    arguments.add_argument("out")
    given = arguments.parse_args()
    globals()[given.set](given.source).write(given.out)


if __name__ == "__main__":
    main()
