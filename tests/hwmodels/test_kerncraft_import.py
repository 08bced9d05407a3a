"""Machine files of kerncraft: units, tags, capacities, measurements, and what is refused."""

from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.hwmodels.importers.kerncraft import BandwidthKernel, load_kerncraft

FILE = Path(__file__).parents[1] / "data" / "kerncraft_cod.yml"


def test_what_the_file_says() -> None:
    k = load_kerncraft(FILE)
    assert (k.clock, k.sockets, k.cores_per_socket, k.cores_per_numa, k.line) == (2.3e9, 2, 14, 7, 64)
    assert dict(k.flop_per_cycle) == {"float32": 32, "float64": 16}
    assert [level.capacity for level in k.levels] == [32768, 262144, 9216 * 16 * 64, None]
    assert [level.bytes_per_cycle for level in k.levels] == [None, 64, 32, None]
    assert k.bandwidth("MEM", "copy", 7) == 17.84e9
    assert k.saturated("MEM", "triad") == 22.45e9
    assert k.levels[-1].load_penalty == 0.5


def test_write_allocate_traffic() -> None:
    streams = load_kerncraft(FILE).streams
    assert streams["copy"].traffic_factor == 1.5  # 16 bytes counted, 24 moved
    assert streams["triad"].traffic_factor == 1.25
    assert streams["load"].traffic_factor == 1
    assert BandwidthKernel(reads=2, updates=1, writes=1).traffic_factor == 1  # daxpy stores what it loaded


def test_as_a_machine_of_one_socket() -> None:
    machine = load_kerncraft(FILE).machine()
    assert machine.cores == 14
    assert machine.instances("L2") == 14
    assert machine.instances("L3") == 2
    assert machine.bandwidth("MEM") == pytest.approx(2 * 17.84e9 * 1.5)
    assert machine.memory["MEM"].bandwidth_by_cores == ((1, 10.34e9 * 1.5), (7, 17.84e9 * 1.5))
    assert machine.bandwidth("L2") == 64 * 2.3e9 * 14
    assert "kerncraft" in machine.source_of("memory.L2.capacity")


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = FILE.read_text()
    assert old in text
    path = tmp_path / "machine.yml"
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("clock: 2.3 GHz", "clock: 2.3 GB", r"clock: unit 'GB' does not convert to Hz"),
        ("clock: 2.3 GHz", "clock: !!python/object/apply:os.system [ls]", "only plain values are accepted"),
        ("cores per NUMA domain: 7", "cores per NUMA domain: 5", "want a divisor of 14 cores per socket"),
        ("cores per socket: 14", "cores per socket: many", "cores per socket = 'many': want a whole number"),
        ("[10.34 GB/s, 17.84 GB/s]", "[10.34 GB/s]", "results.copy: want one bandwidth for each of the cores"),
        ("10.34 GB/s", "-3 GB/s", "want a finite value above 0"),
        ("64 B/cy, half", "lots B/cy, half", "L2.upstream throughput"),
        ("sets: 9216", "sets: 0", "sets = 0: want a whole number >= 1"),
        ("memory hierarchy:", "memory:", "memory hierarchy: want a list of 2 to 8 levels"),
        ("{bytes: 24.00 B, streams: 3}", "{bytes: 24.00 B, streams: three}", "streams = 'three'"),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_kerncraft(changed(tmp_path, old, new))


def test_missing_measurements_are_named() -> None:
    k = load_kerncraft(FILE)
    with pytest.raises(InputError, match="no measurement for 3 cores"):
        k.bandwidth("MEM", "copy", 3)
    with pytest.raises(InputError, match="unknown measurement"):
        k.bandwidth("MEM", "update")


def test_a_file_that_knows_no_peak_gives_none(tmp_path: Path) -> None:
    path = changed(tmp_path, "{total: 16, FMA: 8, ADD: 4, MUL: 4}", "{total: INFORMATION_REQUIRED}")
    assert dict(load_kerncraft(path).flop_per_cycle) == {"float32": 32}
