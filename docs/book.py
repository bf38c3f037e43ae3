"""What `mdbook build` needs besides the pages: links that leave docs/, and a check of the site.

As a preprocessor (no arguments) it reads the book as JSON. A figure outside docs/ goes into the page itself. A link to a
page of the guide by its path in the repository leads to that page of the site. Another link out of docs/ becomes the path
of the file, in code, or a link where `git-repository-url` in book.toml says where the repository is.

`book.py check FOLDER` fails if a link of the site leads nowhere.

`book.py package README [REPOSITORY]` prints a README for the page of a package, which has no other file of the repository:
links lead to the repository, or become the paths of files where its address is not given.
"""

import base64
import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
# Chapters that include pages of other folders.
INCLUDED = {"python.md": ROOT / "python/README.md"}
# A link, or code, in which none is looked for.
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)|```.*?```|`[^`\n]+`", re.DOTALL)


def rewritten(text, source, repository, is_site=True):
    """The text of a file, its links as the site has them, or as the page of a package."""

    def link(found):
        image, shown, target = found.groups()
        if target is None:
            return found[0]
        path, _, anchor = target.partition("#")
        if not path or urlsplit(target).scheme:
            return found[0]
        file = Path(os.path.normpath(source.parent / path))
        if not file.exists():
            raise SystemExit(f"{source.relative_to(ROOT)}: {target} leads nowhere")
        if image and is_site:
            kind = "svg+xml" if file.suffix == ".svg" else file.suffix[1:]
            return f"![{shown}](data:image/{kind};base64,{base64.b64encode(file.read_bytes()).decode()})"
        page = next((name for name, included in INCLUDED.items() if included == file), file.name)
        if is_site and (page != file.name or file.parent == ROOT / "docs"):
            return f"[{shown}]({page}{'#' + anchor if anchor else ''})"
        place = file.relative_to(ROOT).as_posix()
        if repository:
            kind = "raw" if image else "blob"
            return f"{image}[{shown}]({repository}/{kind}/main/{place}{'#' + anchor if anchor else ''})"
        return shown if place in shown else f"{shown} (`{place}`)"

    return LINK.sub(link, text)


def preprocess():
    context, book = json.load(sys.stdin)
    repository = context["config"].get("output", {}).get("html", {}).get("git-repository-url")

    def each(items):
        for item in items:
            chapter = item.get("Chapter") if isinstance(item, dict) else None
            if chapter:
                source = INCLUDED.get(chapter["path"], ROOT / "docs" / chapter["path"])
                chapter["content"] = rewritten(chapter["content"], source, repository)
                each(chapter["sub_items"])

    each(book.get("items") or book["sections"])
    json.dump(book, sys.stdout)


class Page(HTMLParser):
    """The ids and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


def check(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in Path(site).rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name in ("404.html", "toc.html"):
                continue
            to = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if not to.exists() or (parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    if broken or not pages:
        raise SystemExit("\n".join(["links that lead nowhere:", *sorted(broken)]))
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links")


if __name__ == "__main__":
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0)
    if sys.argv[1:2] == ["check"]:
        check(sys.argv[2])
    elif sys.argv[1:2] == ["package"]:
        source = Path(sys.argv[2]).resolve()
        text = rewritten(source.read_text(encoding="utf-8"), source, *sys.argv[3:4] or [None], is_site=False)
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(text)
    else:
        preprocess()
