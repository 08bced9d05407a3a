"""Categories that profilers give to events, in lower case.

CUDA's and ROCm's profilers both write through Kineto (github.com/pytorch/kineto, libkineto/src/ActivityType.cpp): HIP
calls come as "cuda_runtime" or "hip_runtime", under their own names (hipLaunchKernel, hipExtModuleLaunchKernel,
hipMemcpyWithStream, ...).
"""

from __future__ import annotations

DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy", "memcpy": "copy", "memset": "copy"}
"""Work on an accelerator, and what kind of work it is."""
CALLS = ("cuda_runtime", "runtime", "cuda_driver", "driver", "hip_runtime")
"""Calls of the host to the accelerator's runtime, which launch its work and wait for it."""
HOST = ("cpu_op", "operator")
"""Operations of a framework on the host."""
