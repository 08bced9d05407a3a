"""A brick of a stranger run on shapes alone, so that what it takes is known before a byte is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from slipstick.common.errors import InputError

MAX_BYTES = 8 << 30
MAX_STEPS = 50_000
MAX_PARTS = 10_000
MAX_FLOP = 1e14
_PARTED = {"unbind": "dim", "split": "split_size", "chunk": "chunks", "tensor_split": "sections"}


@contextmanager
def shapes_only(where: str) -> Iterator[None]:
    """Inside, torch computes shapes and allocates nothing.

    Raises InputError where the results take more than 8 GiB together, or take more than 50,000 steps or 1e14 flop.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import FlopCounterMode

    class Bounded(TorchDispatchMode):  # type: ignore[misc]  # a class of torch's, which is imported only where bricks are measured
        def __init__(self) -> None:
            super().__init__()
            self.steps = 0
            self.taken = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise InputError(f"{where}: takes more than {MAX_STEPS} steps")
            result = func(*args, **(kwargs or {}))
            for value in tree_leaves(result):
                size = getattr(value, "nbytes", 0)
                if size > MAX_BYTES:
                    raise InputError(f"{where}: a result of {func} takes more than {MAX_BYTES >> 30} GiB")
                if func.is_view:
                    continue
                self.taken += size
            if self.taken > MAX_BYTES:
                raise InputError(f"{where}: its results take more than {MAX_BYTES >> 30} GiB together")
            return result

    with FakeTensorMode(), FlopCounterMode(display=False) as counter, Bounded():
        yield
        if counter.get_total_flops() > MAX_FLOP:
            raise InputError(f"{where}: takes more than {MAX_FLOP:g} flop")


def check_parts(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], where: str) -> None:
    """Check into how many parts an operation would cut a tensor.

    Raises InputError where they are more than 10,000, or the dimension does not exist.
    """
    name = getattr(target, "_overloadname", None) and target._opname
    if name not in _PARTED:
        return
    schema = [argument.name for argument in target._schema.arguments]
    given = {**dict(zip(schema, args, strict=False)), **kwargs}
    tensor = next(iter(given.values()))
    place = given.get("dim", 0)
    if not isinstance(place, int) or not -tensor.dim() <= place < max(1, tensor.dim()):
        raise InputError(f"{where}: {target} along dimension {str(place)[:40]}")
    length = int(tensor.shape[place]) if tensor.dim() else 1
    wanted = given.get(_PARTED[name])
    if name == "unbind":
        parts = length
    elif name == "split":
        parts = length // wanted if isinstance(wanted, int) and wanted > 0 else 0
    else:
        parts = wanted if isinstance(wanted, int) else 0
    if parts > MAX_PARTS:
        raise InputError(f"{where}: {target} makes {parts} parts, more than {MAX_PARTS}")
