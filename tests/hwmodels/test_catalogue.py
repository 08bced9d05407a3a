"""The machines that the papers and the public data name: each number as its source prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import FOLDER, machine, machine_names
from slipstick.hwmodels.machine import Machine

# The papers' tables: field, value in SI.
PAPERS: dict[str, dict[str, float]] = {
    "vega-fe": {  # Pati et al. 2020 (SeqPoint), Table II, configuration #1
        "clock": 1.6e9,
        "cores": 64,
        "memory.L1.capacity": 16 * 1024,
        "memory.L2.capacity": 4 * 1024**2,
        "memory.HBM2.capacity": 16e9,
    },
    "xeon-phi-7120p": {  # Viebke et al. 2019, Section III and Table III
        "clock": 1.238e9,
        "cores": 61,
        "threads_per_core": 4,
        "memory.L2.capacity": 512 * 1024,
        "memory.GDDR5.bandwidth": 352e9,
    },
    "haswell-e5-2630-core": {"clock": 2.4e9, "memory.DRAM.bandwidth": 4.323e9},  # Barreda et al. 2021, section 6.3
    "tpu-host": {"cores": 16, "threads_per_core": 2, "memory.DRAM.capacity": 104e9},  # TPUPoint, section V
    "tpu-v2": {"memory.HBM.capacity": 2 * 8 * 1024**3, "power.cap": 250.0},  # TPUPoint, section II
    "tpu-v3": {"memory.HBM.capacity": 32 * 1024**3},
    "tpu-v3-paper": {"memory.HBM.capacity": 32 * 1024**3, "power.cap": 250.0},
}


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, fields in PAPERS.items() for path in fields])
def test_numbers_of_the_papers_stand_with_their_source(name: str, path: str) -> None:
    shipped = machine(name)
    assert shipped.get(path) == pytest.approx(PAPERS[name][path], rel=1e-9)
    assert len(shipped.source_of(path)) > 10


@pytest.mark.parametrize(
    ("name", "unit", "dtype", "teraflops", "gigabytes"),
    [  # vendors' data sheets: dense peak of one unit and dtype at boost clock, memory bandwidth
        ("vega-fe", "vector", "float32", 13.1, 484),
        ("mi25", "vector", "float32", 12.3, 484),
        ("mi100", "vector", "float32", 23.1, 1229),
        ("mi210", "vector", "float32", 22.6, 1638),
        ("mi210", "matrix", "bfloat16", 181.0, 1638),
        ("p4", "vector", "float32", 5.5, 192),
        ("p100-pcie", "vector", "float32", 9.3, 732),
        ("v100-pcie", "vector", "float32", 14.0, 900),
        ("t4", "vector", "float32", 8.1, 320),
        ("a100-pcie-40gb", "vector", "float32", 19.5, 1555),
        ("a100-sxm-80gb", "matrix", "bfloat16", 312.0, 2039),
        ("l4", "vector", "float32", 30.3, 300),
        ("l40s", "vector", "float32", 91.6, 864),
        ("h100-sxm", "matrix", "bfloat16", 989.0, 3350),
        ("h200-sxm", "matrix", "bfloat16", 989.0, 4800),
        ("xeon-phi-7250", "vector", "float32", 6.1, 460),
        ("xeon-phi-7120p", "vector", "float64", 1.2, 352),
        ("gb200", "matrix", "bfloat16", 2500.0, 8000),
        ("gb200", "matrix", "float4", 10000.0, 8000),
        ("b300-sxm", "matrix", "float4", 14000.0, 7750),
        ("gb300", "matrix", "float4", 15000.0, 8000),
        ("h20-sxm", "matrix", "bfloat16", 148.0, 4000),
        ("gh200", "matrix", "bfloat16", 989.0, 4000),
        ("rtx-pro-6000-server", "matrix", "bfloat16", 467.8, 1597),
        ("rtx-5090", "matrix", "float16", 209.5, 1792),
        ("rtx-4090", "matrix", "float16", 165.2, 1008),  # accumulating in FP32: half of the 330 of the first page
        ("rtx-4090", "vector", "float32", 82.6, 1008),
        ("rtx-3090", "matrix", "float16", 71.0, 936),
        ("l40", "matrix", "bfloat16", 181.0, 864),
        ("a10", "matrix", "bfloat16", 125.0, 600),
        ("a10g", "matrix", "bfloat16", 70.0, 600),  # no A10
        ("a6000", "matrix", "bfloat16", 154.8, 768),
        ("mi300a", "matrix", "bfloat16", 980.6, 5300),
        ("mi325x", "matrix", "bfloat16", 1307.4, 6000),
        ("mi355x", "matrix", "bfloat16", 2516.6, 8000),
        ("mi355x", "matrix", "float8", 5033.2, 8000),
        ("rx-7900-xtx", "vector", "float32", 61.4, 960),
        ("radeon-vii", "vector", "float16", 26.9, 1024),
        ("arc-b60", "matrix", "float16", 98.3, 456),
        ("max-1550", "vector", "float64", 52.4, 3277),
        ("gaudi2", "matrix", "bfloat16", 432.0, 2450),
        ("gaudi3", "matrix", "bfloat16", 1835.0, 3700),
        ("tpu-v4", "matrix", "bfloat16", 275.0, 1200),
        ("tpu-v5e", "matrix", "int8", 393.0, 819),
        ("tpu-v5p", "matrix", "bfloat16", 459.0, 2765),
        ("tpu-v6e", "matrix", "bfloat16", 918.0, 1640),
        ("trainium1", "matrix", "bfloat16", 190.0, 820),
        ("trainium2", "matrix", "bfloat16", 667.0, 2900),
        ("inferentia2", "matrix", "int8", 380.0, 820),
        ("apple-m1-max", "vector", "float32", 10.4, 409.6),
        ("xeon-platinum-8480", "matrix", "bfloat16", 114.7, 307.2),
        ("epyc-9654", "vector", "float64", 3.69, 460.8),
        ("graviton4", "vector", "float32", 8.6, 537.6),
        ("tpu-v2", "matrix", "bfloat16", 45.0, 700),
        ("tpu-v3", "matrix", "bfloat16", 123.0, 900),
        ("tpu-v3-paper", "matrix", "bfloat16", 90.0, 900),
    ],
)
def test_peaks_of_the_data_sheets(name: str, unit: str, dtype: str, teraflops: float, gigabytes: float) -> None:
    """Within 9 %: some clocks are the highest that was seen (H100: 1,980 MHz), data sheets round."""
    shipped = machine(name)
    assert shipped.peak(unit, dtype) / 1e12 == pytest.approx(teraflops, rel=0.09)
    assert shipped.bandwidth(shipped.main_memory) / 1e9 == pytest.approx(gigabytes, rel=0.04)


def test_main_numbers_have_a_source_and_a_source_stands_once_a_file() -> None:
    for name in machine_names():
        shipped = machine(name)
        paths = [
            p for p in shipped.numbers if p.rpartition(".")[2] in ("clock", "cores", "capacity", "bandwidth", "price")
        ]
        assert not [path for path in paths if not shipped.source_of(path)], name
        stated = (FOLDER / f"{name}.yaml").read_text().partition("sources:")[2]
        assert all(stated.count(f'"{text}"') <= 1 for text in set(shipped.sources.values())), name


def test_every_card_has_a_link() -> None:
    boards = ("nvidia", "amd-cdna", "amd-rdna", "amd-gcn", "amd-vega", "intel-xe")
    alone = {"dgx-spark", "jetson-agx-orin", "strix-halo"}  # systems on a chip, in no slot
    cards = [name for name in machine_names() if machine(name).family.startswith(boards) and name not in alone]
    assert len(cards) > 70
    assert [name for name in cards if not machine(name).links] == []


def test_what_is_stated_stands_beside_what_follows_from_the_geometry(capsys: pytest.CaptureFixture[str]) -> None:
    """Two multiply-adds, a half, a quarter of one a cell and cycle are what Gaudi 2 states by type."""
    assert run(["machines", "check", "gaudi2", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    ratios = {row["field"].rpartition(".")[2]: row["ratio"] for row in rows if ".matrix.flop" in row["field"]}
    assert (ratios["bfloat16"], ratios["float8"], ratios["tfloat32"]) == (1, 2, 0.25)


def test_machines_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["machines", "compare", "h100-sxm", "b200-sxm", "--format", "json"]) == 0
    rows = {row["quantity"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["memory bandwidth"]["H100 SXM5 80 GB"] == pytest.approx(3.352e12)
    assert rows["memory bandwidth"]["B200 SXM 180 GB"] == pytest.approx(8e12)
    assert rows["peak matrix float4"]["H100 SXM5 80 GB"] is None


def test_a_source_is_named_for_several_fields_at_once() -> None:
    data = {
        "name": "two",
        "clock": 1e9,
        "cores": 2,
        "engines": {"vector": {"flop_per_cycle": {"float32": 2}}},
        "memory": {"DRAM": {"capacity": 1e9, "bandwidth": 1e9}},
        "sources": {"clock, cores": "a data sheet", "memory": "another"},
    }
    made = Machine.model_validate(data)
    assert made.source_of("cores") == made.source_of("clock") == "a data sheet"
    with pytest.raises(ValueError, match="sources: clock has two"):
        Machine.model_validate({**data, "sources": {"clock, cores": "a", "clock": "b"}})


def test_boards_are_four_chips() -> None:
    """Four chips a board; the board's matrix units run at the chip's clock."""
    for board, chip in (("tpu-v2-8", "tpu-v2"), ("tpu-v3-8", "tpu-v3")):
        assert machine(board).peak("matrix", "bfloat16") == pytest.approx(4 * machine(chip).peak("matrix", "bfloat16"))
        assert machine(board).get("memory.HBM.capacity") == 4 * machine(chip).get("memory.HBM.capacity")


def test_kerncrafts_cpus_are_there() -> None:
    """One machine for each CPU of the public bandwidth measurements."""
    wanted = [
        "xeon-e5-2695v3-cod",
        "xeon-e5-2697v4-cod",
        "xeon-gold-6148",
        "epyc-7451",
        "ryzen-7-1700x",
        "thunderx2-cn9980",
    ]
    assert set(wanted) <= set(machine_names())


def test_a_folder_of_ones_own_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = (FOLDER / "l4.yaml").read_text().replace("name: L4", "name: My accelerator")
    (tmp_path / "my-accelerator.yaml").write_text(own)
    monkeypatch.setenv("SLIPSTICK_MACHINES", str(tmp_path))
    assert machine("my-accelerator").name == "My accelerator" and "h100-sxm" in machine_names()
    monkeypatch.delenv("SLIPSTICK_MACHINES")
    with pytest.raises(InputError, match="unknown machine 'my-accelerator'"):
        machine("my-accelerator")


def test_the_index_says_what_the_machines_say() -> None:
    from slipstick.hwmodels.catalog import outlines
    from slipstick.hwmodels.catalog.index import FILE, CatalogEntry, digest_of

    made_of = {name: row[0] for name, row in json.loads(FILE.read_text()).items()}
    files = {path.name: digest_of(path) for path in sorted(FILE.parent.glob("*.yaml"))}
    assert made_of == files, "run python -m tools.indexes"  # a stale row is read for nothing
    for name, one in outlines().items():
        whole = machine(name)
        of_it = CatalogEntry(whole.name, whole.cores, whole.clock, whole.bandwidth(whole.main_memory), whole.price)
        assert one == of_it, name


def test_a_row_of_another_file_does_not_count(tmp_path: Path) -> None:
    from slipstick.hwmodels.catalog.index import FILE, outline

    mine = tmp_path / "a10.yaml"
    mine.write_text((FILE.parent / "a10.yaml").read_text().replace("name: A10", "name: mine", 1))
    assert outline(mine).name == "mine"
