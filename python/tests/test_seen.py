"""The index of seen pages; the command line as the oracle."""

import json
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import simflip
import pytest
from conftest import drawn

AT = "2026-11-01T12:00:00Z"


def run(*arguments, stdin=None, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "simflip", "seen", *map(str, arguments)], input=stdin, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done


def lines(texts, ids):
    return "".join(json.dumps({"url": url, "text": text}) + "\n" for url, text in zip(ids, texts, strict=True))


def as_printed(answer):
    """An answer as ``simflip seen --json`` prints it, which leaves out what is False."""
    fields = answer._asdict()
    return {name: value for name, value in fields.items() if name not in ["at_least", "again"] or value}


def names(texts):
    return [f"https://example.org/{row}" for row in range(len(texts))]


@pytest.mark.parametrize(
    ("keywords", "typed"),
    [
        ({}, []),
        (
            {"similarity": 0.6, "features": "words", "fresh": "1h"},
            ["--similarity=0.6", "--features=words", "--fresh=1h"],
        ),
        ({"method": "simhash", "distance": 6, "recall": 0.9}, ["--method=simhash", "--distance=6", "--recall=0.9"]),
    ],
    ids=["both", "fresh", "simhash"],
)
def test_answers_are_those_of_the_command_line(texts, tmp_path, keywords, typed):
    ids = names(texts)
    half = len(texts) // 2
    printed, answers = [], []
    with simflip.Seen(tmp_path / "ours", **keywords) as seen:
        for part, at in [(slice(0, half), AT), (slice(half, None), "2026-11-02")]:
            typed_now = ["--index", tmp_path / "theirs", "--json", "--seen-at", at, *typed, "-"]
            out = run(*typed_now, stdin=lines(texts[part], ids[part]))
            printed += [json.loads(line) for line in out.stdout.splitlines()]
            answers += seen.check_and_add(texts[part], ids[part], seen_at=at)
        assert len(seen) == len(set(texts))
    assert [as_printed(answer) for answer in answers] == printed
    words = {answer.answer for answer in answers}
    assert words == ({"new", "near", "same", "stale"} if "fresh" in keywords else {"new", "near", "same"})
    # Each asks the other's index.
    again = run("--index", tmp_path / "ours", "--read-only", "--json", "--seen-at", AT, "-", stdin=lines(texts, ids))
    with simflip.Seen(tmp_path / "theirs", read_only=True) as theirs:
        asked = theirs.check(texts, ids, seen_at=AT)
    assert [as_printed(answer) for answer in asked] == [json.loads(line) for line in again.stdout.splitlines()]


def test_one_by_one_and_all_at_once_are_the_same(texts, tmp_path):
    ids = names(texts)
    with simflip.Seen(tmp_path / "many") as many, simflip.Seen(tmp_path / "one") as one:
        answers = [one.check_and_add(text, url, seen_at=AT) for text, url in zip(texts, ids, strict=True)]
        assert many.check_and_add(texts, ids, seen_at=AT) == answers
        # What is asked alone is not stored, and needs no name.
        asked = one.check(texts[0] + " and some more")
        assert (asked.page, asked.answer, asked.earlier) == ("", "near", ids[0]) or len(texts[0].split()) < 10
        assert len(one) == len(many) == len(set(texts))


def test_tables_and_mappings(texts, tmp_path):
    pa = pytest.importorskip("pyarrow")
    given = [None if row % 7 == 3 else text for row, text in enumerate(texts)]
    ids = names(texts)
    expected = None
    table = pa.table({"url": ids, "body": given})
    for kind, data, url in [
        ("list", given, ids),
        ("table", table, "url"),
        ("columns", table["body"], table["url"]),
        ("mapping", {"url": ids, "body": given}, "url"),
    ]:
        with simflip.Seen(tmp_path / kind) as seen:
            answers = seen.check_and_add(data, url, column="body", seen_at=AT)
        expected = expected or answers
        assert answers == expected, kind
    assert [answer is None for answer in expected] == [text is None for text in given]


def test_adding_asks_nothing_and_removing_forgets(tmp_path):
    texts = [" ".join(f"p{page}w{word}" for word in range(50)) for page in range(4)]
    ids = names(texts)
    with simflip.Seen(tmp_path / "i") as seen:
        assert seen.add(texts[:2], ids[:2], seen_at="2026-01-01") is None
        seen.add(texts[2], ids[2], seen_at=datetime(2026, 6, 1, tzinfo=timezone.utc))
        answer = seen.check(texts[2], "other")
        assert (answer.answer, answer.earlier, answer.last_seen) == ("same", ids[2], "2026-06-01T00:00:00.000Z")
        assert seen.remove(ids[0]) == 1
        assert seen.remove([ids[0], "no such page"]) == 0
        assert seen.check(texts[0]).answer == "new"
        assert seen.expire(timedelta(days=90), seen_at="2026-06-02") == 1
        assert seen.expire("1d", seen_at="2026-06-02") == 0
        assert [seen.check(text).answer for text in texts] == ["new", "new", "same", "new"]
    traces = b"".join(path.read_bytes() for path in (tmp_path / "i").iterdir())
    assert ids[2].encode() in traces and ids[0].encode() not in traces and ids[1].encode() not in traces


def test_requests_that_were_answered_are_answered_again(tmp_path):
    text = " ".join(f"w{word}" for word in range(50))
    with simflip.Seen(tmp_path / "i") as seen:
        first = seen.check_and_add([text, text], ["a", "b"], requests=["1", "2"])
        assert [answer.answer for answer in first] == ["new", "same"]
    with simflip.Seen(tmp_path / "i") as seen:
        again = seen.check_and_add([text, text], ["a", "b"], requests=["1", "2"])
        assert [(answer.answer, answer.again) for answer in again] == [("new", True), ("same", True)]
        assert not seen.check_and_add(text, "a", requests="3").again


CRAWLER = """
import sys, simflip
seen = simflip.Seen(sys.argv[1])
seen.check_and_add([f"page {row} " * 20 for row in range(100)], [str(row) for row in range(100)])
seen.check_and_add("the last page " * 20, "last")
print("told", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_crawler_forgets_nothing_and_its_last_answer_is_in_doubt(tmp_path):
    index = tmp_path / "i"
    crawler = subprocess.Popen(
        [sys.executable, "-c", CRAWLER, str(index)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert crawler.stdout.readline() == "told\n"
    # A second writer is refused while the first one lives, as on the command line.
    with pytest.raises(ValueError, match="that no other process writes to") as refused:
        simflip.Seen(index)
    told = run("--index", index, "--remove", "x", code=2).stderr.removeprefix("simflip: ").rstrip()
    assert str(refused.value) == simflip._simflip.as_keywords(told)
    with simflip.Seen(index, read_only=True) as beside:
        assert beside.check("page 5 " * 20).answer == "same"
        with pytest.raises(ValueError, match="open to write"):
            beside.add("a page", "x")
    crawler.kill()
    crawler.wait()
    crawler.stdin.close()
    crawler.stdout.close()
    with simflip.Seen(index) as seen:
        assert len(seen) == 101
        assert seen.check_and_add("page 5 " * 20, "5").answer == "same"
        answer = seen.check_and_add("the last page " * 20, "last")
        assert (answer.answer, answer.again) == ("new", True)
        answer = seen.check_and_add("the last page " * 20, "last")
        assert (answer.answer, answer.again) == ("same", False)


def test_what_was_not_acted_upon_stays_in_doubt(tmp_path):
    with pytest.raises(RuntimeError), simflip.Seen(tmp_path / "i") as seen:
        seen.check_and_add("a page of words", "a")
        seen.check_and_add("another page of words", "b")
        raise RuntimeError
    with simflip.Seen(tmp_path / "i") as seen:
        answers = seen.check_and_add(["a page of words", "another page of words"], ["a", "b"])
        assert [(answer.answer, answer.again) for answer in answers] == [("same", False), ("new", True)]


def test_an_interrupted_call_stores_nothing(tmp_path):
    texts = [" ".join(f"p{page}w{word}" for word in range(200)) for page in range(20_000)]

    def stop(*_):
        raise KeyboardInterrupt

    with simflip.Seen(tmp_path / "i") as seen:
        seen.add("the first page of words", "first")
        with pytest.raises(KeyboardInterrupt):
            seen.check_and_add(texts, names(texts), progress=stop)
        assert len(seen) == 1
        assert seen.check_and_add(texts[:2], names(texts)[:2])[0].answer == "new"
    with simflip.Seen(tmp_path / "i", read_only=True) as seen:
        assert len(seen) == 3


def test_threads_share_an_index(tmp_path):
    texts = drawn(200, seed=3)
    ids = names(texts)
    answers = {}
    with simflip.Seen(tmp_path / "i") as seen:

        def work(part):
            for row in range(part, len(texts), 4):
                answers[row] = seen.check_and_add(texts[row], ids[row])

        threads = [threading.Thread(target=work, args=[part]) for part in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(seen) == len(set(texts))
    assert sum(answer.answer != "same" for answer in answers.values()) == len(set(texts))


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match='distance applies to SimHash only'):
        simflip.Seen(tmp_path / "i", distance=3)
    with pytest.raises(ValueError, match="there is no such index"):
        simflip.Seen(tmp_path / "i", read_only=True)
    with simflip.Seen(tmp_path / "i") as seen:
        with pytest.raises(ValueError, match="ids 1: expected as many as texts, 2"):
            seen.add(["a", "b"], ["1"])
        with pytest.raises(ValueError, match="text 1 has no id"):
            seen.add(["a", "b"], ["1", None])
        with pytest.raises(TypeError, match="not a str"):
            seen.add(["a", "b"], "url")
        with pytest.raises(TypeError, match="a str, not list"):
            seen.add("a", ["1"])
        with pytest.raises(ValueError, match="sometime"):
            seen.check("a", seen_at="sometime")
        with pytest.raises(ValueError, match="1 fortnight"):
            seen.expire("1 fortnight")
        assert len(seen) == 0
    for use in [lambda: seen.check("a"), lambda: seen.add("a", "b"), lambda: seen.remove("a"), lambda: len(seen)]:
        with pytest.raises(ValueError, match="the index is closed"):
            use()
    seen.close()
    with pytest.raises(ValueError, match="the kind of features is"):
        simflip.Seen(tmp_path / "i", features="words")
    with pytest.raises(OSError), (tmp_path / "file").open("w") as file:
        file.write("no index")
        simflip.Seen(tmp_path / "file" / "i")
