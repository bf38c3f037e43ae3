"""Arrow files: data sets that Hugging Face saved, and files of pyarrow and polars."""

import json

import pytest
import simflip

pa = pytest.importorskip("pyarrow")


def documents():
    words = [f"word{(i * 37 + w * w) % 500}" for i in range(40) for w in range(60)]
    texts = [" ".join(words[60 * i : 60 * i + 60]) for i in range(40)]
    texts += [text + " today" for text in texts[::3]]
    return {
        "text": texts,
        "id": [f"document {i}" for i in range(len(texts))],
        "meta": [{"url": f"https://pier.example/{i}", "tags": ["pier"] * (i % 3)} for i in range(len(texts))],
        "label": [i % 2 for i in range(len(texts))],
    }


def test_data_sets_come_back_as_they_were_saved(tmp_path):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict(documents()).cast_column("label", datasets.ClassLabel(names=["far", "near"]))
    data.save_to_disk(tmp_path / "whole", num_shards=2)
    # Shuffled rows are saved in their order, and what `map` keeps there is not read.
    shuffled = data.shuffle(seed=7)
    datasets.DatasetDict({"train": shuffled, "test": data.select(range(5))}).save_to_disk(tmp_path / "both")
    loaded = datasets.load_from_disk(tmp_path / "both" / "train")
    loaded.map(lambda document: document, load_from_cache_file=False, cache_file_name=str(tmp_path / "both/train/cache-1.arrow"))
    for given, expected in [("whole", data), ("both/train", shuffled)]:
        result = simflip.dedup(str(tmp_path / given), out=str(tmp_path / f"of-{given}".replace("/", "-")))
        kept = datasets.Dataset.from_file(str(result.kept[0]))
        assert kept.features == data.features
        mask = simflip.dedup(expected).mask
        assert kept.to_list() == [row for row, stays in zip(expected.to_list(), mask, strict=True) if stays]
    result = simflip.dedup(str(tmp_path / "both"), out=str(tmp_path / "of-both"))
    assert len(datasets.Dataset.from_file(str(result.kept[0]))) == 40
    again = datasets.load_dataset("arrow", data_files=str(result.kept[0]), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(again) == 40


def test_chosen_rows_are_refused_with_what_writes_them(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict(documents()).save_to_disk(tmp_path / "old")
    folder = tmp_path / "old"
    with pa.OSFile(str(folder / "indices.arrow"), "wb") as sink:
        table = pa.table({"indices": pa.array([3, 1, 2], pa.uint64())})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | {"_indices_data_files": [{"filename": "indices.arrow"}]}))
    with pytest.raises(ValueError, match=r"indices\.arrow.*flatten_indices\(\)"):
        simflip.dedup(str(folder), out=str(tmp_path / "out"))


def test_files_of_pyarrow_and_polars_are_read(tmp_path):
    pl = pytest.importorskip("polars")
    feather = pytest.importorskip("pyarrow.feather")
    table = pa.table(documents())
    feather.write_feather(table, str(tmp_path / "lz4.feather"), compression="lz4")
    feather.write_feather(table, str(tmp_path / "zstd.feather"), compression="zstd")
    pl.from_arrow(table).write_ipc(tmp_path / "views.arrow", compat_level=pl.CompatLevel.newest())
    coded = table.set_column(1, "id", table["id"].dictionary_encode())
    with pa.OSFile(str(tmp_path / "coded.bin"), "wb") as sink, pa.ipc.new_file(sink, coded.schema) as writer:
        writer.write_table(coded, max_chunksize=7)
    for name in ["lz4.feather", "zstd.feather", "views.arrow", "coded.bin"]:
        result = simflip.dedup(str(tmp_path / name), out=str(tmp_path / f"of-{name}"))
        kept = pa.ipc.open_stream(str(result.kept[0])).read_all()
        assert kept.num_rows == 40 and kept.schema.names == table.schema.names
        assert kept["id"].to_pylist() == [f"document {i}" for i in range(40)]
        assert kept["meta"].to_pylist() == table["meta"].to_pylist()[:40]


def test_types_and_metadata_of_all_columns_survive_in_kept_parquet(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    data = documents()
    rows = range(len(data["text"]))
    uneven = [None if row % 7 == 3 else row for row in rows]
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    kinds += [pa.float16(), pa.float32(), pa.float64(), pa.decimal128(12, 2), pa.date32(), pa.time32("ms")]
    kinds += [pa.time64("us"), pa.timestamp("us", tz="Europe/Riga"), pa.duration("ms")]
    columns = {}
    for kind in kinds:
        whole = pa.int64() if pa.types.is_temporal(kind) and kind.bit_width == 64 else pa.int32()
        columns[str(kind)] = pa.array(uneven, whole).cast(kind)
    words = [None if row is None else f"word{row}" for row in uneven]
    columns |= {
        "bool": pa.array([row if row is None else row % 2 == 0 for row in uneven]),
        "binary": pa.array(words, pa.string()).cast(pa.binary()),
        "large_string": pa.array(words, pa.large_string()),
        "fixed": pa.array([bytes([row]) * 16 for row in rows], pa.binary(16)),
        "dictionary": pa.array(words).dictionary_encode(),
        "list": pa.array([None if row is None else [row] * (row % 3) for row in uneven], pa.list_(pa.int64())),
        "struct": pa.array([{"a": row, "b": {"c": [str(row)]}} for row in rows]),
        "map": pa.array([[("k", row)] for row in rows], pa.map_(pa.string(), pa.int64())),
        "null": pa.nulls(len(rows)),
    }
    features = {"info": {"features": {"label": {"names": ["far", "near"], "_type": "ClassLabel"}}}}
    metadata = {"huggingface": json.dumps(features), "pandas": json.dumps({"index_columns": [], "columns": []})}
    table = pa.table(data | columns).replace_schema_metadata(metadata)
    assert len(columns) >= 22
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=11)
    written = pq.read_table(tmp_path / "rows.parquet")
    result = simflip.dedup(str(tmp_path / "rows.parquet"), out=str(tmp_path / "out"))
    kept = pq.read_table(str(result.kept[0]))
    assert kept.schema.equals(written.schema, check_metadata=True), kept.schema
    assert {name.decode() for name in kept.schema.metadata} >= set(metadata)
    assert kept.to_pylist() == written.slice(0, 40).to_pylist()
