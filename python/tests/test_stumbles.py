"""Lines as people write them who come from other tools. Each went wrong once, and stays right here."""

import inspect
import logging
import pickle
import warnings
from collections.abc import Sequence

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import simflip

TEXTS = [
    "The harbour is deep enough for ships of every size, and open to them all year round.",
    "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday.",
    "The harbour is deep enough for ships of every size, and open to them all year round!",
    "A third text is about something else altogether, with words of its own and nothing of the others.",
]
KEPT = [0, 1, 3]


def template(documents=200):
    """Documents of which nearly all go: a template, and a few words of their own."""
    return [" ".join(f"word{at}" for at in range(400)) + f" document {document}" for document in range(documents)]


def test_whatever_holds_texts_is_deduplicated():
    frame = pd.DataFrame({"text": TEXTS})
    relation = duckdb.from_df(frame)
    for data in (
        TEXTS, tuple(TEXTS), iter(TEXTS), (text for text in TEXTS), np.array(TEXTS, dtype=object), frame, frame["text"],
        pl.DataFrame(frame), pl.LazyFrame({"text": TEXTS}), pa.table(frame), relation,
    ):
        assert simflip.dedup(data).kept.tolist() == KEPT, type(data)


def test_a_relation_gives_its_columns_and_takes_what_is_kept():
    titles = ["a", "b", "A long title makes another document of the third text than of the first one.", "d"]
    frame = pd.DataFrame({"title": titles, "text": TEXTS, "n": range(4)})
    connection = duckdb.connect()
    connection.sql("create table kept as select * from frame")
    for relation in (duckdb.from_df(frame), connection.table("kept").filter("n >= 0")):
        result = simflip.dedup(relation)
        kept = result.apply(relation)
        assert type(kept) is type(relation) and kept.columns == relation.columns
        assert [n for *_, n in kept.fetchall()] == KEPT == [n for *_, n in kept.filter("n < 9").fetchall()]
        assert simflip.dedup(relation, column=["title", "text"]).kept.tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="the 4 rows that were deduplicated, not 3"):
            result.apply(relation.limit(3))
        with pytest.raises(TypeError, match="with out=, data names files"):
            simflip.dedup(relation, out="none")
    chats = duckdb.sql("select [{'content': text}] as messages from frame")
    assert simflip.dedup(chats, column="messages").kept.tolist() == KEPT


def test_a_mask_filters_frames_and_rows_have_their_names():
    frame = pd.DataFrame({"text": TEXTS})
    result = simflip.dedup(frame)
    assert frame[result.mask].index.tolist() == KEPT
    assert frame[~result.mask].index.tolist() == [2]
    columns = result.documents
    assert frame[columns["kept"]].index.tolist() == frame.loc[columns["kept"]].index.tolist() == KEPT
    assert frame.iloc[result.kept].index.tolist() == KEPT
    polars = pl.DataFrame(frame)
    kept = polars.filter(result.mask)
    assert kept["text"].to_list() == [TEXTS[row] for row in KEPT]
    assert kept.equals(polars[result.kept]) and kept["text"].equals(polars["text"].gather(result.kept))
    assert polars[result.removed, "text"].to_list() == [TEXTS[2]] and isinstance(result.kept, Sequence)
    assert polars[simflip.dedup([None] * 4).kept].is_empty()
    with pytest.raises(TypeError, match=r"Column kept of . values: .*; tolist\(\) gives them"):
        polars.filter(columns["kept"])
    # A column of clusters, in one line.
    marked = frame.copy()
    marked["cluster"] = columns["cluster"]
    assert marked.groupby("cluster").size().to_dict() == {0: 2}
    clustered = polars.with_columns(pl.Series("cluster", columns["cluster"]))
    assert clustered["cluster"].to_list() == [0, None, 0, None] and clustered.schema["cluster"] == pl.UInt32
    lazy = pl.LazyFrame({"text": TEXTS, "n": range(4)})
    assert result.apply(lazy).collect()["n"].to_list() == KEPT
    pairs = pd.DataFrame(result.pairs)
    assert list(pairs) == ["a", "b", "distance", "similarity", "kind"] and pairs["b"].tolist() == [2]
    assert list(frame.join(pd.DataFrame(result.documents)))[:3] == ["text", "cluster", "size"]
    found = result.pairs
    assert duckdb.sql("select a, b from found").fetchall() == [(0, 2)]


def test_a_dataset_is_selected_by_a_column_and_its_table_is_not_its_rows(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"text": TEXTS, "n": list(range(4))})
    result = simflip.dedup(dataset)
    warned = []
    monkeypatch.setattr(datasets.fingerprint.logger, "warning", warned.append)
    chosen = [dataset.select(result.kept) for _ in range(2)]
    assert chosen[0]["n"][:] == KEPT and chosen[0]._fingerprint == chosen[1]._fingerprint
    assert not warned
    # Below a selection the table is that of the whole dataset.
    dataset.save_to_disk(tmp_path / "saved")
    selected = datasets.load_from_disk(tmp_path / "saved").shuffle(seed=3).select(range(3))
    with pytest.raises(ValueError, match="the 4 rows that were deduplicated, not 3"):
        simflip.dedup(selected.data.table).apply(selected)


def test_results_are_sliced_as_lists_are():
    result = simflip.dedup(TEXTS)
    assert (result.kept[:2], result.kept[-1], result.kept[::-1]) == ([0, 1], 3, [3, 1, 0])
    row = result.pairs[0]
    assert (row.a, row.b, row.kind) == (0, 2, "near") and row == result.pairs[-1] == next(iter(result.pairs))
    for past in (1, -2):
        with pytest.raises(IndexError, match="there are 1 rows"):
            result.pairs[past]
    with pytest.raises(KeyError, match="none"):
        result.pairs["none"]
    assert pickle.loads(pickle.dumps(result.kept))[:] == KEPT


def test_warnings_of_the_report_are_warnings(tmp_path):
    with pytest.warns(UserWarning, match="largest cluster holds 200 of 200"):
        simflip.dedup(template())
    lines = "".join(f'{{"text": "{text}"}}\n' for text in template())
    (tmp_path / "documents.jsonl").write_text(lines)
    with pytest.warns(UserWarning, match="1 of 1 files? loses at least 95 %") as caught:
        simflip.dedup(tmp_path / "documents.jsonl", out=tmp_path / "result")
    assert not any("--" in str(warning.message) for warning in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simflip.dedup(TEXTS)


def test_what_the_command_line_notes_is_logged(tmp_path, caplog):
    (tmp_path / "documents.jsonl").write_text('{"text": "a text of some words"}\nno json\n')
    with caplog.at_level(logging.WARNING, logger="simflip"):
        simflip.dedup(tmp_path / "documents.jsonl", out=tmp_path / "result")
    assert any("documents.jsonl" in record.message for record in caplog.records)


def test_progress_true_is_taken_by_runs_of_any_length(tmp_path, capsys):
    (tmp_path / "documents.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in TEXTS))
    simflip.dedup(tmp_path / "documents.jsonl", out=tmp_path / "result", progress=True)
    many = [f"{document} {TEXTS[document % 4]}" for document in range(30_000)]
    assert len(simflip.dedup(many, progress=True)) == 30_000
    assert "\r" in capsys.readouterr().err


def test_a_folder_of_results_answers_as_a_result_does(tmp_path):
    texts = [TEXTS[0], TEXTS[1], TEXTS[0] + " And more.", TEXTS[3]]
    (tmp_path / "documents.jsonl").write_text("".join(f'{{"id": "p{at}", "text": "{text}"}}\n' for at, text in enumerate(texts)))
    result = simflip.dedup(tmp_path / "documents.jsonl", out=tmp_path / "result", similarity=0.5)
    opened = simflip.FolderResult(tmp_path / "result")
    assert str(opened) == str(result) and str(opened).startswith("Kept 3 of 4 documents.")
    assert result.duplicate_ratio == 0.25
    assert [(pair["a_id"], pair["b_id"]) for pair in result.least_similar(3)] == [("p0", "p2")]
    with pytest.raises(ValueError, match="expected one of dedup keep_sketches=True"):
        result.rethreshold(1, tmp_path / "none")
    loose = simflip.dedup(
        tmp_path / "documents.jsonl", out=tmp_path / "loose", similarity=0.5, keep_sketches=True
    )
    stricter = loose.rethreshold(1, tmp_path / "stricter")
    assert stricter.report()["outcome"]["kept"] == 4 and len(stricter.kept) == 1
    assert stricter.report()["command_line"][:2] == ["simflip", "rethreshold"]
    with pytest.raises(ValueError, match="similarity=0.1: expected 0.5 to 1"):
        loose.rethreshold(0.1, tmp_path / "none")
    with pytest.raises(TypeError, match="has no apply: result.kept names the files.*simflip.dedup.data. without out="):
        result.apply(TEXTS)
    with pytest.raises(AttributeError, match="has no mask: .*simflip mark RESULT --for numpy"):
        result.mask
    assert not hasattr(result, "mask")


def test_messages_speak_of_keywords(tmp_path):
    (tmp_path / "documents.jsonl").write_text('{"text": "a text of some words"}\n')
    for keywords in (
        {"method": "nonsense"}, {"method": "simhash", "distance": 99}, {"weighting": "tf"}, {"keep": "nonsense"},
        {"keep_each": "host"}, {"keep": "shortest-url"}, {"similarity": 2}, {"recall": 1.5}, {"bands": "1"},
        {"verify": "weights", "method": "minhash"}, {"clusters": "connected", "preset": "removable"}, {"seed": "x"},
        {"frequencies": "none"}, {"features": "shingles:0"}, {"method": "minhash", "permutations": 7, "bands": "16x8"},
        {"search": "psm"}, {"min_features": -1}, {"sketch_bytes": 1}, {"all_pairs": True, "clusters": "nonsense"},
    ):
        for data, more in ((TEXTS, {}), (tmp_path / "documents.jsonl", {"out": tmp_path / "result"})):
            if more and keywords.get("keep") == "shortest-url":
                continue
            with pytest.raises((ValueError, OSError)) as refused:
                simflip.dedup(data, **keywords, **more)
            assert "--" not in str(refused.value), refused.value
    with pytest.raises(ValueError, match="distance=99: expected at most 15"):
        simflip.dedup(TEXTS, method="simhash", distance=99)
    with pytest.raises(ValueError, match='keep_each="host": expected url= as well'):
        simflip.dedup(TEXTS, keep_each="host")


def test_an_index_is_asked_by_one_line_and_again_in_the_next_epoch(tmp_path):
    with simflip.Seen(tmp_path / "index") as seen:
        first = [text for at, text in enumerate(TEXTS) if seen.check_and_add(text, str(at)).answer == "new"]
        assert len(first) == 3
        # A second pass over the same rows: what was stored is the same as itself.
        assert [seen.check(text).answer for text in TEXTS] == ["same"] * 4


def test_rows_of_tomorrow_are_held_against_sketches_of_today():
    old, new = simflip.sketch(TEXTS[:2]), simflip.sketch(TEXTS[2:])
    pairs = simflip.join(new, against=pa.table(old))
    assert [(pair["a"], pair["b"]) for pair in pairs.to_pylist()] == [(0, 2)]
    assert simflip.dedup(TEXTS[2:], against=TEXTS[:2]).kept.tolist() == [1]


def test_a_notebook_speaks_of_no_files_where_there_are_none():
    document = simflip.dedup(TEXTS).html
    assert "0 files" not in document and "pairs.csv" not in document


def test_lines_of_an_open_file_are_no_texts(tmp_path):
    path = tmp_path / "documents.jsonl"
    path.write_text('{"text": "a document"}\n{"text": "a document"}\n')
    for call in (simflip.dedup, simflip.sketch, lambda file: simflip.decontaminate(file, ["an item"])):
        with open(path) as file, pytest.raises(TypeError, match="not an open file"):
            call(file)
    with open(path) as file:
        assert len(simflip.dedup(list(file))) == 2


def test_everything_public_has_a_docstring():
    for name in simflip.__all__:
        thing = getattr(simflip, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name
            members = vars(thing).items() if inspect.isclass(thing) else []
            for member, value in members:
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    assert inspect.getdoc(value), f"{name}.{member}"
