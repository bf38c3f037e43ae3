"""Whole jobs of simflip and of other tools: processor time, peak memory, and F1 on pairs, on short and on long documents.

    python3 jobs.py SIMFLIP ROWS.csv WORK_FOLDER SET=DOCUMENTS,TRUTH,KIND … [--runs 3] [--tools NAME,…]      KIND: chosen, judged

DOCUMENTS is a WET file, or lines of JSON with the field `text`; TRUTH has the exact Jaccard coefficients of pairs (a,b,jaccard), numbered as
the documents stand there. A pair is true from .8 on. A job is a process that reads lines of JSON and writes the lines that it keeps and
the pairs that it finds; its processor time is that of all its threads and children, the interpreter's start included, on one
thread, the least of several runs. Settings of a tool are tried on the sets of KIND `chosen`; the one with the best mean F1 there is timed
and judged on the others, beside the setting of the tool's own documentation. A tool that cannot be had is named with the
reason and left out.
"""

import argparse
import csv
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import costs

sys.path.insert(0, str(Path(__file__).parent.parent / "evidence"))

import score  # noqa: E402
from corpus import read_wet  # noqa: E402

AT = 0.8
FIELDS = [
    "date", "machine", "kernel", "command", "set", "kind", "documents", "text_bytes", "tool", "version", "setting", "best_of", "work", "kept",
    "pairs", "true_pairs", "precision", "recall", "f1", "cpu_seconds", "times_simflip", "peak_mib",
]

# Each job begins with these lines: what it reads, and how it writes. `found` are (earlier, later, estimate). Sets of words
# are cut at blanks, as the tools' documentation has it; shingles are of the words that the truth is counted on.
BEGIN = """
import json, re, sys
pages, kept, pairs, setting = sys.argv[1:5]
setting = json.loads(setting)
with open(pages, encoding="utf-8", newline="\\n") as file:
    lines = file.readlines()
texts = [json.loads(line)["text"] for line in lines]
cut = re.compile(r"[^\\W_]+").findall
def features(text):
    if setting["width"] == 1:
        return text.split()
    words, width = cut(text.lower()), setting["width"]
    return list({" ".join(words[i:i + width]) for i in range(max(len(words) - width + 1, 1))})
def parts():
    for start in range(0, len(texts), 1000):
        yield [features(text) for text in texts[start:start + 1000]]
def end(found):
    found = [(min(a, b), max(a, b), e) for a, b, e in found if a != b and e >= setting.get("least", 0)]
    later = {b for _, b, _ in found}
    with open(kept, "w", encoding="utf-8") as file:
        file.writelines(line for number, line in enumerate(lines) if number not in later)
    with open(pairs, "w") as file:
        file.write("a,b,estimate\\n")
        file.writelines(f"{a},{b},{e:.4f}\\n" for a, b, e in found)
"""
RENSA = BEGIN + """
from rensa import RMinHash, RMinHashLSH
index = RMinHashLSH(threshold=setting["index"], num_perm=128, num_bands=setting["bands"])
sketches = [sketch for part in parts() for sketch in RMinHash.from_token_sets(part, num_perm=128, seed=42)]
index.insert_many(sketches)
near = enumerate(index.query_all(sketches))
end((a, b, sketches[b].jaccard(sketches[a])) for b, of in near for a in of if a < b)
"""
FASTSKETCH = BEGIN + """
import numpy
from FastSketchLSH import FastSimilaritySketch, LSH
sketcher = FastSimilaritySketch(size=128, seed=42)
sketches = numpy.concatenate([numpy.asarray(sketcher.batch(part, num_threads=1)) for part in parts()])
index = LSH(num_perm=128, num_bands=setting["bands"], num_threads=1)
index.insert(sketches)
other, starts = index.query(sketches, format="csr")
of, other = numpy.repeat(numpy.arange(len(texts)), numpy.diff(starts).astype(int)), other.astype(int)
a, b = other[other < of], of[other < of]
estimates = numpy.concatenate([numpy.zeros(0)] + [(sketches[a[i:i + 65536]] == sketches[b[i:i + 65536]]).mean(axis=1) for i in range(0, len(a), 65536)])
end(zip(a.tolist(), b.tolist(), estimates.tolist()))
"""
GAOYA = BEGIN + """
import gaoya
width = setting["width"]
index, found = gaoya.minhash.MinHashStringIndex(
    hash_size=32, jaccard_threshold=setting["index"], num_bands=setting["bands"], band_size=setting["rows"],
    analyzer="word", lowercase=True, ngram_range=(width, width), id_container="vec"), []
for number, text in enumerate(texts):
    found += [(other, number, 1.0) for other in index.query(text)]
    index.insert_document(number, text)
end(found)
"""
DUPEKIT = BEGIN + """
import pyarrow, dupekit
T, bands = dupekit.Transformation, setting["bands"]
batch = pyarrow.RecordBatch.from_pydict({"text": texts})
signed = dupekit.transform(batch, [
    T.CleanText("text", "clean"), T.MinHash("clean", "signature", setting["positions"], setting["width"], 42),
    T.MinHashLSH("signature", "buckets", bands)])
buckets = {}
for number, keys in enumerate(signed.column("buckets").to_pylist()):
    for key in set(keys or ()):
        buckets.setdefault(key, []).append(number)
signatures = signed.column("signature").to_pylist()
seen = {(a, b) for of in buckets.values() for at, b in enumerate(of) for a in of[max(0, at - 256):at]}
alike = lambda a, b: sum(x == y for x, y in zip(signatures[a], signatures[b])) / setting["positions"]
end((a, b, alike(a, b) if setting.get("least") else 1.0) for a, b in seen)
"""
DATASKETCH = BEGIN + """
from datasketch import MinHash, MinHashLSH
index, sketches, found = MinHashLSH(threshold=setting["index"], num_perm=setting["positions"]), [], []
for number, text in enumerate(texts):
    sketch = MinHash(num_perm=setting["positions"])
    sketch.update_batch([shingle.encode() for shingle in features(text)])
    found += [(other, number, sketch.jaccard(sketches[other])) for other in index.query(sketch)]
    index.insert(number, sketch)
    sketches.append(sketch)
end(found)
"""
FASTRUSTRAG = BEGIN + """
import fastrustrag
pipeline = fastrustrag.DeduplicationPipeline(
    num_bands=20, num_hashes=128, shingle_size=setting["width"], similarity_threshold=setting["index"])
pipeline.process_documents(texts)
# Its threads number the texts as they come to them, so each is asked back.
places = {}
for number, text in enumerate(texts):
    places.setdefault(text, []).append(number)
place = [places[pipeline.get_document(number)].pop() for number in range(len(texts))]
end((place[a], place[b], e) for a, b, e in pipeline.deduplicate_corpus())
"""

LEAST = [0.7, 0.75, 0.78, 0.8, 0.82, 0.85]
# Tool: environment, program, what it does, the setting of its documentation, settings to try. Each is tried with every
# `least`, from which estimate on a candidate counts, but for gaoya, which tells no estimates.
TOOLS = {
    "rensa": (
        "rensa", RENSA, "R-MinHash of 128 positions, its index, candidates checked by the estimate",
        {"width": 1, "bands": 16, "index": 0.8, "least": 0.8},
        [{"width": 5, "bands": bands, "index": 0.8} for bands in (16, 32)],
    ),
    "FastSketchLSH": (
        "fastsketchlsh", FASTSKETCH, "fast similarity sketches of 128 positions, its banded index, candidates checked by the estimate",
        {"width": 1, "bands": 16, "least": 0.8}, [{"width": 5, "bands": bands} for bands in (16, 32)],
    ),
    "gaoya": (
        "gaoya", GAOYA, "MinHash of 128 positions of 32 bits, words cut in Rust, its index with its own check",
        {"width": 1, "bands": 20, "rows": 5, "index": 0.75},
        [{"width": 5, "bands": bands, "rows": 128 // bands, "index": index} for bands in (16, 32) for index in (0.75, 0.8)],
    ),
    "marin-dupekit": (
        "dupekit", DUPEKIT, "cleaned text, MinHash of runs of characters on Arrow, buckets of its bands",
        {"width": 5, "positions": 286, "bands": 26},
        [{"width": width, "positions": 286, "bands": 26} for width in (5, 25)],
    ),
    "datasketch": (
        "datasketch", DATASKETCH, "MinHash, its index at a threshold, candidates checked by the estimate",
        {"width": 1, "positions": 128, "index": 0.9}, [{"width": 5, "positions": 256, "index": 0.6}],
    ),
    "fastrustrag": (
        "fastrustrag", FASTRUSTRAG, "MinHash of 128 positions in 20 bands, candidates checked by the estimate",
        {"width": 3, "index": 0.8}, [{"width": 5, "index": 0.7}],
    ),
}
# Tools that rivals.py runs: what tells it where they are, what they do, and the names of their settings there: of their
# documentation, and the best of grid.py.
OTHERS = {
    "find-simdoc": (
        "SIMDOC", "sketches of 640 bits by its library, all pairs within a radius; leaves out kept pages",
        "find-simdoc-cosine-3shingles-0.1", "find-simdoc-jaccard-5shingles-0.2",
    ),
    "text-dedup": (
        "TEXT_DEDUP_PYTHON", "text_dedup.minhash, 5-grams, 250 positions; connected components of unchecked candidates",
        "text-dedup-minhash-5gram-0.7", "text-dedup-minhash-5gram-0.8",
    ),
    "datatrove": (
        "DATATROVE_PYTHON", "its four stages, 14 bands of 8 hashes of 64 bits, 5-grams; connected components of unchecked candidates",
        "datatrove-14x8", None,
    ),
    "Duplodocus": (
        "DUPLODOCUS", "minhash-memory, 14 bands of 8, 5-grams of cl100k; connected components of unchecked candidates",
        "duplodocus-14x8-cl100k", None,
    ),
}
ENVIRONMENTS = {
    **costs.ENVIRONMENTS,
    "fastsketchlsh": ("FastSketchLSH", ["FastSketchLSH==1.0.1", "numpy"]),
    "gaoya": ("gaoya", ["gaoya==0.2.2"]),
    "dupekit": ("dupekit", ["marin-dupekit==0.1.1", "pyarrow"]),
}
ALONE = {**os.environ, "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


# A process of its own starts a job: a child is born with the memory of its parent, and this script holds much.
STARTER = """
import os, resource, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def run(command, folder):
    """Processor seconds of a command and its children, and the most memory that one of them had, in MiB."""
    starter = [sys.executable, "-S", "-c", STARTER, *command]
    told = subprocess.run(starter, check=True, capture_output=True, text=True, cwd=folder, env=ALONE, timeout=costs.SECONDS)
    seconds, kilobytes = told.stdout.split()
    return float(seconds), float(kilobytes) / 1024


def least_of(command, runs, folder):
    """The least seconds of some runs, with the memory of that run; a job of a minute is not repeated."""
    best = (float("inf"), 0.0)
    for number in range(runs):
        if number == 0 or best[0] < 60:
            best = min(best, run(command, folder))
    return best


def lines_of(documents, out):
    """Lines of JSON of a set; how many, and their bytes of text."""
    if documents.endswith(".jsonl"):
        with open(documents, encoding="utf-8") as file:
            texts = [json.loads(line)["text"] for line in file if line.strip()]
    else:
        texts = [text for _, _, text in read_wet(Path(documents))]
    with open(out, "w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"id": str(number), "text": text}, ensure_ascii=False) + "\n" for number, text in enumerate(texts))
    return len(texts), sum(len(text.encode()) for text in texts)


class Set:
    def __init__(self, given, folder):
        self.name, _, files = given.partition("=")
        documents, truth, self.kind = files.split(",")
        self.files = f"{os.path.basename(documents)},{os.path.basename(truth)},{self.kind}"
        self.pages = folder / f"{self.name}.jsonl"
        self.documents, self.bytes = lines_of(documents, self.pages)
        self.true = {tuple(sorted((int(r["a"]), int(r["b"])))) for r in score.table(truth) if float(r["jaccard"]) >= AT}

    def rates(self, pairs):
        hits = len(pairs & self.true)
        return score.rates(hits, len(pairs) - hits, len(self.true) - hits)


def pairs_of(path, least=0.0):
    """The pairs that a program found, those whose estimate is enough."""
    with open(path, newline="", encoding="utf-8") as file:
        return {(int(r["a"]), int(r["b"])) for r in csv.DictReader(file) if float(r["estimate"]) >= least}


def best_setting(python, program, tried, sets, folder):
    """The setting with the best mean F1 on the sets to choose on, and how many were tried."""
    found = {}
    for setting in tried:
        for one in sets:
            checked = {} if program == GAOYA else {"least": min(LEAST)}
            run([python, "-c", program, one.pages, folder / "kept", folder / "pairs", json.dumps({**setting, **checked})], folder)
            for least in LEAST if checked else [None]:
                f1 = one.rates(pairs_of(folder / "pairs", least or 0.0))[2]
                found.setdefault(json.dumps({**setting, **({"least": least} if checked else {})}), []).append(f1)
    best = max(found, key=lambda setting: sum(found[setting]))
    print(f"  best of {len(found)}: {best}, mean F1 {sum(found[best]) / len(sets):.3f}", file=sys.stderr)
    return json.loads(best), len(found)


def where(tool, work):
    """The program or interpreter that rivals.py runs for a tool, and the tool's version; or why there is none."""
    if tool == "Duplodocus":
        return costs.duplodocus_program(work)
    if tool != "find-simdoc":
        return costs.environment(work / f"environment-{tool}", *ENVIRONMENTS[tool])
    manifest = Path(__file__).with_name("simdoc") / "Cargo.toml"
    built = ["cargo", "build", "-q", "--release", "--manifest-path", manifest, "--target-dir", work / "simdoc"]
    try:
        subprocess.run(built, check=True, capture_output=True, text=True)
    except (subprocess.SubprocessError, OSError) as error:
        return None, costs.reason_of(error)
    return work / "simdoc/release/simdoc", "0.1.1"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simflip", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tools", type=lambda names: names.split(","), default=[*TOOLS, *OTHERS])
    given = parser.parse_args()
    unknown = set(given.tools) - {*TOOLS, *OTHERS}
    if unknown:
        parser.error(f"--tools has {', '.join(sorted(unknown))}, and may have {', '.join([*TOOLS, *OTHERS])}")
    work, simflip = given.work.resolve(), given.simflip.resolve()
    work.mkdir(parents=True, exist_ok=True)
    given.rows.parent.mkdir(parents=True, exist_ok=True)
    machine, rows = f"{costs.processor()} x{os.cpu_count()}", []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        folder = Path(folder)
        sets = [Set(one, folder) for one in given.sets]
        chosen, judged = ([one for one in sets if one.kind == kind] for kind in ("chosen", "judged"))
        command = f"jobs.py {' '.join(f'{one.name}={one.files}' for one in sets)} --tools {','.join(given.tools)}"

        def row(one, tool, version, setting, best_of, work, kept, pairs, measured):
            seconds, peak = measured
            first = next((r["cpu_seconds"] for r in rows if r["set"] == one.name), seconds)
            precision, recall, f1 = one.rates(pairs)
            rows.append(dict(zip(FIELDS, [
                datetime.date.today(), machine, costs.kernel(simflip), command, one.name, one.kind, one.documents, one.bytes, tool, version, setting, best_of, work, kept,
                len(pairs), len(one.true), f"{precision:.4f}", f"{recall:.4f}", f"{f1:.4f}", round(seconds, 3), f"{seconds / first:.2f}", f"{peak:.0f}",
            ])))
            with open(given.rows, "w", newline="") as file:
                out = csv.DictWriter(file, FIELDS, lineterminator="\n")
                out.writeheader()
                out.writerows(rows)
            print(f"{one.name}: {tool}, {setting}: {seconds:.2f} s, {peak:.0f} MiB, F1 {f1:.3f}", file=sys.stderr, flush=True)

        version = subprocess.run([simflip, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
        for one in judged:
            for options, did in (
                ("", "both sketches of runs of five words, candidates judged at .8; pairs, clusters, an audit of what was missed, a report"),
                ("--method simhash", "SimHash, an exact join, pairs checked by their weights; pairs, clusters, a report"),
                ("--method minhash", "MinHash of runs of five words, candidates checked by the estimate at .8; pairs, clusters, a report"),
            ):
                job = [simflip, "dedup", one.pages, "--force", "--out", folder / "out", "--threads", "1", "--quiet", "--kept-files", "each", *options.split()]
                measured = least_of(job, given.runs, folder)
                kept = costs.number_of_lines(folder / "out" / f"kept.{one.pages.name}")
                # Pairs of copies are listed on demand.
                run([*job, "--all-pairs"], folder)
                places = [(str(number), "", "") for number in range(one.documents)]
                row(one, "simflip", version, options or "default", "", did, kept, set(score.found_pairs(folder / "out/pairs.csv", places)), measured)
        for tool in filter(TOOLS.get, given.tools):
            name, program, did, documented, tried = TOOLS[tool]
            python, version = costs.environment(work / f"environment-{name}", *ENVIRONMENTS[name])
            if python is None:
                print(f"{tool}: left out: {version}", file=sys.stderr)
                continue
            try:
                best, of = best_setting(python, program, tried, chosen, folder)
            except subprocess.SubprocessError as error:
                print(f"{tool}: left out: {costs.reason_of(error)}", file=sys.stderr)
                continue
            for setting, best_of in [(documented, ""), (best, of)]:
                for one in judged:
                    try:
                        measured = least_of([python, "-c", program, one.pages, folder / "kept", folder / "pairs", json.dumps(setting)], given.runs, folder)
                    except subprocess.SubprocessError as error:
                        print(f"{tool}: left out: {costs.reason_of(error)}", file=sys.stderr)
                        continue
                    kept = costs.number_of_lines(folder / "kept")
                    told = ", ".join(f"{key} {value}" for key, value in setting.items())
                    row(one, tool, version, told, best_of, did, kept, pairs_of(folder / "pairs"), measured)
        for tool in filter(OTHERS.get, given.tools):
            variable, did, documented, best = OTHERS[tool]
            found, version = where(tool, work)
            if found is None:
                print(f"{tool}: left out: {version}", file=sys.stderr)
                continue
            for name in filter(None, [documented, best]):
                for one in judged:
                    job = ["env", f"{variable}={found}", sys.executable, Path(__file__).with_name("rivals.py"), one.pages, folder / "other", name]
                    (folder / f"other.{name}.csv").unlink(missing_ok=True)
                    try:
                        measured = least_of(job, given.runs, folder)
                        places = [(str(number), "", "") for number in range(one.documents)]
                        pairs = set(score.found_pairs(folder / f"other.{name}.csv", places))
                    except (subprocess.SubprocessError, OSError) as error:
                        print(f"{name}: left out: {costs.reason_of(error)}", file=sys.stderr)
                        continue
                    kept = one.documents - len({b for _, b in pairs})
                    row(one, tool, version, name.removeprefix(f"{tool.lower()}-"), "grid.py" if name == best else "", did, kept, pairs, measured)


if __name__ == "__main__":
    main()
