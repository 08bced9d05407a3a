"""Machines: what-if, fingerprints, sources, units."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.common.units import parse_quantity
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.hwmodels.machine import Machine, describe

PAPER_PHI = {  # Viebke et al. 2019, Section III and Table III
    "cores": 61,
    "threads_per_core": 4,
    "clock": 1.238e9,
    "memory.L1.capacity": 32 * 1024,
    "memory.L2.capacity": 512 * 1024,
    "memory.GDDR5.bandwidth": 352e9,
}


@pytest.mark.parametrize("path", sorted(PAPER_PHI))
def test_the_xeon_phi_of_the_paper(phi: Machine, path: str) -> None:
    assert phi.get(path) == PAPER_PHI[path]


def test_the_phi_reaches_one_and_two_teraflops(phi: Machine) -> None:
    assert phi.peak("vector", "float64") / 1e12 == pytest.approx(1.0, abs=0.25)
    assert phi.peak("vector", "float32") == 2 * phi.peak("vector", "float64")
    assert phi.cores * phi.threads_per_core == 244
    assert phi.cores * phi.get("memory.L2.capacity") / 2**20 == pytest.approx(30.5)
    assert phi.cycles_per_instruction == (1, 1, 1.5, 2)


@pytest.mark.parametrize("name", machine_names())
def test_every_shipped_number_has_a_source(name: str) -> None:
    shipped = machine(name)
    defaults = Machine.model_fields
    for path in shipped.numbers:
        head = path.partition(".")[0]
        if shipped.get(head) == defaults[head].default or path.endswith(".line"):
            continue
        if head in ("runtime", "power") and shipped.get(path) in (0, 1):
            continue
        assert shipped.source_of(path), f"{name}: {path} has no source"


def test_a_multiple_of_what_stands_is_a_change() -> None:
    phi = machine("xeon-phi-7120p")
    assert phi.using({"clock": "1.5x"}).clock == 1.5 * phi.clock
    assert phi.using(cores="2x").cores == 2 * phi.cores
    with pytest.raises(InputError, match=r"cores = 91\.5: want a whole number"):
        phi.using(cores="1.5x")
    with pytest.raises(InputError, match="'1.5 by' is no quantity|unknown unit 'by'"):
        phi.using(clock="1.5 by")


SHEETS = {
    "h100-sxm": 989.4, "h200-sxm": 989.4, "gh200": 989.4, "h100-pcie": 756, "h100-nvl": 835, "a100-sxm-80gb": 312,
    "b200-sxm": 2250, "b300-sxm": 2250, "gb200": 2500, "l40s": 362, "l4": 121, "mi300x": 1307.4, "tpu-v5p": 459,
}  # fmt: skip
"""Data sheets: TFLOP/s of dense products in BF16."""


@pytest.mark.parametrize("name", SHEETS)
def test_the_stated_peak_is_the_data_sheets_whatever_the_clock_is_limited_to(name: str) -> None:
    one = machine(name)
    assert one.stated_peak("matrix", "bfloat16") == pytest.approx(SHEETS[name] * 1e12, rel=2e-3)
    assert one.using(clock="0.7x").stated_peak("matrix", "bfloat16") == one.stated_peak("matrix", "bfloat16")
    assert one.using(cores="2x").stated_peak("matrix", "bfloat16") == 2 * one.stated_peak("matrix", "bfloat16")


def test_double_precision_products_are_stated_at_the_highest_clock() -> None:
    """NVIDIA H100 whitepaper V1.04, Table 2: 66.9 TFLOP/s FP64 by tensor cores, and FP32 without."""
    h100 = machine("h100-sxm")
    assert h100.stated_peak("matrix", "float64") == pytest.approx(66.9e12, rel=1e-3)
    assert h100.stated_peak("vector", "float32") == pytest.approx(66.9e12, rel=1e-3)


@given(st.floats(1e6, 1e11), st.integers(1, 10_000))
def test_using_changes_only_what_it_names(clock: float, cores: int) -> None:
    phi = machine("xeon-phi-7120p")
    changed = phi.using(clock=clock, cores=cores)
    assert (changed.clock, changed.cores) == (clock, cores)
    assert changed.memory == phi.memory
    assert changed.peak("vector", "float32") == pytest.approx(32 * clock * cores)
    assert phi.using() == phi
    back = changed.using(clock=phi.clock, cores=phi.cores)
    assert back.fingerprint == phi.fingerprint
    assert (changed.fingerprint == phi.fingerprint) == (clock == phi.clock and cores == phi.cores)


def test_a_level_can_be_taken_away(phi: Machine) -> None:
    assert phi.using({"memory.L1.capacity": 0}).get("memory.L1.capacity") == 0


def test_the_source_of_a_changed_number_says_so(phi: Machine) -> None:
    assert phi.using(clock="852 MHz").source_of("clock") == "what-if: '852 MHz' instead of 1238000000.0"


def test_equality_hash_pickle(phi: Machine) -> None:
    again = pickle.loads(pickle.dumps(phi))
    assert again == phi and hash(again) == hash(phi) and again.fingerprint == phi.fingerprint


def test_unknown_fields_list_the_known(phi: Machine) -> None:
    with pytest.raises(
        InputError, match=r"'clok'; did you mean 'clock'\? \(known: aliases, base_clock, clock, cores, "
    ):
        phi.using(clok=1)
    with pytest.raises(InputError, match=r"known: memory\.GDDR5, memory\.L1, memory\.L2"):
        phi.using({"memory.L3.capacity": 1})
    with pytest.raises(InputError, match=r"unknown engine .* 'matrix' \(known: vector\)"):
        phi.peak("matrix", "float32")
    with pytest.raises(InputError, match=r"unknown dtype .* 'int4' \(known: float32, float64\)"):
        phi.peak("vector", "int4")


def test_descriptions_carry_units(phi: Machine) -> None:
    assert ("clock", "1.238 GHz", phi.source_of("clock")) in describe(phi)
    assert "1.238 GHz" in phi._repr_html_()


def test_the_schema_comes_for_free() -> None:
    assert {"clock", "memory", "engines"} <= set(Machine.model_json_schema()["properties"])


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("852 MHz", "Hz", 852e6),
        ("16 KiB", "byte", 16384),
        ("16 kB", "byte", 16000),
        ("30.5 MB", "byte", 30.5e6),
        ("4.323 GB/s", "byte/s", 4.323e9),
        ("1 TFLOP/s", "flop/s", 1e12),
        ("64 B/cy", "byte/cycle", 64),
        ("10 pJ/flop", "J/flop", 1e-11),
        ("5 us", "s", 5e-6),
        ("5 µs", "s", 5e-6),
        ("80 %", "1", 0.8),
        ("0.17 $/h", "dollar/hour", 0.17),
        ("250 W", "W", 250),
        ("1_000", "1", 1000),
    ],
)
def test_unit_strings(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-15)


@given(st.floats(1e-12, 1e15), st.sampled_from(["Hz", "byte/s", "W"]))
def test_quantities_shown_are_read_back_to_four_digits(value: float, unit: str) -> None:
    assert parse_quantity(format_quantity(value, unit), unit) == pytest.approx(value, rel=6e-4)


def test_the_nearest_field_is_named_with_its_whole_path() -> None:
    with pytest.raises(InputError, match=r"'memory.L2.capcity'; did you mean 'memory.L2.capacity'\?"):
        machine("v100-sxm").get("memory.L2.capcity")
    with pytest.raises(InputError, match=r"\(known: memory.L2.bandwidth, "):
        machine("v100-sxm").get("memory.L2.L")
