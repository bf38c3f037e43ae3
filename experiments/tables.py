"""Holds what README and docs tell against the committed rows.

usage: tables.py            says what differs, and ends with 1 if anything does
       tables.py --write    writes the marked tables anew, then does the same

A table between `<!-- table: NAME -->` and `<!-- end of table -->` is made here out of rows, so that nobody copies a
number. A number within a sentence is held by SENTENCES: each stands in its file, with values out of rows. Besides,
every file of rows has its command: in a column, or in experiments/README.md. Needs Python 3.9 and nothing else.
"""

import csv
import fnmatch
import functools
import itertools
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
HELD_OUT = ("descriptions", "licences", "manuals", "sections")
CHOSEN = ("web-pages", "newsgroups20", "debian-descriptions", "debian-docs", "bbc-news")
LABELLED = {"copies": "copies", "licences-labelled": "licences", "transplants": "transplants", "versions": "versions"}


@functools.cache
def rows(path):
    with open(RESULTS / path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row(path, **wanted):
    """The one row with these values."""
    found = [row for row in rows(path) if all(row[name] == value for name, value in wanted.items())]
    if len(found) != 1:
        raise SystemExit(f"{path} has {len(found)} rows of {wanted}")
    return found[0]


def short(number):
    """Three digits without the zero before the point."""
    return f"{float(number):.3f}".removeprefix("0").replace("1.000", "1")


def percent(number, digits=0):
    return f"{100 * float(number):.{digits}f}"


def mean(values):
    values = [float(value) for value in values]
    return sum(values) / len(values)


def table(head, body):
    yield "|" + "|".join(f" {cell} " if cell else " " for cell in head) + "|"
    yield "|" + "---|" * len(head)
    for cells in body:
        yield "| " + " | ".join(cells) + " |"


# --- two sketches: settings of today's tool, and other tools -------------------------------------------------

SKETCHES = {
    "both (default)": "**both sketches (the default)**",
    "both, 64 bytes": "both, `--sketch-bytes 64`",
    "simhash": "`--method simhash`",
    "minhash 128": "`--method minhash`: 128 positions of 32 bits",
    "minhash, one bit, 64 bytes": "`--method minhash --sketch-bytes 64`: one bit of each of 512 positions",
    "the paper's": "the paper's: words, TF-IDF, 3 bits, no check",
}


def scored(name, setting, of, rate="f1"):
    return row(f"two-sketches/{name}.csv", setting=setting, set=of)[rate]


def with_interval(name, setting, of):
    value, low, high = (short(scored(name, setting, of, rate)) for rate in ("f1", "f1_low", "f1_high"))
    return f"{value} [{low}, {high}]"


def mean_of(name, setting, sets, rate="f1"):
    return short(mean(scored(name, setting, of, rate) for of in sets))


# Other tools by the names of rivals.py: how README and docs/quality.md call them, and the name in rivals/grid.csv.
RIVALS = {
    "find-simdoc-cosine-3shingles-0.1": (
        "find-simdoc, its documentation's example: cosine, 3-shingles, .1; 80 bytes",
        "*find-simdoc, its documentation's example: cosine, 3-shingles, .1*",
        ("find-simdoc", "cosine, 3-shingles, radius 0.1"),
    ),
    "find-simdoc-jaccard-5shingles-0.2": (
        "find-simdoc, best of {}: Jaccard, 5-shingles, .2; 80 bytes",
        "*find-simdoc, best of {}: Jaccard, 5-shingles, .2*",
        ("find-simdoc", "jaccard, 5-shingles, radius 0.2"),
    ),
    "datasketch-words-0.9-unchecked": (
        "datasketch, its own defaults: words, .9; 512 bytes",
        "*datasketch, its own defaults: words, .9*",
        None,
    ),
    "datasketch-5shingles-0.8": (None, "*datasketch, 5-shingles, .8*", None),
    "datasketch-5shingles-256-0.6-0.82": (
        "datasketch, best of {}: 256 permutations, 5-shingles, .82; 1,024 bytes",
        "*datasketch, best of {}: 256 permutations, 5-shingles, index for .6, checked from .82*",
        ("datasketch", "5-shingles, 256 permutations, LSH 0.6, estimate from 0.82"),
    ),
    "fastrustrag-3shingles-0.8": (None, "*fastrustrag, its own defaults: 3-shingles, .8*", None),
    "fastrustrag-5shingles-0.8": (None, "*fastrustrag, 5-shingles, .8*", None),
    "datatrove-14x8": (None, "*datatrove, its own defaults: 5-grams, 14 bands of 8*", None),
    "duplodocus-14x8-cl100k": (None, "*Duplodocus, its own defaults: 5-grams of cl100k, 14 bands of 8*", None),
    "duplodocus-14x8": (None, "*Duplodocus, its fastest tokeniser*", None),
    "duplodocus-20x5": (None, "*Duplodocus, the same, bands as in its documentation: 20 of 5*", None),
}
BEST = ("find-simdoc-jaccard-5shingles-0.2", "datasketch-5shingles-256-0.6-0.82")
CHOSE_JOBS = ("bbc-news", "newsgroups20")
GRID = ("bbc-news", "debian-descriptions", "newsgroups20", "web-pages")


@functools.cache


def tried(tool):
    """{setting: mean F1 over the sets to choose on} of every setting of grid.py that finished them all."""
    found = {}
    for r in rows("rivals/grid.csv"):
        if r["tool"] == tool:
            found.setdefault(r["setting"], {})[r["set"]] = r["f1"]
    return {setting: mean(of[name] for name in GRID) for setting, of in found.items() if set(GRID) <= of.keys()}


def rival(name, label):
    tool = name.split("-5")[0].split("-jaccard")[0]
    if name in BEST:
        of = tried(tool)
        best = max(of, key=of.get)
        if (tool, best) != RIVALS[name][2]:
            raise SystemExit(f"the best setting of {tool} is {best}, not {RIVALS[name][2][1]}")
        return label.format(f"{len(of)} settings")
    return label


def rivals():
    body = []
    for name, (_, label, in_grid) in RIVALS.items():
        chosen_on = "–"
        if in_grid:
            chosen_on = short(tried(in_grid[0])[in_grid[1]])
        elif any((r["setting"], r["set"]) == (name, GRID[0]) for r in rows("two-sketches/settings.csv")):
            chosen_on = mean_of("settings", name, GRID)
        body.append([rival(name, label), chosen_on, *(with_interval("settings", name, of) for of in HELD_OUT), mean_of("settings", name, HELD_OUT)])
    # Its clusters were scored where they were made, without intervals.
    of_clusters = tried("text-dedup")
    best = max(of_clusters, key=of_clusters.get)
    for setting, label in (
        ("MinHash, 5-shingles, 250 permutations, threshold 0.7", "*text-dedup, its own defaults: 5-grams, .7*"),
        (best, f"*text-dedup, best of {len(of_clusters)} thresholds: {best.rsplit(' ', 1)[1].removeprefix('0')}*"),
    ):
        f1 = [row("rivals/grid.csv", tool="text-dedup", setting=setting, set=of, kind="held-out")["f1"] for of in HELD_OUT]
        body.append([label, short(of_clusters[setting]), *(short(one) for one in f1), short(mean(f1))])
    return table(("", "mean of the sets to choose on", *HELD_OUT, "mean of these four"), body)


def held_out():
    body = []
    for setting, label in [*SKETCHES.items(), *((name, rival(name, label)) for name, (_, label, _) in RIVALS.items())]:
        asked = any(row["setting"] == setting and row["set"] == "cjk" for row in rows("two-sketches/settings.csv"))
        body.append([
            label,
            *(with_interval("settings", setting, of) for of in HELD_OUT),
            with_interval("settings", setting, "cjk") if asked else "–",
            mean_of("settings", setting, HELD_OUT),
            mean_of("settings", setting, HELD_OUT, "bcubed"),
        ])
    return table(("", *HELD_OUT, "cjk", "mean of four", "B-cubed, mean of four"), body)


def chosen():
    return table(
        ("", *CHOSEN, "mean", "B-cubed, mean"),
        [
            [
                label,
                *(with_interval("settings", setting, of) for of in CHOSEN),
                mean_of("settings", setting, CHOSEN),
                mean_of("settings", setting, CHOSEN, "bcubed"),
            ]
            for setting, label in SKETCHES.items()
        ],
    )


def read():
    return table(
        ("", "read pairs", "precision", "recall"),
        [
            [label, with_interval("read", setting, "read pairs"),
             *(short(scored("read", setting, "read pairs", rate)) for rate in ("precision", "recall"))]
            for setting, label in SKETCHES.items()
            if not setting.endswith("64 bytes")
        ],
    )


def labelled():
    return table(
        ("", *LABELLED.values(), "mean"),
        [
            [label, *(with_interval("labelled", setting, of) for of in LABELLED), mean_of("labelled", setting, LABELLED)]
            for setting, label in SKETCHES.items()
            if not setting.endswith("64 bytes")
        ],
    )


# --- what a run removes, counted on the texts ------------------------------------------------------------------

REMOVAL = {"default": "the default", "--similarity .5": "`--similarity 0.5`", "--preset removable": "`--preset removable`", "--verify containment": "`--verify containment`"}


def removal():
    body = []
    for made in rows("removal/rows.csv"):
        if made["seed"] != "0":
            continue
        printed = "–"
        if made["share"]:
            printed = f"""{percent(made["share"], 1)} [{percent(made["low"], 1)}, {percent(made["high"], 1)}]"""
        cells = [short(made[rate]) if made[rate] else "–" for rate in ("recall_all", "precision", "held")]
        number = f"""{int(made["documents"]):,}"""
        body.append([made["set"], made["kind"], number, REMOVAL[made["setting"]], made["removed"], *cells, made["lost_half"],
                     percent(made["recall"], 1) if made["recall"] else "–", printed])
    return table(("set", "", "documents", "setting", "removed", "recall", "precision", "held", "lost half", "true %", "printed %"), body)


def damage():
    settings = ["default", "--similarity .5", "--preset removable", "--preset noisy"]
    body = {}
    for made in rows("damage/rows.csv"):
        body.setdefault((made["kind"], made["rate"]), {})[made["setting"]] = made["found"]
    labels = ["the default", "`--similarity 0.5`", "`--preset removable`", "`--preset noisy`"]
    return table(("damage", "share", *labels), [[kind, rate.removeprefix("0"), *(found[one] for one in settings)]
                                                for (kind, rate), found in body.items()])


def noisy():
    """The default and `--preset noisy` on documents of one template: copies found, and the precision of pairs."""
    of = {(one["kind"], one["set"], one["setting"]): one for one in rows("noisy/rows.csv")}
    settings, sets = (list(dict.fromkeys(found)) for found in ((setting for *_, setting in of), (key[:2] for key in of)))

    def cells(one):
        return f"""{one["found"]} of {one["copies"]}""", short(int(one["right"]) / int(one["listed"]))

    body = [[name, kind, *(cell for setting in settings for cell in cells(of[kind, name, setting]))] for kind, name in sets]
    heads = ["the default", *(setting.removeprefix("noisy, ").replace("0.", ".") for setting in settings[1:])]
    return table(("set", "", *(cell for head in heads for cell in (f"{head}: copies", "precision"))), body)


def contamination():
    made = [one for one in rows("contamination/rows.csv") if one["items"]]
    sets = list(dict.fromkeys((one["set"], one["chosen"]) for one in made))
    of = {(one["set"], one["kind"], one["words"]): one for one in made}
    kinds = list(dict.fromkeys((one["kind"], one["words"], one["planted"]) for one in made))
    return table(("items", "words", "planted", *(f"{field}, {name} ({kind})" for name, kind in sets for field in ("found", "elsewhere"))),
                 [[kind, words.replace("-", "–"), planted, *(of[name, kind, words][field] for name, _ in sets for field in ("found", "elsewhere"))]
                  for kind, words, planted in kinds])


# --- the plan of an index ----------------------------------------------------------------------------------------


PLANS = ("debian-docs-generated-1000275", "debian-docs-generated-10000049", "large-real-1673791")


def plan():
    body = []
    for name in PLANS:
        for r in rows(f"plan/{name}.csv"):
            speed = [float(r[f"queries_per_cpu_second{which}"]) for which in ("_predicted", "")]
            body.append([
                f"{'real' if r['source'] == 'real' else 'generated'}, {int(r['stored']):,}",
                r["radius"], r["recall_wanted"],
                f"{r['tables']} × {r['key_bits']} / {r['flips']}",
                f"{r['probes']} of {r['all_probes']}",
                *(f"{float(r[f'recall{which}']):.3f}" for which in ("_predicted", "")),
                *(f"{float(r[f'candidates{which}']):,.1f}" for which in ("_predicted", "")),
                f"{float(r['matches']):.2f}",
                *(f"{value / 1000:,.0f} k" for value in speed),
                f"{speed[0] / speed[1]:.2f}",
                *(f"{float(r[f'bytes{which}']) / 1e6:.2f} MB" for which in ("_predicted", "")),
            ])
    return table(
        ("distinct hashes", "h", "wanted", "tables × key bits / flips", "probes", "recall predicted", "found", "candidates predicted",
         "counted", "matches", "queries/s predicted", "measured", "predicted / measured", "bytes predicted", "real"),
        body,
    )


# --- the paper's experiments --------------------------------------------------------------------------------------

BANDS = (
    ("debian-docs, all", "debian-docs", -1, 1),
    ("debian-docs, .99 and above", "debian-docs", 0.99, 1),
    ("**debian-docs, .994 to .997**", "debian-docs", 0.994, 0.997),
    ("debian-descriptions, all", "debian-descriptions", -1, 1),
    ("debian-descriptions, .994 to .998 (too few to .997)", "debian-descriptions", 0.994, 0.998),
    ("**generated from debian-docs, .994 to .997**", "debian-docs-generated", 0.994, 0.997),
    ("**from bbc-news**", "bbc-news-generated", 0.994, 0.997),
    ("**from newsgroups20**", "newsgroups20-generated", 0.994, 0.997),
    ("**from web-pages**", "web-pages-generated", 0.994, 0.997),
    ("**from debian-descriptions**", "debian-descriptions-generated", 0.994, 0.997),
    ("model, cosine .994", "model", 0.994, 0.994),
    ("model, cosine .996", "model", 0.996, 0.996),
)
PUBLISHED = ((1, 1), (1, 4), (1, 17), (2, 152), (3, 675))


def nearness():
    body = [["*published*", "8M pairs", ".30", ".80", "1", "1", "1", "–", "–"]]
    for label, name, low, high in BANDS:
        of = [r for r in rows(f"nearness/{name}.csv") if (float(r["from"]), float(r["to"])) == (low, high)]
        found = {(r["measure"], int(r["flips"])): r for r in of}
        at = [found[f"flips, h = {h}", flips] for h, flips in PUBLISHED]
        searches = "400 vectors" if name == "model" else ", ".join(f"{int(at[i]['searches']):,}" for i in (2, 3, 4))
        probes = [
            min(int(r["flips"]) for r in of if r["measure"] == f"probes, {where}" and float(r["recall"]) >= 0.95) for where in ("all bits", "key")
        ]
        body.append([label, searches, *(short(r["recall"]) for r in at), *map(str, probes)])
    return table(
        ("pairs", "searches at h = 1, 2, 3", "h = 1 after 1", "after 4", "after 17", "h = 2 after 152", "h = 3 after 675",
         "probes for 95 %: all bits", "key of 26 bits"),
        body,
    )


# --- the paper's published numbers beside ours, docs/paper.md ----------------------------------------------------------

def expected(name):
    with open(HERE / f"expected/{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def brief_number(value):
    """Three digits with a unit: 1.17M."""
    for power, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:.3g}{unit}"
    return f"{value:.3g}"


def times(value):
    """A ratio: 0.52, 3.1, 16."""
    return f"{value:.3f} ×" if value < 0.095 else f"{value:.2f} ×" if value < 1 else f"{value:.1f} ×" if value < 9.95 else f"{value:,.0f} ×"


def paper_flips():
    """Panels (a) to (c): recall after some flips."""
    for h, flips in PUBLISHED:
        published = next(float(r["recall"]) for r in expected("flips-vs-recall") if (int(r["h"]), int(r["flips"])) == (h, flips))
        ours = {
            name: row(f"flips-vs-recall/{name}.csv", h=str(h), order="VOSH, |W|", flips=str(flips))["recall"]
            for name in ("debian-docs", "debian-descriptions")
        }
        band = [
            r["recall"] for r in rows("nearness/debian-docs.csv")
            if (float(r["from"]), float(r["to"]), r["measure"], int(r["flips"])) == (0.994, 0.997, f"flips, h = {h}", flips)
        ]
        ours["debian-docs, cosine .994 to .997"] = band[0]
        for name, recall in ours.items():
            points = 100 * (float(recall) - published)
            yield f"flips, h = {h}: recall after {flips}", f"{percent(published)} %", f"{percent(recall, 1)} %", f"{points:+.1f} points", name


# Folders of rows by the vector instructions that the run might use: all that the processor has, and AVX2.
FOLDERS = ("", "avx2/")


TABLE_2 = "online-throughput/debian-docs-generated-60000299"


def levels():
    """The rows of Table 2 by the level of the kernels that they were measured with."""
    return {of[0]["kernel"]: of for of in (rows(f"{folder}{TABLE_2}.csv") for folder in FOLDERS)}


# Our readings of PSM, and the names of their rows.
READINGS = (
    ("flips in the key, VOSH", r"PSM-key -\d"),
    ("flips in the key, static order", r"PSM-key -\d static"),
    ("flips over 64 bits, VOSH", r"PSM-64 \d+"),
)


def paper_searches():
    """Table 2: queries a second, their ratios, and memory."""
    published = expected("online-throughput")
    for level, of in levels().items():
        where = f"{float(of[0]['stored']) / 1e6:.0f}M generated, kernels {level}"

        def best(mode, pattern):
            found = [r for r in of if r["mode"] == mode and re.fullmatch(pattern, r["method"])]
            return max((float(r["queries_per_cpu_second"]), float(r["tables"])) for r in found)

        for mode, letter in (("all", "A"), ("first", "F")):
            bphs = {float(r["tables"]): float(r["queries_per_second"]) for r in published if (r["method"], r["mode"]) == ("bphs", mode)}
            psm = max(float(r["queries_per_second"]) for r in published if (r["method"], r["mode"]) == ("psm", mode))
            for tables, rate in bphs.items():
                found, _ = best(mode, f"BPHS {tables:.0f}")
                name = f"Table 2, BPHS<sub>{letter}</sub>, {tables:.0f} tables: queries a second"
                yield name, brief_number(rate), brief_number(found), times(found / rate), where
            for reading, pattern in READINGS:
                found, _ = best(mode, pattern)
                name = f"Table 2, PSM<sub>{letter}</sub>, the fastest: queries a second"
                yield name, brief_number(psm), f"{brief_number(found)}, {reading}", times(found / psm), where
            for tables, rate in bphs.items():
                for reading, pattern in READINGS:
                    ratio, found = psm / rate, best(mode, pattern)[0] / best(mode, f"BPHS {tables:.0f}")[0]
                    name = f"Table 2, PSM<sub>{letter}</sub> over BPHS<sub>{letter}</sub>, {tables:.0f} tables"
                    yield name, times(ratio), f"{times(found)}, {reading}", times(found / ratio), where
        for method, least, most, patterns in (("BPHS, 10 tables", 10, 10, ["BPHS 10"]), ("PSM", 1.06, 2, ["PSM-key -2", r"PSM-64 \d+"])):
            for pattern in patterns:
                sizes = [float(r["tables"]) for r in of if re.fullmatch(pattern, r["method"])]
                reading = dict(zip(["PSM-key -2", r"PSM-64 \d+"], [", flips in the key", ", flips over 64 bits"])).get(pattern, "")
                sizes_of = f"{min(sizes):.2f} to {max(sizes):.2f}" if min(sizes) < max(sizes) else f"{min(sizes):.2f}"
                wanted = f"{least:g} to {most:g}" if least < most else f"{least:g}"
                yield f"Table 2, {method}: memory in tables", wanted, sizes_of + reading, times(min(sizes) / least), where


def paper_others():
    """Table 1 and the batches."""
    for r in expected("all-pairs-cost"):
        for what, name in (("cosine", "cosine"), ("Hamming distance", "hamming")):
            ours = row("all-pairs-cost/debian-docs.csv", what=f"{what}, all pairs", pages=r["pages"])
            seconds, found, pages = float(r[f"{name}_seconds"]), float(ours["cpu_seconds"]), float(r["pages"])
            # Its times are not those of so many pages: what fits them is 1.024 billion.
            deviation = "no comparison" if pages == 8e9 else times(found / seconds)
            name = f"Table 1, {what}, all pairs of {brief_number(pages)} pages: seconds"
            yield name, brief_number(seconds), brief_number(found), deviation, f"debian-docs, one pair times their number, kernels {ours['kernel']}"
    ratio = next(float(r["ratio"]) for r in expected("batch") if r["mode"] == "all")
    made = {}
    for r in rows(BATCH):
        if (r["medium"], r["varied"], r["mode"]) == ("disk", "m", "all"):
            made.setdefault(int(r["queries"]), {})[r["method"]] = r
    for queries, of in sorted(made.items()):
        stored = float(of["PSM batch"]["stored"]) / 1e6
        for tables in (4, 10):
            found = float(of[f"BPHS batch, {tables} tables"]["cpu_seconds"]) / float(of["PSM batch"]["cpu_seconds"])
            where = f"{stored:.0f}M generated, {queries:,} queries, kernels {of['PSM batch']['kernel']}"
            yield "batch, every match, from a disk: PSM over BPHS", times(ratio), f"{times(found)}, {tables} tables", times(found / ratio), where


def paper():
    made = [*paper_flips(), *paper_searches(), *paper_others()]
    return table(("figure", "published", "ours", "deviation", "our data"), made)


def paper_sentences():
    for level, of in levels().items():
        def probes(mode, method):
            one = next(r for r in of if (r["mode"], r["method"]) == (mode, method))
            return f"{int(one['budget']):,}"

        key, bits = (f"{probes('all', of)} probes for every match and {probes('first', of)} for the first" for of in ("PSM-key -2", "PSM-64 8"))
        yield "docs/paper-numbers.md", f"""95 % recall takes {key} with flips in the key, {bits} with flips over 64 bits."""


def flips():
    def recall(name, h, flips):
        of = row(f"flips-vs-recall/{name}.csv", h=str(h), order="VOSH, |W|", flips=str(flips))
        return float(of["recall"])

    def needed(name):
        return min(
            int(r["flips"]) for r in rows(f"flips-vs-recall/{name}.csv")
            if r["h"] == "3" and r["order"] == "VOSH, |W|" and float(r["recall"]) >= 0.95
        )

    docs, short_ones = "debian-docs", "debian-descriptions"
    at = {name: [recall(name, h, flips) for h, flips in PUBLISHED] for name in (docs, short_ones)}
    yield "experiments/README.md", f"""h = 1 as published on documentation pages ({percent(at[docs][0])} / {percent(at[docs][1])} / {percent(at[docs][2])} %
        after 1 / 4 / 17 flips), faster on short descriptions ({percent(at[short_ones][0])} / {percent(at[short_ones][1])} /
        {percent(at[short_ones][2], 1)} %); h = 2: {percent(at[short_ones][3])} to {percent(at[docs][3])} % after 152 flips, not 100; h = 3:
        {percent(at[short_ones][4])} to {percent(at[docs][4])} % after 675, not 100"""
    real, made = ([needed(name + more) for name in ("large-docs", docs, short_ones)] for more in ("", "-generated"))
    yield "experiments/README.md", f"""real against generated: `large-docs` {real[0]:,} against {made[0]:,}; `debian-docs` {real[1]:,} against {made[1]:,};
        `debian-descriptions` {real[2]:,} against {made[2]:,}."""


def order():
    def at(name, order, key_bits):
        of = [r for r in rows(f"flip-order/{name}.csv") if (r["order"], r["key_bits"]) == (order, key_bits)]
        needed = min(int(r["probes"]) for r in of if float(r["recall"]) >= 0.95)
        return needed, next(percent(r["recall"]) for r in of if r["probes"] == "9")

    orders, real = ("VOSH", "static order", "random order"), ("debian-docs", "debian-descriptions")
    crawl, small = ([at("near-pairs", of, key_bits) for of in orders] for key_bits in ("23", "15"))
    pages = {of: sorted(at(name, of, "23")[0] for name in real) for of in (orders[0], orders[2])}
    yield "experiments/README.md", f"""with a key for 60 million stored hashes, 95 % of the uniform near pairs take {crawl[0][0]} probes in the order of
        the query's weights (VOSH), {crawl[1][0]} in one order for all queries and {crawl[2][0]} in random order; pairs of real documents
        {pages["VOSH"][0]} and {pages["VOSH"][1]} probes, and {pages["random order"][0]} and {pages["random order"][1]} in random order.
        Nine probes find {crawl[0][1]} % against {crawl[2][1]} %, and with a key for 200,000 stored hashes {small[0][1]} % against {small[2][1]} %"""


def reached(of, method, radius="3", recall=0.95):
    """The rows of a search that find every match with this recall, on one thread."""
    return [r for r in of if r["threads"] in ("", "1") and r["radius"] == radius and r["mode"] == "all"
            and re.fullmatch(method, r["method"]) and float(r["recall"]) >= recall]


def fastest(of, method, radius="3", recall=0.95):
    """The fastest of these rows that finds every match with this recall."""
    return max(reached(of, method, radius, recall), key=rate)


def rate(r):
    return float(r["queries_per_cpu_second"])


def over(ours, theirs):
    """How many times as many queries one row answers as another of the same machine."""
    assert ours["machine"] == theirs["machine"], (ours, theirs)
    return rate(ours) / rate(theirs)


def by_level(name):
    """The rows of a file with all kernels, and those with AVX2. All kernels include AVX2: where one machine measured
    both levels, a method has the faster one, as a processor may run it at either."""
    every, avx2 = (rows(f"{folder}{name}.csv") for folder in FOLDERS)
    return [every + [r for r in avx2 if r["machine"] == every[0]["machine"]], avx2]


BPHS = r"BPHS (4|10|16)"
SCALED = ("BPHS 4", "BPHS 10", "BPHS 16", "PSM-key -2", "dial 2/1", "mih-rs 3")
NAMED = {
    "BPHS 4": "BPHS, 4 tables", "BPHS 10": "BPHS, 10 tables", "BPHS 16": "BPHS, 16 tables", "PSM-key -2": "PSM, flips in the key",
    "dial 2/1": "dial, 2 tables (ours)", "mih-rs 3": "mih-rs, 3 blocks", "dial 3/1": "dial, 3 tables (ours)",
}


def beside_rivals():
    """Speed, bytes and recall beside the best rivals, by the number of stored hashes and the level of kernels."""
    def lines(made, *more):
        """A line for each method, of its rows at each level, beside the best BPHS of the level."""
        best = [max((r for r in of if re.fullmatch(BPHS, r["method"])), key=rate) for of in made]
        for of in (*zip(*made), *more):
            r = of[0]
            speeds = [cell for r, best in zip(of, best) for cell in (brief_number(rate(r)), times(over(r, best)))]
            speeds += ["–"] * (2 * len(FOLDERS) - len(speeds))
            yield [f'{float(best[0]["stored"]) / 1e6:.1f}M', NAMED.get(r["method"], r["method"]), f'{float(r["tables"]):.1f}', short(r["recall"]), *speeds]

    def of_size(size):
        return lines([[fastest((r for r in of if r["stored"] == str(size)), name, recall=0) for name in SCALED] for of in by_level(SEVENTH)])

    def with_faiss(name):
        """FAISS uses the kernels that it finds, so it has one row."""
        names = (*SCALED[:5], "dial 3/1", "mih-rs 3")
        made = [[fastest(of, name) for name in names] for of in by_level(f"dial/{name}")]
        return lines(made, (fastest(rows(f"dial/{name}-faiss.csv"), "FAISS.*", recall=1),))

    sizes = sorted({int(r["stored"]) for r in rows(f"{SEVENTH}.csv")})
    body = [*of_size(sizes[0]), *with_faiss(UNIFORM), *with_faiss(TEN_MILLION), *of_size(sizes[4]), *of_size(sizes[-1])]
    head = ("stored", "index", "tables", "recall", "all kernels: queries a second", "of the best BPHS", "AVX2: queries a second", "of the best BPHS")
    return table(head, body)


def one_by_one(r):
    return float(r.get("queries_per_cpu_second_one_by_one") or 0)


def batches_or_one_by_one():
    """Queries asked in batches, whose probes wait for memory together, and one by one, with all kernels."""
    body = []
    # Table 2 has a row for each search, whose probes a sample has chosen for 95 %.
    for name, recall in ((f"dial/{UNIFORM}", 0.95), (f"dial/{TEN_MILLION}", 0.95), (TABLE_2, 0.94)):
        every = by_level(name)[0]

        def best(method):
            """The fastest rows, in batches and one by one."""
            found = reached(every, method, recall=recall)
            return [(speed(r), r) for speed in (rate, one_by_one) for r in (max(found, key=speed),)]

        for method in dict.fromkeys(r["method"] for r in every if r["method"] in NAMED and one_by_one(r) > 0):
            speeds = [cell for (ours, _), (bphs, _) in zip(best(method), best(BPHS)) for cell in (brief_number(ours), times(ours / bphs))]
            body.append([f'{float(every[0]["stored"]) / 1e6:.1f}M', NAMED[method], short(best(method)[0][1]["recall"]), *speeds])
    return table(("stored", "index", "recall", "in batches: queries a second", "of the best BPHS", "one by one: queries a second", "of the best BPHS"), body)


SEVENTH = "scalability/debian-docs"
TEN_MILLION = "debian-docs-generated-9999719"


def dials():
    """What the fastest dial with 95 % recall is beside other methods, at each level of kernels."""
    def lead(of):
        """The dial over the fastest BPHS, and the share of its bytes."""
        dial, bphs = fastest(of, r"dial \d/\d"), fastest(of, BPHS)
        return f"{over(dial, bphs):.1f}", f'{float(dial["bytes"]) / float(bphs["bytes"]):.2f}'

    uniform, ten = ([lead(of) for of in by_level(f"dial/{name}")] for name in (UNIFORM, TEN_MILLION))
    every = by_level(f"dial/{TEN_MILLION}")[0]
    stored = float(every[0]["stored"]) / 1e6
    yield "experiments/README.md", f"""at 95 % the dial answers {uniform[0][0]} times as many queries as the best BPHS at a million uniform hashes, in {uniform[0][1]} of its memory
        ({uniform[1][0]} times with AVX2), and {ten[0][0]} times at {stored:.1f}M generated ones, in {ten[0][1]} of its memory ({ten[1][0]} times with AVX2)"""
    # The texts say so of the batches, and of them alone.
    assert all(r["machine"].startswith("Intel(R) Xeon(R)") == (name == BATCH) for level in FOLDERS for name in MEASURED for r in rows(level + name))

    def lead_over(beside, of, radius="3", recall=1):
        return over(fastest(every, of, radius, recall), fastest(every, beside, radius, 1))

    probes = sorted((int(r["stored"]), int(r["budget"])) for r in rows(f"{SEVENTH}.csv") if (r["method"], r["mode"]) == ("dial 2/1", "all"))
    large = sorted({budget for size, budget in probes if size > 7e6})
    psm = max(int(r["budget"]) for r in rows(f"{SEVENTH}.csv") if (r["method"], r["mode"]) == ("PSM-key -2", "all"))
    yield "METHODOLOGY.md", f"""the dial makes {probes[0][1]} probes at {probes[0][0] / 1e6:.1f} million hashes, {large[0]} or {large[-1]} at 7 to 56 million, and PSM up to {psm}"""
    yield "experiments/README.md", f"with all probes {lead_over('mih-rs .', r'dial ./.*'):.0f} times as many as mih-rs"
    yield "experiments/README.md", f"at distance 6 it answers {lead_over('BPHS 28', r'dial ./.', '6', 0.95):.1f} times as many as BPHS with 28 tables"


UNIFORM = "uniform-near-pairs-1000000-h3"


BATCH = "batch/debian-docs-generated-15999267.csv"
MEASURED = (BATCH, f"{SEVENTH}.csv", f"{TABLE_2}.csv", f"dial/{UNIFORM}.csv", f"dial/{TEN_MILLION}.csv")


def batches(level):
    """Rows of a level whose stored hashes come from a disk, by n / m, the mode and the method."""
    found = {}
    for r in rows(level + BATCH):
        if r["medium"] == "disk":
            of = found.setdefault(float(r["stored"]) / float(r["queries"]), {})
            # One point lies on both curves.
            of.setdefault(r["mode"], {}).setdefault(r["method"], r)
    return dict(sorted(found.items(), reverse=True))


def batch_ratio(of, tables):
    return float(of[f"BPHS batch, {tables} tables"]["cpu_seconds"]) / float(of["PSM batch"]["cpu_seconds"])


def batch_table():
    made, body = [batches(folder) for folder in FOLDERS], []
    for share, of in made[0].items():
        cells = [
            times(batch_ratio(level[share][mode], tables))
            for mode, tables in (("all", 4), ("all", 10), ("first", 4)) for level in made
        ]
        one = of["all"]["PSM batch"]
        body.append([f"{share:.3g}", f"{int(one['stored']):,}", f"{int(one['queries']):,}", *cells])
    head = ("n / m", "stored, n", "queries, m", *(f"{what}, {level}" for what in ("every match, 4 tables", "10 tables", "one match, 4 tables") for level in ("all kernels", "AVX2")))
    return table(head, body)


def batch():
    found = batches("")
    most, level = found[max(found)]["all"], next(of["all"] for share, of in found.items() if 10 < share < 20)
    four = [share for share, of in found.items() if batch_ratio(of["all"], 4) > 1]
    yield "experiments/README.md", f"PSM batch is {batch_ratio(most, 4):.0f} × as fast at {max(found):.0f} stored hashes a query, slower below {min(four):.0f}"
    size = {method: float(r["bytes"]) for method, r in level.items()}
    ratios = [size["PSM batch"] / size[f"BPHS batch, {tables} tables"] for tables in (4, 10)]
    yield "experiments/README.md", f"It takes {ratios[0]:.1f} × the bytes of four tables and {ratios[1]:.1f} × those of ten"
    yield "METHODOLOGY.md", f"at m = 1M it takes {ratios[0]:.1f} times the bytes of four tables and {ratios[1]:.1f} times those of ten"
    yield "experiments/README.md", f"{size['PSM batch'] / 1e6:.0f} a query, against {size['BPHS batch, 10 tables'] / 1e6:.0f} with ten tables"


# --- costs -------------------------------------------------------------------------------------------------------

def worst():
    body, before = [], None
    for r in rows("costs/worst.csv"):
        largest = int(r["largest_cluster"])
        body.append([
            "" if r["input"] == before else r["input"],
            "the default" if r["setting"] == "both (default)" else r["setting"],
            f"{int(r['kept']):,}",
            f"{largest:,}" if largest > 1 else "–",
            f"{float(r['cpu_seconds']):.1f} s",
            f"{r['peak_mb']} MB",
        ])
        before = r["input"]
    return table(("pages", "setting", "kept", "largest cluster", "processor time", "memory"), body)


def of_threads(layout):
    return row("costs/threads.csv", layout=layout)


def thread_sentences():
    def efficiency(layout, of):
        return short(float(of_threads(layout)[f"efficiency_of_{of}"]))
    one, many = "one file", "many files"
    more = max(float(of_threads(layout)["cpu_of_threads"]) for layout in (one, many))
    yield "experiments/evidence/README.md", (
        f"two threads reach {efficiency(one, 'threads')} with one large file and {efficiency(many, 'threads')} with many small ones, "
        f"for {more:.2f} times the processor time"
    )
    yield "experiments/evidence/README.md", f"reach {efficiency(one, 'processes')} and {efficiency(many, 'processes')} there"


# --- seed 000 ------------------------------------------------------------------------------------------------

SEED_METHODS = ("SimHash", "MinHash", "MinHash on shingles")


def best_of_seed(name, method, truth="Jaccard of shingles"):
    """The row of the threshold with the best F1, the lowest of equals."""
    of = [r for r in rows(f"band-scores/{name}.csv") if (r["method"], r["band"], r["truth"]) == (method, "all", truth)]
    return max(of, key=lambda r: float(r["f1_from_score"]))


def pairs_of_seed(name, method):
    of = rows(f"band-scores/{name}.csv")
    return sum(int(r["text_pairs"]) for r in of if (r["method"], r["band"], r["truth"]) == (method, "all", "Jaccard of shingles"))


def seed_table():
    name, body = "large", []
    of = rows(f"band-scores/{name}.csv")
    for method, label in zip(SEED_METHODS, ("SimHash of 3-word shingles", "MinHash of words", "MinHash of 3-word shingles")):
        best = best_of_seed(name, method)
        top = max(int(r["score"]) for r in of if r["method"] == method)
        full = [float(r["portion"]) for r in of if r["method"] == method and r["band"] != "all" and r["score"] == str(top)]
        body.append([
            label, f"{pairs_of_seed(name, method):,}", f"{percent(min(full), 1)} to {percent(max(full), 1)} %", best["score"],
            *(short(best[f"{rate}_from_score"]) for rate in ("f1", "precision", "recall")), f"{float(best['cpu_seconds']):.1f} s",
            best["sketch_bytes"],
        ])
    return table(
        ("", "pairs", "full score, by band", "best from", "F1", "precision", "recall", "processor time", "bytes a page"), body
    )


def stages():
    body = []
    runs = {}
    for row in rows("stages/rows.csv"):
        runs.setdefault((int(row["pages"]), int(row["of_one_template"]), row["memory_mib"]), {})[row["stage"]] = row
    for (pages, template, _), of in runs.items():
        what = f"{pages / 1e6:g} million"
        what += f", {template:,} of them of one template" if template else ""
        micros = [f'{float(of[stage]["microseconds_a_page"]):.1f}' if stage in of else "–" for stage in ("sketch", "join", "star", "apply", "audit")]
        peak = max(int(of[stage]["peak_bytes"]) for stage in ("sketch", "join", "star", "connected"))
        joined = of["join"]
        body.append([
            what, f'{joined["memory_mib"]} of {joined["limit_mib"]} MiB', *micros, f"{peak / 1e6:.0f} MB",
            f'{float(of["connected"]["disk_bytes_a_page"]):.0f}',
        ])
    return table(
        ("pages", "memory, of an address space", "`sketch`", "`join`", "`cluster`, stars", "`apply`", "recall estimate", "most memory held", "disk a page, bytes"), body
    )


def after_sketches():
    def sums(pages, memory):
        of = {r["stage"]: float(r["microseconds_a_page"]) for r in rows("stages/rows.csv") if (r["pages"], r["memory_mib"]) == (pages, memory)}
        return f'{of["join"] + of["audit"] + of["star"]:.1f}', f'{of["join"] + of["star"]:.2f}'

    (few, few_without), (many, many_without) = sums("1000000", "256"), sums("10000000", "4096")
    yield "docs/stages.md", f"""A million documents in 256 MiB and 10 million in 4 GiB, one after the other, took all in all {few} and {many} microseconds a document behind
        `sketch`, {few_without} and {many_without} of it without the recall estimate."""


def crawling():
    """Sizes of the index at 1, 10 and 100 million pages: as measured last, and for the last ten times those of 10 million."""
    sizes = [row for row in rows("crawl/size.csv") if row["revision"] == rows("crawl/size.csv")[-1]["revision"]]

    def most(of_million):
        few, many = (max(of_million(row) for row in sizes if (int(row["pages"]) >= 10**7) == large) for large in (False, True))
        return few, 10 * many, 100 * many

    def stored(pages):
        wanted = dict(revision=sizes[0]["revision"], pages=pages, asked="check-and-add", form="sketches", batch="100", clients="2")
        found = next(row for row in rows("crawl/requests.csv") if wanted.items() <= row.items())
        return f'{int(found["questions_per_second"]):,}'

    memory = most(lambda row: float(row["resident_bytes_a_page"]) / 1000)
    disk = most(lambda row: float(row["snapshot_bytes_a_page"]) / 1000)
    start = most(lambda row: 1e6 * float(row["recovery_seconds"]) / int(row["pages"]))
    for name, figures, unit in (
        ("memory, after a start", [f"{gb:.2g}" for gb in memory], "GB"),
        ("disk", [f"{round(gb, 1):.2g} to {round(2 * gb, 1):.2g}" for gb in disk], "GB"),
        ("time of a start, on two cores", [f"{seconds:.2g}" for seconds in start], "s"),
    ):
        yield "docs/crawl.md", f"| {name} | {figures[0]}, {figures[1]} and {figures[2]} {unit} |"
    yield "docs/crawl.md", f"| stores a second, sketches over HTTP in batches of 100 | {stored('1000000')} and {stored('10000000')};"


def month():
    def size(number):
        power = min(max(int(len(f"{float(number):.0f}") - 1) // 3, 2), 4)
        return f"{float(number) / 1000**power:,.3g} {['MB', 'GB', 'TB'][power - 2]}"

    body = []
    made = rows("stages/month.csv")
    for row in made:
        body.append([
            f'`{row["stage"]}`', row["reads"] + (f', {row["passes"]} times' if row["passes"] != "1" else ""), size(row["read_bytes"]),
            f'{float(row["cpu_seconds"]) / 3600:.3g}', f'{float(row["hours"]):.2g}', size(row["memory_bytes"]), size(row["disk_bytes"]),
        ])
    cpu, hours = (sum(float(row[column]) for row in made) for column in ("cpu_seconds", "hours"))
    body.append(["all", "", "", f"{cpu / 3600:.3g}", f"{hours:.2g}", "", ""])
    return table(("stage", "reads", "in all", "core-hours", "hours on 16 cores", "memory", "leaves on disk"), body)


def rivals_costs():
    body = []
    for row in rows("rivals/costs.csv"):
        body.append([
            row["corpus"], f'{row["tool"]} {row["version"]}', f'{float(row["cpu_seconds"]):.1f} s', row["times_simflip"],
            f'{int(row["kept"]):,} of {int(row["pages"]):,}', row["work"],
        ])
    return table(("pages", "job", "processor time", "times simflip", "kept", "what it does"), body)


def rivals_jobs():
    body = []
    made = rows("rivals/jobs.csv")
    for row in sorted(made, key=lambda row: [one["set"] for one in made].index(row["set"])):
        setting = row["setting"]
        if row["best_of"]:
            setting += " (best of grid.py)" if row["best_of"] == "grid.py" else f' (best of {row["best_of"]})'
        body.append([
            row["set"], f'{row["tool"]} {row["version"]}', setting, f'{float(row["cpu_seconds"]):.2f} s', row["times_simflip"],
            f'{row["peak_mib"]} MiB', *(short(row[rate]) for rate in ("f1", "precision", "recall")),
        ])
    return table(("documents", "tool", "setting", "processor time", "times simflip", "peak memory", "F1", "precision", "recall"), body)


def tools():
    """The default beside other tools at their best, on short and on long documents."""
    sets = ("debian-descriptions", "web-pages")
    body = []
    for tool in ("simflip", "rensa", "FastSketchLSH", "gaoya", "datasketch"):
        cells = []
        for name in sets:
            of = [r for r in rows("rivals/jobs.csv") if (r["set"], r["tool"]) == (name, tool)]
            one = next(r for r in of if (r["setting"] == "default" if tool == "simflip" else r["best_of"]))
            cells += [f'{float(one["times_simflip"]):.1f}', short(one["f1"])]
        body.append([f"**{tool}**" if tool == "simflip" else tool, *cells])
    # Both give clusters. Their time was measured on the second set alone, with the settings whose F1 this is.
    best = {of: mean(r["f1"] for r in rows("rivals/grid.csv") if (r["tool"], r["setting"]) == ("text-dedup", of) and r["set"] in CHOSE_JOBS)
            for of in tried("text-dedup")}
    of_clusters = {
        "text-dedup": ("rivals/grid.csv", {"tool": "text-dedup", "setting": max(best, key=best.get)}),
        "datatrove": ("two-sketches/settings.csv", {"setting": "datatrove-14x8"}),
    }
    for tool, (path, wanted) in of_clusters.items():
        short_ones, long_ones = (short(row(path, set=name, **wanted)["f1"]) for name in sets)
        body.append([tool, "–", short_ones, f'{float(row("rivals/costs.csv", tool=tool)["times_simflip"]):.0f}', long_ones])
    return table(("tool", "440 bytes: time", "F1", "4,000 bytes: time", "F1"), body)


def rivals_crawl():
    body = []
    for row in rows("crawl/rivals.csv"):
        body.append([
            row["corpus"], f'{row["tool"]} {row["version"]}', *(f'{float(row[part + "_microseconds"]):,.0f}' for part in ("sketching", "asking")),
            f'{int(row["bytes_a_page"]):,}', short(row["recall"]), "–" if row["reported"] == "0" else short(row["precision"]), row["work"],
        ])
    head = ("pages", "asked", "µs a page, sketching", "asking and storing", "bytes a page", "recall", "precision", "what it does")
    return table(head, body)


TABLES = {
    "README.md": {"tools": tools},
    "docs/quality.md": {
        "held-out": held_out, "rivals": rivals, "chosen": chosen, "read": read, "labelled": labelled, "removal": removal, "damage": damage, "noisy": noisy,
        "worst": worst,
    },
    "docs/reference.md": {"contamination": contamination},
    "docs/paper-numbers.md": {"paper": paper},
    "docs/plan.md": {"plan": plan},
    "docs/stages.md": {"stages": stages},
    "docs/large.md": {"month": month},
    "experiments/rivals/README.md": {"rivals-costs": rivals_costs, "rivals-jobs": rivals_jobs, "rivals-crawl": rivals_crawl},
    "experiments/README.md": {"beside-rivals": beside_rivals, "one-by-one": batches_or_one_by_one, "nearness": nearness, "batch": batch_table, "seed-000": seed_table},
}


def sketches():
    """Sentences on today's settings."""
    def f1(name, setting, of="read pairs"):
        return short(scored(name, setting, of))

    def recall(setting):
        return percent(scored("read", setting, "read pairs", "recall"))

    seeds = [float(row["f1"]) for row in rows("two-sketches/settings.csv")
             if row["set"] == "descriptions" and (row["setting"] == "both (default)" or row["setting"].startswith("both, seed "))]
    least = min(float(scored("settings", "both (default)", of)) for of in HELD_OUT)
    mean_f1 = mean_of("settings", "both (default)", HELD_OUT)
    yield "README.md", f"""Of 91 pairs of which readers would remove one document, the default finds {recall("both (default)")} %"""
    yield "docs/quality.md", f"Mean and least F1 over the held-out sets are {mean_f1} and {short(least)}."
    yield "docs/accuracy.md", f"""its F1 on pairs with a Jaccard similarity of .8 or more is {mean_f1} in the mean, and {short(least)} on the worst"""
    find_simdoc, datasketch = (mean_of("settings", name, HELD_OUT) for name in BEST)
    yield "docs/accuracy.md", f"have {datasketch} (datasketch) and {find_simdoc} (find-simdoc)"
    yield "docs/quality.md", f"""Over {("", "one", "two", "three", "four", "five", "six", "seven")[len(seeds)]} seeds of the sketches, F1 on the descriptions
        lies between {short(min(seeds))} and {short(max(seeds))}."""


def removals():
    held_out = [made for made in rows("removal/rows.csv") if made["kind"] == "held-out" and made["setting"] == "--preset removable"
                and made["seed"] == "0" and made["recall_all"]]
    recalls, precisions = ([float(made[rate]) for made in held_out] for rate in ("recall_all", "precision"))
    assert f"{min(precisions):.3f}" == "1.000"
    yield "README.md", f"""On {len(held_out)} sets that were not used to choose it, it removes {percent(min(recalls), 1)} to
        {percent(max(recalls), 1)} % of what a fuller document contains, and 100.0 % of what it removes is contained in a document that is kept"""
    printed = [made for made in rows("removal/rows.csv") if made["covers"]]
    covered = sum(made["covers"] == "1" for made in printed)
    wide = [made for made in printed if made["low"] != made["high"]]
    yield "docs/quality.md", f"""{covered:,} of {len(printed):,} printed intervals hold the value that was counted; without those of runs that
        compared all documents, which have no width, {sum(made["covers"] == "1" for made in wide)} of {len(wide)}"""


def contamination_times():
    def times(of, form):
        one = row("contamination/rows.csv", set=of, kind=f"processor time, {form}")
        return f"""{float(one["seconds"]) / float(one["gzip_seconds"]):.1f}"""

    posts, news = ([times(of, form) for form in ("DOCUMENTS", "JSONL.gz", "JSONL")] for of in ("posts", "news"))
    yield "docs/reference.md", f"""On the posts, a run takes {posts[0]} times the processor time that `gzip -dc` takes for the same gzipped WET file, {posts[1]} times that
        for gzipped JSONL, and {posts[2]} times that where the JSONL is plain"""
    yield "docs/reference.md", f"on the news, {news[0]}, {news[1]} and {news[2]} times"


def boilerplate():
    def of(name, options):
        return row("boilerplate/rows.csv", set=name, options=options)

    plain, without = (of("copies", options) for options in ("", "--boilerplate-by host"))
    yield "experiments/evidence/README.md", f"""Duplicates found among `copies` rise from {plain["hits"]} of {plain["true"]} to {without["hits"]},
        others listed fall from {plain["wrong"]} to {without["wrong"]} of 167."""
    ratios = []
    for made in rows("boilerplate/rows.csv"):
        if made["options"].endswith("--boilerplate-by host"):
            before = of(made["set"], made["options"].removesuffix("--boilerplate-by host").strip())
            ratios.append(float(made["cpu_seconds"]) / float(before["cpu_seconds"]))
    yield "experiments/evidence/README.md", f"The run takes {min(ratios):.1f} to {max(ratios):.1f} times the processor time"
    yield "docs/quality.md", f"""the default with `--boilerplate-by host` has an F1 of {short(of("web-pages", "--boilerplate-by host")["f1"])} instead of
        {short(of("web-pages", "")["f1"])}"""


def nine_sets():
    settings = [r for r in rows("quality/bbc-news.csv") if r["pairs"] == "all"]
    yield "experiments/README.md", f"how right {len(settings):,} settings of one sketch are on nine labelled sets"
    apart = []
    for path in RESULTS.glob("quality/*.csv"):
        if path.stem.endswith(".rivals"):
            continue
        every = {
            tuple(r[name] for name in ("method", "features", "weighting", "distance", "check", "threshold")): float(r["f1"])
            for r in rows(f"quality/{path.name}") if r["pairs"] == "all" and r["method"] in ("psm", "bphs")
        }
        apart.append(max(abs(f1 - every["bphs", *setting[1:]]) for setting, f1 in every.items() if setting[0] == "psm" and ("bphs", *setting[1:]) in every))
    assert sum(value > 0 for value in apart) == 4
    yield "METHODOLOGY.md", f"the F1 of the two differs by {short(max(apart))} at most, on four of the nine sets"
    six = ("judged-pairs", "bbc-news", "web-pages", "newsgroups20", "debian-descriptions", "debian-docs")

    def best(features, weighting, check):
        every = {r["threshold"] for r in rows("quality/bbc-news.csv") if r["check"] == check}
        return short(max(mean(row(f"quality/{of}.csv", pairs="all", method="bphs", features=features, weighting=weighting, distance="10",
                                  check=check, threshold=at)["f1"] for of in six) for at in every))

    yield "docs/quality.md", f"""the cosine has a mean F1 of {best("shingles:3", "binary", "weights")}, the mismatch {best("shingles:3", "binary", "mismatch")};
        of words by TF-IDF, {best("words", "tf-idf", "weights")} and {best("words", "tf-idf", "mismatch")}"""


def plans():
    made = [r for name in PLANS for r in rows(f"plan/{name}.csv")]
    recall = max(abs(float(r["recall_predicted"]) - float(r["recall"])) for r in made)
    candidates = sorted(float(r["candidates_predicted"]) / float(r["candidates"]) - 1 for r in made)
    speed = sorted(float(r["queries_per_cpu_second_predicted"]) / float(r["queries_per_cpu_second"]) for r in made)
    assert max(candidates[-2], -candidates[0]) <= 0.1 and all(r["bytes"] == r["bytes_predicted"] for r in made)
    assert 1 / 1.5 <= speed[0] <= 0.7
    yield "docs/plan.md", f"""Recall is predicted to within {short(recall + 0.0005)}, candidates to within 10 % (once {percent(candidates[-1])} % too many"""
    yield "docs/plan.md", f"Predicted speed is between a third too slow and {speed[-1]:.1f} times too fast"
    yield "experiments/README.md", f"""recall to within {short(recall + 0.0005)}, candidates mostly to within 10 %, bytes exactly; speed between a third too slow and
        {speed[-1]:.1f} times too fast"""
    a_match = [
        (1e9 / float(r["queries_per_cpu_second"]) - 1e9 / float(r["queries_per_cpu_second_predicted"])) / float(r["matches"]) for r in made
    ]
    least, most = min(value for value in a_match if value > 0), max(a_match)
    yield "docs/plan.md", f"by the table below it takes {least:.0f} to {most:.0f} ns each"


def jobs():
    of, all_sets = (
        {r["what"]: float(r["times_decompressing"]) for r in rows("job-cost/rows.csv") if r["corpus"] == corpus}
        for corpus in ("debian-docs", "five sets")
    )
    assert 0.28 < 1 / of["both"] < 0.38
    yield "ARCHITECTURE.md", "Inflating, a third of the work, is done before"
    # Rows from before each search had its own name call the dial psm.
    dial = of.get("dial", of["psm"])
    yield "README.md", f"""On pages of documentation simflip takes {of["both"]:.1f} times the time of merely decompressing them"""
    yield "docs/accuracy.md", f"""the default {of["both"]:.1f} times, `--method simhash` {of["simhash"]:.1f}, `minhash` {of["minhash"]:.1f}, `dial` {dial:.1f},
        `bphs` {of["bphs"]:.1f}, and `minhash` with `--verify jaccard` {of["minhash, counted"]:.1f}"""
    yield "docs/accuracy.md", f"""default {all_sets["both"]:.1f} times, `simhash` {all_sets["simhash"]:.1f}, `minhash` {all_sets["minhash"]:.1f}"""


def searches():
    """Table 2: ours beside the published, with all kernels and with AVX2."""
    made = by_level(TABLE_2)

    def best(of, mode, pattern):
        return max((r for r in of if r["mode"] == mode and re.fullmatch(pattern, r["method"])), key=rate)

    def ratios(mode, pattern, beside):
        return [times(over(best(of, mode, pattern), best(of, mode, beside))).removesuffix(" ×") for of in made]

    psm, static, dial = r"PSM-key -\d", r"PSM-key -\d static", "dial 2/1"
    four, ten = ratios("all", psm, "BPHS 4"), ratios("all", psm, "BPHS 10")

    def share(pattern, beside):
        return f"{float(best(made[0], 'all', pattern)['bytes']) / float(best(made[0], 'all', beside)['bytes']):.2f}"

    lead = ratios("all", dial, BPHS)
    yield "README.md", f"""At 95 % recall over {int(made[0][0]["stored"]) / 1e6:.0f} million generated hashes, our PSM answers {four[0]} times as many queries as our BPHS with
        four tables and {ten[0]} times as many as with ten, in {share(psm, "BPHS 10")} of the memory of ten"""
    alone = [max(one_by_one(r) for r in made[0] if r["mode"] == "all" and re.fullmatch(method, r["method"])) for method in (dial, BPHS)]
    yield "README.md", f"""The dial, our index, answers {lead[0]} times as many as the best BPHS, in {share(dial, BPHS)} of its memory ({lead[1]} times with AVX2,
        {alone[0] / alone[1]:.1f} times asked one by one)"""
    first = [ratios("first", psm, f"BPHS {tables}") for tables in (4, 10)]
    yield "docs/paper.md", f"""{four[0]} × as many as four tables for every match and {first[0][0]} × for the first, {ten[0]} × and {first[1][0]} × as many as
        ten (with AVX2 {four[1]} ×, {first[0][1]} ×, {ten[1]} ×, {first[1][1]} ×)"""
    sorted_out = [ratios(mode, static, f"BPHS {tables}") for mode in ("all", "first") for tables in (4, 10)]
    dials = [ratios(mode, dial, f"BPHS {tables}") for mode in ("all", "first") for tables in (4, 10)]
    bits = [ratios("all", r"PSM-64 \d+", f"BPHS {tables}") for tables in (4, 10)]
    yield "experiments/README.md", f"""flips in the key (VOSH) {four[0]} × and {ten[0]} × for every match, {first[0][0]} × and {first[1][0]} × for the first (with AVX2
        {four[1]} ×, {ten[1]} ×, {first[0][1]} ×, {first[1][1]} ×); in our static order {sorted_out[0][0]} × and {sorted_out[1][0]} ×, {sorted_out[2][0]} × and
        {sorted_out[3][0]} ×; the dial {dials[0][0]} × and {dials[1][0]} ×, {dials[2][0]} × and {dials[3][0]} × (with AVX2 {dials[0][1]} ×, {dials[1][1]} ×,
        {dials[2][1]} ×, {dials[3][1]} ×); flips over all 64 bits {bits[0][0]} × and {bits[1][0]} ×."""
    yield "experiments/README.md", f"""Memory {share(psm, "BPHS 10")} × that of ten tables for flips in the key, {share(dial, "BPHS 10")} × for the dial,
        {share("PSM-64 8", "BPHS 10")} × and more for flips over all bits."""

    seventh = [
        over(*(max((r for r in of if (r["method"], r["mode"]) == (method, "all")), key=lambda r: (int(r["stored"]), rate(r))) for method in (dial, "BPHS 10")))
        for of in by_level(SEVENTH)
    ]
    in_seventh = [f"{ratio:.1f}" for ratio in seventh]
    yield "METHODOLOGY.md", f"""the dial comes out {dials[1][0]} times as fast as ten-table BPHS in Table 2 and {in_seventh[0]} times in Figure 7 (with AVX2
        {dials[1][1]} and {in_seventh[1]} times)"""

    def thousands(mode, pattern):
        return f"{rate(best(made[0], mode, pattern)):,.0f}"

    yield "experiments/README.md", f"""Our four-table BPHS answers {thousands("all", "BPHS 4")} queries a second for every match, the paper's 154,000. Our *ten*-table BPHS
        answers {thousands("all", "BPHS 10")}, the paper's 189,000."""
    yield "experiments/README.md", f"""For the first match, our flips in the key answer {thousands("first", psm)} queries a second in the paper's order and
        {thousands("first", static)} in ours, the paper's PSM 1.4 to 1.6 million. For every match {thousands("all", psm)} and {thousands("all", static)}, the
        paper's 645,000 to 760,000: our pairs need {best(made[0], "all", psm)["budget"]} probes."""


def kernels():
    """The experiments whose rows have the level of kernels; of `rivals` one file has it."""
    paths = [path.relative_to(RESULTS) for path in sorted(RESULTS.glob("*/*.csv"))]
    having = {path for path in paths if "kernel" in rows(path.as_posix())[0]}
    named = dict.fromkeys(path.with_suffix("").as_posix() if path.parent.name == "rivals" else path.parent.name for path in sorted(having))
    *others, last = (f"`{name}`" for name in named)
    yield "METHODOLOGY.md", f"The rows of {', '.join(others)} and {last} have that column"


def seed():
    corpora = ("debian-docs", "web-pages", "newsgroups20")
    f1 = {method: sorted(float(best_of_seed(name, method)["f1_from_score"]) for name in corpora) for method in SEED_METHODS}
    docs, people, large = (
        [best_of_seed(name, method, truth) for method in SEED_METHODS]
        for name, truth in (("debian-docs", "Jaccard of shingles"), ("judged-pairs", "people"), ("large", "Jaccard of shingles"))
    )
    measured = ("debian-docs", "web-pages", "newsgroups20", "judged-pairs", "large-descriptions", "large")
    times = sorted(
        float(best_of_seed(name, "SimHash")["cpu_seconds"]) / float(best_of_seed(name, "MinHash")["cpu_seconds"]) for name in measured
    )
    reached = sorted(
        pairs_of_seed(name, "SimHash") / int(best_of_seed(name, "SimHash")["text_pairs_with_or_without_band"])
        for name in (*measured, "short-answers")
    )

    def two(number):
        return f"{float(number):.2f}".removeprefix("0")

    yield "experiments/README.md", f"""MinHash of words finds more, and SimHash takes {times[0]:.0f} to {times[-1]:.0f} times its processor time; it is not better on
        every aspect. By exact Jaccard coefficients its F1 is {two(f1["MinHash"][0])} to {two(f1["MinHash"][-1])} on three corpora, SimHash's
        {two(f1["SimHash"][0])} to {two(f1["SimHash"][-1])}, but on the largest of them SimHash is more precise
        ({two(docs[0]["precision_from_score"])} against {two(docs[1]["precision_from_score"])}), and on 1.78 million documents it has the
        better F1 ({two(large[0]["f1_from_score"])} against {two(large[1]["f1_from_score"])})."""
    yield "experiments/README.md", f"""People who judged 240 pairs are found right by MinHash with an F1 of {two(people[1]["f1_from_score"])}, by
        SimHash with {two(people[0]["f1_from_score"])}, and SimHash is again the more precise ({two(people[0]["precision_from_score"])} against
        {two(people[1]["precision_from_score"])}). Of pairs with 56 equal bits or more the seed's four bands reach {percent(reached[0])} to
        {percent(reached[-1])} %"""
    times = pairs_of_seed("large", "MinHash") / pairs_of_seed("large", "SimHash")
    yield "experiments/README.md", f"which the seed compares with SimHash of shingles, finds {times:.0f} times as many pairs"
    listed = row("band-scores/large-tool.csv", method="SimHash, simflip dedup", band="0", score="64")

    def summary(of):
        return f"""{float(of["cpu_seconds"]):.0f} seconds of processor time, {int(of["pairs_found"]):,} pairs, a list of {int(of["pairs_written"]):,} in
        {int(of["result_bytes"]) / 1e9:.1f} GB"""

    def full(name, method):
        top = max(int(r["score"]) for r in rows(f"band-scores/{name}.csv") if r["method"] == method)
        of = [r for r in rows(f"band-scores/{name}.csv") if r["method"] == method and r["band"] != "all" and r["score"] == str(top)]
        return sorted(float(r["portion"]) for r in of)

    simhashes, minhashes = ([full(name, method) for name in ("large", "large-descriptions")] for method in ("SimHash", "MinHash"))
    yield "experiments/README.md", f"""rarer here: {percent(simhashes[0][0])} to {percent(simhashes[0][-1])} % and {percent(minhashes[0][0])} to
        {percent(minhashes[0][-1])} %, and among the descriptions alone, hardly a copy of another among them, {percent(simhashes[1][0], 1)} to
        {percent(simhashes[1][-1], 1)} % and {percent(minhashes[1][0], 1)} to {percent(minhashes[1][-1], 1)} %."""
    alone = [best_of_seed("large-descriptions", method) for method in SEED_METHODS]
    yield "experiments/README.md", f"""among the descriptions alone it is {short(alone[2]["f1_from_score"])} against {short(alone[0]["f1_from_score"])},
        and {short(alone[1]["f1_from_score"])} of words."""
    slower = [float(best_of_seed("large", method)["cpu_seconds"]) for method in SEED_METHODS]
    yield "experiments/README.md", f"""of the same shingles SimHash takes {slower[0] / slower[2]:.1f} times MinHash's time."""
    yield "experiments/README.md", f"""`simflip dedup` with the seed's settings of SimHash takes these {int(listed["documents"]):,} pages from files to a
        table in {summary(listed)}."""


@functools.cache
def sentences():
    """[(file, sentence)]: stands in the file, however it is wrapped."""
    return [one for of in (sketches, removals, contamination_times, boilerplate, nine_sets, plans, jobs, flips, order, paper_sentences, searches, dials, batch, kernels, seed, thread_sentences, after_sketches, crawling) for one in of()]


def commands():
    """What is wrong with the commands of the rows."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    section = text.split("## Commands of the rows", 1)[1].split("\n## ", 1)[0]
    named = re.findall(r"`([\w.*/-]+)`", "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `")))
    for path in sorted(RESULTS.glob("*/*.csv")):
        name = path.relative_to(RESULTS).as_posix()
        found = rows(name)
        if not found:
            yield f"{name} has no row"
        elif not all(row.get("command") for row in found) and not any(
            fnmatch.fnmatch(name.removesuffix(".csv"), pattern) for pattern in named
        ):
            yield f"{name}: neither its rows nor experiments/README.md tell its command"
    for pattern in named:
        if not any(fnmatch.fnmatch(path.relative_to(RESULTS).as_posix().removesuffix(".csv"), pattern) for path in RESULTS.glob("*/*.csv")):
            yield f"experiments/README.md tells the command of {pattern}, which is not there"


def differences(root, write=False):
    """What the files below a folder tell otherwise than the rows; with `write` marked tables are made anew first."""
    for file, named in TABLES.items():
        path = root / file
        text = path.read_text(encoding="utf-8")
        for name, make in named.items():
            marked = re.compile(rf"(<!-- table: {name} -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
            found = marked.findall(text)
            if len(found) != 1:
                yield f"{file} has {len(found)} tables {name}"
                continue
            written, made = found[0][1], "".join(line + "\n" for line in make())
            if write:
                text = marked.sub(lambda found: found[1] + made + found[3], text)
            elif written != made:
                differ = [f"\n  document {old}\n  rows {new}" for old, new in itertools.zip_longest(written.splitlines(), made.splitlines()) if old != new]
                yield f"{file}, table {name}:" + "".join(differ)
        if write:
            path.write_text(text, encoding="utf-8")
    texts = {}
    for file, sentence in sentences():
        if file not in texts:
            texts[file] = " ".join((root / file).read_text(encoding="utf-8").split())
        if " ".join(sentence.split()) not in texts[file]:
            yield f"{file} does not say: {' '.join(sentence.split())}"


def main():
    wrong = [*commands(), *differences(HERE.parent, write=sys.argv[1:] == ["--write"])]
    print("\n".join(wrong) or "what is reported is what the rows say")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
