"""Scores settings of the tool on many sets, a row for each: ../results/two-sketches/SETTINGS.csv.

usage: runs.py SIMFLIP ROWS.csv [--only SETTING|seeds] SET=DOCUMENTS,TRUTH[,KIND] ...   KIND: chosen, held-out, labelled
       runs.py FOLDER/ ROWS.csv SET=DOCUMENTS,TRUTH[,KIND] ...      FOLDER/SET.RIVAL.csv of ../rivals/rivals.py
       runs.py SIMFLIP ROWS.csv [--only SETTING] --read KEY,ONE,TWO CORPUS=DOCUMENTS ...

Every run is `dedup DOCUMENTS --all-pairs --threads 1` with the options of a setting. Without --read the pairs
are scored by score.py (300 draws), with it by read.py, pooled over the corpora. A row has the setting, its options, the
set, P, R and F1 with their intervals, and processor seconds and memory, which depend on the machine.
"""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

SETTINGS = {
    "both (default)": [],
    "both, 64 bytes": ["--sketch-bytes", "64"],
    "simhash": ["--method", "simhash"],
    "minhash 128": ["--method", "minhash"],
    "minhash, one bit, 64 bytes": ["--method", "minhash", "--sketch-bytes", "64"],
    "the paper's": [
        "--method", "psm", "--features", "words", "--weighting", "tf-idf", "--verify", "none",
    ],
}
# Run when named: how far F1 hangs on the seed of the sketches.
SEEDS = {f"both, seed {seed}": ["--seed", str(seed)] for seed in range(1, 7)}
FIELDS = [
    "setting", "options", "kind", "set", "precision", "recall", "f1", "f1_low", "f1_high", "bcubed", "bcubed_low", "bcubed_high", "true", "listed",
    "cpu_seconds", "peak_kb", "kernel",
]


def run(program, documents, options, folder):
    """Runs the tool; processor seconds and peak memory of it alone, and its level of vector instructions."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, "dedup", documents, "--all-pairs", "--threads", "1", "--quiet", "--out", folder, *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    peak = report.get("peak_memory_bytes") or 0
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak // 1000, report["tool"]["kernel"]


def script(name, *arguments):
    command = [sys.executable, os.path.join(HERE, name), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def put(rows, known, setting, options, scored):
    """Puts a row in the place of the one of the same setting and set."""
    name, kind, result, cpu, peak, kernel = scored
    row = {
        "setting": setting, "options": options, "kind": kind, "set": name,
        **{rate: result[rate][0] for rate in ("precision", "recall", "f1")},
        "f1_low": result["f1"][1], "f1_high": result["f1"][2], "true": result.get("true", ""),
        **dict(zip(("bcubed", "bcubed_low", "bcubed_high"), result.get("bcubed", ()))),
        "listed": result.get("pairs_listed", ""), "cpu_seconds": round(cpu, 2), "peak_kb": peak, "kernel": kernel,
    }
    known[:] = [old for old in known if (old["setting"], old["set"]) != (setting, name)] + [row]
    print(setting, name, row["f1"], flush=True)
    with open(rows, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(known)


def rivals(folder, sets):
    """A row of each set and other tool whose pairs are in a folder, with the seconds that it took."""
    for given in sets:
        name, _, files = given.partition("=")
        documents, truth, *kind = files.split(",")
        with open(os.path.join(folder, f"{name}.seconds.csv"), newline="", encoding="utf-8") as file:
            seconds = {row["rival"]: float(row["cpu_seconds"]) for row in csv.DictReader(file)}
        for rival, cpu in sorted(seconds.items()):
            result = script("score.py", os.path.join(folder, f"{name}.{rival}.csv"), documents, truth, "--draws", "300")
            yield rival, (name, kind[0] if kind else "held-out", result, cpu, 0, "")


def main():
    program, rows, *sets = sys.argv[1:]
    read = None
    settings = SETTINGS
    if sets[0] == "--only":
        settings = SEEDS if sets[1] == "seeds" else {sets[1]: SETTINGS[sets[1]]}
        sets = sets[2:]
    if sets[0] == "--read":
        read, sets = sets[1].split(","), sets[2:]
    known = []
    if os.path.exists(rows):
        with open(rows, newline="", encoding="utf-8") as file:
            known = list(csv.DictReader(file))
    if program.endswith("/"):
        for rival, scored in rivals(program, sets):
            put(rows, known, rival, "", scored)
        return
    for setting, options in settings.items():
        with tempfile.TemporaryDirectory() as folder:
            scored = []
            runs = []
            for number, given in enumerate(sets):
                name, _, files = given.partition("=")
                documents, *rest = files.split(",")
                out = os.path.join(folder, str(number))
                cpu, peak, kernel = run(program, documents, options, out)
                pairs = os.path.join(out, "pairs.csv")
                if read:
                    runs.append(f"{name}={pairs},{documents}")
                else:
                    scored.append((name, rest[1] if len(rest) > 1 else "held-out", script("score.py", pairs, documents, rest[0], "--draws", "300"), cpu, peak, kernel))
            if read:
                command = [sys.executable, os.path.join(HERE, "read.py"), *read, "--run", *runs]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                scored.append(("read pairs", "chosen", json.loads(told.splitlines()[-1]), 0.0, 0, kernel))
        for of in scored:
            put(rows, known, setting, " ".join(options), of)


if __name__ == "__main__":
    main()
