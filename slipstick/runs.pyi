"""Recorded and simulated runs: representative iterations, traces, jobs and queues."""

from .estimators.run.representative import select as select
from .estimators.run.warm_up import warm_up as warm_up
from .experiments.traces.recorded import read_recorded as read_recorded
from .experiments.traces.trace_whatif import Change as Change
from .experiments.traces.trace_whatif import trace_whatif as trace_whatif
from .experiments.subjects.jobs.job_fit import fit_job as fit_job
from .estimators.calibration.job_calibration import load_job_calibration as load_job_calibration
from .estimators.schedule.simulation.queueing import Visit as Visit
from .estimators.schedule.simulation.queueing import closed_network as closed_network
