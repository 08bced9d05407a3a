"""python -m tools.site: builds the site strictly, and follows every link of what was built.

The pages of the scoreboards are made first, from their saved rows: `docs/validation/NAME.md` is not committed. The
build fails on a warning, and on a line of information that says more than which step runs: MkDocs reports a
link that it cannot follow as information only. Then each `href` and `src` of each page must lead to a file and, where
it names one, to an anchor.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
STEPS = re.compile(
    r"Cleaning site directory|Building documentation to directory|Converting notebook|Cache (miss|hit)|"
    r"Evicted stale cache|Copied jupyter file|Documentation built in|The following pages exist in the docs directory"
)
LOG = re.compile(r"^(INFO|WARNING|ERROR)\s+-\s+(.*)$", re.M)


class _Links(HTMLParser):
    """What a page links and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep targets and identifiers."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            elif value and name in ("id", "name"):
                self.anchors.add(value)


def board_pages() -> None:
    """Make a page a scoreboard below docs/validation."""
    from slipstick.experiments.scoring import scoreboard_catalog
    from slipstick.experiments.scoring.validation_pages import write_board_pages

    folder = ROOT / "docs" / "validation"
    write_board_pages(folder, {name: scoreboard_catalog.scoreboard(name) for name in scoreboard_catalog.scoreboards()})


def build(folder: Path) -> list[str]:
    """Build the site into a folder; lines of the log that tell of a fault."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    faults = [line for level, line in LOG.findall(done.stderr) if level != "INFO" or not STEPS.match(line)]
    return faults if done.returncode == 0 else [*faults, *done.stderr.strip().splitlines()[-1:]]


def dead_links(folder: Path) -> list[str]:
    """Links of built pages that lead nowhere: `page: link`. Addresses of other sites are not asked."""
    pages = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            lost = anchor and not anchor.startswith("__") and target in pages and anchor not in pages[target].anchors
            if not target.is_file() or lost:
                dead.append(f"{path.relative_to(folder.resolve())}: {link}")
    return sorted(set(dead))


def _read(path: Path) -> _Links:
    page = _Links()
    page.feed(path.read_text())
    return page


def main() -> int:
    """Build and follow; exit code 1 with one line for each fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "site", help="where the site goes")
    folder = parser.parse_args().folder
    board_pages()
    faults = [*build(folder), *dead_links(folder)]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{folder}: {len(list(folder.rglob('*.html')))} pages, {len(faults)} faults")
    return min(len(faults), 1)


if __name__ == "__main__":
    raise SystemExit(main())
