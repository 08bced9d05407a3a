"""python -m tools.gallery: docs/gallery.md, its pictures and those of docs/papers/, made by the commands beside them.

Pages (.html) are pictures of headless Chromium, where it is installed; every command has to exit with 0.
"""

from __future__ import annotations

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

Every picture was made by the command below it (`python -m tools.gallery` runs them all). The run times are
[runs.csv](tutorial/runs.csv).

"""


@dataclass(frozen=True)
class Entry:
    """A picture: its name, what it shows, and the command that makes it."""

    name: str
    title: str
    command: str


ENTRIES = (
    Entry(
        "what-if",
        "What if the memory and the clock of a V100 changed? Ratios keep their own, narrower band.",
        "slipstick whatif gnmt --on v100-sxm --vary machine.memory.HBM2.bandwidth=0.45TB/s..1.8TB/s:25 "
        "--vary machine.clock=1GHz..2GHz:3 --report memory.html",
    ),
    Entry(
        "extrapolation",
        "Measured run times, the law behind them, and where it changes.",
        "slipstick extrapolate runs.csv --to 64,240 --plot runs.png",
    ),
    Entry(
        "serving-plan",
        "Every layout of a language model on three machines: tokens/s a device against tokens/s a user.",
        "slipstick plan serving llama-3.1-8b --on h100-sxm,h200-sxm,l40s --dtype bf16,fp8 "
        "--limit ttft=500ms,tpot=20ms --report plan.html",
    ),
    Entry(
        "explanation",
        "What the time hangs on, with sliders for every quantity.",
        "slipstick explain bert-base-inference --on l4 --batch 8 --estimator roofline --report why.html",
    ),
    Entry(
        "simulation",
        "Stragglers among copies of a training step: percentiles by event simulation beside the formula.",
        "slipstick estimate stragglers --simulate --report stragglers.html",
    ),
    Entry(
        "serving",
        "Requests through a serving engine: waiting, prefill, decoding.",
        "slipstick serve llama-3.1-8b --on h100-sxm --dtype fp8 --concurrency 64 --report serve.html",
    ),
)


def main() -> int:
    """Run every command, keep its picture, write the page."""
    PICTURES.mkdir(exist_ok=True)
    text = [HEAD]
    for entry in ENTRIES:
        with empty_folder(PAGE) as folder:
            shutil.copy(pictured(entry.command, folder), PICTURES / f"{entry.name}.png")
        text.append(
            f"## {entry.title}\n\n[![{entry.name}](gallery/{entry.name}.png)](#{entry.name})\n\n"
            f'<a id="{entry.name}"></a>\n\n<!-- slow: pages of reports -->\n```bash\n{entry.command}\n```\n\n'
        )
    PAGE.write_text("".join(text).rstrip() + "\n")
    for page in sorted((ROOT / "docs" / "papers").glob("*.md")):
        with empty_folder(page) as folder:
            for fence in fences(page.read_text()):
                for command, _ in fence.steps if fence.language == "console" else ():
                    if PICTURED.search(command):
                        shutil.copy(pictured(command, folder), page.with_suffix(".png"))
                    elif command.startswith("python "):
                        subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True)
    return 0


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
