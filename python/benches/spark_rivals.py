"""Processor time and F1 on Spark, beside Spark ML's MinHashLSH and text-dedup's script, on the same texts and cores.

    python spark_rivals.py ROWS.csv NAME=TEXTS.jsonl,TRUTH.csv ... [TOOL ...]

All tools are run unless some are named. TEXTS has a text in each line, TRUTH lines of `a,b,jaccard`, numbers of lines from 0. What stands there twice is taken
once. Each run is a process of its own: a session of Spark on two cores that reads the texts and finds the pairs whose
runs of five words have a Jaccard coefficient of .8 or more. Processor seconds are those of Spark's machine and of
Python's workers until the pairs are counted; the row `nothing` has those of a session that counts the texts alone.
F1 is that of the pairs found against the truth's; F1 of components is that of all pairs of pages that a chain of
pairs joins, against those that a chain of the truth's pairs joins.

MinHashLSH compares whatever shares one position of several and works out the coefficient; with three tables it finds
nearly all pairs, and more of them only take longer. text-dedup's script for Spark is that of its version 0.3.1, which
needs nothing beside Python's packages (`pip install --no-deps text-dedup==0.3.1`, scipy and rich); later ones need
graphframes, a package of the JVM. Its functions are called as it calls them itself, with texts in place of a table of
BigQuery. It judges nothing: pages that share a band are one component, and it has no F1 of pairs.
"""

import collections
import csv
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

THRESHOLD = 0.8
# By name, what `simflip.spark.dedup` is given.
SETTINGS = {"simflip": {}, "simflip 1024 bytes": {"sketch_bytes": 1024, "recall": 0.99}}
TOOLS = ["nothing", *SETTINGS, "MinHashLSH 3 tables", "text-dedup 0.3.1"]
COLUMNS = ["version", "pyspark", "set", "pages", "tool", "cpu_seconds", "pairs", "precision", "recall", "f1"]
COLUMNS += ["components_precision", "components_recall", "components_f1", "command"]
# Processor seconds. A run that takes more is stopped, and its row says so.
LONGEST = 1800


def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.memory", "6g").config("spark.sql.shuffle.partitions", "8")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def pairs_of_simflip(frame, settings):
    import simflip.spark

    pairs = simflip.spark.dedup(frame, similarity=THRESHOLD, **settings).pairs
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


def pairs_of_text_dedup(frame):
    """Each page of a component with the first: what its script does before it reads and after it writes is left out."""
    import numpy as np
    from text_dedup import minhash_spark as theirs

    permutations = 256
    bands, rows = theirs.optimal_param(THRESHOLD, permutations)
    least, most = np.array([[1], [0]], dtype=np.uint64), theirs.MERSENNE_PRIME
    given = {
        "num_perm": permutations,
        "ngram_size": 5,
        "min_length": 5,
        "hashranges": [(band * rows, (band + 1) * rows) for band in range(bands)],
        "permutations": theirs.RNG.randint(least, most, size=(2, permutations), dtype=np.uint64),
    }
    records = frame.select("id", "text").rdd.repartition(2 * permutations).cache()
    keys = records.flatMap(lambda record: theirs.generate_hash_values(content=record[1], idx=record[0], **given))
    groups = keys.groupBy(lambda key: (key[0], key[1]))
    edges = groups.flatMap(lambda group: theirs.generate_edges([key[2] for key in group[1]])).distinct().cache()
    while True:
        large = edges.flatMap(theirs.large_star_map).groupByKey().flatMap(theirs.large_star_reduce).distinct().cache()
        edges = large.map(theirs.small_star_map).groupByKey().flatMap(theirs.small_star_reduce).distinct().cache()
        if not edges.subtract(large).union(large.subtract(edges)).collect():
            break
    return edges.collect()


def ticks(process):
    """Processor time of a process and of those of its children that it has waited for, and its parent."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[1]), sum(map(int, fields[11:15]))


def family():
    """Processor time of this process and of all that it has started and that are alive, by their numbers."""
    alive = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            alive[int(path.name)] = ticks(path.name)
        except OSError:
            continue
    ours = {os.getpid()}
    while more := {process for process, (parent, _) in alive.items() if parent in ours} - ours:
        ours |= more
    return {process: alive[process][1] for process in ours}


def cpu_seconds():
    """Processor seconds of all that this process has started, alive or not, and of itself."""
    return sum(family().values()) / os.sysconf("SC_CLK_TCK")


def stop_when_too_long():
    """Ends this process and all that it has started when they have used more than `LONGEST`."""
    while cpu_seconds() <= LONGEST:
        time.sleep(2)
    print(json.dumps([LONGEST, None]), flush=True)
    for process in family().keys() - {os.getpid()}:
        os.kill(process, signal.SIGKILL)
    os._exit(0)


def run(tool, texts):
    """One run; prints processor seconds and the pairs, for the process that has begun this one."""
    threading.Thread(target=stop_when_too_long, daemon=True).start()
    spark = session()
    frame = spark.read.schema("id long, text string").json(texts)
    if tool == "nothing":
        frame.count()
        pairs = []
    elif tool in SETTINGS:
        pairs = pairs_of_simflip(frame, SETTINGS[tool])
    elif tool.startswith("text-dedup"):
        pairs = pairs_of_text_dedup(frame)
    else:
        pairs = pairs_of_min_hash_lsh(frame, int(tool.split()[1]))
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


def components(pairs):
    """For each page of a pair the first of those that a chain of pairs joins it with."""
    parents = {}

    def first(page):
        while (parent := parents.setdefault(page, page)) != page:
            parents[page] = page = parents[parent]
        return page

    for a, b in pairs:
        parents[first(a)] = first(b)
    return {page: first(page) for page in parents}


def scores(right, found, true):
    """Precision, recall and F1 of so many found that are right."""
    shares = right / max(1, found), right / max(1, true), 2 * right / max(1, found + true)
    return [f"{share:.4f}" for share in shares]


def scores_of_components(found, true):
    """Those of all pairs of pages that a chain joins, which are many where a component is large: they are counted."""

    def pairs(groups):
        return sum(math.comb(pages, 2) for pages in collections.Counter(groups).values())

    both = [(found[page], true[page]) for page in found.keys() & true.keys()]
    return scores(pairs(both), pairs(found.values()), pairs(true.values()))


def rows_of(name, documents, truth, tools, command):
    import simflip
    import pyspark

    texts = distinct(documents)
    with open(truth, newline="", encoding="utf-8") as file:
        near = {(int(row["a"]), int(row["b"])) for row in csv.DictReader(file) if float(row["jaccard"]) >= THRESHOLD}
    near = {(a, b) for a, b in near if a in texts and b in texts}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"
        lines = (json.dumps({"id": number, "text": text}) + "\n" for number, text in texts.items())
        path.write_text("".join(lines), encoding="utf-8")
        for tool in tools:
            row = [simflip.__version__, pyspark.__version__, name, len(texts), tool]
            done = subprocess.run([sys.executable, __file__, "run", tool, str(path)], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            cpu, pairs = json.loads(done.stdout.splitlines()[-1])
            if pairs is None:
                yield [*row, f"> {cpu}", *[""] * 7, command]
                continue
            pairs = {(min(pair), max(pair)) for pair in pairs}
            of_pairs = [""] * 3 if tool == "nothing" or tool.startswith("text-dedup") else scores(len(pairs & near), len(pairs), len(near))
            of_components = [""] * 3 if tool == "nothing" else scores_of_components(components(pairs), components(near))
            yield [*row, f"{cpu:.1f}", len(pairs), *of_pairs, *of_components, command]


def main(out, arguments):
    sets = [one for one in arguments if "=" in one]
    tools = [one for one in arguments if "=" not in one]
    if unknown := set(tools) - set(TOOLS):
        raise SystemExit(f"{', '.join(unknown)}: not one of {', '.join(TOOLS)}")
    shown = [Path(out).name, *(one.split("=")[0] + "=…" for one in sets), *(f'"{tool}"' for tool in tools)]
    command = "python python/benches/spark_rivals.py " + " ".join(shown)
    for one in sets:
        name, paths = one.split("=", 1)
        documents, truth = paths.split(",")
        for row in rows_of(name, documents, truth, tools or TOOLS, command):
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
