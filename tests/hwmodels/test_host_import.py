"""The host's topology: what lscpu and hwloc say, across their versions, and what is refused."""

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.hwmodels.importers.lscpu import Cache, parse_hwloc, parse_lscpu

FLAT = {
    "CPU(s):": "48",
    "Model name:": "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz",
    "Thread(s) per core:": "2",
    "Core(s) per socket:": "12",
    "Socket(s):": "2",
    "NUMA node(s):": "4",
    "CPU max MHz:": "3700,0000",
    "L1d cache:": "768 KiB (24 instances)",
    "L2 cache:": "24 MiB (24 instances)",
    "L3 cache:": "110 MiB (4 instances)",
    "Flags:": "fpu sse2 avx avx2 fma avx512f",
}


def flat(**changes: str | None) -> str:
    fields = {**FLAT, **changes}
    return json.dumps({"lscpu": [{"field": k, "data": v} for k, v in fields.items() if v is not None]})


def test_lscpu() -> None:
    topology = parse_lscpu(flat(), memory=192e9)
    assert (topology.cores, topology.threads_per_core, topology.sockets, topology.domains) == (24, 2, 2, 4)
    assert topology.clock == 2.4e9
    assert topology.caches == (Cache("L1", 32768, 24), Cache("L2", 1048576, 24), Cache("L3", 28835840, 4))
    machine = topology.machine()
    assert machine.instances("L3") == 4
    assert (machine.cores_per_numa, machine.cores_per_socket) == (6, 12)
    assert machine.peak("vector", "float64") == 32 * 2.4e9 * 24
    assert "assumed" in machine.source_of("memory.DRAM.bandwidth")
    assert "two 512-bit" in machine.source_of("engines.vector.flop_per_cycle.float32")


def test_newer_lscpu_nests_its_fields() -> None:
    nested = {
        "lscpu": [
            {
                "field": "Vendor ID:",
                "data": "ARM",
                "children": [
                    {
                        "field": "Model name:",
                        "data": "Neoverse-N1",
                        "children": [
                            {"field": "Thread(s) per core:", "data": "1"},
                            {"field": "Core(s) per cluster:", "data": "4"},
                            {"field": "Socket(s):", "data": "-"},
                            {"field": "Cluster(s):", "data": "1"},
                            {"field": "CPU max MHz:", "data": "2600.0000"},
                            {"field": "Flags:", "data": "fp asimd"},
                        ],
                    }
                ],
            },
            {
                "field": "Caches (sum of all):",
                "data": None,
                "children": [{"field": "L1d:", "data": "256 KiB (4 instances)"}],
            },
        ]
    }
    topology = parse_lscpu(json.dumps(nested))
    assert (topology.cores, topology.sockets, topology.clock) == (4, 1, 2.6e9)
    assert topology.caches == (Cache("L1", 65536, 4),)
    assert topology.machine().peak("vector", "float64") == 8 * 2.6e9 * 4


def test_hwloc_sees_core_complexes() -> None:
    text = (Path(__file__).parents[1] / "data" / "hwloc_two_complexes.xml").read_text()
    topology = parse_hwloc(text, clock=3.4e9, flags=frozenset({"avx2", "fma", "avx"}))
    assert (topology.cores, topology.threads_per_core, topology.domains) == (4, 2, 1)
    assert topology.caches == (Cache("L1", 32768, 4), Cache("L2", 524288, 4), Cache("L3", 8388608, 2))
    assert topology.memory == 32 * 2**30
    machine = topology.machine()
    assert machine.cores_per_cluster == 2
    assert machine.instances("L3") == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "no list 'lscpu'"),
        ("[]", "no list 'lscpu'"),
        (flat(**{"Core(s) per socket:": "many"}), "Core\\(s\\) per socket = 'many'"),
        (flat(**{"L2 cache:": "big"}), "L2 cache = 'big'"),
        (flat(**{"L2 cache:": "1 MiB (0 instances)"}), "L2 cache = '1 MiB .0 instances.'"),
        (flat(**{"L2 cache:": "1.2.3 MiB"}), "L2 cache = '1.2.3 MiB'"),
        (flat(**{"Core(s) per socket:": "\u00b2"}), "want a whole number"),
        (flat(**{"Core(s) per socket:": "9" * 5000}), "want a whole number"),
    ],
)
def test_bad_lscpu(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_lscpu(text)


def test_no_clock_no_machine() -> None:
    topology = parse_lscpu(flat(**{"Model name:": "QEMU Virtual CPU", "CPU max MHz:": None}))
    with pytest.raises(InputError, match="the system states no clock"):
        topology.machine()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<topology>", "not XML"),
        ("<topology/>", "no object of type Core"),
        ('<!DOCTYPE t [<!ENTITY a "b">]><topology>&a;</topology>', "XML entities are not accepted"),
        ('<t><object type="Core"/><object type="L2Cache" cache_size="lots"/></t>', "cache_size = 'lots'"),
        (f'<t><object type="Core"/><object type="NUMANode" local_memory="{10**400}"/></t>', "local_memory = '1000"),
        ('<t><object type="Core"/><object type="NUMANode" local_memory="\u00b2"/></t>', "want a whole number"),
    ],
)
def test_bad_hwloc(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_hwloc(text)


def test_cores_of_several_kinds_are_all_counted() -> None:
    """A big.LITTLE chip states each kind of core under a model name of its own (util-linux 2.38 and later)."""

    def kind(name: str, cores: str, clock: str, flags: str, per: str = "socket") -> dict[str, object]:
        fields = {f"Core(s) per {per}:": cores, "Socket(s):": "1", "Thread(s) per core:": "1", "CPU max MHz:": clock}
        rows = [{"field": name, "data": data} for name, data in {**fields, "Flags:": flags}.items()]
        return {"field": "Model name:", "data": name, "children": rows}

    little, big = kind("Cortex-A53", "6", "1500.0000", "fp asimd"), kind("Cortex-A73", "2", "2300,0", "fp asimd sve")
    clusters = [kind(name, "4", "2000.0", "fp asimd", "cluster") for name in ("Cortex-A55", "Cortex-A76")]
    for kinds, cores, clock in (([little, big], 8, (6 * 1.5e9 + 2 * 2.3e9) / 8), (clusters, 8, 2e9)):
        document = {"lscpu": [{"field": "Vendor ID:", "data": "ARM", "children": kinds}]}
        topology = parse_lscpu(json.dumps(document))
        assert (topology.cores, topology.sockets, topology.threads_per_core) == (cores, 1, 1)
        assert topology.clock == pytest.approx(clock) and topology.flags == {"fp", "asimd"}
        machine = topology.machine()
        assert machine.cores_per_socket == 8 and machine.peak("vector", "float64") == pytest.approx(8 * clock * cores)
    assert parse_lscpu(json.dumps({"lscpu": [little, big]})).model == "6 x Cortex-A53 + 2 x Cortex-A73"
    del little["children"][0]  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"Core\(s\) per socket = None"):
        parse_lscpu(json.dumps({"lscpu": [little, big]}))
