"""What Arrow, NumPy and forks hand over that nobody would write by hand."""

import os
import subprocess
import sys
import textwrap

import simflip
import numpy as np
import pyarrow as pa
import pytest


def words(document, count=60):
    return " ".join(f"word{document}x{at}" for at in range(count))


TEXTS = [words(document // 2) + " and more" * (document % 2) for document in range(40)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_that_are_no_utf8_are_repaired(kind):
    odd = [b"caf\xc3", b"a \xff b", b"a \xf0", words(1).encode(), (words(1) + " caf\xe9").encode("latin-1")]
    column = pa.array(odd, pa.binary())
    if kind == pa.string_view():
        column = column.cast(pa.binary_view()).view(kind)
    else:
        column = column.cast(pa.binary() if kind == pa.string() else pa.large_binary()).view(kind)
    with pytest.warns(UserWarning, match="column text: 4 of the strings are no UTF-8"):
        result = simflip.dedup(column)
    assert [(pair["a"], pair["b"]) for pair in pa.table(result.pairs).to_pylist()] == [(3, 4)]
    repaired = [text.decode("utf-8", "replace") for text in odd]
    assert pa.table(simflip.dedup(repaired).pairs).equals(pa.table(result.pairs))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_bytes_are_texts(kind):
    column = pa.array([text.encode() for text in TEXTS], pa.binary()).cast(kind)
    assert pa.table(simflip.dedup(column).pairs).equals(pa.table(simflip.dedup(TEXTS).pairs))


def test_half_a_surrogate_pair_is_repaired_in_every_call(tmp_path):
    cut = [words(7), words(7) + " \ud83d", None, words(8) + "\udc00 \U0001f600"]
    repaired = [text and text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in cut]
    assert "\ufffd \U0001f600" in repaired[3]
    with pytest.warns(UserWarning, match="text: 2 of the strings hold half a surrogate pair, first in row 1"):
        result = simflip.dedup(cut)
    assert pa.table(result.pairs).equals(pa.table(simflip.dedup(repaired).pairs))
    with pytest.warns(UserWarning, match="half a surrogate pair"):
        assert pa.table(simflip.sketch(cut)).equals(pa.table(simflip.sketch(repaired)))
    assert str(simflip.explain(cut[0], cut[1])) == str(simflip.explain(repaired[0], repaired[1]))
    with simflip.Seen(tmp_path / "index") as seen, pytest.warns(UserWarning, match="half a surrogate pair"):
        seen.add(cut[:2], ids=["a", "b"])
        assert seen.check(repaired[1]).answer == "same"


def test_sketches_of_other_settings_are_refused_whoever_holds_them():
    old, new = simflip.sketch(TEXTS, seed=1), simflip.sketch(TEXTS)
    for holds in (pa.table, pa.RecordBatchReader.from_stream, lambda table: pa.table(table).to_batches()[0]):
        with pytest.raises(ValueError, match="give join the settings that sketch was given"):
            simflip.join(pa.table(new), against=holds(old))
    assert len(pa.table(simflip.join(pa.table(new), against=pa.table(new)))) >= len(TEXTS)


def test_sketches_with_holes_are_refused():
    table = pa.table(simflip.sketch([*TEXTS, None]))
    assert len(pa.table(simflip.join(table))) == 20
    for name in table.column_names:
        kind = table.schema.field(name).type
        holes = table.set_column(table.column_names.index(name), name, pa.nulls(len(table), kind))
        with pytest.raises(ValueError, match="row 0 of the sketches has a null"):
            simflip.join(holes)


def test_a_stream_is_read_once_for_all_its_columns(tmp_path):
    table = pa.table({"text": TEXTS, "url": [f"https://a.example/{at}" for at in range(len(TEXTS))]})
    stream = table.to_reader(max_chunksize=7)
    result = simflip.dedup(stream, url="url", keep="shortest-url")
    assert len(result.kept) == 20
    with simflip.Seen(tmp_path / "index") as seen:
        seen.add(table.to_reader(max_chunksize=7), "url")
        answers = seen.check(TEXTS)
    assert [answer.earlier for answer in answers] == table["url"].to_pylist()


def test_a_name_is_one_of_a_column_of_a_table(tmp_path):
    for texts in (TEXTS, pa.array(TEXTS)):
        with pytest.raises(ValueError, match="url .url. names a column, but the texts are no table"):
            simflip.dedup(texts, url="url")
        with simflip.Seen(tmp_path / "index") as seen:
            with pytest.raises((ValueError, TypeError)):
                seen.add(texts, "url")
    with pytest.raises(ValueError, match="one column of this name, not text, text"):
        simflip.dedup(pa.table([pa.array(TEXTS), pa.array(TEXTS)], names=["text", "text"]))
    with pytest.raises(ValueError, match="expected one of other"):
        simflip.dedup(pa.table({"other": pa.chunked_array([], pa.string())}))
    for option in ({"keep": "shortest-url"}, {"keep_each": "host"}):
        with pytest.raises(ValueError, match="expected url= as well"):
            simflip.dedup(TEXTS, **option)


def test_rows_that_are_masked_are_no_texts():
    column = pa.array(["c d", "a b", "a b"])
    rows = pa.StructArray.from_arrays([column], names=["text"], mask=pa.array([False, True, False]))
    result = simflip.dedup(rows)
    assert len(pa.table(result.pairs)) == 0 and list(result.kept) == [0, 2]


def test_an_array_of_a_column_is_the_caller_s():
    sketches = simflip.sketch(TEXTS)
    for name in ("digest", "features", "keys"):
        array = np.array(sketches[name])
        array[0] = 7
        assert (np.asarray(sketches[name])[0] != 7).any()
    nothing = simflip.dedup([words(1), words(2)]).pairs["kind"]
    assert np.array(nothing).dtype.kind == "U"


def test_a_stream_that_breaks_is_an_error_of_the_system():
    schema = pa.schema([("text", pa.string())])

    def batches():
        yield pa.record_batch([pa.array(TEXTS)], schema=schema)
        raise RuntimeError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        simflip.dedup(pa.RecordBatchReader.from_batches(schema, batches()))


def test_numpy_s_truth_and_paths_of_bytes(tmp_path):
    assert len(pa.table(simflip.dedup(TEXTS, all_pairs=np.True_).pairs)) == 20
    assert len(pa.table(simflip.dedup(TEXTS, all_pairs=np.False_).pairs)) == 20
    with simflip.Seen(os.fsencode(tmp_path / "index")) as seen:
        seen.add(["one document"], ["a"])
    assert (tmp_path / "index").is_dir()
    for recall in (0, 1, 1.5):
        with pytest.raises(ValueError, match="recall"):
            simflip.dedup(TEXTS, recall=recall)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_neither_hangs_nor_touches_its_parent_s_index(tmp_path):
    script = """
        import os, sys
        import simflip
        texts = [" ".join(f"word{document}x{at}" for at in range(60)) for document in range(300)]
        ids = [str(document) for document in range(300)]
        path = sys.argv[1]
        seen = simflip.Seen(path)
        assert all(answer.answer == "new" for answer in seen.check_and_add(texts, ids))
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                seen.check(texts)
            except ValueError as error:
                refused += "was forked" in str(error)
            with simflip.Seen(path, read_only=True) as own:
                refused += sum(answer.answer == "same" for answer in own.check(texts))
            seen.close()
            del seen
            os._exit(0 if refused == 301 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        # The lock is still this process's.
        try:
            simflip.Seen(path)
        except (ValueError, OSError):
            pass
        else:
            raise SystemExit("two write")
        seen.add(["one more document"], ["more"])
        seen.close()
        with simflip.Seen(path, read_only=True) as own:
            assert len(own) == 301
    """
    arguments = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "index")]
    subprocess.run(arguments, check=True, timeout=120)
