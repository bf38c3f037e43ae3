"""Tables in and out, with the packages that people have them in."""

import simflip
import pytest

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

COLUMNS = {
    "pairs": ["a", "b", "distance", "similarity", "kind"],
    "clusters": ["document", "cluster", "size", "kept"],
    "documents": ["cluster", "size", "kept", "representative", "similarity"],
}


def tables(texts):
    """The same texts as each package has them."""
    yield "pyarrow", pa.table({"text": texts})
    yield "pyarrow, chunks", pa.concat_tables([pa.table({"text": texts[:7]}), pa.table({"text": texts[7:]})])
    yield "pyarrow, a batch", pa.record_batch({"n": list(range(len(texts))), "text": texts})
    yield "pyarrow, a reader", pa.table({"text": texts}).to_reader(max_chunksize=11)
    for kind in [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]:
        yield f"pyarrow, {kind}", pa.table({"text": pa.array(texts, pa.string()).cast(kind)})
    yield "pyarrow, a column", pa.chunked_array([texts[:3], texts[3:]])
    yield "pyarrow, an array", pa.array([None, *texts]).slice(1)


def others(texts):
    polars = pytest.importorskip("polars")
    yield "polars", polars.DataFrame({"text": texts})
    yield "polars, a series", polars.Series(texts)
    duckdb = pytest.importorskip("duckdb")
    table = pa.table({"text": texts})
    yield "duckdb", duckdb.from_arrow(table).project("text")
    pandas = pytest.importorskip("pandas")
    yield "pandas", pandas.DataFrame({"text": texts})
    yield "pandas, a series", pandas.Series(texts)
    yield "numpy", np.array(texts, dtype=object)
    yield "a mapping", {"text": texts}
    yield "an iterator", iter(texts)


@pytest.mark.parametrize("kinds", [tables, others])
def test_whatever_holds_the_texts_the_result_is_the_same(texts, kinds):
    expected = simflip.dedup(texts)
    for name, table in kinds(texts):
        result = simflip.dedup(table)
        assert list(result.pairs) == list(expected.pairs), name
        assert result.kept.tolist() == expected.kept.tolist(), name


def test_nulls_are_no_documents(texts):
    given = [None, *texts[:50], None, *texts[50:90]]
    result = simflip.dedup(pa.table({"text": given}))
    assert list(result.pairs) == list(simflip.dedup(given).pairs)
    assert 0 not in result.kept.tolist() and result.documents["kept"][51] is False
    assert simflip.dedup(pa.table({"text": pa.nulls(3)})).kept.tolist() == []


def test_columns_are_named(texts):
    table = pa.table({"body": texts, "n": list(range(len(texts)))})
    assert len(simflip.dedup(table, column="body")) == len(texts)
    with pytest.raises(ValueError, match="column text: expected one of body, n"):
        simflip.dedup(table)
    with pytest.raises(TypeError, match="column n: expected strings, not Int64"):
        simflip.dedup(table, column="n")


def test_results_go_to_each_package(texts):
    polars, pandas, duckdb = (pytest.importorskip(name) for name in ["polars", "pandas", "duckdb"])
    result = simflip.dedup(texts)
    for name, columns in COLUMNS.items():
        table = getattr(result, name)
        assert table.columns == columns and len(table) > 0
        arrow = pa.table(table)
        assert arrow.column_names == columns and arrow.num_rows == len(table)
        assert [tuple(row.values()) for row in arrow.to_pylist()] == list(table)
        assert polars.DataFrame(table).rows() == list(table)
        assert len(pandas.DataFrame.from_arrow(table)) == len(table)
        assert len(duckdb.from_arrow(arrow).fetchall()) == len(table)
        for column in columns:
            assert pa.array(table[column]).to_pylist() == table[column].tolist()
            assert list(np.asarray(table[column])) == table[column].tolist()
    kept = np.asarray(result.kept)
    assert kept.dtype == np.uint32
    given = pa.table({"text": texts})
    assert given.take(pa.array(result.kept)).num_rows == given.filter(pa.array(result.documents["kept"])).num_rows
    with pytest.raises(KeyError):
        result.pairs["nonsense"]
    with pytest.raises(IndexError):
        result.kept[len(result.kept)]
    assert result.kept[-1] == kept[-1]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"similarity": 0.7, "sketch_bytes": 64, "seed": 3},
        {"method": "simhash", "features": "words"},
        {"method": "simhash", "verify": "mismatch", "distance": 6},
        {"method": "minhash", "permutations": 64, "seed": 5},
    ],
    ids=str,
)
def test_sketches_come_to_what_texts_come_to(texts, settings):
    polars = pytest.importorskip("polars")
    given = [*texts[:100], None, *texts[100:]]
    expected = list(simflip.dedup(given, **settings).pairs)
    assert expected
    sketches = simflip.sketch(given, **settings)
    assert len(sketches) == len(given) and sketches["digest"][100] is None
    table = pa.table(sketches)
    halves = pa.concat_tables([table.slice(0, 150), table.slice(150)])
    for held in [sketches, table, halves, polars.DataFrame(sketches)]:
        assert list(simflip.join(held, **settings)) == expected
    # A table of another program's may have lost what it said, but not its columns.
    assert list(simflip.join(table.replace_schema_metadata(None), **settings)) == expected


def parts_and_wholes():
    """Texts, each behind its first 50 to 90 %, and a short one that stands in two long ones."""
    words = [[f"document{document}w{word}" for word in range(300)] for document in range(11)]
    pairs = [(" ".join(document[: 150 + 15 * number]), " ".join(document)) for number, document in enumerate(words[:9])]
    quoted = " ".join(words[9][:100])
    quoting = [f"{' '.join(words[9][100:230])} {quoted}", f"{quoted} {' '.join(words[10][:140])}"]
    return [text for pair in pairs for text in pair] + [quoted, *quoting], {*range(1, 18, 2), 19, 20}


def test_the_fullest_document_stays_where_containment_decides():
    texts, wholes = parts_and_wholes()
    for given, expected in [(texts, wholes), (texts[::-1], {20 - row for row in wholes})]:
        for settings in [{"preset": "removable"}, {"verify": "containment", "similarity": 0.5}]:
            kept = set(simflip.dedup(given, **settings).kept)
            assert kept >= expected
            if "preset" in settings:
                assert kept == expected
        with pytest.raises(ValueError, match='clusters="connected": expected star'):
            simflip.dedup(given, preset="removable", clusters="connected")
        with pytest.raises(ValueError, match='keep="first": expected fullest'):
            simflip.dedup(given, preset="removable", keep="first")
    with pytest.raises(ValueError, match="containment looks at more of a text"):
        simflip.sketch(texts, preset="removable")
    with pytest.raises(ValueError, match="edits looks at more of a text"):
        simflip.sketch(texts, preset="noisy")
    parts = [text for row, text in enumerate(texts) if row not in wholes]
    whole_texts = [texts[row] for row in sorted(wholes)]
    assert len(simflip.dedup(parts, against=whole_texts, preset="removable").kept) == 0
    # Old parts of 85 and 90 % hold as much of their wholes as the threshold asks for.
    assert len(simflip.dedup(whole_texts, against=parts, preset="removable").kept) == len(wholes) - 2


def test_sketches_of_other_settings_are_refused(texts):
    sketches = simflip.sketch(texts, seed=1)
    with pytest.raises(ValueError, match="the sketches were made with .* give join the settings"):
        simflip.join(sketches, seed=2)
    with pytest.raises(ValueError, match="no column weights"):
        simflip.join(pa.table(sketches).replace_schema_metadata(None), method="simhash")
    with pytest.raises(ValueError, match="features"):
        simflip.join(sketches, seed=1, verify="jaccard")
    with pytest.raises(ValueError, match='weighting="tf-idf": expected frequencies'):
        simflip.sketch(texts, method="simhash", weighting="tf-idf")


def test_weights_and_signatures_have_their_shapes(texts):
    simhash = simflip.sketch(texts, method="simhash")
    assert np.asarray(simhash["weights"]).shape == (len(texts), 64)
    weights = np.asarray(simhash["weights"]).view(np.int8)
    hashes = np.asarray(simhash["hash"])
    bits = (hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    # A bit is the sign of its sum; a sum near zero may round to none.
    assert ((weights > 0) <= (bits == 1)).all() and ((weights < 0) <= (bits == 0)).all()
    signatures = np.asarray(simflip.sketch(texts, method="minhash", permutations=32)["signature"])
    assert signatures.shape == (len(texts), 32) and signatures.dtype == np.uint32


def test_pairs_make_the_clusters_of_the_whole_run(texts):
    # Copies before and behind what they are near; the longest of copies is the first of them.
    texts = texts[::3] + texts + texts[::2]
    for linkage in ["connected", "star"]:
        for keep, scores in [("first", None), ("longest", [len(text.encode()) for text in texts])]:
            whole = simflip.dedup(texts, clusters=linkage, keep=keep, similarity=0.6)
            assert len(whole.clusters) > 100
            made = simflip.clusters(len(texts), whole.pairs, clusters=linkage, keep=scores)
            assert list(made) == list(whole.clusters)
    # Without kinds document 2 leads, as document 1, which it is near, does not; as a copy of document 1 it is near document 0, too.
    near = {"a": [0, 1], "b": [1, 2], "similarity": [0.9, 1.0]}
    assert [row[0] for row in simflip.clusters(3, pa.table(near))] == [0, 1]
    assert [row[0] for row in simflip.clusters(3, pa.table({**near, "kind": ["near", "exact"]}))] == [0, 1, 2]
    with pytest.raises(ValueError, match="pair 1, 2: kind copy: expected exact or near"):
        simflip.clusters(3, pa.table({**near, "kind": ["near", "copy"]}))
    pairs = pa.table({"a": [0, 3, 1], "b": [2, 1, 3], "similarity": [0.9, 0.8, 0.7]})
    rows = [(0, 0, 2, True), (2, 0, 2, False), (1, 1, 2, True), (3, 1, 2, False)]
    assert list(simflip.clusters(5, pairs)) == rows
    assert [row[3] for row in simflip.clusters(5, pairs, keep=[0, 1, 2, 3, 4])] == [False, True, False, True]
    with pytest.raises(ValueError, match="pair 0, 2: expected two of 2 documents"):
        simflip.clusters(2, pairs)
    with pytest.raises(ValueError, match='clusters="nonsense": expected connected or star'):
        simflip.clusters(5, pairs, clusters="nonsense")
    with pytest.raises(ValueError, match="a score for each of 5 documents"):
        simflip.clusters(5, pairs, keep=[1.0])


def test_items_of_a_benchmark_are_found_in_texts():
    item = "Which river flows through the town where the second of the old bridges was built?"
    texts = ["Nothing of it.", None, f"Über allem: {item} Answers are on the back of the sheet."]
    found = simflip.decontaminate(texts, [item, "too few words"])
    [(text, number, share, begin, end)] = zip(*(found[name].tolist() for name in ("text", "item", "share", "begin", "end")), strict=True)
    assert (text, number, share) == (2, 0, 1.0)
    assert texts[2][begin:end] == item.rstrip("?")
    with pytest.raises(ValueError, match="share"):
        simflip.decontaminate(texts, [item], share=2)
