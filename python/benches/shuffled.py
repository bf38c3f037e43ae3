"""What a job on Spark sends around: bytes a page of its shuffles, by Spark's own event log.

    python shuffled.py ROWS.csv PAGES...

Runs `simflip.spark.dedup_files` over the files on two cores of this machine, then `simflip.spark.dedup` over a
DataFrame of their texts, and appends a row for each: pages, bytes of sketch files, bytes written to shuffles. Needs
pyspark with Java, pyarrow and warcio.
"""

import csv
import json
import sys
import tempfile
from pathlib import Path

import simflip
import simflip.spark


def shuffled(log):
    """Bytes that all tasks wrote to shuffles."""
    total = 0
    for file in Path(log).rglob("*"):
        if file.is_file() and not file.name.startswith("."):
            for line in file.read_text().splitlines():
                event = json.loads(line) if line.startswith("{") else {}
                metrics = event.get("Task Metrics") or {}
                total += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total


def session(log):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", f"file://{log}")
    builder = builder.config("spark.eventLog.compress", "false").config("spark.sql.shuffle.partitions", "8")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def texts_of(path):
    """The texts of a WET file, an archive of gzip members."""
    from warcio.archiveiterator import ArchiveIterator

    with open(path, "rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type == "conversion":
                yield record.content_stream().read().decode("utf-8", "replace")


def main(out, paths):
    rows = []
    for source in ["files", "texts"]:
        with tempfile.TemporaryDirectory() as log, tempfile.TemporaryDirectory() as work:
            spark = session(log)
            if source == "files":
                result = simflip.spark.dedup_files(spark, paths, sketches=f"{work}/sketches", out=f"{work}/kept")
                pages, stored = result.summary["documents"], result.summary["sketch_bytes"]
            else:
                texts = [text for path in paths for text in texts_of(path)]
                frame = spark.createDataFrame(list(enumerate(texts)), "id long, text string")
                result = simflip.spark.dedup(frame, clusters="star")
                pages, stored = result.pages.count(), 0
            spark.stop()
            sent = shuffled(log)
        rows.append([simflip.__version__, source, pages, stored, sent, f"{sent / pages:.1f}"])
    new = not Path(out).exists()
    with open(out, "a", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        if new:
            columns = ["version", "path", "pages", "sketch_bytes", "shuffled_bytes", "shuffled_bytes_a_page"]
            table.writerow(columns)
        table.writerows(rows)
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
