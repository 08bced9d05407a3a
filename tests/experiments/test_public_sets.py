"""Sets of public measurements: each scoreboard's data is named, and changed files are noticed."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.calibrate.public_sets import digest, public_set, public_sets
from slipstick.experiments.cli.cli import run
from slipstick.experiments.scoring.scoreboard_catalog import scoreboards

OF_OUR_OWN = {"abroad", "calibrations", "cpu-layers", "defaults", "megatron", "shipped"}
"""Scoreboards without a set of their own: synthetic, published in a paper, measured here, or made of other sets."""


WITHOUT_A_BOARD = {
    "README.md": "says where everything is from",
    "serving/silicon_speculation.csv": "stands beside silicon.csv.gz, which names it in its reader",
    "sequences/measured_cpu": "measured for this project; the board of seqpoint reads it as its own",
    "traces/chakra_resnet18_own.json.gz": "one trace, made for this project: tests read it",
    "gpu/frontier/moe.csv.gz": "experts in parts (routing, products, sums) that our law takes together",
    "gpu/aiter/experts.csv.gz": "how the tuner's tokens were routed is not stated",
    "local_llm/llama_bench.csv.gz": "prompts scored by local-llm; clones of its publishers are no set yet",
    "local_llm/apple_m3_max.csv": "one machine; most first tokens are of a cached prompt",
    "memory/qwen_single_stream.csv": "single users of servers, read by `--refit sources`; Transformers' have no law",
    "memory/liger_kernels.csv.gz": "losses and norms fused by a kernel library: kinds that no graph here has",
    "memory/detectron2.csv": "detection networks without a graph here",
    "vision/training_rates.csv.gz": "of this table the board abroad asks sixty figures, `--refit sources` sixteen rows",
    "portability/applications.csv": "CPUs' triads, which `--refit sources` reads; mini-apps have no answer",
    "portability/devices.csv": "peaks of their devices",
    "energy/diffusion_inference.csv.gz": "image and video generation: no graph of these networks is here",
}
"""Tables of the public measurements that no scoreboard scores, and why not."""


def test_every_scoreboard_reads_a_set_and_every_set_is_read() -> None:
    read = {board for one in public_sets() for board in one.scoreboards}
    assert read <= set(scoreboards())
    assert set(scoreboards()) - read <= OF_OUR_OWN
    assert all(one.sources and one.licence and one.count for one in public_sets())


def test_the_digest_is_of_contents_and_paths(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"y"))
    lines = [
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for content, name in ((b"x", "a.csv"), (b"y", "b.csv.gz"))
    ]
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert digest(tmp_path, [Path("a.csv"), Path("b.csv.gz")]) == expected


def test_changed_and_missing_files_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = public_set("training-foundry")
    assert one.state(None) == one.state(tmp_path) == "missing"
    (tmp_path / "training_at_scale").mkdir()
    (tmp_path / one.files[0]).write_text("system,step_s\n")
    assert one.state(tmp_path) == "differs"
    assert run(["data", "get", one.name, "--data", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "git clone https://github.com/mosaicml/llm-foundry && git -C llm-foundry checkout 8c8dd48" in told
    assert "Apache-2.0" in told and "differs" in told
    assert run(["data", "get", one.name, "--data", str(tmp_path / "absent")]) == 2
    with pytest.raises(InputError, match="unknown set of public measurements 'foundry'"):
        public_set("foundry")


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here")
def test_the_files_here_are_those_of_the_tables() -> None:
    assert {one.name: one.state(data_folder()) for one in public_sets() if one.count < 5} == {
        one.name: "here" for one in public_sets() if one.count < 5
    }


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here")
def test_every_table_has_a_scoreboard_or_a_reason() -> None:
    folder = data_folder() or Path()
    read = {path.as_posix() for one in public_sets() for path in one.paths(folder)}
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
    rest = [name for name in names if name not in read]
    assert [name for name in rest if not name.startswith(tuple(WITHOUT_A_BOARD))] == []
    assert [name for name in WITHOUT_A_BOARD if not any(one.startswith(name) for one in rest)] == []
