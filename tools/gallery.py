"""python -m tools.gallery: docs/gallery.md, its pictures and those of docs/papers/, made by what stands beside them.

Pages (.html) are pictures of headless Chromium, where it is installed; every command has to exit with 0.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.listings import empty_folder, fences

ROOT = Path(__file__).parents[1]
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
PICTURED = re.compile(r"--(report|plot) ")
HEAD = """# Gallery

Each picture was made by the script below it, which you can download and run: `python NAME.py` writes `NAME.png`. In
a checkout `python -m tools.gallery` runs them all and writes this page, and `make slow` compares what they draw with
what stands here. The run times of the third are [runs.csv](tutorial/runs.csv).

"""
NAMES = ("roofline", "what-if", "extrapolation", "pareto", "decode", "seqpoint", "phases", "timeline")


@dataclass(frozen=True)
class Entry:
    """A picture, by the name of the script that draws it."""

    name: str

    @property
    def script(self) -> Path:
        """What draws it; its docstring is what the page says of it."""
        return PICTURES / f"{self.name}.py"

    @property
    def section(self) -> str:
        """Its part of the page."""
        title, _, text = (ast.get_docstring(ast.parse(self.script.read_text())) or "").partition("\n\n")
        return (
            f"## {title}\n\n{text}\n\n![{title}](gallery/{self.name}.png)\n\n"
            f"[{self.script.name}](gallery/{self.script.name})\n\n"
            f"<!-- slow: it draws -->\n```bash\npython {self.script.name}\n```\n"
        )


ENTRIES = tuple(map(Entry, NAMES))


def page_text() -> str:
    """The page."""
    return HEAD + "\n".join(entry.section for entry in ENTRIES)


def main() -> int:
    """Run every command, keep its picture, write the page."""
    for entry in ENTRIES:
        with empty_folder(PAGE) as folder:
            shutil.copy(drawn(entry, folder), PICTURES)
    PAGE.write_text(page_text())
    for page in sorted((ROOT / "docs" / "papers").glob("*.md")):
        with empty_folder(page) as folder:
            for fence in fences(page.read_text()):
                for command, _ in fence.steps if fence.language == "console" else ():
                    if PICTURED.search(command):
                        shutil.copy(pictured(command, folder), page.with_suffix(".png"))
                    elif command.startswith("python "):
                        subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True)
    return 0


def drawn(entry: Entry, folder: Path) -> Path:
    """The picture that an entry's script makes in a folder, without a display."""
    print(f"$ python {entry.script.name}", file=sys.stderr)
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    shutil.copy(entry.script, folder)
    subprocess.run([sys.executable, entry.script.name], cwd=folder, env=environment, check=True)
    return folder / f"{entry.name}.png"


def pictured(command: str, folder: Path) -> Path:
    """The picture that a command makes: its plot, the picture beside its report, or a photograph of the report."""
    print(f"$ {command}", file=sys.stderr)
    words = shlex.split(command.replace("\\\n", " "))
    subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    file = folder / words[words.index("--report" if "--report" in words else "--plot") + 1]
    if file.suffix == ".png":
        return file
    if file.with_suffix(".png").exists():
        return file.with_suffix(".png")
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit(f"{file.name}: a picture of a page needs Chromium")
    return photographed(browser, file)


def photographed(browser: str, page: Path) -> Path:
    """A picture of the top of a page, 1,100 pixels wide."""
    picture = page.with_suffix(".shot.png")
    options = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--virtual-time-budget=8000",
        "--window-size=1100,900",
    ]
    subprocess.run([browser, *options, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True)
    return picture


if __name__ == "__main__":
    raise SystemExit(main())
