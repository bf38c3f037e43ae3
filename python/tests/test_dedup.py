"""Texts and tables in, results out; and the command line as the oracle."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time

import simflip
import pytest
from conftest import drawn

HOURS = "Opening hours: Monday to Friday from nine to five, Saturday from ten to two. Closed on Sunday."
HARBOUR = "The harbour is deep enough for ships of every size, and open to them all year round."

# Keywords, and the same on the command line.
SETTINGS = [
    ({}, []),
    ({"preset": "removable"}, ["--preset", "removable"]),
    ({"similarity": 0.7, "all_pairs": True, "seed": 7}, ["--similarity", "0.7", "--all-pairs", "--seed", "7"]),
    ({"method": "minhash", "bands": (16, 8)}, ["--method", "minhash", "--bands", "16x8"]),
    (
        {"method": "simhash", "features": "words", "clusters": "star", "keep": "longest"},
        ["--method", "simhash", "--features", "words", "--clusters", "star", "--keep", "longest"],
    ),
    ({"keep_count": 2}, ["--keep-count", "2"]),
    (
        {"method": "psm", "features": "words", "weighting": "tf-idf", "verify": "none"},
        ["--method", "psm", "--features", "words", "--weighting", "tf-idf", "--verify", "none"],
    ),
]


def command_line(*arguments):
    run = subprocess.run([sys.executable, "-m", "simflip", *arguments], capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return run.stdout


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_newcomer_s_lines():
    result = simflip.dedup([HOURS, HARBOUR, HOURS.replace(".", "!")], features="words")
    assert [row[:2] for row in result.pairs] == [(0, 2)]
    assert result.kept.tolist() == [0, 1]
    assert [row for row in result.clusters] == [(0, 0, 2, True), (2, 0, 2, False)]
    report = result.report()
    assert (report["outcome"]["kept"], report["outcome"]["removed"], report["corpus"]["documents"]) == (2, 1, 3)
    assert "2 kept" in repr(result) and str(result)


@pytest.mark.parametrize(("keywords", "typed"), SETTINGS, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_texts_come_to_what_the_command_line_makes_of_them(texts, tmp_path, keywords, typed):
    documents = tmp_path / "documents.jsonl"
    # A null is no document, and its row keeps its place.
    given = [None if row % 37 == 5 else text for row, text in enumerate(texts)]
    lines = (json.dumps({"id": str(row), "text": text}) for row, text in enumerate(given))
    documents.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    command_line("dedup", str(documents), "--out", str(out), *typed)
    result = simflip.dedup(given, **keywords)
    expected = rows(out / "pairs.csv")
    assert len(expected) > 20
    pairs = [(str(a), str(b), distance, kind) for a, b, distance, _, kind in result.pairs]
    assert pairs == [
        (row["a_id"], row["b_id"], int(row["distance"]) if row["distance"] else None, row["kind"]) for row in expected
    ]
    similarities = [float(row["similarity"]) for row in expected]
    assert result.pairs["similarity"].tolist() == pytest.approx(similarities, abs=5e-5)
    clusters = [(str(document), str(size), str(kept).lower()) for document, _, size, kept in result.clusters]
    assert clusters == [(row["id"], row["size"], row["kept"]) for row in rows(out / "clusters.csv")]
    report = json.loads((out / "report.json").read_text())
    own = result.report()
    for part in ["settings", "outcome", "histograms", "cluster_sizes", "verified", "recall_estimate", "method", "recall"]:
        assert own[part] == report[part], part
    gone = {int(row["id"]) for row in rows(out / "clusters.csv") if row["kept"] == "false"}
    assert result.kept.tolist() == [row for row, text in enumerate(given) if text is not None and row not in gone]


def test_results_do_not_depend_on_threads(texts):
    one, three = (simflip.dedup(texts, threads=threads) for threads in (1, 3))
    assert list(one.pairs) == list(three.pairs) and one.kept.tolist() == three.kept.tolist()


def test_documents_say_who_stays(texts):
    given = [None, *texts]
    result = simflip.dedup(given, keep="longest")
    kept = set(result.kept)
    members = {document: (cluster, size) for document, cluster, size, _ in result.clusters}
    assert len(result) == len(given) == len(result.documents)
    for row, (cluster, size, is_kept, representative, _) in enumerate(result.documents):
        assert is_kept == (row in kept)
        if row == 0:
            assert (cluster, size, representative) == (None, None, None)
        elif row in members:
            assert (cluster, size) == members[row] and members[representative][0] == cluster and representative in kept
            assert len(given[representative]) >= len(given[row])
        else:
            assert (cluster, size, representative) == (None, 1, row)


def test_urls_say_which_copy_stays():
    texts, urls = [HOURS, HOURS, HARBOUR], ["http://a.example/long", "http://a.example/", None]
    assert simflip.dedup(texts, url=urls, keep="shortest-url").kept.tolist() == [1, 2]
    table = {"document": texts, "address": urls}
    assert simflip.dedup(table, column="document", url="address", keep="shortest-url").kept.tolist() == [1, 2]
    with pytest.raises(ValueError, match="url 1: expected as many as texts, 3"):
        simflip.dedup(texts, url=["http://a.example/"], keep="shortest-url")


def test_as_many_documents_stay_as_one_says():
    texts, urls = [HOURS] * 4, ["http://a.example/1", "http://a.example/2", "http://b.example/", None]
    assert simflip.dedup(texts, keep_count=3).kept.tolist() == [0, 1, 2]
    result = simflip.dedup(texts, url=urls, keep_each="host")
    assert result.kept.tolist() == [0, 2, 3]
    assert [row[2:4] for row in result.documents] == [(True, 0), (False, 0), (True, 2), (True, 3)]
    assert [row[3] for row in result.clusters] == [True, False, True, True]
    with pytest.raises(ValueError, match='keep_each="file": expected host'):
        simflip.dedup(texts, keep_each="file")


def test_files_come_to_a_folder(tmp_path, texts):
    documents = tmp_path / "documents.jsonl"
    lines = [json.dumps({"id": f"p{row}", "body": text}) for row, text in enumerate(texts)]
    documents.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = simflip.dedup(documents, out=tmp_path / "out", column="body", similarity=0.7)
    command_line("dedup", str(documents), "--out", str(tmp_path / "other"), "--text-field", "body", "--similarity", "0.7")
    for name in ["pairs.csv", "clusters.csv"]:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    of_texts = simflip.dedup(texts, similarity=0.7)
    assert [(a, b) for a, b, *_ in result.pairs] == [(f"p{a}", f"p{b}") for a, b, *_ in of_texts.pairs]
    assert len(result.clusters) == len(of_texts.clusters)
    assert [os.path.basename(path) for path in result.kept] == ["kept.jsonl"]
    assert result.report()["outcome"] == of_texts.report()["outcome"]
    assert "<iframe" in result._repr_html_()
    with pytest.raises(ValueError, match="out"):
        simflip.dedup(documents, out=tmp_path / "out")
    simflip.dedup([documents], out=tmp_path / "out", column="body", force=True)
    # Nothing is new when it is held against itself.
    (tmp_path / "again.jsonl").write_bytes(documents.read_bytes())
    again = simflip.dedup(tmp_path / "again.jsonl", out=tmp_path / "new", column="body", against=[documents])
    assert (again.report()["outcome"]["kept"], again.report()["against"]["documents"]) == (0, len(texts))


@pytest.mark.parametrize(("keywords", "typed"), SETTINGS, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_new_texts_against_old_ones_come_to_what_the_command_line_makes_of_them(texts, tmp_path, keywords, typed):
    # A null is no document, and its row keeps its place.
    new, old = ([None if row % 41 == 7 else text for row, text in enumerate(side)] for side in (texts[::2], texts[1::2]))
    for name, side, first in [("new", new, 0), ("old", old, len(new))]:
        lines = (json.dumps({"id": str(first + row), "text": text}) for row, text in enumerate(side))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    new_file, old_file, out = (str(tmp_path / name) for name in ("new.jsonl", "old.jsonl", "out"))
    command_line("dedup", new_file, "--against", old_file, "--out", out, *typed)
    result = simflip.dedup(new, against=old, **keywords)
    expected = rows(tmp_path / "out" / "pairs.csv")
    pairs = [(str(a), str(b), kind) for a, b, _, _, kind in result.pairs]
    assert pairs == [(row["a_id"], row["b_id"], row["kind"]) for row in expected] and len(pairs) > 10
    clusters = [(str(document), str(size), str(kept).lower()) for document, _, size, kept in result.clusters]
    members = rows(tmp_path / "out" / "clusters.csv")
    assert clusters == [(row["id"], row["size"], row["kept"]) for row in members]
    report, own = json.loads((tmp_path / "out" / "report.json").read_text()), result.report()
    for part in ["outcome", "verified", "recall_estimate", "recall", "histograms"]:
        assert own[part] == report[part], part
    assert own["corpus"]["documents"] == report["corpus"]["documents"] == sum(text is not None for text in new)
    told = {part: report["against"][part] for part in ["documents", "exact", "near", "clusters"]}
    assert {part: own["against"][part] for part in told} == told and told["near"] > 0
    assert "reference documents, unchanged" in str(result) and "against " in result.html
    gone = {int(row["id"]) for row in members if row["kept"] == "false"}
    assert result.kept.tolist() == [row for row, text in enumerate(new) if text is not None and row not in gone]
    assert len(result) == len(result.documents) == len(new)
    representative = result.documents["representative"].tolist()
    assert any(row >= len(new) for row in representative if row is not None)
    settings = {name: value for name, value in keywords.items() if name not in ("clusters", "keep")}
    # Containment counts features, which sketches in a table do not hold.
    if "weighting" not in settings and "preset" not in settings:
        sketches, old_sketches = (simflip.sketch(side, **settings) for side in (new, old))
        assert list(simflip.join(sketches, against=old_sketches, **settings)) == list(
            simflip.dedup(new, against=old, **settings).pairs
        )


def test_old_texts_may_be_none_and_may_be_tables():
    empty = simflip.dedup([HOURS, HARBOUR], against=[], features="words")
    assert (empty.kept.tolist(), empty.report()["against"]["documents"]) == ([0, 1], 0)
    tables = {"document": [HOURS, HARBOUR]}, {"document": [HOURS.replace(".", "!")]}
    result = simflip.dedup(tables[0], against=tables[1], column="document", features="words")
    assert (result.kept.tolist(), list(result.pairs)[0][:2], result.documents["representative"].tolist()) == ([1], (0, 2), [2, 1])
    with pytest.raises(ValueError, match="column document"):
        simflip.dedup(tables[0], against={"text": []}, column="document")


def test_what_is_refused_has_the_command_line_s_words(tmp_path):
    def typed(*arguments):
        run = subprocess.run([sys.executable, "-m", "simflip", "dedup", *arguments], capture_output=True, text=True)
        assert run.returncode == 2
        return run.stderr.removeprefix("simflip: ").removeprefix("error: ").rstrip()

    documents, out = tmp_path / "documents.jsonl", tmp_path / "out"
    documents.write_text('{"text": "a document"}\n')
    for keywords, options in [
        ({"method": "simhash", "distance": 99}, ["--method", "simhash", "--distance", "99"]),
        ({"weighting": "tf"}, ["--weighting", "tf"]),
        ({"similarity": 1.5}, ["--similarity", "1.5"]),
        ({"sketch_bytes": 3}, ["--sketch-bytes", "3"]),
    ]:
        words = typed(str(documents), "--out", str(out), *options)
        for call in [lambda: simflip.dedup([HOURS], **keywords), lambda: simflip.dedup(documents, out=out, **keywords)]:
            with pytest.raises(ValueError) as refused:
                call()
            assert str(refused.value) == simflip._simflip.as_keywords(words)
    with pytest.raises(ValueError, match="invalid value 'nonsense' for 'method'"):
        simflip.dedup([HOURS], method="nonsense")
    with pytest.raises(FileNotFoundError, match="no-such-file"):
        simflip.dedup(tmp_path / "no-such-file.jsonl", out=out)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        simflip.dedup([HOURS], nonsense=1)
    with pytest.raises(TypeError, match="text 1: expected str or None, not int"):
        simflip.dedup([HOURS, 7])
    with pytest.raises(TypeError, match="expected texts"):
        simflip.dedup(HOURS)
    with pytest.raises(ValueError, match="files need out"):
        simflip.dedup(documents)
    with pytest.raises(ValueError, match="these are files, which need out"):
        simflip.dedup([str(documents), str(documents)])
    assert not out.exists()


def test_no_text_is_no_pair():
    result = simflip.dedup([])
    assert (len(result.pairs), len(result.clusters), result.kept.tolist()) == (0, 0, [])


def test_progress_is_reported_and_may_end_the_run(monkeypatch):
    texts = drawn(30_000)
    heard = []
    simflip.dedup(texts, progress=lambda *told: heard.append(told))
    assert heard and all(isinstance(stage, str) and 0 <= done for stage, done, _, _ in heard)
    assert {unit for *_, unit in heard} <= {"bytes", "documents", "texts", "pairs", "pairs of sketches", "distinct sketches"}

    def enough(*_):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        simflip.dedup(texts, progress=enough)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_an_interrupt_ends_a_run_and_leaves_nothing(tmp_path):
    documents = tmp_path / "documents.jsonl"
    with open(documents, "w", encoding="utf-8") as file:
        for row, text in enumerate(drawn(60_000)):
            file.write(json.dumps({"id": str(row), "text": text}) + "\n")
    script = (
        "import simflip, sys\n"
        "try:\n"
        f"    simflip.dedup({str(documents)!r}, out={str(tmp_path / 'out')!r}, progress=lambda *t: print(*t, flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout.readline(), "the run tells of its progress"
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted", (out, err)
    assert "panicked" not in err
    assert os.listdir(tmp_path) == ["documents.jsonl"]


def test_other_threads_run_meanwhile():
    texts = drawn(20_000)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    def ticks_amid_a_call():
        began = time.monotonic()
        simflip.dedup(texts)
        took = time.monotonic() - began
        return sum(began + took / 4 < at < began + took * 3 / 4 for at in list(ticks))

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        # A call that kept the interpreter to itself would let the thread run at its beginning and its end alone, however
        # long it took. On a fast machine it takes more texts for the thread to have its turn amid a call.
        while (seen := ticks_amid_a_call()) < 3 and len(texts) < 640_000:
            texts += texts
    finally:
        stop.set()
        thread.join()
    assert seen >= 3


def test_notebooks_get_a_document(texts):
    shown = simflip.dedup(texts)._repr_html_()
    assert shown.startswith('<iframe title="Report of simflip" srcdoc=') and "sandbox" in shown
    evil = [HOURS + " <script>alert(1)</script>", HOURS + " <script>alert(2)</script>", HOURS]
    assert "<script>alert" not in simflip.dedup(evil, features="words").html


def test_an_explanation_has_words_and_figures():
    explanation = simflip.explain(HOURS, HOURS.replace("Sunday", "Mondays"), features="words", similarity=0.7)
    assert isinstance(explanation.report(), dict) and "near" in str(explanation)
    assert explanation._repr_html_().startswith("<pre>")
    with pytest.raises(ValueError, match="distance=99: expected at most 15"):
        simflip.explain(HOURS, HARBOUR, distance=99)


def test_a_result_is_scored_as_on_the_command_line(tmp_path, texts):
    documents, truth = tmp_path / "documents.jsonl", tmp_path / "truth.csv"
    documents.write_text("".join(json.dumps({"id": f"p{row}", "text": text}) + "\n" for row, text in enumerate(texts)))
    result = simflip.dedup(documents, out=tmp_path / "out", all_pairs=True)
    pairs = [(a, b) for a, b, *_ in result.pairs]
    truth.write_text("a_id,b_id\n" + "".join(f"{a},{b}\n" for a, b in pairs[: len(pairs) // 2]))
    scores = simflip.evaluate(result, truth=truth, resamples=10)
    typed = command_line("evaluate", result.out, "--truth", str(truth), "--resamples", "10", "--json")
    assert scores == json.loads(typed)
    with pytest.raises(FileNotFoundError):
        simflip.evaluate(result, truth=tmp_path / "no-such-file.csv")


def test_the_console_script_is_the_program():
    run = subprocess.run([sys.executable, "-m", "simflip", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"simflip {simflip.__version__}\n")
    refused = subprocess.run([sys.executable, "-m", "simflip", "dedup"], capture_output=True, text=True)
    assert refused.returncode == 2 and "required" in refused.stderr
