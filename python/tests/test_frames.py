"""Data as people have it: data frames, rows, Hugging Face datasets; and the helpers of a result."""

import copy
import json
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import simflip
from simflip._keywords import progress_of

TEXTS = [
    "The harbour is deep enough for ships of every size, and open to them all year round.",
    "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday.",
    "The harbour is deep enough for ships of every size, and open to them all year round!",
    None,
    "A third text is about something else altogether, with words of its own and nothing of the others.",
    "The harbour is deep enough for ships of every size, and open to them all year round.",
]
KEPT = [0, 1, 4]


def test_what_is_kept_comes_back_in_the_form_of_the_data():
    result = simflip.dedup(TEXTS)
    assert (result.kept.tolist(), result.removed.tolist()) == (KEPT, [2, 5])
    assert result.mask.tolist() == [row in KEPT for row in range(6)]
    assert result.duplicate_ratio == 2 / 5
    kept = [TEXTS[row] for row in KEPT]
    assert result.apply(TEXTS) == kept and result.apply(tuple(TEXTS)) == tuple(kept)
    columns = {"text": TEXTS, "n": list(range(6))}
    assert result.apply(columns) == {"text": kept, "n": KEPT}
    assert result.apply(np.arange(6)).tolist() == KEPT
    frame = pd.DataFrame(columns, index=list("uvwxyz"))
    assert result.apply(frame).index.tolist() == ["u", "v", "y"]
    assert frame[result.mask].equals(result.apply(frame))
    polars = pl.DataFrame(columns)
    assert result.apply(polars)["n"].to_list() == KEPT
    assert polars.filter(result.mask).equals(result.apply(polars))
    assert result.apply(pa.table(columns))["n"].to_pylist() == KEPT
    with pytest.raises(ValueError, match="the 6 rows that were deduplicated, not 5"):
        result.apply(TEXTS[:5])


def test_a_result_can_be_pickled_copied_and_sent_between_processes():
    result = simflip.dedup(TEXTS, all_pairs=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert repr(pool.submit(simflip.dedup, TEXTS, all_pairs=True).result()) == repr(result)
    for other in [copy.deepcopy(result), pickle.loads(pickle.dumps(result))]:
        assert (repr(other), str(other), other.html) == (repr(result), str(result), result.html)
        assert other.report() == result.report() and len(other) == 6
        for of, to in [(result.documents, other.documents), (result.pairs, other.pairs), (result.clusters, other.clusters)]:
            assert of.to_pylist() == to.to_pylist() and pa.table(of).schema == pa.table(to).schema
    kept = result.kept
    column = pickle.loads(pickle.dumps(kept))
    assert column.tolist() == kept.tolist() and repr(column) == repr(kept)
    empty = pickle.loads(pickle.dumps(simflip.dedup(TEXTS[:1])))
    assert empty.pairs.to_pylist() == [] and empty.kept.tolist() == [0]


def test_a_higher_threshold_takes_the_same_sketches():
    # A chain: at 0.5 document 1 is removed for document 0; above, documents 3 and 4 are near 2 alone.
    spans = [range(0, 100), range(25, 125), range(35, 135), range(45, 145), [*range(35, 75), *range(85, 135)]]
    texts = [" ".join(f"word{at}" for at in span) for span in spans] + [None]
    given = {"features": "words", "bands": (32, 2)}
    sketches = simflip.sketch(texts, similarity=0.5, **given)
    kept = []
    for similarity in (0.5, 0.75, 0.9):
        anew = simflip.dedup(texts, similarity=similarity, **given)
        assert simflip.join(sketches, similarity=similarity, **given).to_pylist() == anew.pairs.to_pylist()
        kept.append(anew.kept.tolist())
    assert kept[0] != kept[1] != kept[2]


def test_tables_show_their_rows_and_become_frames():
    result = simflip.dedup(TEXTS, all_pairs=True)
    assert "(0, 2, 0, 1.0, 'near')" in repr(result.pairs)
    rows = result.pairs.to_pylist()
    assert rows == [dict(zip(result.pairs.columns, row)) for row in result.pairs]
    frame = result.pairs.to_pandas()
    assert frame["b"].tolist() == result.pairs["b"].tolist() and list(frame) == result.pairs.columns
    many = simflip.dedup([f"{TEXTS[0]} {document % 2}" for document in range(40)])
    assert repr(many.pairs).endswith("… and 29 more")
    least = simflip.dedup(TEXTS + [TEXTS[0] + " And more of it."], similarity=0.5).least_similar(1)
    assert [pair["b"] for pair in least] == [6] and least[0]["similarity"] < 1


def test_rows_columns_and_conversations_are_texts():
    rows = [{"id": row, "title": "a title", "text": text} for row, text in enumerate(TEXTS)]
    assert simflip.dedup(rows).kept.tolist() == KEPT
    joined = simflip.dedup(rows, column=["title", "text"])
    # A title alone is a text.
    assert joined.kept.tolist() == [0, 1, 3, 4]
    for table in (pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows)):
        assert simflip.dedup(table, column=("title", "text")).kept.tolist() == [0, 1, 3, 4]
    chats = [
        {"messages": text and [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": [{"type": "text", "text": text}]}]}
        for text in TEXTS
    ]
    assert simflip.dedup(chats, column="messages").kept.tolist() == KEPT
    urls = [{"text": TEXTS[0], "link": url} for url in ("https://a.example/long", "https://a.example/")]
    for data in (urls, pd.DataFrame(urls), pl.DataFrame(urls), pa.Table.from_pylist(urls)):
        for column in ("text", ["text"]):
            assert simflip.dedup(data, column=column, url="link", keep="shortest-url").kept.tolist() == [1]
    assert simflip.dedup([chat["messages"] for chat in chats]).kept.tolist() == KEPT
    plain = [{"messages": text and [{"role": "user", "content": text}]} for text in TEXTS]
    for table in (pd.DataFrame(plain), pl.DataFrame(plain), pa.Table.from_pylist(plain)):
        assert simflip.dedup(table, column="messages").kept.tolist() == KEPT
    nested = [{"document": {"body": text, "meta": {"url": f"https://a.example/{at}"}}} for at, text in enumerate(TEXTS)]
    frames = (pd.DataFrame(nested), pl.DataFrame(nested), pa.Table.from_pylist(nested))
    for data in (nested, *frames, {"document": [row["document"] for row in nested]}):
        for column in ("document.body", "/document/body", ["document.body"], ["document.body", "document.meta.none"][:1]):
            assert simflip.dedup(data, column=column).kept.tolist() == KEPT, (type(data), column)
        urls = simflip.dedup(data, column="document.body", url="document.meta.url", keep="shortest-url")
        assert urls.kept.tolist() == KEPT
        with pytest.raises(ValueError, match="column document.none: expected one of document"):
            simflip.dedup(data, column="document.none")
    masked = pa.StructArray.from_arrays([pa.array(["c d", "a b", "a b"])], names=["body"], mask=pa.array([False, True, False]))
    assert simflip.dedup(pa.table({"document": masked}), column="document.body").kept.tolist() == [0, 2]
    named = pa.table({"document.body": TEXTS, "document": pa.array([{"body": "none"}] * 6)})
    assert simflip.dedup(named, column="document.body").kept.tolist() == KEPT
    for data in (rows, pd.DataFrame(rows), pa.Table.from_pylist(rows)):
        with pytest.raises(ValueError, match="column body: expected one of id, title, text"):
            simflip.dedup(data, column=["title", "body"])
    with pytest.raises(ValueError, match="column body: expected one of id, title, text"):
        simflip.dedup(rows, column="body")
    with pytest.raises(TypeError, match="with out=, data names files"):
        simflip.dedup(pd.DataFrame(rows), out="none")


def test_keywords_of_other_tools_are_answered_with_ours(capsys):
    for theirs, ours in [
        ("threshold", "similarity"), ("num_perm", 'method="minhash" permutations'), ("ngram", 'features="shingles:N"'),
        ("text_column", "column"), ("text_field", "column"), ("num_proc", "threads"), ("path", "data, the first argument"),
    ]:
        with pytest.raises(TypeError, match=f"'{theirs}': here it is called {ours}"):
            simflip.dedup(TEXTS, **{theirs: 1})
    with pytest.raises(TypeError, match="'text_column': here it is called text_field"):
        simflip.dedup("crawl", out="result", text_column="body")
    for call in (lambda: simflip.sketch(TEXTS, threshold=1), lambda: simflip.explain("a", "b", threshold=1)):
        with pytest.raises(ValueError, match=r"'threshold' found\s+tip: here it is called similarity"):
            call()
    with pytest.raises(TypeError, match="'max_removed'; options of files need out="):
        simflip.dedup(TEXTS, max_removed=0.5)
    assert simflip.dedup(TEXTS, progress=True).kept.tolist() == KEPT
    assert capsys.readouterr().err.startswith("\rread: ")
    tell = progress_of(True)
    tell("read", 500, 1000, "documents")
    tell("read", 1000, 1000, "documents")
    assert capsys.readouterr().err == "\rread: 500 documents 50 %\033[K\rread: 1,000 documents 100 %\033[K\n"
    assert progress_of(None) is None


def test_splits_of_hugging_face_are_one_after_the_other():
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"text": TEXTS, "n": list(range(6)), "url": [f"https://a.example/{9 - n}" for n in range(6)]})
    splits = datasets.DatasetDict({"train": dataset.select([1, 2]), "test": dataset, "more": dataset.select([])})
    result = simflip.dedup(splits)
    assert result.kept.tolist() == [0, 1, 6] and len(result) == 8
    kept = result.apply(splits)
    assert type(kept) is datasets.DatasetDict and {name: split["n"][:] for name, split in kept.items()} == {
        "train": [1, 2], "test": [4], "more": [],
    }
    rows = [row for split in splits.values() for row in split]
    joined = {"column": ["text", "url"]}
    assert simflip.dedup(splits, **joined).kept.tolist() == simflip.dedup(rows, **joined).kept.tolist() == [0, 1, 5, 6]
    shortest = {"url": "url", "keep": "shortest-url"}
    assert simflip.dedup(splits, **shortest).kept.tolist() == simflip.dedup(rows, **shortest).kept.tolist() == [0, 6, 7]
    assert simflip.dedup(dataset, against=splits).kept.tolist() == []
    column = simflip.dedup(dataset["text"], against=splits["train"]["text"])
    assert column.kept.tolist() == simflip.dedup(dataset, against=splits["train"]).kept.tolist()
    assert column.apply(dataset["text"]) == column.apply(dataset)["text"][:]
    with pytest.raises(ValueError, match="the 8 rows that were deduplicated, not 2"):
        result.apply(datasets.DatasetDict({"train": splits["train"]}))
    streams = datasets.IterableDatasetDict({"train": dataset.to_iterable_dataset()})
    with pytest.raises(ValueError, match=r"several streams: give one of them, data\['train'\]"):
        simflip.dedup(streams)


def test_a_stream_of_kept_rows_may_be_shuffled_and_shared(texts):
    datasets = pytest.importorskip("datasets")
    from datasets.distributed import split_dataset_by_node

    dataset = datasets.Dataset.from_dict({"text": texts, "n": list(range(len(texts)))})
    stream = dataset.to_iterable_dataset(num_shards=3)
    result = simflip.dedup(stream)
    kept = result.apply(stream)
    assert kept.features == stream.features and len(result.removed) > 50
    numbers = lambda rows: [row["n"] for row in rows]
    assert numbers(kept) == result.kept.tolist() != numbers(kept.shuffle(seed=1))
    assert sorted(numbers(kept.shuffle(seed=1))) == result.kept.tolist()
    nodes = [numbers(split_dataset_by_node(kept, node, 2)) for node in range(2)]
    assert all(nodes) and sorted(nodes[0] + nodes[1]) == result.kept.tolist()
    # Workers read the stream from a copy of it.
    assert numbers(pickle.loads(pickle.dumps(kept))) == result.kept.tolist()
    in_arrays = result.apply(stream.with_format("numpy"))
    assert isinstance(next(iter(in_arrays))["n"], (np.integer, np.ndarray))
    # Rows without features are as they were made.
    made = stream.map(lambda row: {"n": (row["n"], None)})
    assert [row["n"][0] for row in result.apply(made)] == result.kept.tolist()


def test_what_hugging_face_made_of_rows_is_found_again():
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"text": TEXTS * 3, "n": list(range(18))})
    chosen = dataset.shuffle(seed=3).select(range(2, 14))
    result = simflip.dedup(chosen)
    kept = result.apply(chosen)
    assert kept["n"][:] == [chosen[row]["n"] for row in simflip.dedup(chosen["text"][:]).kept]
    assert {text and text[:3] for text in kept["text"]} == {"The", "Ope", "A t"}
    again = dataset.shuffle(seed=3).select(range(2, 14))
    assert simflip.dedup(again).apply(again)._fingerprint == kept._fingerprint != chosen._fingerprint
    assert result.apply(dataset.shuffle(seed=4).select(range(12)))._fingerprint != kept._fingerprint


def test_hugging_face_datasets_are_read_in_their_order(tmp_path):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"text": TEXTS, "n": list(range(6))})
    assert simflip.dedup(dataset).apply(dataset)["n"] == KEPT
    # A dataset that was selected or shuffled holds its rows in another order than its table.
    chosen = dataset.select([5, 4, 3, 2])
    result = simflip.dedup(chosen)
    assert result.kept.tolist() == [0, 1] and result.apply(chosen)["n"] == [5, 4]
    shuffled = dataset.shuffle(seed=3)
    kept = simflip.dedup(shuffled).apply(shuffled)
    texts = [shuffled[row]["text"] for row in simflip.dedup(list(shuffled["text"])).kept]
    assert list(kept["text"]) == texts
    stream = dataset.to_iterable_dataset()
    result = simflip.dedup(stream)
    assert result.kept.tolist() == KEPT and [row["n"] for row in result.apply(stream)] == KEPT
    with pytest.raises(ValueError, match="the 6 rows that were deduplicated, not 5"):
        list(result.apply(stream.take(5)))
    chats = datasets.Dataset.from_list([{"messages": [{"role": "user", "content": text or "?"}]} for text in TEXTS])
    assert len(simflip.dedup(chats, column="messages").apply(chats)) == 4
    assert simflip.dedup(dataset.map(lambda row: {"title": "t"}), column=["title", "text"]).kept.tolist() == [0, 1, 3, 4]
    splits = datasets.DatasetDict({"train": dataset, "test": dataset})
    assert simflip.dedup(splits["test"], against=splits["train"]).kept.tolist() == []
    with pytest.raises(ValueError, match="column body: expected one of text, n"):
        simflip.dedup(dataset, column="body")
    nested = datasets.Dataset.from_list([{"document": {"body": text}} for text in TEXTS])
    for data in (nested, nested.to_iterable_dataset()):
        assert simflip.dedup(data, column="document.body").kept.tolist() == KEPT
    # A folder that save_to_disk wrote.
    dataset.save_to_disk(tmp_path / "saved")
    assert simflip.dedup(datasets.load_from_disk(tmp_path / "saved")).kept.tolist() == KEPT
    assert json.loads(json.dumps(result.report()))["outcome"]["kept"] == 3
