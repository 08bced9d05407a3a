"""Where torch runs what is timed: the processor, by its thread's clock, or a GPU, whose work has to be waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.common.readers import unknown_name
from slipstick.experiments.measure.clocks.timing import Protocol, Task

DEVICES = ("cpu", "cuda", "rocm", "mps")
"""AMD's GPUs stand under torch.cuda as well, where torch was built for ROCm; Apple's under torch.mps."""
EAGER, COMPILED = MODES = ("eager", "compiled")


def _nothing() -> None:
    """A processor's call has ended when it returns."""


@dataclass(frozen=True)
class TorchDevice:
    """A device by torch's name.

    `place`: torch's name: "cpu", "cuda" (AMD's too), "mps".
    `model`: what the device calls itself; part of the software that results are kept under. Empty for the processor.
    `finish`: waits until everything that was launched has ended.
    `mode`: "eager", or "compiled": every module goes through torch.compile first, which may fuse what it holds.
    """

    place: str = "cpu"
    model: str = ""
    finish: Callable[[], None] = _nothing
    mode: str = EAGER

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise unknown_name("mode", self.mode, MODES)

    @property
    def launches(self) -> bool:
        """Whether calls return before their work has ended."""
        return self.place != "cpu"

    def protocol(self, protocol: Protocol) -> Protocol:
        """The same by the clock that sees the device: a GPU's work is not on the thread's."""
        from dataclasses import replace

        return replace(protocol, clock="wall") if self.launches else protocol

    def moved(self, module: Any, inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """A module and its inputs on the device; in mode compiled it is compiled and has run once.

        Raises InputError where torch.compile cannot compile it here.
        """
        if self.launches:
            module, inputs = module.to(self.place), tuple(value.to(self.place) for value in inputs)
        return (module if self.mode == EAGER else _compiled(module, inputs)), inputs

    def ended(self, task: Task) -> Task:
        """The task, over when its work is."""
        if not self.launches:
            return task

        def once() -> object:
            value = task()
            self.finish()
            return value

        return once


def _compiled(module: Any, inputs: tuple[Any, ...]) -> Any:
    made = torch.compile(module, dynamic=False)
    try:
        made(*inputs)
    except Exception as error:  # the compiler's own kinds, and those of the C++ compiler that it calls
        reason = " ".join(str(error).split())[:160]
        raise InputError(
            f"--mode {COMPILED}: torch.compile of torch {torch.__version__} fails here, which wants a C++ compiler "
            f"(g++) on a processor and triton on a GPU; --mode {EAGER} needs neither ({type(error).__name__}: {reason})"
        ) from error
    return made


CPU = TorchDevice()


def torch_device(name: str, mode: str = EAGER) -> TorchDevice:
    """A device by name, and how torch runs what is timed there.

    Raises InputError where a name is unknown, or torch sees no such device here.
    """
    if name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    if name == "cpu":
        return TorchDevice(mode=mode)

    if name == "mps":
        there, called, finish = torch.backends.mps.is_available(), "Apple GPU", torch.mps.synchronize
    else:
        there = torch.cuda.is_available() and (name == "cuda" or bool(torch.version.hip))
        called, finish = str(torch.cuda.get_device_name()) if there else "", torch.cuda.synchronize
    if not there:
        raise InputError(f"--device {name}: torch {torch.__version__} sees no such device here")
    return TorchDevice("mps" if name == "mps" else "cuda", called, finish, mode)
