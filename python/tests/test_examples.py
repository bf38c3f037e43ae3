"""The examples, each with the package that it is for: what they keep is what simflip keeps."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import simflip
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))


def write(path, texts, first=0):
    lines = (json.dumps({"id": str(first + row), "text": text}) for row, text in enumerate(texts))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_datatrove_keeps_what_simflip_keeps(texts, tmp_path):
    pytest.importorskip("datatrove")
    from datatrove_dedup import main

    documents = tmp_path / "documents"
    documents.mkdir()
    for file, first in enumerate(range(0, len(texts), 100)):
        write(documents / f"{file}.jsonl", texts[first : first + 100], first)
    main(str(documents), str(tmp_path / "work"), 4, similarity=0.7)
    result = simflip.dedup(texts, similarity=0.7)
    sizes = {document: size for document, _, size, _ in result.clusters}
    kept = []
    for file in sorted((tmp_path / "work" / "kept").iterdir()):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            kept.extend(json.loads(line) for line in lines)
    assert sorted(int(document["id"]) for document in kept) == result.kept.tolist()
    for document in kept:
        assert document["metadata"]["minhash_cluster_size"] == sizes.get(int(document["id"]), 1)


@pytest.fixture
def marked(texts, tmp_path):
    """Marks a result over three files for a program, and gives their folder and the ids that stay."""

    def simflip_run(*arguments):
        subprocess.run([sys.executable, "-m", "simflip", *map(str, arguments)], check=True, capture_output=True)

    def mark(program):
        documents, result, marks = (tmp_path / name for name in ["documents", "result", "marks"])
        (documents / "b").mkdir(parents=True)
        # datatrove passes over a text of nothing, which counts for us.
        for file, name in enumerate(["b/documents.jsonl", "b-2.jsonl", "c.jsonl"]):
            write(documents / name, [*texts[file::3], ""] if program == "datatrove" else texts[file::3], 1000 * file)
        simflip_run("dedup", documents, "--out", result)
        simflip_run("mark", result, "--for", program, "--out", marks)
        with open(result / "kept.jsonl", encoding="utf-8") as lines:
            kept = [json.loads(line) for line in lines]
        return documents, marks, sorted(document["id"] for document in kept if document["text"])

    return mark


def test_datatrove_drops_what_is_marked(marked, tmp_path):
    pytest.importorskip("datatrove")
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupFilter
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    documents, marks, kept = marked("datatrove")
    drop = MinhashDedupFilter(str(marks), load_cluster_ids=True, load_cluster_sizes=True)
    steps = [JsonlReader(str(documents)), drop, JsonlWriter(str(tmp_path / "kept"))]
    LocalPipelineExecutor(pipeline=steps, tasks=3, workers=1, logging_dir=str(tmp_path / "logs")).run()
    forwarded = []
    for file in (tmp_path / "kept").iterdir():
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            forwarded.extend(json.loads(line)["id"] for line in lines)
    assert sorted(forwarded) == kept


def test_dolma_drops_what_is_marked(marked, tmp_path):
    from importlib.util import find_spec, module_from_spec, spec_from_file_location

    # Its mixer is an extension, which needs nothing of what the package needs.
    package = find_spec("dolma")
    extensions = [] if package is None else list(Path(package.origin).parent.glob("dolma*.so"))
    if not extensions:
        pytest.skip("dolma is not installed")
    spec = spec_from_file_location("dolma", extensions[0])
    dolma = module_from_spec(spec)
    spec.loader.exec_module(dolma)
    documents, marks, kept = marked("dolma")
    (tmp_path / "attributes").symlink_to(marks / "attributes")
    goes = "@.simflip_duplicate && @.simflip_duplicate[0] && @.simflip_duplicate[0][2] >= 1.0"
    stream = {
        "name": "kept",
        "documents": [f"{documents}/**/*.jsonl"],
        "attributes": ["simflip"],
        "filter": {"include": [], "exclude": [f"$@.attributes[?({goes})]"]},
        "output": {"path": str(tmp_path / "kept"), "max_size_in_bytes": 1 << 30},
        "compression": {"input": "", "output": ""},
    }
    folders = {kind: str(tmp_path / "work" / kind) for kind in ["input", "output"]}
    dolma.mixer_entrypoint(json.dumps({"streams": [stream], "processes": 1, "work_dir": folders}))
    lines = [line for file in (tmp_path / "kept").iterdir() for line in file.read_text(encoding="utf-8").splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == kept


@pytest.mark.parametrize("method", ["both", "simhash", "minhash"])
def test_datasets_keep_what_simflip_keeps(texts, method):
    datasets = pytest.importorskip("datasets")
    from datasets_map import add_sketch, without_duplicates

    given = datasets.Dataset.from_dict({"text": texts, "n": list(range(len(texts)))})
    sketched = given.with_format("arrow").map(add_sketch, batched=True, batch_size=64, fn_kwargs={"method": method})
    kept = without_duplicates(sketched.with_format(None), method=method)
    assert kept.column_names == ["text", "n"]
    assert kept["n"][:] == simflip.dedup(texts, method=method).kept.tolist()


@pytest.fixture
def site(tmp_path):
    """A site of some documents, two of which are nearly the same and two the same."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    folder = tmp_path / "site"
    folder.mkdir()
    words = {name: " ".join(f"{name}{word}" for word in range(200)) for name in "abc"}
    documents = {**words, "a2": words["a"] + " today", "b2": words["b"]}
    for name, text in documents.items():
        (folder / f"{name}.html").write_text(f"<body><p>{text}</p></body>")
    links = "".join(f'<a href="{name}.html">document</a>' for name in documents)
    (folder / "index.html").write_text(f"<body><h1>Contents of this site</h1>{links}</body>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_scrapy_drops_what_was_seen(site, tmp_path):
    pytest.importorskip("scrapy")
    example = Path(__file__).parent.parent / "examples" / "scrapy_seen.py"

    def crawl(out):
        # Its reactor cannot be started again.
        typed = [sys.executable, str(example), site, str(tmp_path / "index"), str(out)]
        done = subprocess.run(typed, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        items = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        return done.stdout.strip(), items

    told, items = crawl(tmp_path / "first.jsonl")
    assert told == "{'new': 4, 'near': 1, 'same': 1, 'stale': 0}"
    # Which of two comes first is the network's to say.
    names = sorted(item["url"].removeprefix(site).removesuffix(".html")[:1] for item in items)
    assert names == ["", "a", "b", "c"]
    assert all(item["seen"]["answer"] == "new" and item["seen"]["page"] == item["url"] for item in items)
    with simflip.Seen(tmp_path / "index", read_only=True) as seen:
        # A document with the text of another is not stored again.
        assert len(seen) == 5
    told, items = crawl(tmp_path / "second.jsonl")
    assert (told, items) == ("{'new': 0, 'near': 0, 'same': 6, 'stale': 0}", [])
