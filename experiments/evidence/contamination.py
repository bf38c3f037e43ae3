"""How many planted items of a benchmark `simflip decontaminate` finds, and how many that are not there: a row for each kind.

usage: contamination.py SIMFLIP ROWS.csv SET=DOCUMENTS,SOURCE[,KIND] ...   KIND: chosen, held-out

Items are passages of SOURCE, texts that have nothing to do with DOCUMENTS. Some are put into documents, as they are or with every
tenth word another one, between words of the document; some are not. Others begin with an instruction that all items of the
benchmark have, or end with a passage that many documents have. A row has: set and its kind, items of which kind, words, items, planted, found (in
the document in which it was planted), elsewhere (documents in which an item was found and not planted). The last rows of a set have the
processor seconds of a run on one thread beside those of `gzip -dc` of the same documents, the least of three each: documents with their
items as JSONL, as gzipped JSONL, and the file DOCUMENTS itself. Rows of the same set are replaced.
"""

import collections
import csv
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile

import corpus

FIELDS = ["set", "chosen", "kind", "words", "items", "planted", "found", "elsewhere", "seconds", "gzip_seconds"]
EACH = 100


def passages(texts, rng, length):
    """Passages of texts in words, each of another text, which is taken away."""
    while texts:
        text = corpus.pieces(texts.pop())
        words = rng.randint(*length)
        if len(text) > 2 * words:
            start = rng.randrange(len(text) - words)
            yield text[start : start + words]


def frequent_passage(texts, words):
    """A passage of so many words that begins with the run of eight words that most texts have."""
    counts = collections.Counter()
    for text in texts:
        split = text.split()
        counts.update({tuple(split[i : i + 8]) for i in range(len(split) - 8)})
    for run, number in counts.most_common(2000):
        if len(set(run)) < 7:
            continue
        for text in texts:
            split = text.split()
            for i in range(len(split) - words):
                if tuple(split[i : i + 8]) == run:
                    return split[i : i + words], number
    raise SystemExit("no passage is frequent")


def cpu(command, result):
    """The processor seconds of a command that makes a folder anew, the least of three runs."""
    def once():
        shutil.rmtree(result, ignore_errors=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return round(min(once() for _ in range(3)), 2)


def rows_of(program, documents, source):
    """The rows of a set, without its name."""
    rng = random.Random(7)
    texts = [text for *_, text in corpus.read(documents)]
    sources = list({text for *_, text in corpus.read(source)})
    sources.sort()
    rng.shuffle(sources)
    vocabulary = [word for text in texts[:300] for word in corpus.words(text)]
    instruction = "Read the passage with care, choose the one answer that follows from it, and give your reasons in a sentence or two.".split()
    phrase, having = frequent_passage(texts, 40)
    print(f"a passage that {having} documents begin: {' '.join(phrase)[:100]}")
    kinds, items, hosts = [], [], list(range(len(texts)))
    rng.shuffle(hosts)
    for length in ((8, 12), (13, 24), (25, 40), (41, 80)):
        made = passages(sources, rng, length)
        short = ("alone, not planted",) if length[0] < 13 else ()
        for kind in ("verbatim", "one word in ten changed", "with an instruction", "with a set phrase", "not planted", *short):
            for _ in range(EACH):
                words = next(made)
                item = {
                    "with an instruction": instruction + words,
                    "with a set phrase": words + phrase,
                    "not planted": instruction + words + phrase,
                }.get(kind, words)
                host = None
                if "not planted" not in kind:
                    host = hosts.pop()
                    planted = list(words)
                    if kind.startswith("one word"):
                        for place in rng.sample(range(len(planted)), max(1, round(len(planted) / 10))):
                            planted[place] = rng.choice(vocabulary)
                    text = texts[host].split(" ")
                    place = rng.randrange(len(text) + 1)
                    texts[host] = " ".join([*text[:place], *planted, *text[place:]])
                kinds.append((kind, f"{length[0]}-{length[1]}", host))
                items.append(" ".join(item))
    with tempfile.TemporaryDirectory() as folder:
        pages, benchmark, result = (os.path.join(folder, name) for name in ("pages.jsonl", "items.jsonl", "result"))
        for path, written in ((pages, texts), (benchmark, items)):
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"id": str(number), "text": text}) + "\n" for number, text in enumerate(written))
        subprocess.run(["gzip", "-6", "--keep", pages], check=True)
        command = [program, "decontaminate", "--against", benchmark, "--out", result, "--remove", "nothing", "--quiet", "--threads", "1"]
        times = []
        for form, path, packed in (("DOCUMENTS", documents, documents), ("JSONL.gz", pages + ".gz", pages + ".gz"), ("JSONL", pages, pages + ".gz")):
            plain, seconds = cpu(["gzip", "-dc", packed], result), cpu([*command, path], result)
            times.append({"kind": f"processor time, {form}", "seconds": seconds, "gzip_seconds": plain})
        with open(os.path.join(result, "matches.csv"), encoding="utf-8", newline="") as file:
            matches = {(int(row["item_id"]), int(row["id"])) for row in csv.DictReader(file)}
    rows = {}
    for number, (kind, words, host) in enumerate(kinds):
        row = rows.setdefault((kind, words), dict.fromkeys(("items", "planted", "found", "elsewhere"), 0))
        row["items"] += 1
        row["planted"] += host is not None
        row["found"] += (number, host) in matches
    for item, page in matches:
        kind, words, host = kinds[item]
        rows[kind, words]["elsewhere"] += page != host
    return [*({"kind": kind, "words": words, **row} for (kind, words), row in rows.items()), *times]


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    _, program, out, *sets = sys.argv
    known = []
    if os.path.exists(out):
        with open(out, encoding="utf-8", newline="") as file:
            known = list(csv.DictReader(file))
    for given in sets:
        name, _, files = given.partition("=")
        documents, source, *kind = files.split(",")
        made = [{"set": name, "chosen": kind[0] if kind else "held-out", **row} for row in rows_of(program, documents, source)]
        known = [row for row in known if row["set"] != name] + made
        for row in made:
            print(*row.values())
        with open(out, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(known)


if __name__ == "__main__":
    main()
