"""Single layers as operations, for workloads put together by hand; `layers.tape` writes whole networks."""

from __future__ import annotations

from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import SIZE_BYTES, convolution_dims, operation
from slipstick.workloads.graph.workload import Attribute, Op

__all__ = ["SIZE_BYTES", "convolution", "dense", "elementwise", "gemm", "pool"]


def gemm(
    name: str, m: Amount, n: Amount, k: Amount, batch: Amount = 1, dtype: str = "float32", **attributes: Attribute
) -> Op:
    """Matrix products (batch, m, k) x (batch, k, n): 2 batch m n k flop; both inputs read, the output written."""
    return operation(name, "gemm", {"batch": batch, "m": m, "n": n, "k": k}, dtype, attributes)


def dense(name: str, batch: Amount, inputs: Amount, outputs: Amount, dtype: str = "float32") -> Op:
    """A fully connected layer, forward: weights (outputs, inputs) times input (inputs, batch), no bias.

    Examples
    --------
    >>> import slipstick as ss
    >>> layer = ss.operations.dense("layer", batch=32, inputs=1024, outputs=512)
    >>> layer.cost["flop.matrix.float32"] == 2 * 32 * 1024 * 512
    True
    """
    return gemm(name, m=outputs, n=batch, k=inputs, dtype=dtype)


def convolution(
    name: str,
    batch: Amount,
    channels_in: Amount,
    channels_out: Amount,
    kernel: tuple[int, int],
    out: tuple[Amount, Amount],
    stride: int = 1,
    groups: int = 1,
    dtype: str = "float32",
    **attributes: Attribute,
) -> Op:
    """A 2-D convolution, forward, without padding.

    Parameters
    ----------
    batch, channels_in, channels_out
        Shape of input and output: (batch, channels, height, width).
    kernel, out
        Height and width of the window and of the output, in elements.

    Examples
    --------
    >>> import slipstick as ss
    >>> op = ss.operations.convolution("conv", 8, 64, 128, kernel=(3, 3), out=(56, 56))
    >>> op.cost["flop.matrix.float32"] == 2 * 8 * 56 * 56 * 128 * 64 * 9
    True
    """
    given = [(size - 1) * stride + window for size, window in zip(out, kernel, strict=True)]
    dims = convolution_dims(batch, channels_in, channels_out, groups, given, out, kernel)
    return operation(name, "convolution", dims, dtype, {"stride": (stride, stride), **attributes})


def pool(
    name: str,
    batch: Amount,
    channels: Amount,
    kernel: tuple[int, int],
    out: tuple[Amount, Amount],
    dtype: str = "float32",
) -> Op:
    """Pooling over windows that do not overlap: one comparison or addition for each of the elements read.

    `batch`, `channels`, `out`: shape of the output: (batch, channels, height, width).
    `kernel`: height and width of the window, in elements.
    """
    window = kernel[0] * kernel[1]
    outputs = batch * channels * out[0] * out[1]
    return operation(name, "pool", {"inputs": outputs * window, "outputs": outputs, "window": window}, dtype)


def elementwise(
    name: str, elements: Amount, inputs: int = 1, function: str = "add", dtype: str = "float32", **attributes: Attribute
) -> Op:
    """An operation on single elements: `elements` results, each from `inputs` elements; as many flop as elements.

    ``memory="kept"`` says that the results go to an array that is there already (``out=``, as STREAM does), which
    ``cpu-kinds`` reads.

    Examples
    --------
    >>> import slipstick as ss
    >>> op = ss.operations.elementwise("add", 1000, inputs=2)
    >>> op.cost["read"], op.cost["written"]
    (8000, 4000)
    """
    dims: dict[str, Amount] = {"elements": elements, "reads": inputs * elements, "writes": elements}
    return operation(name, "elementwise", dims, dtype, {"function": function, **attributes})
