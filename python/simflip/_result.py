"""What a run came to: over texts, a `Result`; over files, a `FolderResult`."""

import html
import json
import os

from simflip import _simflip
from simflip._keywords import kept_of


class Result:
    """What became of some texts. It can be pickled and copied.

    documents: a row for each row of the input, reference documents left out: cluster (uint32; null for a document
    alone), size (uint32), kept (bool), representative (uint32, the row that stays in its place, that of a reference
    document perhaps; itself if it is kept), similarity (float32, to that row; null for itself, and where the two were
    not compared). A row without text is not kept, and the rest of it null.

    pairs: near pairs, ascending: a and b (uint32, rows of the input, a < b; row ``i`` of ``against`` is
    ``len(result) + i``), distance (uint32, bits of 64 that differ), similarity (float32, at most 1),
    kind ("exact" or "near"). Every copy with the document that leads it, and the near pairs of those; all pairs with
    ``all_pairs=True``.

    clusters: the documents of clusters of two or more, by cluster: document (uint32, its row), cluster (uint32, from 0), size
    (uint32), kept (bool).
    """

    def __init__(self, tables, report, text):
        self.documents, self.pairs, self.clusters = tables
        self._report, self._text = report, text

    @property
    def kept(self):
        """The rows of the input that stay, ascending: uint32."""
        return _simflip.chosen_rows(self.documents, True)

    @property
    def removed(self):
        """The rows of the input that are removed as duplicates, ascending: uint32."""
        return _simflip.chosen_rows(self.documents, False)

    @property
    def mask(self):
        """For each row of the input, whether it is kept: an array of bool, as filters of pandas and polars take it. A
        `Column` where there is no numpy."""
        kept = self.documents["kept"]
        try:
            return kept.__array__()
        except ImportError:
            return kept

    @property
    def duplicate_ratio(self):
        """The share of the texts that is removed, 0 to 1."""
        removed = len(self.removed)
        return removed / max(removed + len(self.kept), 1)

    def apply(self, data):
        """The kept rows of ``data``, in its form: a Hugging Face dataset, pandas, polars, pyarrow, DuckDB, numpy, a list,
        or a mapping of columns. It has the rows that were deduplicated, in their order."""
        return kept_of(self.kept.tolist(), len(self), data)

    def least_similar(self, number=10):
        """The near pairs with the least similarity, the least first, as a list of dicts of the form of ``pairs``. Look
        at them before you trust a threshold."""
        return least_similar(self.pairs, number, "a", "b")

    def report(self):
        """Everything there is to say of the run, as a dict; the form is that of ``report.json``."""
        return json.loads(self._report)

    @property
    def html(self):
        """The report as a page of HTML that needs no other file."""
        return _simflip.report_html(self._report)

    def _repr_html_(self):
        return framed(self.html)

    def __len__(self):
        return len(self.documents)

    def __repr__(self):
        clusters = len(set(self.clusters["cluster"].tolist()))
        kept, pairs = len(self.kept), len(self.pairs)
        documents = kept + len(self.removed)
        return f"<simflip.Result: {documents} documents, {kept} kept, {pairs} pairs, {clusters} clusters>"

    def __str__(self):
        return self._text


class FolderResult:
    """The folder of results that a run over files made."""

    def __init__(self, out, summary=None):
        """Opens the folder ``out``; ``summary`` is what the run that made it came to."""
        self.out = os.fsdecode(out)
        self.summary = summary or {}

    @property
    def pairs(self):
        """Near pairs, as in ``pairs.csv``: a_id, b_id (string), distance (uint32, bits of 64 that differ),
        similarity (float32), kind ("exact" or "near")."""
        return _simflip.read_pairs(os.path.join(self.out, "pairs.csv"))

    @property
    def clusters(self):
        """Members of clusters of two documents or more, as in ``clusters.csv``: id, cluster (string), size (uint32),
        kept (bool)."""
        return _simflip.read_clusters(os.path.join(self.out, "clusters.csv"))

    @property
    def kept(self):
        """The paths of the files that hold the kept documents, sorted."""
        names = sorted(name for name in os.listdir(self.out) if name.startswith(("kept.", "kept-")))
        return [os.path.join(self.out, name) for name in names]

    @property
    def duplicate_ratio(self):
        """The share of the documents that is removed, 0 to 1."""
        outcome = self.report()["outcome"]
        return outcome["removed"] / max(outcome["removed"] + outcome["kept"], 1)

    def least_similar(self, number=10):
        """The near pairs with the least similarity, as of a `Result`; documents by their ids."""
        return least_similar(self.pairs, number, "a_id", "b_id")

    def rethreshold(self, similarity, out):
        """A new result in the folder ``out`` with a higher threshold, as ``simflip rethreshold`` makes it of a run with
        ``keep_sketches=True``."""
        return FolderResult(out, _simflip.rethreshold([f"--similarity={similarity}", f"--out={os.fsdecode(out)}", "--", self.out]))

    def apply(self, data):
        """Refused: the kept documents of files are in files."""
        raise TypeError(NO_ROWS.format("apply"))

    @property
    def mask(self):
        """Refused, as `apply` is."""
        raise AttributeError(NO_ROWS.format("mask"))

    def report(self):
        """What ``report.json`` holds, as a dict."""
        with open(os.path.join(self.out, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    @property
    def html(self):
        """The page ``report.html``."""
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as file:
            return file.read()

    def __str__(self):
        return self.summary.get("text") or _simflip.report_text(json.dumps(self.report()))

    def __repr__(self):
        return f"<simflip.FolderResult {self.out}>"

    def _repr_html_(self):
        return framed(self.html)


# What a result of files answers where rows of data are asked for.
NO_ROWS = (
    "a result of files has no {}: result.kept names the files of the kept documents. For a table or list in memory call "
    "simflip.dedup(data) without out=; for a mask of each file run simflip mark RESULT --for numpy --out MASKS"
)


def least_similar(pairs, number, a, b):
    """The near pairs of a table with the least similarity; ``a`` and ``b`` name its columns of documents."""
    near = (pair for pair in rows_of(pairs) if pair["kind"] == "near")
    return sorted(near, key=lambda pair: (pair["similarity"], pair[a], pair[b]))[:number]


def rows_of(table):
    """The rows of a `Table`, a dict each."""
    return [dict(zip(table.columns, row, strict=True)) for row in table]


def framed(page):
    """A page within a notebook: in a frame of its own, so that neither's style meets the other's."""
    return (
        f'<iframe title="Report of simflip" srcdoc="{html.escape(page)}" sandbox="" '
        'style="width: 100%; height: 40em; border: 1px solid #ccc">'
        "</iframe>"
    )
