"""Holds what README and docs tell against the committed rows.

usage: told.py            says what differs, and ends with 1 if anything does
       told.py --write    writes the marked tables anew, then does the same

A table between `<!-- told: NAME -->` and `<!-- end of told -->` is made here out of rows, so that nobody copies a
number. A number within a sentence is held by SENTENCES: each stands in its file, with values out of rows. Besides,
every file of rows has its command: in a column, or in experiments/README.md. Needs Python 3.9 and nothing else.
"""

import csv
import fnmatch
import functools
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
    "removable": "`--preset removable`",
    "removable, without frames": "`--preset removable --without-frames`",
    "simhash": "`--method simhash`",
    "minhash 128": "`--method minhash`: 128 positions of 32 bits",
    "the default before": "the default before: SimHash of 3-shingles, 10 bits, weights .93",
    "the paper's": "the paper's: words, TF-IDF, 3 bits, no check",
}


def scored(name, setting, of, rate="f1"):
    return row(f"two-sketches/{name}.csv", setting=setting, set=of)[rate]


def with_interval(name, setting, of):
    value, low, high = (short(scored(name, setting, of, rate)) for rate in ("f1", "f1_low", "f1_high"))
    return f"{value} [{low}, {high}]"


def mean_of(name, setting, sets, rate="f1"):
    return short(mean(scored(name, setting, of, rate) for of in sets))


def readme():
    told = {
        "both (default)": "**the default**, 136 bytes a page",
        "both, 64 bytes": "`--sketch-bytes 64`",
        "simhash": "`--method simhash`, 72 bytes",
        "minhash 128": "`--method minhash`, 512 bytes",
        "the paper's": "the paper's features and distance",
    }
    for rival, (label, _) in RIVALS.items():
        told[rival] = label
    return table(
        ("F1 on pairs", *HELD_OUT, "mean"),
        [
            [label, *(short(scored("settings", setting, of)) for of in HELD_OUT), mean_of("settings", setting, HELD_OUT)]
            for setting, label in told.items()
        ],
    )


# Other tools by the names of rivals.py: how README and docs/quality.md call them.
RIVALS = {
    "find-simdoc-jaccard-5shingles-0.2": (
        "find-simdoc, Jaccard, 5-shingles, 80 bytes", "*find-simdoc, Jaccard, 5-shingles, .2*"
    ),
    "datasketch-5shingles-0.8": ("datasketch, 5-shingles, .8, 1,024 bytes", "*datasketch, 5-shingles, .8*"),
}


def held_out():
    body = []
    for setting, label in [*SKETCHES.items(), *((rival, label) for rival, (_, label) in RIVALS.items())]:
        if setting.startswith("removable"):
            continue
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
            if not setting.startswith("removable")
        ],
    )


def read():
    return table(
        ("", "read pairs", "precision", "recall"),
        [
            [label, with_interval("read", setting, "read pairs"),
             *(short(scored("read", setting, "read pairs", rate)) for rate in ("precision", "recall"))]
            for setting, label in SKETCHES.items()
            if setting != "both, 64 bytes"
        ],
    )


def labelled():
    return table(
        ("", *LABELLED.values(), "mean"),
        [
            [label, *(with_interval("labelled", setting, of) for of in LABELLED), mean_of("labelled", setting, LABELLED)]
            for setting, label in SKETCHES.items()
            if setting != "both, 64 bytes"
        ],
    )


# --- nine sets, 3,504 settings: the tables of results/quality/TABLE.md ----------------------------------------

NINE = {
    "judged-pairs": "judged", "short-answers": "answers", "articles-1000": "art. 1000", "articles-2500": "art. 2500",
    "bbc-news": "bbc", "web-pages": "web", "newsgroups20": "news", "debian-descriptions": "descr.", "debian-docs": "docs",
}
DEFAULT_OF_THEN = "psm, 3-shingles, 10 bits, weights .93 (default)"


@functools.cache
def quality_tables():
    """{title: {setting: {column: cell}}} of TABLE.md; columns without the kind of the set."""
    found, head = {}, None
    for line in (RESULTS / "quality/TABLE.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            of = found.setdefault(line[2:], {})
            head = None
        elif line.startswith("|---"):
            continue
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if head is None:
                head = [re.sub(r" \((judged|planted|lexical)\)$", "", cell) for cell in cells]
            else:
                # `… weights .93` goes on from the row before it, and there are several.
                name = cells[0] if cells[0] not in of else f"{cells[0]} #2"
                of[name] = dict(zip(head[1:], cells[1:]))
    return found


def brief(cell):
    """`0.386` as `.386`, `0.90 / 0.25` as `.90 / .25`, `1.000` as `1`."""
    parts = [part if part == "–" else part.removeprefix("0").replace("1.000", "1").replace("1.00", "1") for part in cell.split(" / ")]
    return " / ".join(parts)


def bold_default(setting):
    setting = setting.removesuffix(" #2")
    return f"**{setting}**" if setting == DEFAULT_OF_THEN else setting


def nine_f1():
    found = quality_tables()["F1 on pairs"]
    return table(
        ("setting", *NINE.values(), "mean"),
        [
            [bold_default(setting), *(brief(cells[of]) for of in (*NINE, "mean"))]
            for setting, cells in found.items()
            if not setting.startswith(("best ", "setting chosen"))
        ],
    )


def nine_rates():
    told = (
        "psm, words TF-IDF, 3 bits (the paper's)", "… weights .95", DEFAULT_OF_THEN, "… weights .9", "MinHash 16, 5-shingles .8",
        "MinHash 128, 5-shingles .8", "MinHash 128, 5-shingles .5", "MinHash 128, 5-shingles .8, exact Jaccard",
        "*text-dedup-minhash-2gram-50x4*", "*text-dedup-simhash-3bits*", "*datasketch-5shingles-0.8*",
        "*find-simdoc-cosine-words-0.1*",
    )
    sets = ("judged-pairs", "web-pages", "newsgroups20", "debian-descriptions", "debian-docs")
    found = quality_tables()["Precision / recall"]
    # The row before is of another distance than the one that it goes on from here.
    label = {"… weights .95": "psm, words TF-IDF, 10 bits, weights .95"}
    return table(
        ("", *(NINE[of] for of in sets)),
        [[label.get(setting, bold_default(setting)), *(brief(found[setting][of]) for of in sets)] for setting in told],
    )


def nine_aims():
    found = quality_tables()["F1 on pairs"]
    told = {
        "best rival of each set, chosen on it": "best rival, chosen on the set",
        "best setting of each set, chosen on it": "best of our settings, chosen on the set",
        DEFAULT_OF_THEN: "our default",
    }
    return table(("", *NINE.values()), [[label, *(brief(found[setting][of]) for of in NINE)] for setting, label in told.items()])


def nine_sorts():
    columns = {
        "debian-descriptions: short": "descriptions, short", "debian-descriptions: middle": "descriptions, middle",
        "newsgroups20: middle": "newsgroups20, middle", "debian-docs: middle": "docs, middle", "debian-docs: long": "docs, long",
        "debian-docs: one host": "docs, one host", "debian-docs: two hosts": "docs, two hosts",
        "web-pages: one host": "web-pages, one host",
    }
    told = (
        "psm, words TF-IDF, 3 bits (the paper's)", "psm, 3-shingles, 7 bits", DEFAULT_OF_THEN, "MinHash 16, 5-shingles .8",
        "MinHash 64, 5-shingles .8", "MinHash 128, 5-shingles .8",
    )
    true = []
    for column in columns:
        of, sort = column.split(": ")
        true.append(next(str(int(r["tp"]) + int(r["fn"])) for r in rows(f"quality/{of}.csv") if r["pairs"] == sort))
    found = quality_tables()["F1 by sort of pair"]
    body = [["true pairs", *true]]
    body += [[bold_default(setting), *(brief(found[setting][column]) for column in columns)] for setting in told]
    return table(("", *columns.values()), body)


def then(of, method, features, weighting, distance="", positions="", similarity="", check="none", threshold="", pairs="all"):
    """A row of the 3,504 settings."""
    return row(
        f"quality/{of}.csv", pairs=pairs, method=method, features=features, weighting=weighting, distance=distance,
        positions=positions, similarity=similarity, check=check, threshold=threshold,
    )


def then_mean(*setting, **more):
    return short(mean(then(of, *setting, **more)["f1"] for of in NINE))


# --- the plan of an index ----------------------------------------------------------------------------------------


def plan():
    names = ("debian-docs-generated-1000275", "debian-docs-generated-10000049", "large-real-1673791")
    body = []
    for name in names:
        for r in rows(f"plan/{name}.csv"):
            speed = [float(r[f"queries_per_cpu_second{told}"]) for told in ("_told", "")]
            body.append([
                f"{'real' if r['source'] == 'real' else 'generated'}, {int(r['stored']):,}",
                r["radius"], r["recall_wanted"],
                f"{r['tables']} × {r['key_bits']} / {r['flips']}",
                f"{r['looks']} of {r['all_looks']}",
                *(f"{float(r[f'recall{told}']):.3f}" for told in ("_told", "")),
                *(f"{float(r[f'candidates{told}']):,.1f}" for told in ("_told", "")),
                f"{float(r['matches']):.2f}",
                *(f"{value / 1000:,.0f} k" for value in speed),
                f"{speed[0] / speed[1]:.2f}",
                *(f"{float(r[f'bytes{told}']) / 1e6:.2f} MB" for told in ("_told", "")),
            ])
    return table(
        ("distinct hashes", "h", "wanted", "tables × key bits / flips", "probes", "recall predicted", "found", "candidates predicted",
         "counted", "matches", "queries/s predicted", "measured", "predicted / measured", "bytes predicted", "real"),
        body,
    )


TABLES = {
    "README.md": {"f1": readme},
    "docs/quality.md": {
        "held-out": held_out, "chosen": chosen, "read": read, "labelled": labelled, "nine-f1": nine_f1,
        "nine-rates": nine_rates, "nine-aims": nine_aims, "nine-sorts": nine_sorts,
    },
    "docs/plan.md": {"plan": plan},
}


def sentences():
    """(file, sentence): stands in the file, however it is wrapped."""
    return []


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


def main():
    write = sys.argv[1:] == ["--write"]
    wrong = list(commands())
    texts = {}
    for file, named in TABLES.items():
        path = HERE.parent / file
        text = path.read_text(encoding="utf-8")
        for name, make in named.items():
            marked = re.compile(rf"(<!-- told: {name} -->\n).*?(<!-- end of told -->)", re.DOTALL)
            if len(marked.findall(text)) != 1:
                raise SystemExit(f"{file} has not one table {name}")
            made = "\n".join(make()) + "\n"
            told = marked.search(text)[0].split("\n", 1)[1].rsplit("<!--", 1)[0]
            if told != made and write:
                text = marked.sub(lambda found: found[1] + made + found[2], text)
            elif told != made:
                for old, new in zip(told.splitlines(), made.splitlines()):
                    if old != new:
                        wrong.append(f"{file}, table {name}:\n  told {old}\n  rows {new}")
                if told.count("\n") != made.count("\n"):
                    wrong.append(f"{file}, table {name} has {told.count(chr(10))} lines instead of {made.count(chr(10))}")
        if write:
            path.write_text(text, encoding="utf-8")
    for file, sentence in sentences():
        if file not in texts:
            texts[file] = " ".join((HERE.parent / file).read_text(encoding="utf-8").split())
        if " ".join(sentence.split()) not in texts[file]:
            wrong.append(f"{file} does not say: {sentence}")
    print("\n".join(wrong) or "what is told is what the rows say")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
