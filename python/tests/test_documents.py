"""The code in the documents of the package, run in order as a reader runs it, and their links on the page of a package."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import simflip

README = Path(__file__).parent.parent / "README.md"


def blocks(path):
    """The blocks of Python in a document."""
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def wet(texts):
    """A file of WET with the texts."""
    head = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://a.example/{}\r\nContent-Length: {}\r\n\r\n{}\r\n\r\n"
    return gzip.compress("".join(head.format(row, len(text), text) for row, text in enumerate(texts)).encode())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_code_of_the_readme_runs(texts, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(pa.table({"text": texts}), "documents.parquet")
    datasets.Dataset.from_dict({"text": texts}).save_to_disk("saved")
    Path("crawl.warc.wet.gz").write_bytes(wet(texts))
    Path("truth.csv").write_text("a,b\n0,1\n")
    names = {"texts": texts, "november": texts[:200], "october": texts[200:], "datasets": datasets, "pyarrow": pa}
    names |= {"text": texts[0], "url": "http://a.example/"}
    code = blocks(README)
    for block in code:
        exec(compile(block, str(README), "exec"), names)
    kept = simflip.dedup(texts).kept.tolist()
    assert list(names["dataset"]["text"]) == [texts[row] for row in kept]
    assert isinstance(names["clusters"], pl.DataFrame) and len(names["result"].kept) == 1
    assert names["answer"].answer == "new" and len(names["sketches"]) == len(texts) and len(code) > 7


def test_the_page_of_a_package_has_no_links_within_the_repository():
    book = Path(__file__).parents[2] / "docs" / "book.py"

    def page(*repository):
        typed = [sys.executable, str(book), "package", str(README), *repository]
        done = subprocess.run(typed, capture_output=True, check=True)
        return re.findall(r"\]\(([^)\s]+)\)", done.stdout.decode())

    links = page("https://git.example/simflip")
    # `wheels.yml` has rewritten the README before.
    assert len(links) > 9 and all(link.startswith("https://") for link in [*links, *page()])
