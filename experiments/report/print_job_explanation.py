"""What `slipstick explain` prints of a job."""

from __future__ import annotations

from slipstick.common.formatting import shown
from slipstick.experiments.jobs.simulate_job import job_reasons
from slipstick.experiments.report.output import emit
from slipstick.experiments.report.print_job import JobRequest
from slipstick.experiments.report.progress import progress_bar


def print_reasons(request: JobRequest, rows: int) -> None:
    """Stages, busiest first, and what half and twice of each number would do; JSON has both, CSV the numbers."""
    question = request.question()
    with progress_bar(request.name, 1) as progress:
        known = job_reasons(question, progress)
    if request.form == "json":
        head = {"job": known.job.name, "time_s": known.seconds, "assumptions": list(known.assumptions)}
        emit([{**head, "stages": list(known.stages), "changes": list(known.changes)}], request.form)
        return
    if request.form == "csv":
        emit(list(known.changes), request.form)
        return
    head_line = f"{known.job.name}: {shown(known.seconds, 's')}, {known.job.steps} steps, simulated"
    emit(list(known.stages), request.form, "how busy each stage is", [*known.assumptions, head_line])
    print()
    emit(
        list(known.changes)[:rows],
        request.form,
        "time over today's where a number halves or doubles, what moves most first",
    )
