"""Processor time and F1 on Spark, beside Spark ML's MinHashLSH, on the same texts and the same two cores.

    python spark_rivals.py ROWS.csv NAME=TEXTS.jsonl,TRUTH.csv ...

TEXTS has a text in each line, TRUTH lines of `a,b,jaccard`, numbers of lines from 0. What stands there twice is taken
once. Each run is a process of its own: a session of Spark on two cores that reads the texts and finds the pairs whose
runs of five words have a Jaccard coefficient of .8 or more. Processor seconds are those of Spark's machine and of
Python's workers until the pairs are counted; the row `nothing` has those of a session that counts the texts alone.
F1 is that of the pairs found against the truth's.

MinHashLSH compares whatever shares one position of several and works out the coefficient; with three tables it finds
nearly all pairs, and more of them only take longer. text-dedup's script for Spark needs a package of the JVM, graphframes, that is not on PyPI, and
has no row.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

THRESHOLD = 0.8
TOOLS = ["nothing", "flipside", "MinHashLSH 3 tables"]
COLUMNS = ["version", "pyspark", "set", "pages", "tool", "cpu_seconds", "pairs", "precision", "recall", "f1", "command"]
# A run of MinHashLSH that takes longer is stopped, and its row says so.
LONGEST = 1200


def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.memory", "6g").config("spark.sql.shuffle.partitions", "8")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def pairs_of_flipside(frame):
    import flipside.spark

    pairs = flipside.spark.dedup(frame, similarity=THRESHOLD).pairs
    return [(row.a, row.b) for row in pairs.select("a", "b").collect()]


def pairs_of_min_hash_lsh(frame, tables):
    from pyspark.ml.feature import HashingTF, MinHashLSH, NGram, RegexTokenizer
    from pyspark.sql import functions as f

    words = RegexTokenizer(inputCol="text", outputCol="words", pattern=r"[^\p{L}\p{N}]+").transform(frame)
    shingles = NGram(n=5, inputCol="words", outputCol="shingles").transform(words)
    sets = HashingTF(numFeatures=1 << 20, binary=True, inputCol="shingles", outputCol="set").transform(shingles)
    sets = sets.where(f.size("shingles") > 0).select("id", "set").cache()
    model = MinHashLSH(inputCol="set", outputCol="hashes", numHashTables=tables, seed=7).fit(sets)
    near = model.approxSimilarityJoin(sets, sets, 1 - THRESHOLD + 1e-9).where("datasetA.id < datasetB.id")
    return [(row.a, row.b) for row in near.select(f.col("datasetA.id").alias("a"), f.col("datasetB.id").alias("b")).collect()]


def ticks(process):
    """Processor time of a process and of those of its children that it has waited for, and its parent."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[1]), sum(map(int, fields[11:15]))


def cpu_seconds():
    """Processor seconds of all that this process has started, alive or not, and of itself."""
    alive = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            alive[int(path.name)] = ticks(path.name)
        except OSError:
            continue
    ours = {os.getpid()}
    while more := {process for process, (parent, _) in alive.items() if parent in ours} - ours:
        ours |= more
    return sum(alive[process][1] for process in ours) / os.sysconf("SC_CLK_TCK")


def run(tool, texts):
    """One run; prints processor seconds and the pairs, for the process that has begun this one."""
    spark = session()
    frame = spark.read.schema("id long, text string").json(texts)
    name, *tables = tool.split()
    if name == "nothing":
        frame.count()
        pairs = []
    elif name == "flipside":
        pairs = pairs_of_flipside(frame)
    else:
        pairs = pairs_of_min_hash_lsh(frame, int(tables[0]))
    print(json.dumps([cpu_seconds(), pairs]))


def distinct(path):
    """The texts that differ, by the numbers of their first lines."""
    seen, texts = set(), {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            text = json.loads(line)["text"]
            if text not in seen:
                seen.add(text)
                texts[number] = text
    return texts


def rows_of(name, documents, truth, command):
    import flipside
    import pyspark

    texts = distinct(documents)
    with open(truth, newline="", encoding="utf-8") as file:
        near = {(int(row["a"]), int(row["b"])) for row in csv.DictReader(file) if float(row["jaccard"]) >= THRESHOLD}
    near = {(a, b) for a, b in near if a in texts and b in texts}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"
        lines = (json.dumps({"id": number, "text": text}) + "\n" for number, text in texts.items())
        path.write_text("".join(lines), encoding="utf-8")
        for tool in TOOLS:
            row = [flipside.__version__, pyspark.__version__, name, len(texts), tool]
            try:
                arguments = [sys.executable, __file__, "run", tool, str(path)]
                done = subprocess.run(arguments, capture_output=True, text=True, timeout=LONGEST)
            except subprocess.TimeoutExpired:
                yield [*row, f"> {LONGEST} s", *[""] * 4, command]
                continue
            if done.returncode:
                raise SystemExit(done.stderr)
            cpu, pairs = json.loads(done.stdout.splitlines()[-1])
            pairs = {tuple(pair) for pair in pairs}
            right = len(pairs & near)
            precision, recall = right / max(1, len(pairs)), right / max(1, len(near))
            f1 = 2 * right / max(1, len(pairs) + len(near))
            scores = ["", "", ""] if tool == "nothing" else [f"{share:.4f}" for share in (precision, recall, f1)]
            yield [*row, f"{cpu:.1f}", len(pairs), *scores, command]


def main(out, sets):
    command = "python python/benches/spark_rivals.py " + " ".join([Path(out).name, *(one.split("=")[0] + "=…" for one in sets)])
    for one in sets:
        name, paths = one.split("=", 1)
        documents, truth = paths.split(",")
        for row in rows_of(name, documents, truth, command):
            new = not Path(out).exists()
            with open(out, "a", newline="", encoding="utf-8") as file:
                table = csv.writer(file, lineterminator="\n")
                table.writerows([COLUMNS, row] if new else [row])
            print(*row[2:-1])


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:])
    else:
        main(sys.argv[1], sys.argv[2:])
