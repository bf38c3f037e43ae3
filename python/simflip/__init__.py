"""Near-duplicates among texts, tables and files, and how many of them were found.

>>> import simflip
>>> result = simflip.dedup(["a document of some words", "another document", "a document of some words"])
>>> result.kept.tolist()
[0, 1]

Keywords are the options of the command line, with underscores, and mean the same (``simflip dedup --help``). What
is refused raises ``ValueError``, what the operating system refuses ``OSError``, both in the command line's words.
"""

from __future__ import annotations

import html as _html
import os as _os
import warnings as _warnings
from collections.abc import Mapping as _Mapping

from simflip import _simflip
from simflip._simflip import Column, Table, __version__
from simflip._keywords import check_names as _check_names
from simflip._keywords import collected as _collected
from simflip._keywords import comes_in_parts as _comes_in_parts
from simflip._keywords import is_list_of_rows as _is_list_of_rows
from simflip._keywords import options_of as _options
from simflip._keywords import paths_of as _paths
from simflip._keywords import progress_of as _progress
from simflip._keywords import stream_of as _stream
from simflip._keywords import texts_of as _texts
from simflip._result import FolderResult, Result
from simflip._result import rows_of as _rows_of
from simflip._seen import Answer, Seen

__all__ = [
    "Answer",
    "Column",
    "Explanation",
    "FolderResult",
    "Result",
    "Seen",
    "Table",
    "__version__",
    "clusters",
    "decontaminate",
    "dedup",
    "evaluate",
    "explain",
    "join",
    "sketch",
]


def dedup(
    data,
    *,
    column="text",
    url=None,
    against=None,
    out=None,
    progress=None,
    method=None,
    preset=None,
    similarity=None,
    features=None,
    feature_hash=None,
    weighting=None,
    frequencies=None,
    min_features=None,
    search=None,
    distance=None,
    recall=None,
    index=None,
    budget=None,
    key_bits=None,
    tables=None,
    permutations=None,
    sketch_bytes=None,
    bands=None,
    seed=None,
    verify=None,
    verify_threshold=None,
    clusters=None,
    keep=None,
    keep_count=None,
    keep_each=None,
    all_pairs=None,
    threads=None,
    **files,
):
    """Finds near-duplicates.

    Without ``out``, ``data`` holds texts: an iterable of ``str``, or a table or column that speaks Arrow's PyCapsule
    interface (pyarrow, polars, pandas, duckdb, ...), a Hugging Face dataset, a mapping of columns, or a list of mappings.
    Splits of a ``DatasetDict`` are read one after the other as one.
    Texts of Arrow are not copied. Of data that comes one by one or in batches (a generator, a ``RecordBatchReader``, a
    streamed dataset) only sketches are held, and 16 MB of texts; ``result.apply`` takes the same data once more.
    ``column`` names the column with the texts; of several names the texts are joined. Of a list of strings or messages,
    what they say is joined. ``None`` or null is no text: its row is in no pair and is
    not kept. Gives a `Result`, whose numbers are rows of ``data``, from 0; ``result.apply(data)`` gives the kept rows.

    ``against`` holds reference texts in the same form: what has a copy among them or is near one goes, and all of them
    stay. Pairs of reference texts are not listed. A row of ``against`` is named by its number and ``len(data)`` more.

    With ``out``, ``data`` names files and folders as ``simflip dedup`` takes them (WET, JSONL, Parquet, Arrow; one path or
    several), and the folder ``out`` is made as the command line makes it; the options that speak of files are
    keywords too (``force``, ``memory``, ``write``, ``kept_files``, ``text_field``, ``id_field``, ``boilerplate_by``,
    ``settings``, ...). ``against``, one path or a list, names reference files or results. Gives a `FolderResult`.

    url: the column of the table that holds URLs, or a list of them, for ``keep="shortest-url"`` and
    ``keep_each="host"``.
    progress: called with (stage, done, total, unit) about ten times a second; what it raises ends the run. True
    prints it.
    method: ``both`` (the default), ``simhash``, ``minhash``, ``psm``, ``dial`` or ``bphs``.
    preset: ``removable`` or ``noisy``.
    similarity: Jaccard coefficient from which two documents are near, above 0 and at most 1.
    features: ``words``, ``shingles:N`` or ``characters:N``. feature_hash: ``product`` or ``murmur3``.
    distance, key_bits: bits of 64. sketch_bytes: bytes of a document. permutations, tables: counts.
    bands: ``"16x8"`` or ``(16, 8)``. recall, verify_threshold: shares of 1. budget: probes of a document.
    keep: ``first`` (the default), ``fullest`` (most distinct features; the default where containment decides),
    ``longest`` or ``shortest-url``; of files also ``score:FIELD`` or ``input-order``.
    keep_count: how many documents of a cluster stay, 1 by default; with keep_each, ``host`` (of the URL) or, of files,
    ``file`` or ``folder``, how many of each of these in a cluster.
    clusters: ``star`` or ``connected`` (not where containment decides).
    threads: 0 for one per core; results are the same for any number.

    ``KeyboardInterrupt`` ends the run, and what it had begun to write is taken away.
    """
    options = _options(
        {
            "method": method,
            "preset": preset,
            "similarity": similarity,
            "features": features,
            "feature_hash": feature_hash,
            "weighting": weighting,
            "frequencies": frequencies,
            "min_features": min_features,
            "search": search,
            "distance": distance,
            "recall": recall,
            "index": index,
            "budget": budget,
            "key_bits": key_bits,
            "tables": tables,
            "permutations": permutations,
            "sketch_bytes": sketch_bytes,
            "bands": bands,
            "seed": seed,
            "verify": verify,
            "verify_threshold": verify_threshold,
            "clusters": clusters,
            "keep": keep,
            "keep_count": keep_count,
            "keep_each": keep_each,
            "all_pairs": all_pairs,
            "threads": threads,
        }
    )
    progress = _progress(progress)
    _check_names("dedup", files, out is None)
    if out is None:
        if "text_field" in files:
            raise TypeError("dedup() of texts has no keyword argument 'text_field': here it is called column")
        if files:
            raise TypeError(
                f"dedup() of texts got an unexpected keyword argument {next(iter(files))!r}; options of files need out="
            )
        if isinstance(data, _os.PathLike):
            raise ValueError(f"{_os.fspath(data)}: files need out, the folder to create for the results")
        data = _collected(data)
        if isinstance(data, (list, tuple)) and data and all(isinstance(it, str) and _os.path.isfile(it) for it in data):
            raise ValueError(f"{data[0]}: these are files, which need out, the folder to create for the results")
        # What the texts are taken from here has no column of URLs any more.
        is_taken = isinstance(data, _Mapping) or _is_list_of_rows(data) or type(data).__module__.startswith("datasets")
        if _comes_in_parts(data):
            texts, url = _stream(data, column, url)
        else:
            texts = _texts(data, column)
            if isinstance(url, str) and (is_taken or not isinstance(column, str)):
                url = _texts(data, [url])
        if isinstance(against, _os.PathLike):
            raise ValueError(f"{_os.fspath(against)}: files need out, the folder to create for the results")
        old = None if against is None else _texts(against, column)
        name = column if isinstance(column, str) else ",".join(column)
        return _warned(Result(*_simflip.dedup_of_texts(texts, old, name, url, options, progress)))
    if url is not None:
        raise TypeError("url is of texts; of files give url_field, the name of the field or column that holds it")
    if column != "text":
        files.setdefault("text_field", column if isinstance(column, str) else ",".join(column))
    if against is not None:
        files["against"] = _paths(against)
    out = _os.fsdecode(out)
    summary = _simflip.dedup_of_files([*options, *_options(files), f"--out={out}", "--", *_paths(data)], progress)
    return _warned(FolderResult(out, summary))


def _warned(result):
    """The result, once its report's warnings have been raised as such."""
    for told in result.report()["warnings"]:
        _warnings.warn(_simflip.as_keywords(told), stacklevel=3)
    return result


def _data_frame(table):
    """A `Table` as pandas has it."""
    import pandas

    return pandas.DataFrame({name: table[name].__array__() for name in table.columns})


def decontaminate(
    texts, against, *, column="text", item_column=None, ngram=3, share=0.5, min_words=8, threads=0, progress=None
):
    """Finds the items of a benchmark in texts: a `Table` with a row for each item in each text.

    ``texts`` and ``against``, the items, are as the texts of `dedup`; ``item_column`` is ``column`` unless it is given.
    An item is in a text if a passage, half as long again as the item, has ``share`` of its n-grams of ``ngram`` words; of
    items below 16 words more. N-grams that many items or many texts have do not count. Items of fewer than ``min_words``
    words are not looked for.

    Columns: text and item (numbers), share (what the passage has of the item), begin and end (the passage, in
    characters: ``texts[row.text][row.begin:row.end]``).

    >>> train = ["Quiz night: which river flows through the town with the two old bridges? Answers inside."]
    >>> items = ["Which river flows through the town with the two old bridges?"]
    >>> found = simflip.decontaminate(train, items)
    >>> found["text"].tolist(), found["share"].tolist()
    ([0], [1.0])
    """
    item_column = column if item_column is None else item_column
    rules = (ngram, share, min_words)
    return _simflip.decontaminate(
        (_texts(texts, column), column), (_texts(against, item_column), item_column), rules, threads, progress
    )


def sketch(texts, *, column="text", progress=None, **settings):
    """Makes the sketches of texts: a `Table` with a row for each, null where there is no text.

    ``texts`` and ``settings`` are as for `dedup`. Columns: digest (16 bytes, the same for equal texts alone),
    text_bytes (uint64), features (uint32, distinct ones), and by the method:

    both: hash (uint64, the SimHash), bits (``sketch_bytes`` bytes, which estimate the Jaccard similarity), keys (a list
    of uint32, one for each band).
    simhash: hash (uint64), weights (64 bytes, signed: for each bit the sign of its sum and the root of its size).
    minhash: signature (a list of ``permutations`` uint32).

    The table's metadata says what they were made with, and `join` refuses what does not fit.
    """
    return _simflip.sketch(_texts(texts, column), column, _options(settings), progress)


def join(sketches, *, against=None, progress=None, **settings):
    """Finds the near pairs among sketches that `sketch` made, in a table that speaks Arrow, a stream, or several of them.

    ``settings`` are those that `sketch` was given, and those of the search (``similarity``, ``distance``, ``verify``,
    ...). Gives the `Table` that ``dedup(texts).pairs`` is; a and b are rows of ``sketches``: each removed row and the row
    that stays for it, or all near pairs with ``all_pairs=True``. With ``against``, sketches of reference
    texts, it is that of ``dedup(texts, against=reference_texts)``, and their rows come behind. What is verified by
    counted features (``verify`` jaccard, containment or cosine) needs texts and is refused.
    """
    return _simflip.join(sketches, against, _options(settings), progress)


def clusters(n, pairs, *, clusters="star", keep=None, features=None):
    """Makes clusters of ``n`` documents by their near pairs: a table with columns a, b (0 to n - 1) and similarity, as
    `join` gives it. Where it has a column kind, documents of a pair that is ``exact`` have the same text: they are one in
    the clusters, and what is near one of them is near all.

    clusters: ``connected`` (any chain of pairs) or ``star`` (every document is near the one that stays). keep: ``n`` numbers,
    of which the largest of a cluster says which document stays; the first document by default, and among equals. ``connected`` and
    ``keep`` need all near pairs, so join with ``all_pairs=True``. features: instead of keep, ``n`` numbers of distinct
    features, such as ``sketch(texts)["features"]``. Pairs by containment need them: then the fullest document of a cluster
    stays, and each document that goes stands in one that stays.

    Gives a `Table` with a row for each document of a cluster of two or more, by cluster: document, cluster, size (uint32),
    kept (bool).
    """
    if keep is not None and features is not None:
        raise ValueError("keep and features: expected one of the two, as either says which document stays")
    if features is not None:
        return _simflip.clusters(n, pairs, clusters, [float(number or 0) for number in features], True)
    return _simflip.clusters(n, pairs, clusters, None if keep is None else list(map(float, keep)))


class Explanation:
    """Why two texts are near-duplicates, or are not. ``str()`` has the words, ``report()`` the figures."""

    def __init__(self, text, data):
        """An explanation in words, and as a dict."""
        self._text = text
        self._data = data

    def report(self):
        """What ``simflip explain --json`` prints, as a dict."""
        return self._data

    def __str__(self):
        return self._text

    def __repr__(self):
        return self._text

    def _repr_html_(self):
        return f"<pre>{_html.escape(self._text)}</pre>"


def explain(a, b, **settings):
    """Explains why the texts ``a`` and ``b`` are near-duplicates, or are not: an `Explanation`.

    ``settings`` are the options of ``simflip explain``: those of `dedup` but for method and what becomes of pairs.
    """
    return Explanation(*_simflip.explain(a, b, _options(settings)))


def evaluate(result=None, *, truth=None, judged=None, corpus=None, **options):
    """Scores a result of files against a truth: what ``simflip evaluate --json`` prints, as a dict.

    result: a `FolderResult` or its folder. truth: a CSV file of true pairs or clusters. judged: a CSV file of
    judgements instead. corpus: where the files are now, if they have moved; one path or several. Further options as
    the command line has them: min_score, min_label, scope, resamples, text_field, ...
    """
    arguments = _options({"truth": truth, "judged": judged, **options})
    if corpus is not None:
        arguments += [f"--corpus={path}" for path in _paths(corpus)]
    if result is not None:
        arguments += ["--", *_paths(result.out if isinstance(result, FolderResult) else result)]
    return _simflip.evaluate(arguments)
