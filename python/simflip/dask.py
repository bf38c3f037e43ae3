"""Near-duplicates on Dask: the rows that `simflip.dedup` keeps of a Dask data frame.

>>> import simflip.dask
>>> kept = simflip.dask.dedup(dask.dataframe.read_parquet("crawl/"), text="text")

Texts become sketches where they are, in tasks that Dask runs again where a worker dies. The sketches, 128 bytes a document
and their band hashes, are joined in one task, and each partition is filtered where it is. Needs dask and pyarrow.
"""

from __future__ import annotations

import dask
import dask.dataframe
import pyarrow as pa

from simflip import _parts
from simflip._keywords import check_settings

__all__ = ["dedup"]


def dedup(df, text="text", **settings):
    """The rows of a Dask data frame that are kept, in its order: the first of each cluster. A row without text is not
    kept. Nothing is computed until the frame is.

    text: the column of texts. settings: those of `simflip.dedup` by which sketches are made and compared: similarity,
    features, min_features, feature_hash, sketch_bytes, bands, recall, seed, verify, verify_threshold, method, distance,
    permutations. The rows are those that ``simflip.dedup`` of the whole column keeps, for any number of partitions and
    workers.
    """
    check_settings("dedup", settings, _parts.SETTINGS)
    parts = df.to_delayed()
    sketches = [_sketched(part[[text]], text, settings) for part in parts]
    masks = _masks(sketches, settings)
    kept = [_kept(part, masks[number]) for number, part in enumerate(parts)]
    return dask.dataframe.from_delayed(kept, meta=df._meta, verify_meta=False)


@dask.delayed
def _sketched(part, text, settings):
    return _parts.sketched(pa.Table.from_pandas(part, preserve_index=False), text, settings)


@dask.delayed
def _masks(sketches, settings):
    return _parts.masks(sketches, settings)


@dask.delayed
def _kept(part, mask):
    return part[mask]
