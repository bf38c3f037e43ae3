"""Processor time and F1 on Spark, beside Spark ML's MinHashLSH and text-dedup's script, on the same texts and cores.

    python spark_rivals.py ROWS.csv NAME=TEXTS.jsonl,TRUTH.csv ...

TEXTS has a text in each line, TRUTH lines of `a,b,jaccard`, numbers of lines from 0. What stands there twice is taken
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

import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

THRESHOLD = 0.8
# By name, what `flipside.spark.dedup` is given.
SETTINGS = {"flipside": {}, "flipside 1024 bytes": {"sketch_bytes": 1024, "recall": 0.99}}
TOOLS = ["nothing", *SETTINGS, "MinHashLSH 3 tables", "text-dedup 0.3.1"]
COLUMNS = ["version", "pyspark", "set", "pages", "tool", "cpu_seconds", "pairs", "precision", "recall", "f1"]
COLUMNS += ["components_precision", "components_recall", "components_f1", "command"]
# A run that takes longer is stopped, and its row says so.
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


def pairs_of_flipside(frame, settings):
    import flipside.spark

    pairs = flipside.spark.dedup(frame, similarity=THRESHOLD, **settings).pairs
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
    if tool == "nothing":
        frame.count()
        pairs = []
    elif tool in SETTINGS:
        pairs = pairs_of_flipside(frame, SETTINGS[tool])
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


def joined(pairs):
    """All pairs of pages that a chain of these joins."""
    parents = {}

    def first(page):
        while (parent := parents.setdefault(page, page)) != page:
            parents[page] = page = parents[parent]
        return page

    for a, b in pairs:
        parents[first(a)] = first(b)
    components = {}
    for page in parents:
        components.setdefault(first(page), []).append(page)
    return {pair for pages in components.values() for pair in itertools.combinations(sorted(pages), 2)}


def scores(found, true):
    """Precision, recall and F1."""
    right = len(found & true)
    shares = right / max(1, len(found)), right / max(1, len(true)), 2 * right / max(1, len(found) + len(true))
    return [f"{share:.4f}" for share in shares]


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
                yield [*row, f"> {LONGEST} s", *[""] * 7, command]
                continue
            if done.returncode:
                raise SystemExit(done.stderr)
            cpu, pairs = json.loads(done.stdout.splitlines()[-1])
            pairs = {(min(pair), max(pair)) for pair in pairs}
            of_pairs = [""] * 3 if tool == "nothing" or tool.startswith("text-dedup") else scores(pairs, near)
            of_components = [""] * 3 if tool == "nothing" else scores(joined(pairs), joined(near))
            yield [*row, f"{cpu:.1f}", len(pairs), *of_pairs, *of_components, command]


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
