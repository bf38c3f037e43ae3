"""The public items of a crate, as `cargo doc` shows them: `docs/api.py CRATE [--write]`.

Reads `target/doc`, which `cargo doc --no-deps` makes, and compares its items with the crate's `public-api.txt`; with
`--write` that file is replaced. Hidden items are not in it, nor are implementations of traits. Every type must stand in
an example of the documentation.
"""

import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTINGS = {"simflip_core": ROOT / "core/public-api.txt", "simflip": ROOT / "public-api.txt"}
KINDS = ("struct", "enum", "union", "trait", "type", "fn", "constant", "static", "macro")
# The declaration of an item; that of a method or of a constant of a type.
DECLARATION = re.compile(r'<pre class="rust item-decl"><code>(.*?)</code></pre>', re.DOTALL)
MEMBER = re.compile(r'<section id="(?:method|associatedconstant)\.[^"]*".*?<h4 class="code-header">(.*?)</h4>', re.DOTALL)
EXAMPLE = re.compile(r'<pre class="rust rust-example-rendered"><code>(.*?)</code></pre>', re.DOTALL)


def plain(markup):
    """The text of a piece of a page, without what folds long lists."""
    markup = re.sub(r"<summary\b.*?</summary>", "", markup, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).replace("\xa0", " ")


def items(crate):
    """Each item's path, its declaration and those of its members, and the code of all examples."""
    found, examples = {}, []
    folder = ROOT / "target/doc" / crate
    pages = re.findall(r'<a href="([^"#]+\.html)">', (folder / "all.html").read_text()) if folder.exists() else []
    pages = [folder / page for page in pages if page.rpartition("/")[2].partition(".")[0] in KINDS]
    # The pages of modules have examples alone.
    modules = {above / "index.html" for page in pages for above in page.parents if above.is_relative_to(folder)}
    for page in sorted({*pages, *modules}):
        # What is behind is not the type's own.
        text = re.split(r'<h2 id="(?:trait|synthetic|blanket|deref)[^"]*implementations', page.read_text())[0]
        examples += [plain(code) for code in EXAMPLE.findall(text)]
        if page in modules:
            continue
        path = "::".join([*page.relative_to(folder).parts[:-1], page.stem.partition(".")[2]])
        behind = text.partition('<h2 id="implementations"')[2]
        members = [" ".join(plain(member).split()) for member in MEMBER.findall(behind)]
        found[path] = plain(DECLARATION.search(text)[1]), members
    if not found:
        raise SystemExit(f"{folder}: no documentation; run `cargo doc --workspace --no-deps` first")
    return found, examples


def listing(found):
    """The text of the listing: a line for each item and member, under the number of both."""
    lines, count = [], 0
    for path, (declaration, members) in found.items():
        lines += ["", f"# {path}", *(line.rstrip() for line in declaration.splitlines() if line.strip()), *members]
        count += 1 + len(members) + len(re.findall(r"^\s+(?:async )?fn ", declaration, re.MULTILINE))
    return "\n".join([f"{count} public types, functions, methods and constants, without fields and variants.", *lines, ""])


def main():
    crate = sys.argv[1]
    found, examples = items(crate)
    words = set(re.findall(r"\w+", "\n".join(examples)))
    # Examples use public items alone; those of the core have its own listing.
    used = " ".join(re.findall(rf"use {crate}::(?!core::)[^;]*;", "\n".join(examples)))
    hidden = set(re.findall(r"\b[A-Z]\w*", used)) - {path.rsplit("::")[-1] for path in found}
    if hidden:
        raise SystemExit(f"examples use hidden items: {', '.join(sorted(hidden))}")
    types = [path for path, (declaration, _) in found.items() if re.search(r"\b(struct|enum|trait) ", declaration)]
    without = [path for path in types if path.rsplit("::")[-1] not in words]
    now, file = listing(found), LISTINGS[crate]
    print(f"{crate}: {now.splitlines()[0]}")
    if without and crate == "simflip_core":
        raise SystemExit(f"no example shows {', '.join(without)}")
    if sys.argv[2:] == ["--write"]:
        file.write_text(now)
    elif not file.exists() or file.read_text() != now:
        raise SystemExit(f"{file} is not what the documentation shows: `python3 docs/api.py {crate} --write`")


main()
