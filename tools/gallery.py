"""python -m tools.gallery: docs/gallery.md and its pictures, made by running the commands that stand beside them.

Pages (.html) are pictures of headless Chromium, where it is installed; every command has to exit with 0.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
HEAD = """# Gallery

Every picture was made by the command below it (`python -m tools.gallery` runs them all); a click on it leads there.

"""


@dataclass(frozen=True)
class Entry:
    """A picture: its name, what it shows, the command, and the file that the command writes."""

    name: str
    title: str
    command: str
    file: str


ENTRIES = (
    Entry(
        "what-if",
        "What if the memory and the clock of a V100 changed? Ratios keep their own, narrower band.",
        "slipstick whatif gnmt --on v100-sxm --vary machine.memory.HBM2.bandwidth=0.45TB/s..1.8TB/s:25 "
        "--vary machine.clock=1GHz..2GHz:3 --report memory.html",
        "memory.png",
    ),
    Entry(
        "extrapolation",
        "Measured run times, the law behind them, and where it changes.",
        "slipstick extrapolate runs.csv --to 64,240 --plot runs.png",
        "runs.png",
    ),
    Entry(
        "serving-plan",
        "Every layout of a language model on three machines: tokens/s a device against tokens/s a user.",
        "slipstick plan serving llama-3.1-8b --machines h100-sxm,h200-sxm,l40s --dtype bf16,fp8 "
        "--slo ttft=500ms,tpot=20ms --report plan.html",
        "plan.png",
    ),
    Entry(
        "explanation",
        "What the time hangs on, with sliders for every quantity.",
        "slipstick explain bert-base-inference --on l4 --batch 8 --estimator roofline --report why.html",
        "why.html",
    ),
    Entry(
        "simulation",
        "Stragglers among copies of a training step: percentiles by event simulation beside the formula.",
        "slipstick estimate stragglers --simulate --report stragglers.html",
        "stragglers.html",
    ),
    Entry(
        "serving",
        "Requests through a serving engine: waiting, prefill, decoding.",
        "slipstick serve llama-3.1-8b --on h100-sxm --dtype fp8 --concurrency 64 --report serve.html",
        "serve.html",
    ),
)


def main() -> int:
    """Run every command, keep its picture, write the page."""
    browser = shutil.which("chromium")
    PICTURES.mkdir(exist_ok=True)
    text = [HEAD]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "docs" / "tutorial" / "runs.csv", folder)
        for entry in ENTRIES:
            print(f"$ {entry.command}", file=sys.stderr)
            words = [sys.executable, "-m", *shlex.split(entry.command)]
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            made = folder / entry.file
            if made.suffix == ".html":
                if browser is None:
                    raise SystemExit(f"{entry.file}: a picture of a page needs Chromium")
                made = photographed(browser, made)
            shutil.copy(made, PICTURES / f"{entry.name}.png")
            text.append(
                f"## {entry.title}\n\n[![{entry.name}](gallery/{entry.name}.png)](#{entry.name})\n\n"
                f'<a id="{entry.name}"></a>\n\n```\n{entry.command}\n```\n\n'
            )
    PAGE.write_text("".join(text).rstrip() + "\n")
    return 0


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
