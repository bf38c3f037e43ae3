"""Sets of documents that are near-duplicates by their nature, and that no part of the tool was fitted to.

usage: heldout.py SET SOURCE OUT.jsonl

descriptions  descriptions of packages in two releases and four languages. SOURCE: the package lists that
              `apt-get update` brings (/var/lib/apt/lists, or a private state folder)
manuals       manual pages of two releases, without their roff. SOURCE: a folder of .deb files
sections      sections of the documentation of two versions of Linux. SOURCE: a folder of .deb files
licences      licences and rules of scancode-toolkit with their labels (CC-BY-4.0). SOURCE: its wheel
cjk           Chinese and Japanese: manual pages, and sections of documentation in HTML, of up to four
              releases. SOURCE: a folder of .deb files

README.md names packages and versions. truth.py makes the truth. Texts of a set are all different.
"""

import argparse
import glob
import gzip
import hashlib
import html
import os
import re
import subprocess
import tarfile
import zipfile

import corpus

MOST = 16000


def number(text):
    return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)


def thinned(rows, most, each):
    """At most so many rows of different texts, and so many of a family; a family stays or goes as a whole."""
    families, texts = {}, set()
    for row in rows:
        if row[2] not in texts:
            texts.add(row[2])
            families.setdefault(row[3]["family"], []).append(row)
    kept, total = set(), 0
    for family in sorted(families, key=lambda family: (number(family), family)):
        chosen = sorted(families[family], key=lambda row: (number(row[0]), row[0]))[:each]
        if total + len(chosen) <= most:
            kept.update(row[0] for row in chosen)
            total += len(chosen)
    return [row for found in families.values() for row in found if row[0] in kept]


def descriptions(state):
    """One document per package, release and language. A hash of the first letters keeps an eighth of the
    names, and leaves out those that the development set of the same kind was made of."""
    for release, languages in (("bullseye", ("en", "fr")), ("sid", ("en", "it", "zh_CN"))):
        for language in languages:
            name = f"*_dists_{release}_main_i18n_Translation-{language.replace('_', '%5f')}"
            for path in sorted(glob.glob(os.path.join(glob.escape(state), name))):
                seen = set()
                with open(path, encoding="utf-8", errors="replace") as file:
                    stanzas = file.read().split("\n\n")
                for stanza in stanzas:
                    package = re.search(r"^Package: (\S+)$", stanza, re.M)
                    found = re.search(rf"^Description-{language}: (.*(?:\n .*)*)", stanza, re.M)
                    if not package or not found or package[1] in seen:
                        continue
                    if number("heldout" + package[1][:5]) % 8 or number("a" + package[1][:5]) % 8 == 0:
                        continue
                    seen.add(package[1])
                    lines = [line.strip() for line in found[1].split("\n")]
                    text = "\n".join(line for line in lines if line and line != ".")
                    url = f"https://{release}.packages.example/{language}/{package[1]}"
                    yield url, url, text, {"family": package[1][:5]}


def members(path, wanted):
    """Yields (name, bytes) of the files of a .deb whose name matches, links left out."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                name = member.name.lstrip("./")
                if member.isfile() and re.search(wanted, name):
                    data = archive.extractfile(member).read()
                    yield name, gzip.decompress(data) if name.endswith(".gz") else data
        process.stdout.close()


def packages(folder):
    """(package, version, path) of every .deb of a folder."""
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.deb"))):
        package, version, _ = os.path.basename(path)[:-4].split("_")
        yield package, version.replace("%3a", ":"), path


_ESCAPES = [
    (re.compile(r"\\f(\[[^\]]*\]|\(..|.)"), ""),
    (re.compile(r"\\[sS][-+]?(\d+|\(\d\d|\[\d+\])?"), ""),
    (re.compile(r"\\m\[[^\]]*\]"), ""),
    (re.compile(r"\\\((co|CO)|\\\[co\]"), "(c)"),
    (re.compile(r"\\\((em|en|hy)|\\\[(em|en|hy)\]|\\-"), "-"),
    (re.compile(r"\\\((aq|cq|oq|dq|lq|rq)|\\\[(aq|cq|oq|dq|lq|rq)\]"), "'"),
    (re.compile(r"\\\[u([0-9A-F]{4,5})\]"), lambda found: chr(int(found[1], 16))),
    (re.compile(r"\\\((bu|..)|\\\[[^\]]*\]|\\\*(\[[^\]]*\]|\(..|.)|\\[&|^/,)c:%]"), ""),
    (re.compile(r"\\[hvwzko]'[^']*'"), ""),
    (re.compile(r"\\e"), r"\\"),
    (re.compile(r"\\([ ~0])"), " "),
]


def unroffed(source):
    """The words of a roff page, line by line: requests and escapes go, what macros print stays."""
    lines, skipped = [], False
    for line in source.split("\n"):
        if skipped:
            skipped = not line.startswith("..")
            continue
        if re.match(r"[.']\s*(de|ig|am)\b", line):
            skipped = True
            continue
        if re.match(r"[.']", line):
            macro, _, rest = line[1:].strip().partition(" ")
            if not re.fullmatch(
                r"S[HSMB]|[BIR]|[BIR][BIR]|T[HP]|IP|M[TR]|UR|Dd|Dt|Os|Sh|Ss|[A-Z][a-z]", macro
            ):
                continue
            line = rest.replace('"', " ")
        else:
            line = re.sub(r'\\".*', "", line)
        for pattern, instead in _ESCAPES:
            line = pattern.sub(instead, line)
        line = " ".join(line.split())
        if line:
            lines.append(line)
    return "\n".join(lines)


def manuals(folder):
    for package, version, path in packages(folder):
        if package.startswith("linux-doc"):
            continue
        for name, data in members(path, r"^usr/share/man/.*\.[0-9][a-z]*\.gz$"):
            try:
                source = data.decode("utf-8")
            except UnicodeDecodeError:
                source = data.decode("latin-1")
            text = unroffed(source)
            if len(corpus.words(text)) >= 20:
                page = name.removeprefix("usr/share/man/").removesuffix(".gz")
                url = f"https://{package}.manuals.example/{version}/{page}"
                # Sub-sections such as 3 and 3ssl hold the same page in different releases.
                family = package + "/" + re.sub(r"\.(\d)[a-z]*$", r".\1", page)
                yield url, url, text, {"family": family}


def parts(source):
    """(title, text) of the sections of a reStructuredText page: a title stands over a line of one sign."""
    lines = source.split("\n")
    starts = [
        at
        for at in range(1, len(lines))
        if re.fullmatch(r"([=\-~^*+#\"'`.])\1{2,}", lines[at].rstrip())
        and lines[at - 1].strip()
        and not lines[at - 1].startswith((" ", "\t"))
        and abs(len(lines[at].rstrip()) - len(lines[at - 1].rstrip())) <= 3
        and re.search(r"\w", lines[at - 1])
    ]
    for at, start in enumerate(starts):
        end = starts[at + 1] - 1 if at + 1 < len(starts) else len(lines)
        text = "\n".join(line.strip() for line in lines[start - 1 : end] if re.search(r"\w", line))
        yield lines[start - 1].strip(), text


def sections(folder):
    for package, version, path in packages(folder):
        if not package.startswith("linux-doc"):
            continue
        for name, data in members(path, r"\.(rst|txt)(\.gz)?$"):
            page = re.sub(r"^usr/share/doc/linux-doc(-[\d.]+)?/", "", name).removesuffix(".gz")
            count = {}
            for title, text in parts(data.decode("utf-8", "replace")):
                count[title] = count.get(title, 0) + 1
                anchor = f"{title} {count[title]}" if count[title] > 1 else title
                if len(corpus.words(text)) >= 20:
                    url = f"https://kernel.example/{version}/{page}#{anchor.replace(' ', '-')}"
                    yield url, url, text, {"family": page}


HEADING = re.compile(r"<h[1-6]\b", re.I)
TAGS = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.I | re.S)
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def cjk(folder):
    for url, _, text, more in manuals(folder):
        if 4 * len(CJK.findall(text)) >= len(text):
            yield url, url, text, more
    for package, version, path in packages(folder):
        for name, data in members(path, r"\.html(\.gz)?$"):
            page = name.removesuffix(".gz")
            whole = data.decode("utf-8", "replace")
            starts = [0, *(found.start() for found in HEADING.finditer(whole)), len(whole)]
            for at, (start, end) in enumerate(zip(starts, starts[1:])):
                text = html.unescape(TAGS.sub("\n", whole[start:end]))
                text = "\n".join(line.strip() for line in text.split("\n") if line.strip())
                if 4 * len(CJK.findall(text)) >= len(text) and len(corpus.words(text)) >= 20:
                    url = f"https://{package}.cjk.example/{version}/{page}#{at}"
                    yield url, url, text, {"family": f"{package}/{page}"}


def front(source):
    """(fields, text) of a file of scancode-toolkit: simple fields between two lines of ---, then the text."""
    _, head, text = re.split(r"^---\s*$", source, maxsplit=2, flags=re.M)
    return dict(re.findall(r"^(\w+): *(.*)$", head, re.M)), text.strip()


def licences(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if not re.fullmatch(r"licensedcode/data/(licenses/.*\.LICENSE|rules/.*\.RULE)", name):
                continue
            fields, text = front(archive.read(name).decode("utf-8"))
            text = text.replace("{{", "").replace("}}", "")
            if len(corpus.words(text)) < 50 or fields.get("is_false_positive") == "yes":
                continue
            short = name.removeprefix("licensedcode/data/")
            label = fields.get("license_expression") or fields["key"]
            kind = (
                "text"
                if short.startswith("licenses/") or fields.get("is_license_text") == "yes"
                else "notice"
            )
            if not short.startswith("licenses/") and fields.get("is_license_text") != "yes":
                kind = "notice" if fields.get("is_license_notice") == "yes" else "other"
            more = {
                "family": label,
                "label": label,
                "kind": kind,
                "deprecated": fields.get("is_deprecated") == "yes",
            }
            yield short, f"https://licences.example/{short}", text, more


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("set", choices=["descriptions", "manuals", "sections", "licences", "cjk"])
    arguments.add_argument("source")
    arguments.add_argument("out")
    arguments.add_argument("--most", type=int, default=MOST, help="documents at most")
    arguments.add_argument("--each", type=int, default=40, help="documents of one family at most")
    given = arguments.parse_args()
    rows = thinned(globals()[given.set](given.source), given.most, given.each)
    print(f"{given.out}: {corpus.write_jsonl(given.out, rows)} documents")


if __name__ == "__main__":
    main()
