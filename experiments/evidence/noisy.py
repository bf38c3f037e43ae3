"""How right the pairs of `--preset noisy` are where documents are of one template: ../results/noisy/rows.csv.

usage: noisy.py SIMFLIP ROWS.csv CRATES POSTS NEWS

Six sets, three to choose the check and its threshold on and three to judge them on. *code*: sources of the crates in CRATES (~/.cargo/registry/src/*),
with all versions that are there. *tables*: pages of 40 rows of tables, each under the head of its table: to choose, plays of a game, and our own rows of
3,504 settings on several sets; to judge, a timetable and places with their coordinates.
*instructions*: one of eight instructions and a passage of a text of POSTS or NEWS. Besides each fourth document there is a copy of it,
with 5 % of damage as in damage.py.

A pair is right if it is of one document, or of two versions of one file, or if the documents were near before the damage (a Jaccard
coefficient of word 5-shingles of .5). A row has: set, kind, documents, setting, copies, found (of the copies), listed and right (pairs).
"""

import csv
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import corpus
import damage

THRESHOLDS = ("0.93", "0.94", "0.95", "0.96")
SETTINGS = {
    "default": [],
    "noisy, estimate 0.5": ["--preset", "noisy", "--verify", "estimate"],
    **{f"noisy, {of}": ["--preset", "noisy", "--verify-threshold", of] for of in THRESHOLDS},
}
DAMAGE = [change for kind, of in damage.KINDS.items() if kind != "cut" for rate, change in of if rate == 0.05]
MOST = 1500
ROWS = 40
HERE = os.path.dirname(os.path.abspath(__file__))
# Tables of the crate csv, and our own rows of one set each.
BENCH = "csv-1.*/examples/data/bench"
TABLES = {"chosen": (f"{BENCH}/nfl.csv", "../results/quality/*s.csv"), "held-out": (f"{BENCH}/gtfs-mbta-stop-times.csv", f"{BENCH}/worldcitiespop.csv")}
TASKS = (
    "Below is an instruction that describes a task, with an input that gives the context. Write a response that completes the request. Summarise the text.",
    "You are a helpful assistant. Answer the question from the passage alone, in a sentence or two, and say so if the passage does not answer it.",
    "Translate the following text into French. Keep names, numbers and the order of the sentences, and add nothing of your own.",
    "Read the passage with care, choose the one answer that follows from it, and give your reasons in a sentence or two.",
    "Is the mood of the following text positive, negative or neutral? Answer with one word.",
    "Rewrite the text for children of ten years. Use short sentences and everyday words.",
    "List the persons, places and organisations that the text names, one a line.",
    "Give the text a headline of at most eight words.",
)


def code(kind, crates):
    """(origin, text) of sources; a crate is of one kind."""
    for path in sorted(glob.glob(os.path.join(glob.escape(crates), "*", "src", "**", "*.rs"), recursive=True)):
        crate, _, place = os.path.relpath(path, crates).partition(os.sep)
        crate = re.sub(r"-\d[^-]*(-.*)?$", "", crate)
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(20_001)
        if 500 <= len(text) <= 20_000 and (sum(crate.encode()) % 2 == 0) == (kind == "chosen"):
            yield f"{crate}/{place}", text


def tables(kind, crates):
    for pattern in TABLES[kind]:
        for path in sorted(glob.glob(os.path.join(glob.escape(crates if pattern.startswith(BENCH) else HERE), pattern))):
            with open(path, encoding="utf-8", errors="replace") as file:
                head, *lines = file.read().splitlines()[:20_000]
            for first in range(0, len(lines) - ROWS, ROWS):
                yield f"{path} {first}", "\n".join([head, *lines[first : first + ROWS]])


def instructions(texts):
    rng = random.Random(5)
    for number, text in enumerate(sorted({text for *_, text in corpus.read(texts)})):
        words = text.split()
        if len(words) >= 120:
            start = rng.randrange(len(words) - 100)
            yield str(number), f"{rng.choice(TASKS)}\n\n{' '.join(words[start:][: rng.randint(20, 120)])}"


def rows_of(program, made):
    rng = random.Random(11)
    documents = rng.sample(made, min(MOST, len(made)))
    texts = [text for _, text in documents]
    copies = {number: " ".join(rng.choice(DAMAGE)(rng, texts[number].split())) for number in range(0, len(texts), 4)}
    shingles = [corpus.shingles(text, 5) for text in texts]

    def is_right(a, b):
        return documents[a][0] == documents[b][0] or corpus.jaccard(shingles[a], shingles[b]) >= 0.5

    with tempfile.TemporaryDirectory() as folder:
        pages, result = os.path.join(folder, "pages.jsonl"), os.path.join(folder, "result")
        with open(pages, "w", encoding="utf-8") as file:
            for name, of in (("a", enumerate(texts)), ("b", copies.items())):
                file.writelines(json.dumps({"id": f"{number}{name}", "text": text}) + "\n" for number, text in of)
        for setting, options in SETTINGS.items():
            command = [program, "dedup", pages, "--out", result, "--force", "--write", "pairs", "--all-pairs", "--quiet", *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with open(os.path.join(result, "pairs.csv"), encoding="utf-8", newline="") as table:
                pairs = [(int(row["a_id"][:-1]), int(row["b_id"][:-1])) for row in csv.DictReader(table)]
            found, right = len({a for a, b in pairs if a == b}), sum(is_right(a, b) for a, b in pairs)
            yield {"documents": len(texts), "setting": setting, "copies": len(copies), "found": found, "listed": len(pairs), "right": right}


def main():
    if len(sys.argv) != 6:
        raise SystemExit(__doc__)
    _, program, out, crates, posts, news = sys.argv
    with open(out, "w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, ["set", "kind", "documents", "setting", "copies", "found", "listed", "right"], lineterminator="\n")
        rows.writeheader()
        for kind, texts in (("chosen", posts), ("held-out", news)):
            for name, made in (("code", code(kind, crates)), ("tables", tables(kind, crates)), ("instructions", instructions(texts))):
                for row in rows_of(program, list(made)):
                    rows.writerow({"set": name, "kind": kind, **row})
                    print(name, kind, *row.values(), flush=True)


if __name__ == "__main__":
    main()
