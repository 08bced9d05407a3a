"""Recorded and simulated runs: representative iterations, traces, jobs and queues."""

from .estimators.sampling.seqpoint import select as select
from .estimators.sampling.warm_up import warm_up as warm_up
from .experiments.replay.replay import read_recorded as read_recorded
from .experiments.replay.trace_whatif import TraceChange as TraceChange
from .experiments.replay.trace_whatif import trace_whatif as trace_whatif
from .experiments.jobs.job_fit import fit_job as fit_job
from .estimators.simulation.job_calibration import load_job_calibration as load_job_calibration
from .estimators.simulation.queueing import StationVisit as StationVisit
from .estimators.simulation.queueing import closed_network as closed_network
from .estimators.simulation.stage import Process as Process
from .workloads.runs.iterations import Iterations as Iterations
