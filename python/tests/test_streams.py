"""Data that comes one by one or in batches: sketches are held, and texts are not; and calls from other threads and
processes."""

import asyncio
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import simflip
from conftest import drawn

# Texts of 16 MB, a megabyte or two more, and what Python has beside them.
MOST_BYTES = 48 << 20


class Text(str):
    """A text that is counted as long as it is there."""

    alive = most = 0

    def __new__(cls, text):
        Text.alive += 1
        Text.most = max(Text.most, Text.alive)
        return super().__new__(cls, text)

    def __del__(self):
        Text.alive -= 1


def long_text(row):
    """A text of 20 kB; one in ten is a copy of the one before."""
    return f" word{row - row % 10 // 9}x".join(WORDS)


WORDS = [f"{at} {at}" for at in range(1000)]


@pytest.mark.parametrize("call", [simflip.dedup, simflip.sketch])
def test_a_generator_s_texts_are_not_held(call):
    Text.most, total = 0, 4000
    assert len(call(Text(long_text(row)) for row in range(total))) == total
    assert Text.most * len(long_text(0)) < MOST_BYTES < total * len(long_text(0))


def test_texts_are_searched_for_items_without_being_held():
    Text.most, total = 0, 4000
    item = " ".join(f"item{at}" for at in range(12))
    found = simflip.decontaminate((Text(long_text(row) + (f" {item}" if row == 3999 else "")) for row in range(total)), [item])
    assert found["text"].tolist() == [3999] and found["share"].tolist() == [1.0]
    assert Text.most * len(long_text(0)) < MOST_BYTES < total * len(long_text(0))


@pytest.mark.parametrize("form", ["reader", "batches", "frames", "joined columns"])
def test_batches_are_not_held(form):
    """Of 200 batches of a megabyte, all but those at hand have gone when the next one is made."""
    schema = pa.schema([("title", pa.string()), ("text", pa.string())])
    before, most = pa.total_allocated_bytes(), 0

    def batches():
        nonlocal most
        for number in range(200):
            texts = [long_text(50 * number + row) for row in range(50)]
            yield pa.record_batch([pa.array(["a title"] * 50), pa.array(texts)], schema=schema)
            most = max(most, pa.total_allocated_bytes() - before)

    if form == "reader":
        result = simflip.dedup(pa.RecordBatchReader.from_batches(schema, batches()))
    elif form == "joined columns":
        result = simflip.dedup(batches(), column=["title", "text"])
    else:
        frame = (lambda batch: pl.DataFrame(batch)) if form == "frames" else (lambda batch: batch)
        result = simflip.dedup(frame(batch) for batch in batches())
    assert len(result) == 10_000 and len(result.removed) == 1000
    assert most < MOST_BYTES < 200 * 50 * len(long_text(0))


@pytest.mark.parametrize("keywords", [{}, {"preset": "removable"}, {"method": "minhash"}, {"verify": "jaccard"}])
def test_a_stream_comes_to_what_a_list_comes_to(texts, keywords):
    # More than is held at a time, with rows that hold nothing.
    texts = [*texts[:200], None, *map(long_text, range(1500)), *texts[200:], None]
    expected = simflip.dedup(texts, **keywords)
    for stream in (
        iter(texts),
        ({"text": text} for text in texts),
        pa.table({"text": texts}).to_reader(max_chunksize=70),
        (pa.table({"text": texts[at : at + 70]}) for at in range(0, len(texts), 70)),
        (pd.DataFrame({"text": texts[at : at + 70]}) for at in range(0, len(texts), 70)),
        [pl.DataFrame({"text": texts[at : at + 70]}) for at in range(0, len(texts), 70)],
    ):
        result = simflip.dedup(stream, **keywords)
        assert list(result.documents) == list(expected.documents) and list(result.pairs) == list(expected.pairs)
    sizes = [("corpus", "text_bytes"), ("outcome", "kept"), ("corpus", "documents")]
    assert [result.report()[part][name] for part, name in sizes] == [expected.report()[part][name] for part, name in sizes]


def test_old_texts_may_come_as_a_stream(texts):
    old, new = [*texts[:300], None, long_text(1)], [None, *texts[300:], long_text(1)]
    expected = simflip.dedup(new, against=old)
    assert len(expected.removed) > 10 and "against 301" in str(expected.report())
    for of in (iter, lambda them: pa.table({"text": them}).to_reader(max_chunksize=9)):
        result = simflip.dedup(of(new), against=of(old))
        assert list(result.documents) == list(expected.documents) and list(result.pairs) == list(expected.pairs)
        assert result.report()["against"] == expected.report()["against"]


def test_what_is_kept_of_parts_comes_back_in_parts(texts):
    table = pa.table({"text": texts, "n": range(len(texts))})
    kept = simflip.dedup(texts).kept.tolist()
    reader = lambda: table.to_reader(max_chunksize=70)
    assert simflip.dedup(reader()).apply(reader()).read_all()["n"].to_pylist() == kept
    batches = table.to_batches(max_chunksize=70)
    assert [n for batch in simflip.dedup(batches).apply(batches) for n in batch["n"].to_pylist()] == kept
    assert list(simflip.dedup(iter(texts)).apply(iter(texts))) == [texts[row] for row in kept]
    frames = lambda: (pl.DataFrame(batch) for batch in batches)
    assert pl.concat(simflip.dedup(frames()).apply(frames()))["n"].to_list() == kept
    with pytest.raises(ValueError, match="the 400 rows that were deduplicated, not 399"):
        list(simflip.dedup(iter(texts)).apply(iter(texts[1:])))


def test_urls_come_with_the_rows_of_a_stream(texts):
    rows = [{"document": {"body": text}, "url": f"https://a.example/{'x' * (400 - row)}"} for row, text in enumerate(texts)]
    keywords = {"column": "document.body", "url": "url", "keep": "shortest-url"}
    expected = simflip.dedup(rows, **keywords).kept.tolist()
    assert expected != simflip.dedup(texts).kept.tolist()
    table = pa.Table.from_pylist(rows)
    for stream in (iter(rows), table.to_reader(max_chunksize=9), iter(table.to_batches(max_chunksize=9))):
        assert simflip.dedup(stream, **keywords).kept.tolist() == expected
    assert simflip.dedup(iter(texts), url=[row["url"] for row in rows], keep="shortest-url").kept.tolist() == expected
    with pytest.raises(ValueError, match="url 3: expected as many as texts, 400"):
        simflip.dedup(iter(texts), url=["a", "b", "c"])


def test_what_is_wrong_in_a_stream_is_said_with_its_row():
    texts = [long_text(row) for row in range(1200)]
    with pytest.raises(TypeError, match="text 1200: expected str or None, not int"):
        simflip.dedup(iter([*texts, 7]))
    with pytest.warns(UserWarning, match="text: 2 of the strings hold half a surrogate pair, first in row 1200"):
        simflip.dedup(iter([*texts, "\ud83d", "\ud83d"]))
    with pytest.raises(ValueError, match="column body: expected one of text, n"):
        simflip.dedup(({"text": text, "n": 1} for text in texts[:3]), column="body")
    with pytest.raises(ZeroDivisionError):
        simflip.dedup(1 // (3 - row) and texts[row] for row in range(5))
    with pytest.raises(TypeError, match="expected a table of sketches, not str"):
        simflip.join(texts[:2])
    with pytest.raises(TypeError, match="expected a table of pairs, not tuple"):
        simflip.clusters(2, [(0, 1)])
    assert len(simflip.dedup(iter([]))) == 0 and len(simflip.sketch(iter([]))) == 0


def test_progress_of_a_stream_has_no_end_that_is_known():
    calls = []
    simflip.dedup((long_text(row) for row in range(2000)), progress=lambda *call: calls.append(call))
    reading = [(done, total) for stage, done, total, unit in calls if (stage, unit) == ("read", "bytes")]
    assert len(reading) >= 2 and reading == sorted(reading) and {total for _, total in reading} == {0}


def test_sketches_and_pairs_are_joined_in_batches(texts):
    expected = simflip.dedup(texts)
    sketches = pa.table(simflip.sketch(iter(texts)))
    assert sketches.equals(pa.table(simflip.sketch(texts)))
    parts = [sketches.slice(at, 70) for at in range(0, len(texts), 70)]
    for held in (parts, iter(parts), sketches.to_reader(max_chunksize=9)):
        assert list(simflip.join(held)) == list(expected.pairs)
    pairs = pa.table(expected.pairs)
    for held in (pairs, [pairs.slice(0, 9), pairs.slice(9)], iter(pairs.to_batches()), pairs.to_reader(max_chunksize=9)):
        assert list(simflip.clusters(len(texts), held)) == list(expected.clusters)


def test_streamed_datasets_are_not_held():
    datasets = pytest.importorskip("datasets")
    Text.most = 0

    def rows():
        for row in range(4000):
            yield {"text": Text(long_text(row)), "n": row}

    stream = datasets.IterableDataset.from_generator(rows)
    result = simflip.dedup(stream)
    assert len(result) == 4000 and Text.most * len(long_text(0)) < MOST_BYTES
    assert [row["n"] for row in result.apply(stream)] == result.kept.tolist()


def test_calls_run_beside_an_event_loop(texts):
    async def both():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        many = [long_text(row) for row in range(1000)]
        results = await asyncio.gather(
            asyncio.to_thread(simflip.dedup, texts), asyncio.to_thread(simflip.dedup, (text for text in many))
        )
        ticking.cancel()
        return results, ticks

    (result, streamed), ticks = asyncio.run(both())
    assert result.kept.tolist() == simflip.dedup(texts).kept.tolist()
    assert len(streamed.removed) == 100 and ticks > 3


def test_sketches_are_made_by_the_processes_of_a_pool(texts):
    parts = [texts[at : at + 100] for at in range(0, len(texts), 100)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        sketches = list(pool.map(simflip.sketch, parts))
    assert list(simflip.join(sketches)) == list(simflip.dedup(texts).pairs)


def sketched(rows):
    """The sketches of a batch of rows; datasets have no bytes of a fixed number."""
    table = pa.table(simflip.sketch(rows, threads=1))
    kinds = [pa.binary() if pa.types.is_fixed_size_binary(kind) else kind for kind in table.schema.types]
    return table.cast(pa.schema(list(zip(table.column_names, kinds))))


def test_datasets_maps_with_several_processes(texts):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"text": drawn(200)})
    made = dataset.with_format("arrow").map(sketched, batched=True, batch_size=50, num_proc=2, remove_columns=["text"])
    pairs = simflip.join(made.with_format("arrow")[:])
    assert list(pairs) == list(simflip.dedup(dataset).pairs) and len(pairs) > 20
    with pytest.raises(TypeError, match="num_proc.*: here it is called threads"):
        simflip.dedup(dataset, num_proc=2)


def test_an_index_stays_in_its_process(tmp_path):
    with simflip.Seen(tmp_path / "index") as seen:
        with pytest.raises(TypeError, match=r"open it in each process.*read_only=True"):
            pickle.dumps(seen)
