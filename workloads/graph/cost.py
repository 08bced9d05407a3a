"""Hardware-free counts of one operation."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic, sp, value_at
from slipstick.common.records import FrozenDict
from slipstick.common.units import check_count
from slipstick.workloads.graph.exact import exactly

Amount: TypeAlias = "int | float | sp.Expr"
LARGEST = 1e30
"""Of an amount: a million times the operations of the largest training."""

RESOURCES = {
    "flop": "flop.UNIT.DTYPE: operations of a unit (matrix, vector, special) on floats or int8; a multiply-add is two",
    "read": "bytes read from memory",
    "written": "bytes written to memory",
    "link": "link.NAME: bytes over a link (infeed, network, ...)",
    "launches": "kernels launched",
    "host": "host.NAME: work of the host (host.seconds, host.bytes, ...)",
    "instructions": "instructions of one thread, where a paper counts those",
}

SIZE_BYTES: Mapping[str, float] = {
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "float32": 4,
    "tfloat32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8": 1,
    "float8_block": 1 + 4 / 128**2,
    "mxfp8": 8.25 / 8,
    "mxfp6": 6.25 / 8,
    "nvfp4": 4.5 / 8,
    "mxfp4": 4.25 / 8,
    "float4": 0.5,
    "int4": 0.5 + 2.5 / 128,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Bytes of one number with its share of the scales. MXFP4, MXFP6, MXFP8: 32 numbers share a scale of 8 bits (OCP
Microscaling Formats specification v1.0, 2023, table 1); NVFP4: 16 share one (NVIDIA, "Introducing NVFP4", 2025);
float8_block: 128 x 128 weights share a float32 (DeepSeek-AI, arXiv 2412.19437, section 3.3; the scales of activations,
one for 128, are not counted); int4: GPTQ's and AWQ's 16-bit scale and 4-bit zero for each 128."""
BLOCK_SCALED = ("nvfp4", "mxfp4", "mxfp6", "mxfp8")
"""Formats whose scales the matrix engine itself applies: a machine states their rates one by one."""
WIDE_RESULTS = (*BLOCK_SCALED, "float4", "float8_block")
"""Data types of operands alone: results of their products are numbers of 16 bits."""
RATED_AS: Mapping[str, str] = {
    "complex64": "float32",
    "complex128": "float64",
    "uint8": "int8",
    "float8_block": "float8",
}
"""Data types that machines state no rate for: the one whose rate serves them."""


def result_bytes(dtype: str) -> float:
    """Bytes of a number that an operation in `dtype` writes: 2 where the type is one of operands alone."""
    return 2 if dtype in WIDE_RESULTS else SIZE_BYTES[dtype]


def is_floating(dtype: str) -> bool:
    """Whether a data type holds floating-point numbers, block-scaled ones too.

    >>> is_floating("nvfp4"), is_floating("int8")
    (True, False)
    """
    return "float" in dtype or dtype in BLOCK_SCALED


class Cost(Mapping[str, Amount]):
    """An addable mapping from a resource to its amount; amounts are numbers or sympy expressions.

    Resources are listed in `RESOURCES`. What is not there is 0.

    Raises
    ------
    InputError
        Where a resource has no known name, or an amount is a negative number.

    Examples
    --------
    >>> gemm = Cost({"flop.matrix.float32": 2 * 8 * 8 * 8, "read": 512, "written": 256})
    >>> (gemm + gemm).flop, (3 * gemm)["read"], gemm.arithmetic_intensity
    (2048, 1536, 1.3333333333333333)
    """

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, Amount] | None = None) -> None:
        for resource, amount in (amounts or {}).items():
            check_resource(resource)
            if not is_symbolic(amount) and not 0 <= amount <= LARGEST:
                raise InputError(f"resource {resource!r} = {amount!r}: want an amount >= 0, up to {LARGEST:g}")
        self._amounts = FrozenDict({name: amount for name, amount in (amounts or {}).items() if amount != 0})

    def __getitem__(self, resource: str) -> Amount:
        return self._amounts.get(resource, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def items(self) -> ItemsView[str, Amount]:
        """Resources and their amounts, in their order."""
        return self._amounts.items()

    def __len__(self) -> int:
        return len(self._amounts)

    def __hash__(self) -> int:
        return hash(self._amounts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cost) and self._amounts == other._amounts

    def __repr__(self) -> str:
        return f"Cost({dict(self._amounts)!r})"

    def __reduce__(self) -> tuple[type[Cost], tuple[dict[str, Amount]]]:
        return Cost, (dict(self._amounts),)

    def __add__(self, other: Cost) -> Cost:
        return Cost({name: self[name] + other[name] for name in [*self, *(n for n in other if n not in self._amounts)]})

    def __mul__(self, times: Amount) -> Cost:
        return Cost({name: amount * times for name, amount in self.items()})

    __rmul__ = __mul__

    @property
    def amounts(self) -> FrozenDict[Amount]:
        """The same as a table."""
        return self._amounts

    def using(self, amounts: FrozenDict[Amount]) -> Cost:
        """Other amounts of the same resources."""
        made = object.__new__(Cost)
        made._amounts = amounts
        return made

    @property
    def flop(self) -> Amount:
        """Operations of all units and data types; a multiply-add is two."""
        return sum(amount for name, amount in self.items() if name.startswith("flop."))

    @property
    def bytes_moved(self) -> Amount:
        """Bytes read and written."""
        return self["read"] + self["written"]

    @property
    def moves(self) -> bool:
        """Whether anything is read or written; nobody computes how much."""
        return "read" in self._amounts or "written" in self._amounts

    @property
    def arithmetic_intensity(self) -> Amount:
        """flop per byte moved; infinite where nothing is moved."""
        moved = self.bytes_moved
        return self.flop / moved if moved != 0 else float("inf")


def check_resource(name: str) -> None:
    """Check the name of a resource, as costs want it.

    Raises InputError where its first word is not in `RESOURCES`, or flop has no unit and data type.
    """
    word = name.partition(".")[0]
    if word not in RESOURCES:
        raise InputError(f"unknown resource {name[:60]!r} (known: {', '.join(RESOURCES)})")
    if word == "flop" and name.count(".") != 2:
        raise InputError(f"resource {name[:60]!r}: want flop.UNIT.DTYPE, such as flop.matrix.float32")


def symbols_of(amount: Amount) -> frozenset[str]:
    """Names of the symbols in an amount."""
    return _symbols_of(amount) if is_symbolic(amount) else frozenset()


@lru_cache(maxsize=16_384)
def _symbols_of(expression: sp.Basic) -> frozenset[str]:
    # A graph repeats a few expressions thousands of times.
    return frozenset(str(s) for s in expression.free_symbols)


def bind_amount(amount: Amount, values: Mapping[str, Amount]) -> Amount:
    """The amount with symbols replaced by name; a plain number where nothing is left open.

    Raises InputError as `value_at`, and beyond `LARGEST`.
    """
    if not is_symbolic(amount):
        return amount
    exact = exactly(amount, values)
    if exact is not None and -LARGEST <= exact <= LARGEST:
        return exact
    number = value_at(amount, values)
    if isinstance(number, (int, float)) and abs(number) > LARGEST:
        where = ", ".join(f"{symbol} = {values[symbol]}" for symbol in sorted(symbols_of(amount)) if symbol in values)
        raise InputError(f"{str(amount)[:60]} at {where} is {number:.4g}: want a number up to {LARGEST:g}")
    return number


MAY_BE_NONE = ("context", "decodes", "finished", "past", "prompt")
"""Sizes of which there may be none: tokens before a step, tokens of a prompt in it, prompts that end in it."""


def check_size(name: str, value: Amount, defaults: Mapping[str, float], space: str = "workload") -> None:
    """Check a size that is a number: whole and >= 1; any > 0 of a share.

    A share is NAME_ratio, NAME_load, or what has a default that is not whole.

    `space`: where it was set, for messages: a number of the run may give a size too.
    Raises InputError where it is none.
    """
    if not isinstance(value, (int, float)):
        return
    if not (name.endswith(("_ratio", "_load")) or float(defaults.get(name, 1)) % 1):
        check_count(f"{space}.{name}", value, 0 if name in MAY_BE_NONE else 1)
    elif not 0 < value <= LARGEST:
        raise InputError(f"{space}.{name} = {value:g}: want a finite number > 0")
