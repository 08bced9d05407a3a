"""Makes `slipstick/common/prebuilt.xz`: what the first questions to a fresh installation would keep (a minute).

    python -m tools.prebuilt

Runs `estimate`, `explain` and `whatif` of usual networks on usual machines, and gathers what was kept. A question
beside these makes its formulas itself, as all do where the sources are others than those that made the file: it is no
part of the repository. It is made before a wheel is built, and by `make demo`, `install`, `test` and `bench`.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path
from typing import get_args

MACHINES = (
    *("a100-sxm-80gb", "a100-80-dgx", "b200-sxm", "h100-dgx", "h100-sxm", "h200-sxm"),
    *("a100-pcie-40gb", "l4", "l40s", "mi300x", "rtx-4090", "t4"),
)
"""Others of the same form have the same formulas."""
EVERYWHERE = ("gpt2", "resnet50", "bert-base-inference")
"""Networks whose formulas are made for each machine."""
ON_ONE = ("llama-3-8b-decode",)
PARALLEL = ("megatron-175b",)
NODES = ("a100-80-dgx", "h100-dgx")


REFUSED = 2
"""What a question that cannot be answered ends with."""
EXPLAINED = (("gpt2", "a100-sxm-80gb"), ("gpt2", "h100-sxm"), ("gpt2", "rtx-4090"))
"""Networks and machines of the explanations and sweeps of the clock that are made: each takes four kilobytes."""


def questions() -> list[list[str]]:
    """Commands."""
    pairs = [
        *((network, machine) for machine in MACHINES for network in EVERYWHERE),
        *((network, "h100-sxm") for network in ON_ONE),
        *((network, machine) for machine in NODES for network in PARALLEL),
    ]
    return [
        *(["estimate", network, "--on", machine] for network, machine in pairs),
        *(["estimate", EVERYWHERE[0], "--on", machine, "--estimator", "roofline"] for machine in MACHINES),
        *(["explain", network, "--on", machine] for network, machine in EXPLAINED),
        *(
            ["whatif", network, "--on", machine, "--vary", "machine.clock=1GHz,1.5GHz"]
            for network, machine in EXPLAINED
        ),
    ]


def main() -> None:
    """Ask, gather and write; nothing to do where the file is of these very sources."""
    from slipstick.common.disk_cache import VARIABLE, Kind, cache_folder, identity_of, read_cached
    from slipstick.common.prebuilt import FILE, made_here, write_prebuilt

    if made_here():
        return
    FILE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = folder
        from slipstick.experiments.cli.cli import run

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for words in questions():  # a machine without a rate for a network's data type is passed over
                if run(words) not in (0, REFUSED):
                    raise RuntimeError(f"{' '.join(words)}: failed")
        kept = [path for kind in get_args(Kind) for path in _files(cache_folder(kind))]
        contents = {identity_of(path): read_cached(path) for path in kept}
    size = write_prebuilt({identity: content for identity, content in contents.items() if content is not None})
    print(f"{FILE.name}: {len(contents)} networks and kinds of formulas, {size:,} bytes")


def _files(folder: Path | None) -> list[Path]:
    return [] if folder is None else sorted(folder.glob("*.json"))


if __name__ == "__main__":
    main()
