#!/usr/bin/env python3
"""What mdBook does not do for the site of the documents.

    scripts/site.py links           a preprocessor of mdBook: links to files outside of docs/ lead into the site
    scripts/site.py complete DIR    copies these files into the built site, and exits with 1 if a link in it is broken

Files outside of docs/ are shown as text below tree/. ARCHITECTURE.md is a part of the page explanation/architecture.md.
"""
import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
PAGES = "docs"
INCLUDED = {"ARCHITECTURE.md": "docs/explanation/architecture.md"}
CODE = re.compile(r"(^[ ]*```.*?^[ ]*```|(?P<marks>`+)(?:(?!\n\n).)+?(?P=marks))", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def shown(path):
    """Where a file of the tree is in the site. mdBook takes every name with `.md` in it for a page."""
    return f"tree/{path.removesuffix('.md')}.txt"


def target(folder, path):
    """What a link to `path` in a page of `folder` becomes; both are relative to the root or to the page."""
    at = os.path.normpath(os.path.join(PAGES, folder, path))
    if not (ROOT / at).exists() and (ROOT / path).exists():
        at = os.path.normpath(path)  # of a file in the root that the page includes
    at = INCLUDED.get(at, at)
    if (ROOT / at / "README.md").is_file():
        at += "/README.md"
    if at.startswith(PAGES + "/"):
        inside = re.sub(r"README\.md$", "index.md", os.path.relpath(at, PAGES))
    else:
        inside = f"tree/{at}/index.html" if (ROOT / at).is_dir() else shown(at)
    return os.path.relpath(inside, folder or ".")


def relinked(text, folder):
    """`text` with links that lead to files of the site."""

    def one(link):
        mark, path, rest = link.groups()
        if ":" in path:
            return link[0]
        to = target(folder, path)
        return mark + to + (")" if "tree/" in to else rest)

    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(one, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(one, text[end:])])


def preprocess(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter and chapter["path"]:
            chapter["content"] = relinked(chapter["content"], os.path.dirname(chapter["path"]))
            preprocess(chapter["sub_items"])


class Page(HTMLParser):
    """Links and anchors of a built page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.anchors |= {named[name] for name in ("id", "name") if named.get(name)}
        self.links += [named[name] for name in ("href", "src") if named.get(name)]


def show(site, path):
    """Puts a file or a folder of the tree into the site."""
    if (ROOT / path).is_file():
        to = site / shown(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes((ROOT / path).read_bytes())
        return
    listed = subprocess.run(["git", "ls-files", "--", path], cwd=ROOT, capture_output=True, text=True, check=True)
    names = listed.stdout.splitlines()
    for name in names:
        show(site, name)
    places = [os.path.relpath(shown(name), f"tree/{path}") for name in names]
    lines = [f'<li><a href="{html.escape(to)}">{html.escape(name)}</a>' for to, name in zip(places, names)]
    page = f"<!DOCTYPE html>\n<meta charset=utf-8>\n<title>{html.escape(path)}</title>\n<ul>\n" + "\n".join(lines) + "\n</ul>\n"
    (site / "tree" / path / "index.html").write_text(page)


def complete(site):
    """Copies what links need, and returns those that lead nowhere."""
    pages = {page: Page(page.read_text()) for page in site.rglob("*.html")}
    broken = []
    for page, parsed in pages.items():
        for link in parsed.links:
            path, _, anchor = unquote(link).partition("#")
            if ":" in path or path.startswith("//"):
                continue
            to = Path(os.path.normpath(page.parent / path)) if path else page
            if to.is_dir():
                to /= "index.html"
            if not to.exists() and to.is_relative_to(site / "tree"):
                wanted = re.sub(r"(\.txt|/index\.html)$", "", str(to.relative_to(site / "tree")))
                for source in [wanted, f"{wanted}.md"]:
                    if (ROOT / source).exists():
                        show(site, source)
            if not to.exists() or (anchor and to in pages and anchor not in pages[to].anchors):
                broken.append(f"{page.relative_to(site)}: {link}")
    if not list(site.glob("searchindex*")):
        broken.append("there is no index for search")
    return broken


if __name__ == "__main__":
    if sys.argv[1:3] == ["links", "supports"]:
        sys.exit(0)
    if sys.argv[1:] == ["links"]:
        _, book = json.load(sys.stdin)
        preprocess(book.get("items") or book.get("sections"))
        json.dump(book, sys.stdout)
    elif len(sys.argv) == 3 and sys.argv[1] == "complete":
        broken = complete(Path(sys.argv[2]).resolve())
        sys.exit("\n".join(["links of the site that lead nowhere:", *broken]) if broken else 0)
    else:
        sys.exit(__doc__)
