"""What modules of other engines share: parts of a set become sketches where they are, and are joined in one place."""

from itertools import islice

import pyarrow as pa
import simflip

# Options by which sketches are made and compared; `preset` removable needs texts.
SETTINGS = {
    *["similarity", "recall", "features", "feature_hash", "min_features", "sketch_bytes", "bands", "seed", "method"],
    *["distance", "permutations", "verify", "verify_threshold"],
}


def sketched(part, text, settings):
    """The sketches of a part, which is a table that speaks Arrow."""
    return pa.table(simflip.sketch(part, column=text, threads=1, **settings))


def masks(parts, settings):
    """For each part of the sketches, in their order, a list that says of each row whether it is kept."""
    kept = [digest is not None for part in parts for digest in part["digest"].to_pylist()]
    pairs = simflip.join(parts, **settings)
    for document, _, _, is_kept in simflip.clusters(len(kept), pairs):
        kept[document] = is_kept
    rows = iter(kept)
    return [list(islice(rows, len(part))) for part in parts]
