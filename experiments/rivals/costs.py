"""Whole jobs of simflip and of other tools on the same pages: processor time, and how many pages each keeps.

    python3 costs.py SIMFLIP ROWS.csv WORK_FOLDER FILE_OR_FOLDER… [--runs 3]

`cargo run --release -p simflip-experiments -- rivals --corpus FILE.warc.wet.gz` builds simflip and calls it. The
conversion records become lines of JSON once. A job is a process that begins with these lines and ends with a file of the
pages that it keeps; its processor time is that of all its threads and children, the interpreter's own start included, and
the least of several runs counts. What the others take is told as a multiple of the first row, simflip writing kept pages as they
do, as plain lines. The Python tools get virtual environments in WORK_FOLDER; a tool that cannot be had is
named with the reason and left out.

Each tool is used as its documentation shows, so the jobs are not quite the same: column `work` says what a job does, and what it
leaves out of what simflip does.
"""

import argparse
import csv
import datetime
import functools
import gzip
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "evidence"))

from corpus import read_wet  # noqa: E402

FIELDS = ["date", "machine", "kernel", "command", "corpus", "pages", "text_bytes", "tool", "version", "work", "kept", "cpu_seconds", "times_simflip"]
SECONDS = float(os.environ.get("RIVAL_SECONDS", "900"))

# What a rival's process runs: `pages` is read, and kept lines go to `kept`.
RENSA = """
import json, sys
from rensa import RMinHashDeduplicator
with open(sys.argv[1], encoding="utf-8", newline="\\n") as pages:
    lines = [line.rstrip("\\n") for line in pages]
dedup = RMinHashDeduplicator(threshold=0.8, num_perm=128, use_lsh=True)
keep = dedup.add_pairs((str(i), FEATURES(json.loads(line)["text"])) for i, line in enumerate(lines))
with open(sys.argv[2], "w", encoding="utf-8") as kept:
    kept.writelines(line + "\\n" for line, stays in zip(lines, keep) if stays)
"""
WORDS = "def FEATURES(text): return text.split()\n"
SHINGLES = """
def FEATURES(text):
    words = text.lower().split()
    return [" ".join(words[i:i + 5]) for i in range(max(len(words) - 4, 1))]
"""
DATASKETCH = """
import json, sys
from datasketch import MinHash, MinHashLSH
index = MinHashLSH(threshold=0.8, num_perm=128)
with open(sys.argv[1], encoding="utf-8") as pages, open(sys.argv[2], "w", encoding="utf-8") as kept:
    for number, line in enumerate(pages):
        sketch = MinHash(num_perm=128)
        sketch.update_batch([feature.encode() for feature in FEATURES(json.loads(line)["text"])])
        if not index.query(sketch):
            index.insert(number, sketch)
            kept.write(line)
"""
DATATROVE = """
import glob, gzip, os, sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.hashing import HashConfig
pages, kept = sys.argv[1:]
folder, work = os.path.dirname(pages), kept + ".work"
config = MinhashConfig(hash_config=HashConfig(precision=64), num_buckets=14, hashes_per_bucket=8, n_grams=5)
reader = lambda: JsonlReader(folder, glob_pattern=os.path.basename(pages))
steps = [
    ([reader(), MinhashDedupSignature(output_folder=work + "/signatures", config=config)], 1),
    ([MinhashDedupBuckets(input_folder=work + "/signatures", output_folder=work + "/buckets", config=config)], config.num_buckets),
    ([MinhashDedupCluster(input_folder=work + "/buckets", output_folder=work + "/remove", config=config)], 1),
    ([reader(), MinhashDedupFilter(input_folder=work + "/remove"), JsonlWriter(work + "/kept", compression=None)], 1),
]
for number, (pipeline, tasks) in enumerate(steps):
    LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=1, logging_dir=work + f"/logs{number}").run()
with open(kept, "w", encoding="utf-8") as out:
    for name in sorted(glob.glob(work + "/kept/*")):
        out.write(open(name, encoding="utf-8").read())
"""

FASTRUSTRAG = """
import json, sys
import fastrustrag
with open(sys.argv[1], encoding="utf-8", newline="\\n") as pages:
    lines = list(pages)
pipeline = fastrustrag.DeduplicationPipeline(num_bands=20, num_hashes=128, shingle_size=SHINGLE, similarity_threshold=0.8)
texts = [json.loads(line)["text"] for line in lines]
pipeline.process_documents(texts)
# Its threads number the texts as they come to them, so each that goes is asked back.
goes = {}
for number in {max(a, b) for a, b, _ in pipeline.deduplicate_corpus()}:
    text = pipeline.get_document(number)
    goes[text] = goes.get(text, 0) + 1
with open(sys.argv[2], "w", encoding="utf-8") as kept:
    for line, text in zip(lines, texts):
        if goes.get(text):
            goes[text] -= 1
        else:
            kept.write(line)
"""

LEAVES_OUT = "leaves out pairs, clusters and any check of what it missed"
# Environment, program, and what the job does.
PYTHON_TOOLS = {
    "rensa, as documented": ("rensa", WORDS + RENSA, f"MinHash of words cut at blanks, 128 positions, its index at .8, candidates checked; {LEAVES_OUT}"),
    "rensa, runs of 5 words": ("rensa", SHINGLES + RENSA, f"the same of runs of five words cut at blanks, made in Python; {LEAVES_OUT}"),
    "datasketch, as documented": ("datasketch", WORDS + DATASKETCH, f"MinHash of words cut at blanks, 128 permutations, its index at .8, candidates unchecked; {LEAVES_OUT}"),
    "fastrustrag, as documented": ("fastrustrag", "SHINGLE = 3\n" + FASTRUSTRAG, f"MinHash of runs of three words cut at blanks, 128 positions in 20 bands, candidates checked by the estimate at .8; the later page of each pair goes; {LEAVES_OUT}"),
    "fastrustrag, runs of 5 words": ("fastrustrag", "SHINGLE = 5\n" + FASTRUSTRAG, f"the same of runs of five words; {LEAVES_OUT}"),
    "datatrove": ("datatrove", DATATROVE, "its four stages with its example's 14 bands of 8 hashes of 64 bits, 5-grams of its tokeniser; connected components of unchecked candidates; leaves out pairs and a report of what it missed"),
}
ENVIRONMENTS = {
    "rensa": ("rensa", ["rensa==0.5.0"]),
    "datasketch": ("datasketch", ["datasketch==2.0.0", "numpy"]),
    # Its source alone is on PyPI; pip builds it, with cargo.
    "fastrustrag": ("fastrustrag", ["fastrustrag==0.1.2"]),
    "datatrove": ("datatrove", ["datatrove[io]==0.10.1", "regex", "nltk", "tldextract", "orjson", "xxhash==3.5.0", "spacy", "tokenizers"]),
    "text-dedup": ("text_dedup", ["text-dedup==0.4.0"]),
}
# On no registry: its program is named by the environment, or built of its repository.
DUPLODOCUS = "https://github.com/allenai/duplodocus"


@functools.cache
def kernel(simflip):
    """The level of vector instructions that simflip uses here, as the report of a run says."""
    with tempfile.TemporaryDirectory() as folder:
        page, out = Path(folder, "page.jsonl"), Path(folder, "result")
        page.write_text('{"text": "a page"}\n')
        subprocess.run([simflip, "dedup", page, "--out", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        return json.loads((out / "report.json").read_text())["tool"]["kernel"]


def processor():
    """What the machine's processor is called, as far as it tells."""
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":")[1] for line in told.splitlines() if line.startswith("model name")]
    return " ".join((names or [platform.processor() or platform.machine()])[0].split()[:2])


def lines_of(files, out):
    """Lines of JSON of the conversion records; how many, and their bytes of text."""
    pages = size = 0
    with open(out, "w", encoding="utf-8") as lines:
        for path in files:
            for _, _, text in read_wet(path):
                size += len(text.encode())
                lines.write(json.dumps({"id": str(pages), "text": text}, ensure_ascii=False) + "\n")
                pages += 1
    return pages, size


def reason_of(error):
    """The last line that a command told before it failed, or how it ended."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not through in {error.timeout:.0f} seconds"
    told = getattr(error, "stderr", None) or b""
    told = told.decode("utf-8", "replace") if isinstance(told, bytes) else told
    code = getattr(error, "returncode", None)
    return (told.strip().splitlines() or [str(error) if code is None else f"ended with {code}"])[-1]


def environment(folder, module, packages):
    """The interpreter of an environment in `folder` that can load the module, and the version of the first package; or why
    there is none."""
    python = folder / "bin/python"
    try:
        if not python.exists():
            # An older interpreter has no text-dedup.
            runs = lambda python: subprocess.run([python, "-c", ""], capture_output=True).returncode == 0
            newer = [python for python in ["python3.13", "python3.12"] if shutil.which(python) and runs(python)]
            subprocess.run([*newer, sys.executable][:1] + ["-m", "venv", folder], check=True, capture_output=True)
        installed = [python, "-m", "pip", "install", "-q", "--prefer-binary", *packages]
        subprocess.run(installed, check=True, capture_output=True, timeout=600)
        script = f"import importlib.metadata, {module}; print(importlib.metadata.version({packages[0].split('==')[0].split('[')[0]!r}))"
        version = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        return None, reason_of(error)
    return python, version.stdout.strip()


def timed(command, runs, folder):
    """The least processor time of some runs of a command, in seconds; one of more than a minute is not repeated."""
    best = float("inf")
    for run in range(runs):
        if run > 0 and best > 60:
            break
        for old in folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def number_of_lines(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as lines:
        return sum(1 for _ in lines)


def duplodocus_program(work):
    """The program, and what tells which it is; or why there is none."""
    given = os.environ.get("DUPLODOCUS")
    try:
        source = os.environ.get("DUPLODOCUS_SOURCE", "as found")
        if not given:
            folder = work / "duplodocus"
            if not folder.exists():
                subprocess.run(["git", "clone", "-q", "--depth", "1", DUPLODOCUS, folder], check=True, capture_output=True, timeout=120)
            built = ["cargo", "build", "-q", "--release", "--manifest-path", folder / "Cargo.toml"]
            subprocess.run(built, check=True, capture_output=True, timeout=900)
            commit = ["git", "-C", folder, "rev-parse", "--short=10", "HEAD"]
            source = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
        program = Path(given or folder / "target/release/duplodocus").resolve()
        version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
        return program, f"{version}, {source}"
    except (subprocess.SubprocessError, OSError) as error:
        return None, reason_of(error)


def duplodocus(program, shape, pages, folder, runs):
    """All in memory, as its README has it for small sets, with one thread."""
    inputs = folder.parent / "duplodocus-pages"
    inputs.mkdir(exist_ok=True)
    shutil.copy(pages, inputs / "pages.jsonl")
    command = [program, "minhash-memory", "--input-dir", inputs, "--storage-dir", folder / "work", "--output-dir", folder / "out"]
    command += ["--text-key", "text", *shape.split(), "--ngram-size", "5", "--remove-duplicates", "true", "--cleanup-storage"]
    seconds = timed(["env", "RAYON_NUM_THREADS=1", *command], runs, folder)
    return seconds, sum(number_of_lines(file) for file in (folder / "out").rglob("*.jsonl"))


def text_dedup(work, python, pages, folder, runs):
    """The package's own program, which keeps its pages as a dataset."""
    command = [python, "-m", "text_dedup.minhash", "--path", "json", "--data_files", pages, "--split", "train", "--column", "text"]
    command += ["--cache_dir", folder / "cache", "--output", folder / "out", "--num_proc", "1", "--threshold", "0.8"]
    seconds = timed(command, runs, folder)
    count = "import datasets, sys; print(len(datasets.load_from_disk(sys.argv[1])))"
    counted = subprocess.run([python, "-c", count, folder / "out"], check=True, capture_output=True, text=True)
    return seconds, int(counted.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simflip", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    files = sorted(file for path in given.files for file in (path.glob("*.wet.gz") if path.is_dir() else [path]))
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    simflip = given.simflip.resolve()
    machine = f"{processor()} x{os.cpu_count()}"
    corpus = "+".join(sorted(file.name.removesuffix(".warc.wet.gz") for file in files))
    command = f"rivals --corpus {' '.join(sorted(file.name for file in files))}"
    rows = []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        pages, folder = Path(folder, "pages.jsonl"), Path(folder, "run")
        folder.mkdir()
        number, size = lines_of(files, pages)

        def row(tool, version, did, seconds, kept):
            if not 0 < kept <= number:
                sys.exit(f"{tool} kept {kept} of {number} pages: that is not the same job")
            times = seconds / (rows[0]["cpu_seconds"] if rows else seconds)
            rows.append(dict(zip(FIELDS, [
                datetime.date.today(), machine, kernel(simflip), command, corpus, number, size, tool, version, did, kept, round(seconds, 2), f"{times:.2f}",
            ])))
            print(f"{tool} {version}: {seconds:.2f} s, {times:.2f} times; {kept} of {number} pages kept", file=sys.stderr)

        version = subprocess.run([simflip, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
        # All write plain lines.
        for tool, options, did in [
            ("simflip", "", "both sketches of runs of five words, candidates judged at .8; pairs, clusters, an audit of what was missed, a report, kept pages as plain lines"),
            ("simflip --method minhash", "--method minhash", "MinHash of runs of five words, 128 positions of 32 bits, candidates checked by the estimate at .8; the same output without the audit, kept pages as plain lines"),
            ("simflip --method minhash --bands 14x8", "--method minhash --bands 14x8", "the same with the bands of datatrove and Duplodocus"),
        ]:
            out = folder / "result"
            # Clusters as the others have them.
            options += " --clusters connected"
            seconds = timed([simflip, "dedup", pages, "--out", out, "--threads", "1", "--quiet", *options.split()], given.runs, folder)
            row(tool, version, did, seconds, number_of_lines(out / "kept.jsonl"))
        for tool, (package, program, did) in PYTHON_TOOLS.items():
            python, version = environment(work / f"environment-{package}", *ENVIRONMENTS[package])
            if python is None:
                print(f"{tool}: left out: {version}", file=sys.stderr)
                continue
            kept = folder / "kept.jsonl"
            try:
                seconds = timed([python, "-c", program, pages, kept], given.runs, folder)
            except subprocess.SubprocessError as error:
                print(f"{tool}: left out: {reason_of(error)}", file=sys.stderr)
                continue
            row(tool, version, did, seconds, number_of_lines(kept))
        python, version = environment(work / "environment-text-dedup", *ENVIRONMENTS["text-dedup"])
        if python is None:
            print(f"text-dedup: left out: {version}", file=sys.stderr)
        else:
            try:
                seconds, kept = text_dedup(work, python, pages, folder, given.runs)
                row("text-dedup", version, "text_dedup.minhash, 5-grams, 250 positions, .8; connected components of unchecked candidates; leaves out pairs and a report of what it missed", seconds, kept)
            except subprocess.SubprocessError as error:
                print(f"text-dedup: left out: {reason_of(error)}", file=sys.stderr)
        program, version = duplodocus_program(work)
        if program is None:
            print(f"Duplodocus: left out: {version}", file=sys.stderr)
        for name, shape, why in [
            ("Duplodocus, cl100k", "--num-buckets 14 --bucket-size 8 --tokenizer cl100k", "14 bands of 8 and 5-grams, its code's defaults, with the tokeniser whose name it refuses by default"),
            ("Duplodocus, uniseg", "--num-buckets 14 --bucket-size 8 --tokenizer uniseg", "the same with its fastest tokeniser, which takes blanks for words"),
            ("Duplodocus, uniseg, 20 bands of 5", "--num-buckets 20 --bucket-size 5 --tokenizer uniseg", "the same with the bands of its README"),
        ] if program else []:
            try:
                seconds, kept = duplodocus(program, shape, pages, folder, given.runs)
            except subprocess.SubprocessError as error:
                print(f"{name}: left out: {reason_of(error)}", file=sys.stderr)
                continue
            did = f"minhash-memory, {why}; connected components of unchecked candidates; leaves out pairs and a report of what it missed"
            row(name, version, did, seconds, kept)
        simdoc = HERE / "simdoc"
        built = subprocess.run(["cargo", "build", "-q", "--release", "--manifest-path", simdoc / "Cargo.toml", "--target-dir", work / "simdoc"], capture_output=True, text=True)
        if built.returncode != 0:
            print(f"find-simdoc: left out: {(built.stderr.strip().splitlines() or ['not built'])[-1]}", file=sys.stderr)
        else:
            texts = folder.parent / "texts.txt"
            with open(pages, encoding="utf-8") as lines, open(texts, "w", encoding="utf-8") as out:
                out.writelines((" ".join(json.loads(line)["text"].lower().split()) or "-") + "\n" for line in lines)
            program = f"{work}/simdoc/release/simdoc {texts} jaccard 5 0.2 > pairs.csv"
            try:
                seconds = timed(["sh", "-c", program], given.runs, folder)
            except subprocess.SubprocessError as error:
                print(f"find-simdoc: left out: {error}", file=sys.stderr)
            else:
                with open(folder / "pairs.csv", newline="") as found:
                    goes = {max(int(pair["a"]), int(pair["b"])) for pair in csv.DictReader(found)}
                row("find-simdoc", "0.1.1", "one-bit MinHash of 640 bits of runs of five words, pairs within .2, all of them; leaves out reading JSON, clusters, kept pages; `kept` are the pages that are no pair's later one", seconds, number - len(goes))
    given.rows.parent.mkdir(parents=True, exist_ok=True)
    before = []
    if given.rows.exists():
        with open(given.rows, newline="") as file:
            before = [old for old in csv.DictReader(file) if old["corpus"] != corpus]
    with open(given.rows, "w", newline="") as file:
        out = csv.DictWriter(file, FIELDS, lineterminator="\n")
        out.writeheader()
        out.writerows([*before, *rows])


if __name__ == "__main__":
    main()
