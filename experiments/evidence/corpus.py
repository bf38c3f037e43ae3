"""Texts, their words and shingles, and the two forms that documents come in: JSONL and WET."""

import gzip
import json
import re

# Every Han or kana character is a word; of other scripts a maximal run of letters and digits is one.
_CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")


def words(text):
    """The words of a text, lower-cased, in order."""
    return _WORD.findall(text.lower())


def pieces(text):
    """The words of a text as they are written, each with what stands before the next one."""
    starts = [found.start() for found in _WORD.finditer(text)]
    return [" ".join(text[begin:end].split()) for begin, end in zip(starts, [*starts[1:], len(text)])]


def shingles(text, width):
    """The set of word n-grams of a text; a text of fewer words is one shingle, an empty one none."""
    found = words(text)
    if len(found) < width:
        return {tuple(found)} if found else set()
    return set(zip(*(found[i:] for i in range(width))))


def jaccard(a, b):
    """Jaccard coefficient of two sets; 0 if both are empty."""
    common = len(a & b)
    total = len(a) + len(b) - common
    return common / total if total else 0.0


def containment(a, b):
    """Share of the smaller set that the other holds too; 0 if one is empty."""
    smaller = min(len(a), len(b))
    return len(a & b) / smaller if smaller else 0.0


def opened(path):
    """A file opened for reading bytes, unpacked if it is gzip."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else open(path, "rb")


def read_wet(path):
    """Yields (id, url, text) of the conversion records of a WET file."""
    with opened(path) as file:
        while True:
            line = file.readline()
            if not line:
                return
            if not line.startswith(b"WARC/"):
                continue
            header = {}
            while line := file.readline().strip():
                name, _, value = line.decode("utf-8", "replace").partition(":")
                header[name.strip().lower()] = value.strip()
            body = file.read(int(header.get("content-length", 0)))
            if header.get("warc-type") == "conversion":
                yield header.get("warc-record-id", ""), header.get("warc-target-uri", ""), body.decode(
                    "utf-8", "replace"
                )


def read_jsonl(path):
    """Yields (id, url, text) of the lines of a JSONL file."""
    with opened(path) as file:
        for line in file:
            if line.strip():
                row = json.loads(line)
                yield row["id"], row.get("url", ""), row["text"]


def read(path):
    """Yields (id, url, text) of a WET file or a JSONL file, told apart by the name."""
    return read_wet(path) if ".wet" in str(path) or ".warc" in str(path) else read_jsonl(path)


def write_jsonl(path, rows):
    """Writes (id, url, text, further fields) rows as JSONL; returns how many."""
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for name, url, text, *more in rows:
            row = {"id": name, "url": url, "text": text, **(more[0] if more else {})}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
