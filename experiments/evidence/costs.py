"""What runs on inputs that are hard on purpose cost: processor time and peak memory, a row for each setting and input.

usage: costs.py SIMFLIP ROWS.csv [--runs 3] worst

Every run is `dedup INPUT --threads 1` with the options in its row; of several runs the one with the least processor
time counts. Times and memory depend on the machine, the other columns do not.
"""

import argparse
import csv
import datetime
import json
import os
import random
import resource
import subprocess
import tempfile

WORDS = "--method simhash --features words --distance 3"
FIELDS = [
    "date", "machine", "kernel", "command", "input", "setting", "options", "pages", "kept", "largest_cluster", "distinct", "capped",
    "cpu_seconds", "join_cpu_seconds", "verify_cpu_seconds", "peak_mb",
]


def template(pages, shared):
    """Pages of one template: what all of them share, and four words of their own out of 5,000."""
    drawn = random.Random(2011)
    text = " ".join(f"shared{word}" for word in range(shared))
    for _ in range(pages):
        yield text + " " + " ".join(f"own{drawn.randrange(5_000)}" for _ in range(4))


def long_page():
    """A page of 100 MB among 1,000 of 600 bytes."""
    drawn = random.Random(2011)
    yield " ".join(f"word{drawn.randrange(1_000_000):06}" for _ in range(100_000_000 // 11))
    for _ in range(1_000):
        yield " ".join(f"word{drawn.randrange(1_000_000):06}" for _ in range(600 // 11))


def worst():
    """(input, texts, [(setting, options)])."""
    default = [("both (default)", "")]
    yield "100,000 empty", ("" for _ in range(100_000)), default
    yield "100,000 equal, 689 bytes", (("the same words on every page " * 24)[:689] for _ in range(100_000)), default
    yield "100,000 of one word, two of each", (f"word{page // 2}" for page in range(100_000)), default
    yield "100,000 of one template, 120 words and 4 of their own", template(100_000, 120), [
        *default,
        ("the default, connected", "--clusters connected"),
        ("words TF-IDF, 3 bits", f"{WORDS} --weighting tf-idf --verify none"),
        ("words TF, 3 bits, weights, star", f"{WORDS} --weighting tf --verify weights --clusters star"),
        ("3-shingles, 10 bits, weights .93", "--method simhash --features shingles:3 --verify-threshold 0.93"),
    ]
    yield "one page of 100 MB among 1,000 of 600 bytes", long_page(), [
        *default,
        ("words TF-IDF, 3 bits", f"{WORDS} --weighting tf-idf --verify none"),
        ("minhash 128", "--method minhash"),
    ]


def run(program, documents, options, folder):
    """Processor seconds of the tool alone, and its report."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, "dedup", documents, "--threads", "1", "--quiet", "--out", folder, *options.split()]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, json.load(file)


def measured(given, name, documents, setting, options):
    best = None
    for _ in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            spent, report = run(given.program, documents, options, os.path.join(folder, "out"))
        if best is None or spent < best[0]:
            best = spent, report
    spent, report = best
    stages = {stage["name"]: stage["cpu_seconds"] for stage in report["stages"]}
    return {
        "date": datetime.date.today().isoformat(), "machine": machine(), "kernel": report["tool"]["kernel"], "input": name, "setting": setting, "options": options,
        "command": f"costs.py --runs {given.runs} {given.what}",
        "pages": sum(report["outcome"][of] for of in ("kept", "removed")), "kept": report["outcome"]["kept"],
        "largest_cluster": max((of["size"] for of in report["largest_clusters"]), default=1),
        "distinct": report["searched"]["distinct"],
        "capped": crowded(report["searched"]["capped"]),
        "cpu_seconds": f"{spent:.2f}",
        "join_cpu_seconds": f"{sum(stages.get(of, 0) for of in ('join', 'search')):.3f}",
        "verify_cpu_seconds": f"{stages.get('verify', 0):.3f}",
        "peak_mb": round((report.get("peak_memory_bytes") or 0) / 1e6),
    }


def crowded(crowds):
    """How crowds were thinned, and how many hashes were in them or, of bands, how many pairs were passed over."""
    if crowds is None:
        return "none"
    [(kind, of)] = crowds.items()
    return f"{kind} {of['hashes'] if 'hashes' in of else of['skipped']}"


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()} x{os.cpu_count()}"
    return f"unknown x{os.cpu_count()}"


def put(path, made):
    """Puts a row in the place of the one of the same input and setting."""
    print(made, flush=True)
    known = []
    if os.path.exists(path):
        with open(path, newline="", encoding="utf-8") as file:
            known = list(csv.DictReader(file))
    known = [row for row in known if (row["input"], row["setting"]) != (made["input"], made["setting"])]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*known, made])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("rows")
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("what", choices=("worst",))
    given = arguments.parse_args()

    for name, texts, settings in worst():
        with tempfile.TemporaryDirectory() as folder:
            documents = os.path.join(folder, "pages.jsonl")
            with open(documents, "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
            for setting, options in settings:
                put(given.rows, measured(given, name, documents, setting, options))


if __name__ == "__main__":
    main()
