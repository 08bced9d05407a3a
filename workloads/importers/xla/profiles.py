"""Steps of the profiles of TPUs, JAX and TensorFlow, whichever of their forms a file has."""

from __future__ import annotations

from pathlib import Path

from slipstick.workloads.runs.step_profiles import StepProfile


def profiled_steps(path: Path) -> list[StepProfile] | None:
    """Steps of an XPlane, of a trace of JAX or TensorBoard, or of a summary of TensorBoard; None for other files.

    Raises InputError where the file is one of these and cannot be read, or shows no steps.
    """
    from slipstick.workloads.importers.traces import tensorboard_profile
    from slipstick.workloads.importers.xla import xplane

    name = path.name.removesuffix(".gz")
    if name.endswith(".xplane.pb"):
        return xplane.read_xplane(path)
    if name.endswith("input_pipeline.json"):
        return tensorboard_profile.read_input_pipeline(path)
    if name.endswith("pod_viewer.json"):
        return tensorboard_profile.read_pod_viewer(path)
    if name.endswith(".json") and path.is_file() and xplane.is_profile_of_xla(path):
        return xplane.read_trace(path)
    return None
