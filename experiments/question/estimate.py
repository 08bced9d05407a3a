"""The verb `estimate` as a function: a workload on a machine, answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.protocols import Estimator, Fitted
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.experiments.question.question import question
from slipstick.experiments.question.settings import Value, with_numbers
from slipstick.experiments.question.unused_inputs import examined
from slipstick.experiments.question.user_code import own_workload
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration


@checked
def estimate(
    workload: str | Workload,
    machine: str | Machine,
    *,
    estimator: str | ShippedEstimator | Estimator | None = None,
    settings: Mapping[str, Value] | Sequence[str] = (),
    dtype: str | None = None,
    calibration: Fitted | DeviceCalibration | None = None,
    quantity: str | None = None,
    input: Sequence[str] = (),  # noqa: A002
    train: str | None = None,
    allow_code: Sequence[str] = (),
    work: str | None = None,
    attention: str | None = None,
    **numbers: Value,
) -> Estimate:
    """How long a workload takes on a machine: time [s], band, and what each operation is bound by.

    Parameters
    ----------
    workload, machine, estimator
        Names as on the command line, or objects.
    settings
        Numbers that are not the default: {"workload.batch": 8, "machine.clock": "1.2 GHz"}.
    dtype
        The data type to compute in ("bfloat16").
    calibration
        What answers instead of the estimator (`read_calibration`); of a time or table that was measured,
        ``read_calibration(None, "23.4ms", machine)``, as `--measured` does.
    quantity
        What is wanted of an answer with several quantities ("ttft").
    input, train, allow_code
        Of a torch program, ``FILE.py:FUNCTION``, as text: shapes of its inputs (``"batch,3,224,224"``), the optimizer
        with which it trains, and that name again, since its code is run.
    work
        "train", "forward", "prefill" or "decode", where the workload is a model's name.
    attention
        "flash", in one kernel, or "parts", as the graph has it.
    numbers
        Sizes and numbers of the run by their words, as options of the command line: ``batch=8``, ``threads=240``.

    Returns
    -------
    Estimate
        `time` and `interval()` in seconds, `parts`, `conditions`, `not_used`, `assumptions`.

    Raises
    ------
    InputError
        Where a name or a number cannot be used.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.estimate("gpt2", "h100", batch=4).work
    'training step, 4 x 1,024 tokens, float32, eager, TF32 off'
    >>> ss.estimate("gpt2", "h100", dtype="bf16").time < ss.estimate("gpt2", "t4", dtype="fp16").time
    True
    """
    subject = own_workload(workload, machine, input, train, allow_code, work)
    settings = with_numbers(estimate, settings, numbers, subject)
    put = question(
        subject, machine, estimator, settings, dtype, calibration=calibration, quantity=quantity, attention=attention
    )
    return examined(put)
