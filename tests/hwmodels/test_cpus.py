"""The CPUs of the papers and of the public measurements: numbers from somebody else's tables."""

import pytest

from slipstick.hwmodels.catalog import machine

EC2 = {  # Li et al. 2020, Table 2: vCPU, GHz, memory GB, $/h; c5.large: Amazon's list of EC2 C5 instances
    "ec2-c5-large": (2, 3.0, 4, 0.085),
    "ec2-c5-xlarge": (4, 3.0, 8, 0.17),
    "ec2-c5-2xlarge": (8, 3.0, 16, 0.34),
    "ec2-c4-xlarge": (4, 2.9, 7.5, 0.199),
    "ec2-c4-2xlarge": (8, 2.9, 15, 0.398),
}


@pytest.mark.parametrize("name", sorted(EC2))
def test_instances_of_the_bricks_paper(name: str) -> None:
    vcpu, clock, memory, price = EC2[name]
    shipped = machine(name)
    assert shipped.cores * shipped.threads_per_core == vcpu
    assert (shipped.clock, shipped.get("memory.DRAM.capacity"), shipped.price) == (clock * 1e9, memory * 1e9, price)


def test_the_core_of_the_sparse_matrix_paper() -> None:
    """Barreda et al. 2021, section 6.3: 38.4 GFLOP/s and 4.323 GB/s."""
    core = machine("haswell-e5-2630-core")
    assert core.peak("vector", "float64") == 38.4e9
    assert core.bandwidth("DRAM") == 4.323e9
    assert core.using(clock="1.2 GHz").peak("vector", "float64") == 19.2e9


def test_the_host_of_the_tpu_paper() -> None:
    """Wudenhe and Tseng 2021, section V: 16 cores, 2-way SMT, 104 GB."""
    host = machine("tpu-host")
    assert (host.cores, host.threads_per_core, host.get("memory.DRAM.capacity")) == (16, 2, 104e9)


@pytest.mark.parametrize(
    ("name", "gflops", "gigabytes"),
    [  # vendors' figures of one socket, double precision at base clock, and memory bandwidth
        ("xeon-e5-2680", 172.8, 51.2),
        ("xeon-e5-2695v3", 515.2, 68.3),
        ("xeon-gold-6148", 1536.0, 128.0),
        ("epyc-7452", 1203.2, 204.8),
        ("a64fx", 2764.8, 1024.0),
    ],
)
def test_peaks(name: str, gflops: float, gigabytes: float) -> None:
    shipped = machine(name)
    assert shipped.peak("vector", "float64") / 1e9 == pytest.approx(gflops)
    assert shipped.bandwidth(shipped.main_memory) / 1e9 == pytest.approx(gigabytes)


def test_borders() -> None:
    assert machine("xeon-e5-2695v3").instances("L3") == 1
    assert machine("xeon-e5-2695v3-cod").instances("L3") == 2
    assert machine("epyc-7451").instances("L3") == 8
    assert machine("a64fx").instances("L2") == 4
