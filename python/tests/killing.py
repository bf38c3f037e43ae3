"""A job on a local cluster of two executors, of which one is killed in stage after stage.

    python killing.py TEXTS.jsonl MOST

Prints JSON: in how many stages one was killed, at most so many, the pairs and the documents.
"""

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

import simflip.spark
from pyspark.sql import SparkSession


def executors():
    """The processes of executors that this one has begun."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes():
                if f"--app-id\0{os.environ['APPLICATION']}\0".encode() in (path / "cmdline").read_bytes():
                    yield int(path.name)
        except OSError:
            continue


def kill(spark, most, killed, ended):
    """Kills an executor in each stage that it sees at work, up to so many."""
    tracker, rng = spark.sparkContext.statusTracker(), random.Random(3)
    while not ended.wait(0.02) and len(killed) < most:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            found = sorted(executors())
            if stage not in killed and info and info.numActiveTasks and len(found) > 1:
                os.kill(rng.choice(found), signal.SIGKILL)
                killed.append(stage)


def main(texts, most):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        # What is killed is begun again as often as it takes.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "100",
        "spark.stage.maxConsecutiveAttempts": "100",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("killing")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    os.environ["APPLICATION"] = spark.sparkContext.applicationId
    killed, ended = [], threading.Event()
    killing = threading.Thread(target=kill, args=(spark, most, killed, ended))
    killing.start()
    try:
        frame = spark.read.schema("id long, text string").json(texts).repartition(4)
        result = simflip.spark.dedup(frame)
        pairs = sorted((row.a, row.b, row.distance, row.similarity, row.kind) for row in result.pairs.collect())
        documents = sorted((row.id, row.cluster, row.size, row.kept, row.representative) for row in result.documents.collect())
    finally:
        ended.set()
        killing.join()
    print(json.dumps({"killed": len(killed), "pairs": pairs, "documents": documents}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
