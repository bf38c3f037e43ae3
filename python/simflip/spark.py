"""Near-duplicates on Spark: the answer of `simflip.dedup`, with the engine's shuffles between.

>>> import simflip.spark
>>> result = simflip.spark.dedup(documents, text="text", id="url")     # a DataFrame of texts
>>> kept = documents.join(result.documents.where("kept"), "url", "left_semi")

>>> result = simflip.spark.dedup_files(spark, ["crawl/a.warc.wet.gz", ...], sketches="sketches", out="kept")

Texts become sketches where they are. What is shuffled is records of some 220 bytes, of the documents that share a band
hash with others, and never texts. The driver holds the edges: a few for each document that has near-duplicates. Only
DataFrames are used. Needs pyspark and pyarrow.
"""

from __future__ import annotations

import os
import subprocess
import sys

import simflip
from simflip import _simflip
from simflip._keywords import check_settings, options_of, paths_of

__all__ = ["DataFrameResult", "FilesResult", "dedup", "dedup_files"]

_EDGES = "document {id}, leader {id}, document_order binary, leader_order binary, distance int, similarity float"
# A round that removes fewer texts than one in so many is the last.
_LAST_ROUND = 10_000


class DataFrameResult:
    """What became of the texts of a DataFrame."""

    def __init__(self, documents, pairs, persisted):
        """Two DataFrames, and those that are kept for them."""
        self.documents = documents
        """A row for each of the input: the id; cluster (long; null for a document alone), size (long), kept (boolean),
        representative (the id of the document that stays in its place). A row without text is not kept, and the rest of it null."""
        self.pairs = pairs
        """Pairs: a and b (ids, a before b), distance (int, bits of 64), similarity (float), kind (``exact`` or ``near``).
        Every exact duplicate with the document that is kept of its text, and near-duplicates with the document that
        each is removed for; of connected clusters all pairs that were found."""
        self._persisted = persisted

    def unpersist(self):
        """Gives back what is kept for `documents` and `pairs`; whoever uses them then makes it anew."""
        for frame in self._persisted:
            frame.unpersist()


class FilesResult:
    """What became of the documents of files. Everything is in two folders, as the command line's stages leave it."""

    def __init__(self, sketches, out, summary):
        """The folder of sketches, the folder of kept documents, and numbers."""
        self.sketches = sketches
        self.out = out
        self.summary = summary
        """Numbers: files and documents of all sketches, and sketch_bytes."""

    def __repr__(self):
        return f"<simflip.spark.FilesResult {self.out}: {self.summary}>"


def dedup(df, text="text", id="id", *, clusters="star", partitions=None, **settings):
    """Finds near-duplicates among the texts of a DataFrame: a `DataFrameResult`.

    text: the column of texts; null is no text. id: a column of strings or whole numbers, a different one for each row.
    Of a cluster the document with the least id stays, so ids stand for the order of documents. The answer is that of ``simflip.dedup(texts, ...)`` with texts in the order of their ids, for
    any number of partitions and machines.

    clusters: ``star`` or ``connected``. partitions: of shuffles; ``spark.sql.shuffle.partitions`` by default.
    settings: those of `simflip.dedup` by which sketches are made and judged: similarity, features, min_features,
    feature_hash, sketch_bytes, bands, recall, seed, verify (estimate), verify_threshold.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    check_settings("dedup", settings, _SETTINGS)
    _check_clusters(clusters)
    made_with = _simflip.record_settings(options_of({**settings, "clusters": clusters}))
    spark = df.sparkSession
    partitions = partitions or int(spark.conf.get("spark.sql.shuffle.partitions"))
    id_type = _id_type(df, id)
    schema = f"id {id_type}, digest binary, order binary, compared boolean, keys array<int>, record binary"
    given = df.select(f.col(id).alias("id"), f.col(text).alias("text"))
    documents = given.mapInArrow(_sketching(made_with), schema).persist()
    on_the_way, results = [documents], []
    try:
        _check_ids(documents, id)
        # A sketch follows from its text, so that any copy's will do.
        names = ["order", "compared", "keys", "record"]
        of_text = [f.min("id").alias("id"), *(f.first(name).alias(name) for name in names)]
        texts = documents.where("digest is not null").groupBy("digest").agg(*of_text).persist()
        on_the_way.append(texts)
        assignments = _Assignments(clusters)
        for edges in _rounds(texts, assignments, partitions, made_with, id_type):
            assignments.add(edges)
        removed = spark.createDataFrame(assignments.removed(), f"id {id_type}, leader {id_type}")
        kept = f.coalesce("leader", "id")
        texts_of = texts.join(removed, "id", "left").select("digest", f.col("id").alias("text"), kept.alias("representative"))
        members = documents.select("id", "digest").join(texts_of, "digest", "left").persist()
        on_the_way.append(members)
        sizes = members.where("representative is not null").groupBy("representative")
        sizes = sizes.agg(f.count("*").alias("size"), f.min("id").alias("first")).persist()
        on_the_way.append(sizes)
        # Clusters are numbered in order of their first documents.
        number = f.row_number().over(Window.orderBy("first")) - 1
        numbered = sizes.where("size > 1").select("representative", number.cast("long").alias("cluster"))
        found = members.join(sizes.select("representative", "size"), "representative", "left").join(numbered, "representative", "left")
        is_kept = f.col("representative").isNotNull() & (f.col("id") == f.col("representative"))
        found = found.select(f.col("id").alias(id), "cluster", "size", is_kept.alias("kept"), "representative").persist()
        results.append(found)
        exact = members.where("text is not null and text != id")
        exact = exact.select(
            f.col("text").alias("a"),
            f.col("id").alias("b"),
            f.lit(0).alias("distance"),
            f.lit(1.0).cast("float").alias("similarity"),
            f.lit("exact").alias("kind"),
        )
        schema = f"a {id_type}, b {id_type}, distance int, similarity float, kind string"
        pairs = spark.createDataFrame(assignments.pairs(), schema).unionByName(exact).persist()
        results.append(pairs)
        found.count()
        pairs.count()
    except BaseException:
        on_the_way += results
        raise
    finally:
        for frame in on_the_way:
            frame.unpersist()
    return DataFrameResult(found, pairs, results)


class _Assignments:
    """What each text is removed for, by the ids of texts; held by the driver."""

    def __init__(self, clusters):
        self.is_star = clusters == "star"
        self.edges = {}
        """Of each pair of a document and a leader that decides: distance and similarity."""
        self.leaders = {}
        """Of each removed document the one that is kept."""
        self.represents = set()
        self.open = set()
        self.ranks = {}

    def add(self, edges):
        """Takes the edges of a round."""
        before = len(self.leaders)
        for document, leader, document_order, leader_order, distance, similarity in edges:
            self.ranks[document], self.ranks[leader] = (document_order, document), (leader_order, leader)
            self.edges[document, leader] = (distance, similarity)
        ordered = sorted(
            ((document, leader) for document, leader, *_ in edges),
            key=lambda edge: (self.ranks[edge[0]], self.ranks[edge[1]]),
        )
        if self.is_star:
            self._settle(ordered)
        else:
            self._connect(ordered)
        return len(self.leaders) - before

    def _settle(self, ordered):
        # By keep order, so that what becomes of a leader is known before its documents come.
        self.open, last, best = set(), None, None
        for document, leader in [*ordered, (None, None)]:
            if document != last:
                if best is not None:
                    self.leaders[last] = best
                    self.represents.add(best)
                elif last is not None:
                    self.open.add(last)
                last, best = document, None
            if document is None or leader in self.leaders:
                continue
            if best is None or self.edges[document, leader][1] > self.edges[document, best][1]:
                best = leader

    def _connect(self, ordered):
        parents = {end: end for edge in ordered for end in edge}

        def find(end):
            while parents[end] != end:
                parents[end] = parents[parents[end]]
                end = parents[end]
            return end

        for edge in ordered:
            first, second = sorted(map(find, edge), key=self.ranks.__getitem__)
            parents[second] = first
        self.leaders = {end: find(end) for end in parents if find(end) != end}

    def removed(self):
        """Each removed document, and the one that is kept."""
        return list(self.leaders.items())

    def pairs(self):
        """The pairs that are listed: the lesser id first."""
        listed = self.leaders.items() if self.is_star else self.edges
        return [(min(pair), max(pair), *self.edges[pair], "near") for pair in listed]


def _rounds(texts, assignments, partitions, made_with, id_type):
    """The edges of each round; assignments are those of the rounds before."""
    from pyspark.sql import functions as f

    keyed = texts.where("compared").select("id", f.posexplode("keys").alias("band", "key"))
    counts = keyed.groupBy("band", "key").agg(f.count("*").alias("n")).where("n > 1").select("band", "key")
    flags = [f.lit(False).alias("represents"), f.lit(True).alias("open")]
    shared = keyed.join(counts, ["band", "key"], "left_semi").select("*", *flags)
    edges = _joined(texts, shared, partitions, made_with, id_type, True)
    yield edges
    number, before = texts.count(), len(assignments.leaders)
    removed = before
    while assignments.open and removed * _LAST_ROUND >= number:
        spark = texts.sparkSession

        def ids(of, name, spark=spark):
            rows = [(one, True) for one in of]
            return spark.createDataFrame(rows, f"id {id_type}, {name} boolean")

        left = keyed.join(ids(assignments.leaders, "removed"), "id", "left_anti")
        left = left.join(ids(assignments.open, "open"), "id", "left")
        left = left.join(ids(assignments.represents, "represents"), "id", "left")
        asked = left.where("open").select("band", "key").distinct()
        shared = left.join(asked, ["band", "key"], "left_semi").fillna(False, ["open", "represents"])
        yield _joined(texts, shared, partitions, made_with, id_type, False)
        removed, before = len(assignments.leaders) - before, len(assignments.leaders)


def _joined(texts, shared, partitions, made_with, id_type, is_first_round):
    """The edges of the buckets of a round, each pair once."""
    from pyspark.sql import functions as f

    members = shared.join(texts.select("id", "order", "record"), "id").repartition(partitions, "band", "key")
    # Texts that represent others come first, and then all in keep order.
    members = members.withColumn("later", ~f.col("represents"))
    members = members.sortWithinPartitions("band", "key", *([] if is_first_round else ["later"]), "order", "id")
    members = members.select("band", "key", "id", "order", "record", "represents", "open")
    found = members.mapInArrow(_joining(made_with, is_first_round), _EDGES.format(id=id_type))
    return [tuple(row) for row in found.dropDuplicates(["document", "leader"]).collect()]


def dedup_files(spark, paths, *, sketches, out, clusters="star", write=None, partitions=None, **settings):
    """Finds near-duplicates among the documents of files (WET, JSONL, Parquet, Arrow): a `FilesResult`.

    Spark hands out paths and bands: simflip sketches the files where they are, each executor joins some bands, and kept
    documents are written by the file. paths: one path or several. sketches, out: folders that all executors share with each
    other and the driver, as they do the files. All files are those of the stages of the command line (docs/stages.md):
    what is there, whole and of these settings is passed over, so that a job that was ended goes on where it was, and
    ``simflip join``, ``cluster``, ``apply`` and ``inspect`` take them. ``sketches`` may hold sketches of other files, of
    the same settings: those are joined as well.

    clusters: ``star`` or ``connected``. write: ``kept``, ``removed`` or both, a list; both by default. partitions: of
    the work; ``spark.sql.shuffle.partitions`` by default. settings: the options of ``simflip sketch``.
    """
    _check_clusters(clusters)
    partitions = partitions or int(spark.conf.get("spark.sql.shuffle.partitions"))
    sketches, out = os.path.abspath(os.fspath(sketches)), os.path.abspath(os.fspath(out))
    paths = [os.path.abspath(path) for path in paths_of(paths)]
    if not paths:
        raise ValueError("paths: expected files or folders")
    options = options_of(settings)
    parts = min(partitions, len(paths))
    paths_of_part = [paths[part::parts] for part in range(parts)]
    making = ["sketch", *options, f"--out={sketches}", "--threads=1", "--quiet", "--"]
    _run_parts(spark, [[*making, *some] for some in paths_of_part])
    joining = ["join", sketches, f"--clusters={clusters}", "--threads=1", "--quiet"]
    _run_parts(spark, [[*joining, f"--shard={part + 1}/{partitions}"] for part in range(partitions)])
    _run(["cluster", sketches, f"--clusters={clusters}", "--quiet"])
    writes = ["kept", "removed"] if write is None else [write] if isinstance(write, str) else list(write)
    applying = ["apply", f"--out={out}", f"--clusters={clusters}", f"--write={','.join(writes)}"]
    applying += ["--threads=1", "--quiet", "--", sketches]
    _run_parts(spark, [[*applying, *some] for some in paths_of_part])
    files = _simflip.sketch_files(sketches)
    summary = {
        "files": len(files),
        "documents": sum(documents for _, documents in files),
        "sketch_bytes": sum(os.path.getsize(path) for path, _ in files),
    }
    return FilesResult(sketches, out, summary)


# What runs on executors. Each is, or gives, a function of an iterator of record batches.


def _batches(table):
    """Record batches of one schema, whatever is known of nulls in this table."""
    import pyarrow as pa

    table = pa.table(table)
    schema = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    return pa.Table.from_arrays(table.columns, schema=schema).to_batches()


def _sketching(made_with):
    def sketch(batches):
        import pyarrow as pa

        for batch in batches:
            made = pa.table(_simflip.sketch_records(batch.column("text"), "text", made_with))
            yield from _batches(made.add_column(0, "id", batch.column("id")))

    return sketch


def _joining(made_with, is_first_round):
    def join(batches):
        import pyarrow as pa

        bucket, rows = None, []

        def edges():
            members = pa.Table.from_batches(rows).combine_chunks()
            found = pa.table(_simflip.join_bucket(members.to_batches()[0], made_with, bucket[0], is_first_round))
            documents, leaders = (members.take(found[end]) for end in ["document", "leader"])
            columns = [documents["id"], leaders["id"], documents["order"], leaders["order"]]
            columns += [found["distance"], found["similarity"]]
            names = ["document", "leader", "document_order", "leader_order", "distance", "similarity"]
            return _batches(pa.table(columns, names=names))

        for batch in batches:
            ends = list(zip(batch.column("band").to_pylist(), batch.column("key").to_pylist(), strict=True))
            from_ = 0
            for at in range(1, len(ends) + 1):
                if at < len(ends) and ends[at] == ends[from_]:
                    continue
                if bucket != ends[from_]:
                    if rows:
                        yield from edges()
                    bucket, rows = ends[from_], []
                rows.append(batch.slice(from_, at - from_))
                from_ = at
        if rows:
            yield from edges()

    return join


def _run(arguments):
    """Runs the command line; what it refuses is a ValueError in its words."""
    done = subprocess.run(
        [sys.executable, "-m", "simflip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise ValueError(done.stderr.strip().removeprefix("simflip: ") or f"simflip ended with {done.returncode}")


def _run_parts(spark, commands):
    """Runs the command line on executors, a command each."""

    def run(batches):
        for batch in batches:
            for arguments in batch.column("arguments").to_pylist():
                _run(arguments)
            yield batch

    given = spark.createDataFrame([(arguments,) for arguments in commands], "arguments array<string>")
    given.repartition(len(commands)).mapInArrow(run, "arguments array<string>").collect()


_SETTINGS = {
    *["preset", "similarity", "recall", "features", "feature_hash", "min_features", "sketch_bytes", "bands", "seed"],
    *["verify", "verify_threshold"],
}


def _check_clusters(clusters):
    if clusters not in ["star", "connected"]:
        raise ValueError(f"clusters {clusters}: expected star or connected")


def _id_type(df, id):
    kind = {field.name: field.dataType.simpleString() for field in df.schema.fields}.get(id)
    if kind not in ["string", "tinyint", "smallint", "int", "bigint"]:
        raise ValueError(f"id {id}: expected a column of strings or whole numbers, not {kind}")
    return kind


def _check_ids(documents, id):
    """Refuses ids that are missing or shared."""
    from pyspark.sql import functions as f

    odd = documents.groupBy("id").agg(f.count("*").alias("n")).where("n > 1 or id is null").limit(1).collect()
    if odd:
        raise ValueError(f"id {id}: expected a different one for each row; {odd[0].n} rows have {odd[0].id}")
