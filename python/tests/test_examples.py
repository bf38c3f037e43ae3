"""The examples, each with the package that it is for: what they keep is what flipside keeps."""

import gzip
import json
import sys
from pathlib import Path

import flipside
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))


def write(path, texts, first=0):
    lines = (json.dumps({"id": str(first + row), "text": text}) for row, text in enumerate(texts))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_datatrove_keeps_what_flipside_keeps(texts, tmp_path):
    pytest.importorskip("datatrove")
    from datatrove_dedup import main

    pages = tmp_path / "pages"
    pages.mkdir()
    for file, first in enumerate(range(0, len(texts), 100)):
        write(pages / f"{file}.jsonl", texts[first : first + 100], first)
    main(str(pages), str(tmp_path / "work"), 4, similarity=0.7)
    result = flipside.dedup(texts, similarity=0.7)
    sizes = {page: size for page, _, size, _ in result.clusters}
    kept = []
    for file in sorted((tmp_path / "work" / "kept").iterdir()):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            kept.extend(json.loads(line) for line in lines)
    assert sorted(int(page["id"]) for page in kept) == result.kept.tolist()
    for page in kept:
        assert page["metadata"]["minhash_cluster_size"] == sizes.get(int(page["id"]), 1)


@pytest.mark.parametrize("method", ["both", "simhash", "minhash"])
def test_datasets_keep_what_flipside_keeps(texts, method):
    datasets = pytest.importorskip("datasets")
    from datasets_map import add_sketch, without_duplicates

    given = datasets.Dataset.from_dict({"text": texts, "n": list(range(len(texts)))})
    sketched = given.with_format("arrow").map(add_sketch, batched=True, batch_size=64, fn_kwargs={"method": method})
    kept = without_duplicates(sketched.with_format(None), method=method)
    assert kept.column_names == ["text", "n"]
    assert kept["n"][:] == flipside.dedup(texts, method=method).kept.tolist()
