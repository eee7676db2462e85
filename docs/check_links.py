"""Check the links between built pages: every file and every anchor has to be there.

Run it on the folder of the pages: ``python docs/check_links.py build/docs``.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """Links out of a page, and the anchors in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the tag links to and what it is called."""
        for key, value in attrs:
            if value and key in ("href", "src"):
                self.links.append(value)
            if value and key in ("id", "name"):
                self.anchors.add(value)


def dead_links(root: Path) -> list[str]:
    """One line for each link inside ``root`` that leads nowhere."""
    files = sorted(root.rglob("*.html"))
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    dead = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            name, anchor = urldefrag(link)
            target = (path.parent / unquote(name).partition("?")[0]).resolve() if name else path
            if not target.exists():
                dead.append(f"{path.relative_to(root)}: no file {name}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                dead.append(f"{path.relative_to(root)}: no anchor {link}")
    return dead


def main(root: Path) -> int:
    """Print dead links; the exit code says whether there are any."""
    root = root.resolve()
    dead = dead_links(root)
    print(*dead, sep="\n", end="\n" if dead else "")
    pages = len(list(root.rglob("*.html")))
    print(f"links: {pages} pages, {len(dead)} dead links")
    return 1 if dead or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
