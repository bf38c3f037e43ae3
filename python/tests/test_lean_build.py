"""The command line without the features html and serve, which says what it lacks. CI builds the package so."""

import json
import subprocess
import sys

import pytest


def run(folder, *arguments):
    command = [sys.executable, "-m", "simflip", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


IS_LEAN = "with the feature serve" in run(".", "--help").stdout
pytestmark = pytest.mark.skipif(not IS_LEAN, reason="this build has all features")


def words(document):
    return " ".join(f"word{document}x{at}" for at in range(40))


def record(kind, url, content, content_type="text/plain"):
    head = [
        "WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: {url}", f"Content-Type: {content_type}",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join(head) + f"\r\n\r\n{content}\r\n\r\n"


def test_documents_as_a_server_sent_them_are_not_passed_over_in_silence(tmp_path):
    page = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{words(9)}"
    response = record("response", "https://pier.example/9", page, "application/http; msgtype=response")
    kept = [record("conversion", f"https://pier.example/{at}", words(at)) for at in range(2)]
    # A resource is its text, unless it is of another type, or a note of wget's.
    plain = record("resource", "ftp://pier.example/a.txt", words(3), "text/plain; charset=utf-8")
    others = [
        record("resource", "ftp://pier.example/a.html", "<p>" + words(4), "text/html"),
        record("resource", "metadata://gnu.org/software/wget/warc/wget.log", words(5)),
    ]
    crawl = tmp_path / "in"
    crawl.mkdir()
    (crawl / "a.warc.wet").write_bytes("".join([*kept, plain, *others]).encode())
    (crawl / "b.warc").write_bytes((response * 3).encode())
    done = run(tmp_path, "dedup", "in", "--out", "out")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["corpus"]["documents"] == 3 and [file["unread"] for file in report["files"]] == [2, 3]
    told = "5 records of WARC hold a document as a server sent it"
    assert told in str(report["warnings"]) and told in done.stderr
    told = told.replace("5", "3")
    for command in ("dedup in/b.warc --out none", "decontaminate in/b.warc --against in/a.warc.wet --out none"):
        done = run(tmp_path, *command.split())
        assert done.returncode == 2 and f"there is no document. {told}" in done.stderr, done.stderr
    for command in ("seen --index i in/b.warc", "sketch in/b.warc --out sketches"):
        done = run(tmp_path, *command.split())
        assert done.returncode == 0 and told in done.stderr, done.stderr


def test_what_this_build_lacks_says_how_to_get_it(tmp_path):
    for command in (["serve", "--index", "i"], ["mcp"]):
        done = run(tmp_path, *command)
        assert done.returncode == 2 and "this build has not the feature serve; in a clone of the repository, cargo install" in done.stderr
    (tmp_path / "site").mkdir()
    (tmp_path / "site/a.html").write_text("<p>" + words(1))
    (tmp_path / "site/b.txt").write_text(words(2))
    done = run(tmp_path, "gather", "site", "--out", "site.jsonl")
    assert done.returncode == 1 and "with the feature `html` reads" in done.stderr, done.stderr
    assert done.stdout.startswith("1 document; 1 file could not be read")
