"""Precision as PyTorch chooses it: automatic mixed precision, and TensorFloat-32 in convolutions.

Sources: PyTorch documentation, "Automatic Mixed Precision package", CUDA ops that autocast to float16, to float32
(softmax, layer_norm, losses, exp, pow, sum ...) and to the widest input type; "CUDA semantics", TensorFloat-32 on
Ampere (allowed in convolutions, not in matrix products, unless requested).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, Cost
from slipstick.workloads.graph.kinds import ROWS, family_of, operation, product
from slipstick.workloads.graph.order import Neighbours
from slipstick.workloads.graph.work import AXES
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.dtype import in_dtype, rewritten
from slipstick.workloads.transforms.fusion import CAST, less

KEPT_FUNCTIONS = frozenset(
    (
        *("exp", "expm1", "log", "log10", "log2", "log1p", "pow", "reciprocal", "rsqrt", "softplus"),
        *("sum", "prod", "cumsum", "cumprod", "norm", "linalg_vector_norm", "logsumexp", "dist", "cdist"),
        *("mse_loss", "smooth_l1_loss", "huber_loss", "nll_loss_forward", "nll_loss2d_forward"),
        "binary_cross_entropy_with_logits",
    )
)
"""Functions that autocast computes in float32, of element-wise operations and reductions."""
HALF = ("float16", "bfloat16")
MIXED = "precision"
"""The fact of a workload that says which of these rewrites it has."""


def autocast(workload: Workload, dtype: str) -> Workload:
    """A step under torch.autocast: products in `dtype`; softmax, layer norms, losses in float32; the rest as it reads.

    Parameters, tables of embeddings and inputs are float32, so that what adds or multiplies them is too: the residual
    stream of a transformer from its embedding on, the result of a layer scale. What enters a product in float32, or
    leaves it for an operation in float32, is converted by an operation of its own for each that reads it; the weights
    of a product are converted once a step. A compiler joins conversions with their neighbours. Batch norms compute in
    float32 but read and write the type of their input.

    Raises
    ------
    InputError
        Where the data type is unknown.
    """
    narrow = in_dtype(workload, dtype)
    if dtype not in HALF:
        return narrow
    types = _Types(workload, dtype)
    for wide, small in zip(workload.operations, narrow.operations, strict=True):
        types.add(wide, small)
    facts = FrozenDict({**narrow.metadata, MIXED: "autocast"})
    return replace(narrow, operations=tuple(types.operations), edges=tuple(types.edges), metadata=facts)


class _Types:
    """The operations of a step in order, each with the type that its inputs give it."""

    def __init__(self, workload: Workload, dtype: str) -> None:
        self.dtype = dtype
        self.known = {op.name: op for op in workload}
        self.makers = Neighbours.of(self.known, workload.edges).before
        self.wide: set[str] = set()
        self.operations: list[Op] = []
        self.edges: dict[tuple[str, str], None] = {}

    def add(self, wide: Op, small: Op) -> None:
        """One operation, given in float32 and in 16 bits, with the conversions before it."""
        made = [name for name in self.makers[wide.name] if self._same_pass(name, wide)]
        converted: list[str] = []
        chosen = small
        if wide.dtype != "float32" or wide.kind == "optimizer":
            pass
        elif _kept(wide):
            chosen, converted = wide, [name for name in made if name not in self.wide]
            self.wide.add(wide.name)
        elif family_of(wide.kind).product:
            converted = [name for name in made if name in self.wide]
            self._add_weights(wide)
        elif family_of(wide.kind).follows and (self._reads_float32(wide, made) or self.wide & {*made}):
            chosen = self._mixed(wide, [name for name in made if name not in self.wide])
            self.wide.add(wide.name)
        self._join(wide, converted, to="float32" if chosen is wide else self.dtype)
        self.operations.append(chosen)

    def _same_pass(self, maker: str, op: Op) -> bool:
        """What a backward pass takes from the forward pass was saved as it is used."""
        return self.known[maker].attributes.get("phase") == op.attributes.get("phase")

    def _reads_float32(self, op: Op, made: list[str]) -> bool:
        """Whether it reads parameters or inputs of the network besides what the graph made."""
        if op.attributes.get("phase", "forward") != "forward":
            return False
        function = op.attributes.get("function")
        if op.kind == "elementwise" and function not in ("batch_norm", "random"):
            beside = op.dims["reads"] - op.dims["elements"]
            return not made or (len(made) == 1 and beside != 0 and not self._is_bias(op, made[0], beside))
        return op.kind in ("view", "gather") and not made

    def _is_bias(self, op: Op, maker: str, beside: Amount) -> bool:
        """Whether it adds the bias of a dense layer, which is converted as its weights are."""
        root = self._root(maker)
        product_before = op.attributes.get("function") == "add" and bool(root) and self.known[root].kind == "gemm"
        return product_before and beside in (self.known[root].dims["m"], self.known[root].dims["n"])

    def _mixed(self, op: Op, narrow: list[str]) -> Op:
        """In float32, reading so many results of half the size."""
        if op.kind == "view" or not narrow:
            return op
        saved = sum((SIZE_BYTES["float32"] - SIZE_BYTES[self.dtype]) * _elements(self.known[name]) for name in narrow)
        return replace(op, cost=Cost({**op.cost, "read": less(op.cost["read"], saved)}))

    def _add_weights(self, op: Op) -> None:
        """The conversion of the weights of a forward product; those of a recurrent layer lie in one buffer."""
        elements = _weights(op) if op.attributes.get("phase", "forward") == "forward" else 0
        roots = [self._root(name) for name in self.makers[op.name]]
        if elements == 0 or "" in roots or (op.kind == "gemm" and len(set(roots)) > 1):
            return  # two results of the graph, or a view of the weights that is converted as any other
        cast = _cast(op, f"{op.name}.weight_{self.dtype}", elements, "float32", self.dtype)
        self.operations.append(cast)
        self.edges[cast.name, op.name] = None

    def _root(self, name: str) -> str:
        """The operation that made what a chain of views shows; "" for an input of the network."""
        while name and self.known[name].kind == "view":
            name = next(iter(self.makers[name]), "")
        return name

    def _join(self, op: Op, converted: list[str], to: str) -> None:
        for place, name in enumerate(self.makers[op.name]):
            if name not in converted:
                self.edges[name, op.name] = None
                continue
            before = self.dtype if to == "float32" else "float32"
            label = f"{op.name}.in{place or ''}_{to}"
            cast = _cast(op, label, _elements(self.known[name]), before, to)
            self.operations.append(cast)
            self.edges |= {(name, cast.name): None, (cast.name, op.name): None}


def tf32_convolutions(workload: Workload) -> Workload:
    """The same with float32 convolutions on the matrix units in TensorFloat-32, as PyTorch does where they can."""
    return _rounded(workload, ("convolution",), "tf32 convolutions")


def cast_products(workload: Workload) -> Workload:
    """The same with all float32 products at the rate of 16 bits, as the Neuron compiler casts them by default.

    Operands stand in memory in float32: the type is TensorFloat-32, whose rate is bfloat16's on these engines. "By
    default, the Neuron Compiler will automatically cast FP32 matrix multiplication operations to BF16" (AWS Neuron
    documentation, "Mixed Precision and Performance-accuracy Tuning (neuronx-cc)").
    """
    return _rounded(workload, ("gemm", "convolution"), "cast products")


def _rounded(workload: Workload, kinds: Collection[str], fact: str) -> Workload:
    """The workload with float32 operations of these kinds in TensorFloat-32."""
    chosen = [op.kind in kinds and op.dtype == "float32" for op in workload.distinct.operations]
    if not any(chosen):
        return workload
    pairs = zip(workload.distinct.operations, chosen, strict=True)
    facts = FrozenDict({**workload.metadata, MIXED: fact})
    return workload.changed(tuple(rewritten(op, "tfloat32") if rounds else op for op, rounds in pairs), facts)


def precision_notes(facts: Mapping[str, object]) -> tuple[str, ...]:
    """In words, where a workload was rewritten here."""
    match facts.get(MIXED):
        case "autocast":
            return (
                "mixed precision as torch.autocast has it: softmax, layer norms and losses in float32; its "
                "casts are operations too: where the host bounds a step, it is slower than in float32",
            )
        case "tf32 convolutions":
            return ("convolutions in TF32, products in float32, as PyTorch by default",)
        case "cast products":
            return ("products of float32 cast to bfloat16, as the Neuron compiler by default",)
    return ()


def _kept(op: Op) -> bool:
    function = op.attributes.get("function")
    if family_of(op.kind) is ROWS:
        return function != "batch"
    return op.kind in ("elementwise", "reduction") and function in KEPT_FUNCTIONS


def _elements(op: Op) -> Amount:
    """Elements of what an operation in float32 makes; statistics beside a norm's result do not count."""
    if op.kind in ("norm", "view"):
        return op.dims["elements"]
    return op.cost["written"] / SIZE_BYTES["float32"]


def _weights(op: Op) -> Amount:
    """Elements of the weights of a product, 0 where it has none or they are not known."""
    d = op.dims
    if op.kind == "gemm" and d["batch"] == 1:
        return d["m"] * d["k"]
    if op.kind == "convolution":
        return d["channels_out"] * d["channels_in"] / d["groups"] * product(d[f"kernel_{axis}"] for axis in AXES)
    return 0


def _cast(op: Op, name: str, elements: Amount, before: str, after: str) -> Op:
    """A conversion of so many elements before `op`."""
    kept = {key: value for key, value in op.attributes.items() if key == "phase"}
    dims = {"elements": elements, "reads": elements, "writes": elements}
    made = operation(name, "elementwise", dims, after, {"function": CAST, **kept}, times=op.times)
    sizes = {"read": SIZE_BYTES[before] * elements, "written": SIZE_BYTES[after] * elements}
    return replace(made, cost=Cost({**made.cost, **sizes}))
