"""Tables of measurements: all that is wrong with a file is said at once, each with its line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.calibrate.measured_steps import read_measured_steps
from slipstick.experiments.calibrate.measured_training import read_known
from slipstick.experiments.calibrate.measurements import read_measurements
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.experiments.cli.cli import run
from slipstick.experiments.jobs.job_measurements import read_job_measurements
from slipstick.experiments.methods.spmv.spmv_answers import KernelOptions, read_anchors

OPERATIONS = """machine,kind,dtype,m,n,k,stride,time_s
h100-sxm,gemm,fp16,4096,4096,4096,,2.1e-4
h100-sxm,gemm,fp16,4096,409x,4096,,fast
h100-sxm,gemn,fp16,4096,4096,4096,,2.1e-4
h100-sxm,gemm,fp17,4096,4096,4096,,2.1e-4
h100-sxn,gemm,fp16,4096,4096,,axb,2.1e-4
"""
TRAINING = """devices,step_s,tp,pp,precision,recompute,zero,batch
64,3.2,8,2,bf16,full,1,128
64,3.x2,8,2,bf17,full,1,128
63,3.2,8,2,bf16,full,1,128
64,3.2,8,2,bf16,ful,9,12.5
"""
STEPS = """step,dtype,engine,tensor,decodes,context,prompt,time_s
decode:llama-3.1-8b,bf16,vllm 0.19.0,1,8,1024,,0.0091
decod:llama-3.1-8b,bf16,vllm 0.19.0,1,8,1024,,0.0091
decode:llama-3.1-8b,bf17,vlm 0.19.0,1,x8,,,0.00y91
"""


WRONG: dict[str, tuple[str, ...]] = {
    OPERATIONS: (
        *("3: n = '409x'", "3: time_s = 'fast'", "4: unknown kind .*'gemn'", "5: unknown data type 'fp17'"),
        *("6: unknown machine 'h100-sxn'", "6: k is empty", "6: stride = 'axb'"),
    ),
    TRAINING: (
        *("3: unknown precision 'bf17'", "3: step_s = '3.x2'", "4: devices = 63", "5: unknown recompute 'ful'"),
        *("5: shard = '9'", "5: batch = '12.5'"),
    ),
    STEPS: (
        *("3: step = 'decod:", "4: unknown type of weights 'bf17'", "4: unknown serving engine 'vlm"),
        *("4: decodes = 'x8'", "4: context is empty", "4: time_s = '0.00y91'"),
    ),
    TRAINING.replace("devices", "devicess"): ("column 'devicess'; did you mean 'devices'",),
    STEPS.replace("decodes", "decods"): ("column 'decods'; did you mean 'decodes'",),
    STEPS.replace("step,", "stp,"): ("no column 'step'",),
}
"""A table, and what its error names."""


@pytest.mark.parametrize(("table", "problems"), WRONG.items())
def test_all_that_is_wrong_with_a_table_is_said_at_once(tmp_path: Path, table: str, problems: tuple[str, ...]) -> None:
    """In an order that is the file's own; a slip in the header is named, and no column is dropped for it."""
    path = tmp_path / "mine.csv"
    path.write_text(table)
    with pytest.raises(InputError) as error:
        read_calibration(None, measured=str(path), machine="h100-sxm")
    for problem in problems:
        assert error.match(problem)


def test_tables_of_a_fit_a_job_and_products_say_all_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("run.threads,time_s\n1,1.0\ntwo,0.5\n4,0.3s\n")
    with pytest.raises(
        InputError, match=r"2 problems: \(1\) line 3: run.threads: 'two'.*\(2\) line 4: time_s = '0.3s'"
    ):
        read_measurements(str(path), ss.workload("gemm"), ss.machine("xeon-phi-7120p"))
    path.write_text("step,step_s\n1,1.0\n2,-1\n1.5,1\n")
    with pytest.raises(InputError, match=r"2 problems: \(1\) line 3: step_s = -1.*\(2\) line 4: step = '1.5'"):
        read_job_measurements(str(path), ())
    path.write_text("matrix,time_s,caches\nno.mtx,1e-3,warm\nmine.csv,1e-3,war\n")
    with pytest.raises(InputError, match=r"2 problems: \(1\) .*no.mtx.*\(2\) line 3: .*'war'"):
        read_anchors(path, KernelOptions())


def test_a_table_that_is_measured_is_no_file_of_another_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint at another verb is for the file that was asked about."""
    path = tmp_path / "mine.csv"
    path.write_text(OPERATIONS)
    assert run(["estimate", "bert-base", "--on", "h100-sxm", "--measured", str(path)]) == 2
    assert "slipstick extrapolate" not in capsys.readouterr().err
    before = ["replay", "--on=h100-sxm", str(path)], ["seqpoint", "--counters", str(path)]
    for words in (["replay", str(path), "--on", "h100-sxm"], *before):
        assert run(words) == 2
        assert "slipstick extrapolate" in capsys.readouterr().err


def test_an_operation_that_reads_nothing_is_no_error_of_the_table(tmp_path: Path) -> None:
    """A step of training fills gradients: 'reads = 0.0: want numbers > 0' was said of one measured product."""
    path = tmp_path / "mine.csv"
    path.write_text("kind,dtype,m,n,k,time_s\ngemm,fp32,4096,4096,4096,3.1e-3\n")
    measured = read_calibration(None, measured=str(path), machine="h100-sxm")
    moved, plain = (ss.question("gpt2", "h100-sxm", calibration=one).answer().time for one in (measured, None))
    assert moved == pytest.approx(plain, rel=0.5)


def test_a_changed_machine_is_a_what_if_of_the_measured_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("step,decodes,context,time_s\ndecode:llama-3.1-8b,8,1024,0.0091\n")
    measured = read_calibration(None, measured=str(path), machine="h100-sxm")
    capped = ss.question("decode:llama-3.1-8b", "h100-sxm", settings=["machine.power.cap=350 W"], calibration=measured)
    assert any("machine.power.cap 350 W (measured at 700 W)" in one.text() for one in capped.answer().conditions)


def test_a_slip_in_a_header_or_a_machine_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("machine,kind,dtype,m,n,k,time_ss,time_s\n" + "h100-sxmm,gemm,fp32,64,64,64,,1e-3\n" * 30)
    with pytest.raises(InputError, match=r"2 problems: \(1\) unknown column 'time_ss'.*\(2\) line 2: .*'h100-sxmm'"):
        read_operation_times(path)
    path.write_text("devicess,step_s\n" + "8,1.0\n" * 30)
    with pytest.raises(InputError, match=r"2 problems: \(1\) .*did you mean 'devices'.*\(2\) no devices; want"):
        read_known(path)
    path.write_text("step,decodes,context,time_ms,time_s\n" + "decode:llama-3.1-8b,1,64,,1e-3\n" * 30)
    with pytest.raises(InputError, match=r"mine.csv: unknown column 'time_ms'"):
        read_measured_steps(path, ss.machine("h100-sxm"))
    path.write_text("job.threads,steps_s\n" + "1,1.0\n" * 30)
    with pytest.raises(InputError, match=r"2 problems: \(1\) unknown column 'steps_s'.*\(2\) no measured column"):
        read_job_measurements(str(path), ())
    path.write_text("run.threads,clok,time_s\n" + "1,2,1.0\n" * 30)
    with pytest.raises(InputError, match=r"unknown column 'clok'.*\(2\) line 3: the same settings as line 2"):
        read_measurements(str(path), ss.workload("gemm"), ss.machine("xeon-phi-7120p"))


def test_reading_ends_where_enough_is_wrong(tmp_path: Path) -> None:
    """Each of 30,000 lines was judged, and the nearest names looked for: 6.65 s of CPU time."""
    path = tmp_path / "mine.csv"
    path.write_text("machine,kind,dtype,m,n,k,time_s\n" + "h100-sxm,gem,fp32,64,64,64,1e-3\n" * 30_000)
    with pytest.raises(InputError, match=r"csv: at least 1,000 problems: \(1\) line 2: .*'gemm'.*\(and 992 more\)"):
        read_operation_times(path)
