"""Near-duplicates on Spark; the package in one process, and the command line's stages, as the oracles."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import simflip
import pytest
from conftest import drawn
from simflip import _simflip
from test_documents import blocks

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("Spark needs Java, which is not here", allow_module_level=True)

import simflip.spark  # noqa: E402


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Groups of one key go over the ends of batches.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.sql.shuffle.partitions": "3",
    }
    builder = SparkSession.builder.master("local[2]").appName("simflip")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def template():
    """Texts with copies and near ones among them, and many of one template."""
    rng = random.Random(4)
    texts = drawn(300, seed=8)
    template = [f"t{word}" for word in range(300)]
    for _ in range(600):
        words = list(template)
        for _ in range(rng.randrange(1, 4)):
            words[rng.randrange(len(words))] = f"x{rng.randrange(10_000)}"
        texts.append(" ".join(words))
    rng.shuffle(texts)
    return texts


def keys_of(texts):
    records = pa.table(_simflip.sketch_records(texts, "text", _simflip.record_settings([])))
    return Counter((band, key) for keys in records["keys"].to_pylist() for band, key in enumerate(keys))


@pytest.mark.parametrize(
    ("partitions", "clusters", "settings"),
    [
        (1, "connected", {}),
        (2, "star", {}),
        (8, "connected", {"similarity": 0.6}),
        (8, "star", {"preset": "noisy", "verify": "estimate"}),
    ],
)
def test_a_data_frame_comes_to_what_dedup_makes_of_its_texts(spark, template, partitions, clusters, settings):
    assert max(keys_of(template).values()) > 64
    given = [None if row % 41 == 7 else text for row, text in enumerate(template)]
    expected = simflip.dedup(given, clusters=clusters, **settings)
    # Strings in one order are numbers in another: ids say which it is, and where rows stand does not matter.
    name = "document {:04}".format if partitions < 8 else lambda row: row * 7 - 1000
    ids = [name(row) for row in range(len(given))]
    rows = list(zip(given, ids, strict=True))
    random.Random(partitions).shuffle(rows)
    kind = "string" if partitions < 8 else "long"
    frame = spark.createDataFrame(rows, f"body string, url {kind}").repartition(partitions)
    result = simflip.spark.dedup(
        frame, text="body", id="url", clusters=clusters, partitions=partitions, **settings
    )
    pairs = sorted((row.a, row.b, row.distance, row.similarity, row.kind) for row in result.pairs.collect())
    assert len(pairs) > 600
    assert pairs == [(ids[a], ids[b], *rest) for a, b, *rest in expected.pairs]
    documents = sorted((row.url, row.cluster, row.size, row.kept, row.representative) for row in result.documents.collect())
    assert documents == [
        (url, cluster, size, kept, None if representative is None else ids[representative])
        for url, (cluster, size, kept, representative, _) in zip(ids, expected.documents, strict=True)
    ]
    result.unpersist()


def test_the_code_of_the_documents_runs(spark, template, tmp_path):
    code = blocks(Path(__file__).parents[2] / "docs" / "spark.md")
    names = {"spark": spark, "paths": files_of(template, tmp_path / "documents")}
    names["documents"] = spark.createDataFrame([(text, f"{row:04}") for row, text in enumerate(template)], "text string, url string")
    for block in code:
        exec(block.replace('"/shared', f'"{tmp_path}'), names)
    kept = sorted(int(row.url) for row in names["kept"].collect())
    assert kept == simflip.dedup(template).kept.tolist() and any((tmp_path / "kept").iterdir())
    names["result"].unpersist()


def test_containment_is_refused(spark):
    frame = spark.createDataFrame([(0, "some words")], "id int, text string")
    with pytest.raises(ValueError, match="estimate on Spark"):
        simflip.spark.dedup(frame, preset="removable")


def test_executors_that_are_killed_change_nothing(template, tmp_path):
    documents = tmp_path / "documents.jsonl"
    lines = (json.dumps({"id": row, "text": text}) + "\n" for row, text in enumerate(template))
    documents.write_text("".join(lines), encoding="utf-8")
    # Each that is killed takes seconds to be begun again.
    most = os.environ.get("SIMFLIP_KILLED_STAGES", "3")
    script = os.path.join(os.path.dirname(__file__), "killing.py")
    done = subprocess.run([sys.executable, "-P", script, str(documents), most], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert got["killed"] > 1
    expected = simflip.dedup(template)
    assert got["pairs"] == [[a, b, distance, similarity, kind] for a, b, distance, similarity, kind in expected.pairs]
    assert got["documents"] == [[row, *assignment[:4]] for row, assignment in enumerate(expected.documents)]


def test_texts_without_duplicates_and_no_texts(spark):
    frame = spark.createDataFrame([(1, "some words"), (2, "other ones"), (3, None)], "id int, text string")
    result = simflip.spark.dedup(frame)
    assert result.pairs.count() == 0
    documents = sorted((row.id, row.cluster, row.size, row.kept, row.representative) for row in result.documents.collect())
    assert documents == [(1, None, 1, True, 1), (2, None, 1, True, 2), (3, None, None, False, None)]
    assert simflip.spark.dedup(frame.where("id > 3")).documents.count() == 0


def test_what_is_refused(spark, tmp_path):
    frame = spark.createDataFrame([(1, "a", 0.5), (1, "b", 1.5)], "id int, text string, score double")
    with pytest.raises(ValueError, match="a different one for each row; 2 rows have 1"):
        simflip.spark.dedup(frame)
    with pytest.raises(ValueError, match="strings or whole numbers, not double"):
        simflip.spark.dedup(frame, id="score")
    with pytest.raises(ValueError, match="expected star or connected"):
        simflip.spark.dedup(frame, clusters="nonsense")
    with pytest.raises(ValueError, match="nothing else is kept of features"):
        simflip.spark.dedup(frame, verify="jaccard")
    with pytest.raises(TypeError, match="unexpected keyword argument 'keep'"):
        simflip.spark.dedup(frame, keep="longest")
    with pytest.raises(Exception, match="no-such-file"):
        simflip.spark.dedup_files(spark, tmp_path / "no-such-file", sketches=tmp_path / "s", out=tmp_path / "o")


def files_of(texts, folder):
    folder.mkdir()
    paths = []
    for at, from_ in enumerate([0, 100, 100, 550]):
        to = [100, 100, 550, len(texts)][at]
        lines = (json.dumps({"id": str(row), "text": texts[row]}) + "\n" for row in range(from_, to))
        # One file has a corrupt line and no document.
        path = folder / f"part-{at}.jsonl"
        path.write_text("".join(lines) or '{"id": "none"}\n', encoding="utf-8")
        paths.append(str(path))
    return paths


def content(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(("partitions", "clusters"), [(1, "star"), (2, "connected"), (8, "star")])
def test_files_come_to_what_the_stages_make_of_them(spark, template, tmp_path, partitions, clusters):
    paths = files_of(template, tmp_path / "documents")

    def stage(*arguments):
        done = subprocess.run([sys.executable, "-m", "simflip", *map(str, arguments)], capture_output=True, text=True)
        # One line of the files is no document.
        assert done.returncode in (0, 1), done.stderr

    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    stage("sketch", *paths, "--out", theirs / "sketches", "--similarity=0.7")
    stage("join", theirs / "sketches", "--clusters", clusters)
    stage("cluster", theirs / "sketches", "--clusters", clusters)
    stage("apply", theirs / "sketches", *paths, "--out", theirs / "kept", "--clusters", clusters)

    def run():
        return simflip.spark.dedup_files(
            spark,
            paths,
            sketches=ours / "sketches",
            out=ours / "kept",
            clusters=clusters,
            partitions=partitions,
            similarity=0.7,
        )

    result = run()
    assert content(ours) == content(theirs)
    assert result.summary["documents"] == len(template)
    # What is there is passed over, and what went is made anew.
    before = content(ours)
    names = ["band-003.edges", "kept/part-2*", "*.assignments", "*.pairs"]
    gone = [path for name in names for path in ours.rglob(name)]
    assert len(gone) >= 5
    for path in gone:
        path.unlink()
    run()
    assert content(ours) == before
