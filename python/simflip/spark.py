"""Near-duplicates on Spark: the answer of `simflip.dedup`, with the engine's shuffles between.

>>> import simflip.spark
>>> result = simflip.spark.dedup(pages, text="text", id="url")     # a DataFrame of texts
>>> kept = pages.join(result.pages.where("kept"), "url", "left_semi")

>>> result = simflip.spark.dedup_files(spark, ["crawl/a.warc.wet.gz", ...], sketches="sketches", out="kept")

Texts become sketches where they are. What is shuffled is records of some 220 bytes, of the pages that share a key
with others, and never texts. Only DataFrames are used. Needs pyspark and pyarrow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from bisect import bisect_right

import simflip
from simflip import _simflip
from simflip._keywords import options_of, paths_of

__all__ = ["DataFrameResult", "FilesResult", "dedup", "dedup_files"]

_GROUPS = "band int, a {end}, b {end}, distance int, similarity float, met string"
_PAIRS = "a {id}, b {id}, distance int, similarity float, kind string"


class DataFrameResult:
    """What became of the texts of a DataFrame."""

    def __init__(self, pages, pairs, persisted):
        """Two DataFrames, and those that are kept for them."""
        self.pages = pages
        """A row for each of the input: the id; cluster (long; null for a page alone), size (long), kept (boolean),
        stays (the id of the page that stays in its place). A row without text is not kept, and the rest of it null."""
        self.pairs = pairs
        """Near pairs: a and b (ids, a before b), distance (int, bits of 64), similarity (float), kind (``exact`` or
        ``near``). Every copy with the first page of its text, and the near pairs of those."""
        self._persisted = persisted

    def unpersist(self):
        """Gives back what is kept for `pages` and `pairs`; whoever uses them then makes it anew."""
        for frame in self._persisted:
            frame.unpersist()


class FilesResult:
    """What became of the pages of files. Everything is in two folders, as the command line's stages leave it."""

    def __init__(self, sketches, out, summary):
        """The folder of sketches, the folder of kept pages, and numbers."""
        self.sketches = sketches
        self.out = out
        self.summary = summary
        """Numbers: files and pages of all sketches, sketch_bytes, and where this run joined them edges: the pairs that
        bands and copies brought up, some several times."""

    def __repr__(self):
        return f"<simflip.spark.FilesResult {self.out}: {self.summary}>"


def dedup(df, text="text", id="id", *, clusters="star", partitions=None, **settings):
    """Finds near-duplicates among the texts of a DataFrame: a `DataFrameResult`.

    text: the column of texts; null is no text. id: a column of strings or whole numbers, a different one for each row.
    Of a cluster the page with the least id stays, so ids stand for the order of pages; by containment the fullest one
    stays, as everywhere. The answer is that of ``simflip.dedup(texts, ...)`` with texts in the order of their ids, for
    any number of partitions and machines.

    clusters: ``star`` or ``connected``. partitions: of shuffles; ``spark.sql.shuffle.partitions`` by default.
    settings: those of `simflip.dedup` by which sketches are made and judged: similarity, features, min_features,
    feature_hash, sketch_bytes, bands, recall, seed, verify (estimate or estimated-containment), verify_threshold,
    preset.
    """
    from pyspark.sql import functions as f

    _check_settings("dedup", settings)
    _check_clusters(clusters)
    made_with = _simflip.record_settings(options_of({**settings, "clusters": clusters}))
    spark = df.sparkSession
    partitions = partitions or int(spark.conf.get("spark.sql.shuffle.partitions"))
    id_type = _id_type(df, id)
    schema = f"id {id_type}, digest binary, order binary, compared boolean, keys array<int>, record binary"
    given = df.select(f.col(id).alias("id"), f.col(text).alias("text"))
    pages = given.mapInArrow(_sketching(made_with), schema).persist()
    on_the_way, results = [pages], []
    try:
        _check_ids(pages, id)
        # A sketch follows from its text, so that any copy's will do.
        names = ["order", "compared", "keys", "record"]
        of_text = [f.min("id").alias("id"), *(f.first(name).alias(name) for name in names)]
        firsts = pages.where("digest is not null").groupBy("digest").agg(*of_text).persist()
        on_the_way.append(firsts)
        company, crowded = _company(firsts, "digest", partitions, made_with, on_the_way)
        records = firsts.select("digest", "record").join(company, "digest").select("record", "bands")
        records = records.mapInArrow(_turning(made_with), "band int, key int, record binary")
        groups = _judged(records, crowded, partitions, made_with, by_digest=True)
        # Where keys are crowded, several bands bring a pair up.
        near = groups.where("met is null").dropDuplicates(["a", "b"])
        ends = firsts.select("digest", f.struct("id", "order").alias("end"))
        near = near.join(ends.select(f.col("digest").alias("a"), f.col("end").alias("x")), "a")
        near = near.join(ends.select(f.col("digest").alias("b"), f.col("end").alias("y")), "b")
        # By their ids, which are different.
        near = near.withColumns({"a": f.least("x", "y"), "b": f.greatest("x", "y")})
        ordered = [f.col("a.order").alias("order_a"), f.col("b.order").alias("order_b")]
        near = near.select(
            f.col("a.id").alias("a"),
            f.col("b.id").alias("b"),
            "distance",
            "similarity",
            f.lit("near").alias("kind"),
            *ordered,
        )
        copies = pages.select("digest", f.col("id").alias("b"))
        copies = copies.join(ends.select("digest", f.col("end.id").alias("a"), "end.order"), "digest").where("a != b")
        copies = copies.select(
            "a",
            "b",
            f.lit(0).alias("distance"),
            f.lit(1.0).cast("float").alias("similarity"),
            f.lit("exact").alias("kind"),
            f.col("order").alias("order_a"),
            f.col("order").alias("order_b"),
        )
        pairs = near.unionByName(copies).persist()
        results.append(pairs)
        members = pairs.repartition(1).mapInArrow(
            _clustering(clusters), f"id {id_type}, cluster long, size long, kept boolean, stays {id_type}"
        )
        found = pages.select("id", f.col("digest").isNotNull().alias("is_page"))
        found = found.join(members.withColumnRenamed("kept", "leads"), "id", "left")
        alone = f.col("is_page") & f.col("cluster").isNull()
        found = found.select(
            f.col("id").alias(id),
            "cluster",
            f.when(alone, f.lit(1).cast("long")).otherwise(f.col("size")).alias("size"),
            (f.col("is_page") & f.coalesce("leads", f.lit(True))).alias("kept"),
            f.when(alone, f.col("id")).otherwise(f.col("stays")).alias("stays"),
        ).persist()
        results.append(found)
        found.count()
    except BaseException:
        on_the_way += results
        raise
    finally:
        for frame in on_the_way:
            frame.unpersist()
    return DataFrameResult(found, pairs.drop("order_a", "order_b"), results)


def dedup_files(spark, paths, *, sketches, out, clusters="star", write=None, partitions=None, **settings):
    """Finds near-duplicates among the pages of files (WET, JSONL, Parquet): a `FilesResult`.

    Spark hands out paths; simflip reads the files where they are and writes files of sketches, records of these are
    shuffled and judged, and kept pages are written by the file. paths: one path or several. sketches, out: folders that
    all executors share with each other and the driver, as they do the files. All files are those of the stages of the
    command line (docs/stages.md): what is there, whole and of these settings is passed over, so that a job that was
    ended goes on where it was, and ``simflip join``, ``cluster``, ``apply`` and ``inspect`` take them. ``sketches``
    may hold sketches of other files, of the same settings: those are joined as well.

    clusters: ``star`` or ``connected``. write: ``kept``, ``removed`` or both, a list; both by default. partitions: of
    shuffles; ``spark.sql.shuffle.partitions`` by default. settings: the options of ``simflip sketch``.
    """
    from pyspark.sql import functions as f

    _check_clusters(clusters)
    partitions = partitions or int(spark.conf.get("spark.sql.shuffle.partitions"))
    sketches, out = os.path.abspath(os.fspath(sketches)), os.path.abspath(os.fspath(out))
    paths = [os.path.abspath(path) for path in paths_of(paths)]
    if not paths:
        raise ValueError("paths: expected files or folders")
    options = options_of(settings)
    making = ["sketch", *options, f"--out={sketches}", "--threads=1", "--quiet", "--"]
    _run_parts(spark, partitions, making, paths)
    folder = _simflip.SketchFolder(sketches)
    edges = None
    if not folder.joined:
        edges = _join_files(spark, sketches, folder, partitions, f)
    _run(["cluster", sketches, f"--clusters={clusters}", "--quiet"])
    writes = ["kept", "removed"] if write is None else [write] if isinstance(write, str) else list(write)
    applying = ["apply", f"--out={out}", f"--clusters={clusters}", f"--write={','.join(writes)}"]
    _run_parts(spark, partitions, [*applying, "--threads=1", "--quiet", "--", sketches], paths)
    files = folder.files
    summary = {
        "files": len(files),
        "pages": sum(pages for _, _, pages in files),
        "sketch_bytes": sum(os.path.getsize(path) for path, _, _ in files),
    }
    if edges is not None:
        summary["edges"] = edges
    return FilesResult(sketches, out, summary)


def _join_files(spark, sketches, folder, partitions, f):
    """The second stage: writes the edges of all bands, and gives how many there are."""
    made_with, files = folder.settings, [(str(path), start, pages) for path, start, pages in folder.files]
    given = spark.createDataFrame(files, "path string, start long, pages long").repartition(len(files))
    light = given.mapInArrow(_reading_keys, "page long, digest binary, compared boolean, keys array<int>").persist()
    on_the_way = [light]
    try:
        of_text = [f.min("page").alias("page"), f.first("compared").alias("compared"), f.first("keys").alias("keys")]
        firsts = light.groupBy("digest").agg(*of_text).persist()
        on_the_way.append(firsts)
        company, crowded = _company(firsts, "page", partitions, made_with, on_the_way)
        # Pages that stand together in a file are read together.
        blocks = company.repartition(partitions, f.expr("shiftright(page, 14)")).sortWithinPartitions("page")
        records = blocks.mapInArrow(_reading_records(files), "band int, key int, record binary")
        groups = _judged(records, crowded, partitions, made_with, by_digest=False)
        copies = light.select("digest", f.col("page").alias("b"))
        copies = copies.join(firsts.select("digest", f.col("page").alias("a")), "digest").where("a < b")
        copies = copies.select(
            f.lit(-1).alias("band"),
            "a",
            "b",
            f.lit(0).alias("distance"),
            f.lit(1.0).cast("float").alias("similarity"),
            f.lit(None).cast("string").alias("met"),
        )
        edges = groups.unionByName(copies).repartition(partitions, "band")
        edges = edges.sortWithinPartitions("band", f.col("met").isNull(), "b", "a")
        written = edges.mapInArrow(_writing(sketches), "band int, pairs long").collect()
        for band in set(range(-1, folder.bands)) - {row.band for row in written}:
            folder.write_edges(None if band < 0 else band, _no_pairs(), [])
        return sum(row.pairs for row in written)
    finally:
        for frame in on_the_way:
            frame.unpersist()


def _company(firsts, page, partitions, made_with, kept_for_later):
    """Which pages share which bands' keys with others: ``page`` and bands (array<int>); and the bands and keys that so
    many pages have that not all of them may be compared with each other."""
    from pyspark.sql import functions as f

    keyed = firsts.where("compared").select(page, f.posexplode("keys").alias("band", "key"))
    keyed = keyed.repartition(partitions, "band", "key")
    counts = keyed.groupBy("band", "key").agg(f.count("*").alias("n")).where("n > 1").persist()
    kept_for_later.append(counts)
    crowd = _simflip.crowd_of(made_with)
    crowded = [(row.band, row.key) for row in counts.where(f.col("n") >= crowd).select("band", "key").collect()]
    company = keyed.join(counts.select("band", "key"), ["band", "key"], "left_semi")
    return company.groupBy(page).agg(f.collect_list("band").alias("bands")), crowded


def _judged(records, crowded, partitions, made_with, by_digest):
    """What is near among records: brought together by their keys, and judged group by group."""
    sorted_ = records.repartition(partitions, "band", "key").sortWithinPartitions("band", "record")
    schema = _GROUPS.format(end="binary" if by_digest else "long")
    return sorted_.select("band", "record").mapInArrow(_judging(made_with, crowded, by_digest), schema)


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


def _turning(made_with):
    def turn(batches):
        for batch in batches:
            # A page has a record for each band.
            for from_ in range(0, batch.num_rows, 1024):
                yield from _batches(_simflip.turn_records(batch.slice(from_, 1024), made_with))

    return turn


def _judging(made_with, crowded, by_digest):
    def judge(batches):
        import pyarrow as pa

        def told(pairs):
            return _batches(pa.table(pairs).append_column("met", pa.nulls(len(pairs), pa.string())))

        groups = _simflip.Groups(made_with, crowded, by_digest)
        for batch in batches:
            yield from told(groups.push(batch))
        pairs, met = groups.finish()
        yield from told(pairs)
        if met:
            pairs = pa.table(pairs)
            bands, words = zip(*met, strict=True)
            nulls = [pa.nulls(len(met), kind) for kind in pairs.schema.types[1:]]
            columns = [pa.array(bands, pa.int32()), *nulls, pa.array(words, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, [*pairs.column_names, "met"])

    return judge


def _reading_keys(batches):
    for batch in batches:
        for path, start in zip(batch.column("path").to_pylist(), batch.column("start").to_pylist(), strict=True):
            file = _simflip.SketchedFile(path, True)
            for from_ in range(0, len(file), 1 << 14):
                yield from _batches(file.keys(start, from_, min(1 << 14, len(file) - from_)))


def _reading_records(files):
    starts = [start for _, start, _ in files]

    def read(batches):
        at, file = None, None
        for batch in batches:
            pages = batch.column("page").to_pylist()
            from_ = 0
            while from_ < len(pages):
                # Files without pages begin where the next one does.
                place = bisect_right(starts, pages[from_]) - 1
                if place != at:
                    at, file = place, _simflip.SketchedFile(files[place][0], False)
                end = bisect_right(pages, starts[place] + files[place][2] - 1, from_, min(from_ + 1024, len(pages)))
                yield from _batches(file.records(starts[place], batch.slice(from_, end - from_)))
                from_ = end

    return read


def _writing(sketches):
    def write(batches):
        import pyarrow as pa

        folder = _simflip.SketchFolder(sketches)
        band, parts, met = None, [], []

        def end():
            folder.write_edges(None if band < 0 else band, pa.Table.from_batches(parts) if parts else _no_pairs(), met)
            pairs = sum(part.num_rows for part in parts)
            return pa.record_batch({"band": pa.array([band], pa.int32()), "pairs": pa.array([pairs], pa.int64())})

        for batch in batches:
            bands = batch.column("band").to_pylist()
            from_ = 0
            while from_ < len(bands):
                if bands[from_] != band:
                    if band is not None:
                        yield end()
                    band, parts, met = bands[from_], [], []
                to = bisect_right(bands, band, from_)
                part = batch.slice(from_, to - from_)
                met += [words for words in part.column("met").to_pylist() if words is not None]
                part = part.filter(part.column("met").is_null())
                if part.num_rows:
                    parts.append(part.select(["a", "b", "distance", "similarity"]))
                from_ = to
        if band is not None:
            yield end()

    return write


def _clustering(linkage):
    def cluster(batches):
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        batches = [batch for batch in batches if batch.num_rows]
        if not batches:
            return
        pairs = pa.Table.from_batches(batches)
        ids = pc.unique(pa.chunked_array([*pairs["a"].chunks, *pairs["b"].chunks]))
        ids = ids.take(pc.sort_indices(ids))
        a, b = (pc.index_in(pairs[end], ids).to_numpy() for end in "ab")
        near = pc.equal(pairs["kind"], "near").to_numpy()
        edges = {"a": a[near], "b": b[near], "similarity": pairs["similarity"].to_numpy()[near]}
        # Pages in the order in which they are kept: by what their sketches say of it, then by their ids.
        _, at = np.unique(np.concatenate([a, b]), return_index=True)
        orders = pa.chunked_array([*pairs["order_a"].chunks, *pairs["order_b"].chunks]).take(pa.array(at))
        order = pa.table({"order": orders, "id": pa.array(np.arange(len(ids)))})
        best = pc.sort_indices(order, [("order", "ascending"), ("id", "ascending")]).to_numpy()
        score = np.empty(len(ids))
        score[best] = -np.arange(len(ids))
        members = simflip.clusters(len(ids), pa.table(edges), clusters=linkage, keep=score)
        page, number, kept = (np.asarray(members[name]) for name in ["page", "cluster", "kept"])
        # The best page of a cluster stays, and copies follow the first page of their text.
        leader = np.arange(len(ids))
        leads = np.zeros(int(number.max()) + 1 if len(number) else 0, dtype=np.int64)
        leads[number[kept]] = page[kept]
        leader[page] = leads[number]
        leader[b[~near]] = leader[a[~near]]
        # Clusters are numbered in order of their first pages.
        first = np.full(len(ids), len(ids))
        np.minimum.at(first, leader, np.arange(len(ids)))
        _, number, size = np.unique(first[leader], return_inverse=True, return_counts=True)
        in_cluster = size[number] > 1
        number_of = np.cumsum(size > 1) - 1
        rows = np.flatnonzero(in_cluster)
        for from_ in range(0, len(rows), 1 << 16):
            part = rows[from_ : from_ + (1 << 16)]
            columns = {
                "id": ids.take(pa.array(part)),
                "cluster": pa.array(number_of[number[part]], pa.int64()),
                "size": pa.array(size[number[part]], pa.int64()),
                "kept": pa.array(leader[part] == part),
                "stays": ids.take(pa.array(leader[part])),
            }
            yield pa.RecordBatch.from_pydict(columns)

    return cluster


def _no_pairs():
    import pyarrow as pa

    types = {"a": pa.int64(), "b": pa.int64(), "distance": pa.int32(), "similarity": pa.float32()}
    return pa.table({name: pa.array([], kind) for name, kind in types.items()})


def _run(arguments):
    """Runs the command line; what it refuses is a ValueError in its words."""
    done = subprocess.run(
        [sys.executable, "-m", "simflip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise ValueError(done.stderr.strip().removeprefix("simflip: ") or f"simflip ended with {done.returncode}")


def _run_parts(spark, parts, arguments, paths):
    """Runs the command line on executors, over some of the paths each."""
    parts = min(parts, len(paths))

    def run(batches):
        for batch in batches:
            for some in batch.column("paths").to_pylist():
                _run([*arguments, *some])
            yield batch

    given = [(paths[part::parts],) for part in range(parts)]
    given = spark.createDataFrame(given, "paths array<string>").repartition(parts)
    given.mapInArrow(run, "paths array<string>").collect()


_SETTINGS = {
    *["preset", "similarity", "recall", "features", "feature_hash", "min_features", "sketch_bytes", "bands", "seed"],
    *["verify", "verify_threshold"],
}


def _check_settings(function, settings):
    for name in settings:
        if name not in _SETTINGS:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _check_clusters(clusters):
    if clusters not in ["star", "connected"]:
        raise ValueError(f"clusters {clusters}: expected star or connected; complete needs all pairs at hand")


def _id_type(df, id):
    kind = {field.name: field.dataType.simpleString() for field in df.schema.fields}.get(id)
    if kind not in ["string", "tinyint", "smallint", "int", "bigint"]:
        raise ValueError(f"id {id}: expected a column of strings or whole numbers, not {kind}")
    return kind


def _check_ids(pages, id):
    """Refuses ids that are missing or shared."""
    from pyspark.sql import functions as f

    odd = pages.groupBy("id").agg(f.count("*").alias("n")).where("n > 1 or id is null").limit(1).collect()
    if odd:
        raise ValueError(f"id {id}: expected a different one for each row; {odd[0].n} rows have {odd[0].id}")
