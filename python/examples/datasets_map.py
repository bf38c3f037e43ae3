"""Near-duplicates in Hugging Face datasets: sketches by ``map``, then one join.

    python datasets_map.py PAGES.jsonl KEPT.jsonl

``map`` runs in as many processes as it is given and caches the sketches beside the dataset. Needs datasets.
"""

import sys

import simflip
import numpy as np
import pyarrow as pa

SKETCH = "simflip."


def add_sketch(batch, column="text", **settings):
    """For ``dataset.with_format("arrow").map(add_sketch, batched=True)``: adds columns with the sketch of each text."""
    sketches = pa.table(simflip.sketch(batch, column=column, **settings))
    # Datasets have no bytes of a fixed number; join takes them as they come.
    loose = {name: pa.binary() for name in ["digest", "weights", "bits"]}
    for name, values in zip(sketches.column_names, sketches.columns, strict=True):
        batch = batch.append_column(SKETCH + name, values.cast(loose.get(name, values.type)))
    return batch


def without_duplicates(dataset, clusters="star", **settings):
    """The rows of a dataset with sketches that stay; settings are those of `add_sketch`."""
    names = [name for name in dataset.column_names if name.startswith(SKETCH)]
    sketches = dataset.select_columns(names).with_format("arrow")[:]
    sketches = pa.table(sketches).rename_columns([name.removeprefix(SKETCH) for name in names])
    pairs = simflip.join(sketches, **settings)
    members = simflip.clusters(len(sketches), pairs, clusters=clusters)
    gone = np.asarray(members["document"])[~np.asarray(members["kept"])]
    kept = np.setdiff1d(np.arange(len(sketches)), gone)
    return dataset.select(kept).remove_columns(names)


if __name__ == "__main__":
    from datasets import load_dataset

    pages = load_dataset("json", data_files=sys.argv[1], split="train")
    sketched = pages.with_format("arrow").map(add_sketch, batched=True).with_format(None)
    kept = without_duplicates(sketched)
    kept.to_json(sys.argv[2])
    print(f"{len(kept)} of {len(pages)} pages stay")
