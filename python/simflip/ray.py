"""Near-duplicates on Ray: the rows that `simflip.dedup` keeps of a Ray dataset.

>>> import simflip.ray
>>> kept = simflip.ray.dedup(ray.data.read_parquet("crawl/"), text="text")

Texts become sketches where they are, in tasks that Ray runs again where a worker dies. The sketches, 128 bytes a document
and their band hashes, are joined in one task, and each block is filtered where it is. Needs ray and pyarrow.
"""

from __future__ import annotations

import ray

from simflip import _parts
from simflip._keywords import check_settings

__all__ = ["dedup"]


def dedup(ds, text="text", **settings):
    """The rows of a Ray dataset that are kept, in its order: the first of each cluster. A row without text is not kept.

    text: the column of texts. settings: those of `simflip.dedup` by which sketches are made and compared: similarity,
    features, min_features, feature_hash, sketch_bytes, bands, recall, seed, verify, verify_threshold, method, distance,
    permutations. The rows are those that ``simflip.dedup`` of the whole column keeps, for any number of blocks and
    workers.
    """
    check_settings("dedup", settings, _parts.SETTINGS)
    blocks = ds.to_arrow_refs()
    sketches = [_sketched.remote(block, text, settings) for block in blocks]
    masks = _masks.options(num_returns=len(blocks)).remote(settings, *sketches) if blocks else []
    masks = [masks] if len(blocks) == 1 else masks
    return ray.data.from_arrow_refs([_kept.remote(*both) for both in zip(blocks, masks, strict=True)])


@ray.remote
def _sketched(block, text, settings):
    return _parts.sketched(block, text, settings)


@ray.remote
def _masks(settings, *sketches):
    masks = _parts.masks(sketches, settings)
    return masks[0] if len(masks) == 1 else masks


@ray.remote
def _kept(block, mask):
    return block.filter(mask)
