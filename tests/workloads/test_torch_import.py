"""Imports from torch against closed forms, torch's own counter where it is right, and static imports."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_file import load_workload

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
nn = torch.nn

from slipstick.workloads.importers.torch.arguments import Input  # noqa: E402
from slipstick.workloads.importers.torch.importer import import_torch  # noqa: E402
from slipstick.workloads.importers.torch.recorder import make_recorder  # noqa: E402


def matrix_flop(graph: Workload, phase: str) -> Any:
    total: Any = sp.Integer(0)
    for op in graph:
        if op.attributes.get("phase", "forward") == phase:
            total += op.cost[f"flop.matrix.{op.dtype}"] * op.times
    return sp.expand(total)


def kinds(graph: Workload) -> list[str]:
    return [op.kind for op in graph]


def test_a_dense_network_is_the_products_one_would_write_by_hand() -> None:
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))
    graph = import_torch(model, [Input(("batch", 10))])
    products = [tuple(map(str, (op.dims["m"], op.dims["n"], op.dims["k"]))) for op in graph if op.kind == "gemm"]
    forward, backward = [("20", "batch", "10"), ("5", "batch", "20")], [("20", "batch", "5"), ("20", "5", "batch")]
    assert products == [*forward, *backward, ("10", "20", "batch")]  # images need no gradient: one product less
    assert graph.metadata["parameters"] == 10 * 20 + 20 + 20 * 5 + 5
    assert kinds(graph).count("optimizer") == 4
    assert not graph.uncounted


def test_edges_follow_memory_through_views_and_in_place_operations() -> None:
    def change(x: Any) -> Any:
        y = x * 2
        left = y.narrow(1, 0, 4)
        left.add_(1)  # writes into y through a view
        return y.sum()

    graph = import_torch(change, [Input(("batch", 8))], purpose="inference")
    assert {op.name for op in graph} == {"mul", "slice", "add_", "sum"}
    assert set(graph.edges) == {("mul", "slice"), ("slice", "add_"), ("mul", "add_"), ("add_", "sum")}


def test_what_overwrites_waits_for_earlier_readers() -> None:
    def change(x: Any) -> Any:
        y = x + 1
        z = y.exp()
        y.zero_()
        return y + z

    graph = import_torch(change, [Input((4, 8))], purpose="inference")
    assert ("exp", "zero_") in graph.edges


def test_grouped_convolution_backward_is_twice_forward() -> None:
    # torch's counter ignores groups in backward and says 65 times here.
    model = nn.Sequential(nn.Conv2d(3, 64, 1), nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False))
    graph = import_torch(model, [Input(("batch", 3, 16, 16))])
    flop = {"forward": 0, "backward": 0}
    for op in graph:
        if op.kind == "convolution" and op.dims["groups"] == 64:
            flop[str(op.attributes.get("phase", "forward"))] += op.cost["flop.matrix.float32"]  # type: ignore[assignment]
    assert flop["forward"] == parse_expression("2*batch*64*9*16*16")
    assert sp.expand(flop["backward"] - 2 * flop["forward"]) == 0


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_modules_keep_batch_and_length_open(kind: str) -> None:
    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(100, 32)
            self.layers = getattr(nn, kind)(32, 64, num_layers=2, bidirectional=True, batch_first=True)
            self.classifier = nn.Linear(128, 100)

        def forward(self, x: Any) -> Any:
            return self.classifier(self.layers(self.words(x))[0])

    graph = import_torch(Model(), [Input(("batch", "seq_len"), "int64")])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    a_token = 2 * gates * 64 * ((32 + 64) + (128 + 64)) * 2 + 2 * 128 * 100
    assert matrix_flop(graph, "forward") == parse_expression(f"{a_token}*batch*seq_len")
    assert matrix_flop(graph, "backward") == parse_expression(f"{2 * a_token}*batch*seq_len")
    assert graph.symbols == {"batch", "seq_len"}
    assert kinds(graph).count("optimizer") == 1 + 16 + 2
    assert nn.LSTM.forward.__module__.startswith("torch")


def test_half_precision_recurrences_and_updates_are_counted_as_such() -> None:
    graph = import_torch(nn.LSTM(16, 24, batch_first=True).half(), [Input(("batch", "seq_len", 16), "float16")])
    assert {op.dtype for op in graph} == {"float16"}
    step = next(op for op in graph if op.kind == "recurrent")
    assert step.cost["flop.matrix.float16"] == parse_expression("2*batch*4*24*24")


def deep_speech() -> Any:
    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(1, 4, (41, 11), (2, 2), (20, 5))
            self.layers = nn.GRU(4 * 81, 32, bidirectional=True, batch_first=True)
            self.classifier = nn.Linear(64, 29)

        def forward(self, x: Any) -> Any:
            x = self.convolution(x)
            batch, channels, frequencies, frames = x.shape
            x = x.permute(0, 3, 1, 2).reshape(batch, frames, channels * frequencies)
            return self.classifier(self.layers(x)[0])

    return Model()


def test_a_strided_convolution_halves_the_length_that_recurrences_see() -> None:
    graph = import_torch(deep_speech(), [Input(("batch", 1, 161, "seq_len"))], hints={"seq_len": 83})
    steps = [op for op in graph if op.kind == "recurrent"]
    assert {op.times for op in steps} == {parse_expression("floor((seq_len - 1)/2) + 1")}
    classifier = next(op for op in graph if op.name == "classifier.addmm").bind({"batch": 64, "seq_len": 803})
    assert (classifier.dims["m"], classifier.dims["n"], classifier.dims["k"]) == (29, 25728, 64)


def attention_block() -> Any:
    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
            self.norm = nn.LayerNorm(64)

        def forward(self, x: Any) -> Any:
            return self.norm(x + self.attention(x, x, x, need_weights=False)[0])

    return Block()


@pytest.mark.parametrize(
    ("build", "shape", "lengths"),
    [
        (attention_block, ("batch", "seq_len", 64), (12, 33, 50)),
        (deep_speech, ("batch", 1, 161, "seq_len"), (40, 75, 120)),
        (lambda: nn.LSTM(16, 24, batch_first=True), ("batch", "seq_len", 16), (9, 30)),
    ],
)
def test_binding_a_length_equals_importing_at_that_length(build: Any, shape: Any, lengths: tuple[int, ...]) -> None:
    model = build()
    graph = import_torch(model, [Input(shape)])
    for length in lengths:
        fixed = tuple(3 if size == "batch" else length if size == "seq_len" else size for size in shape)
        static = import_torch(model, [Input(fixed)])
        assert static.identity == graph.bind(batch=3, seq_len=length).identity


def test_a_tensor_at_the_address_of_a_dead_view_is_not_that_view() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    reused = 0
    for _ in range(20):
        environment = ShapeEnv()
        recorder = make_recorder(environment)
        with FakeTensorMode(shape_env=environment), recorder:
            x = torch.empty(4, 8) + 1
            view = x.t()
            address = id(view)
            del view
            alias = x.detach()
            reused += id(alias) == address
            alias + 2
        names = [node.name for node in recorder.nodes]
        assert {names[i] for i, _ in recorder.nodes[-1].before} == {"add"}, names
    if not reused:
        pytest.skip("Python used no address again: nothing is shown")


def test_fused_attention_is_counted_with_its_quadratic_term() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v)

    heads = Input(("batch", 8, "seq_len", 64))
    graph = import_torch(attend, [heads, heads, heads], purpose="inference")
    assert matrix_flop(graph, "forward") == parse_expression("2*batch*8*seq_len**2*(64 + 64)").expand()


def test_a_size_that_torch_fixes_in_backward_is_interpolated_and_said_so() -> None:
    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return nn.functional.interpolate(self.first(x), scale_factor=2, mode="bilinear")

    graph = import_torch(Model(), [Input(("batch", 3, 16, 16))])
    assert any("interpolated" in str(note) for note in graph.metadata["assumptions"])  # type: ignore[union-attr]
    static = import_torch(Model(), [Input((7, 3, 16, 16))])
    assert graph.bind(batch=7).cost == static.cost


def test_conditions_on_sizes_are_listed() -> None:
    def branch(x: Any) -> Any:
        return x * 2 if x.shape[0] <= 100 else x + 1

    graph = import_torch(branch, [Input(("rows", 4))], purpose="inference")
    assert graph.metadata["assumptions"] == ("rows <= 100",)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (
            nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2)),
            (2, 3, 20, 20),
        ),
        (nn.Sequential(nn.ConvTranspose2d(3, 8, 4, 2, 1), nn.Conv2d(8, 4, 5, dilation=2)), (2, 3, 20, 20)),
        (nn.Sequential(nn.Conv1d(3, 8, 5), nn.Conv1d(8, 8, 3, padding=1)), (2, 3, 20)),
        (nn.Sequential(nn.Conv3d(3, 8, 3), nn.Flatten(), nn.LazyLinear(5)), (2, 3, 6, 6, 6)),
    ],
)
def test_forward_equals_torch_s_counter_where_that_is_right(model: Any, shape: tuple[int, ...]) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model(torch.zeros(shape))  # lazy layers take their sizes
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(shape))
    assert matrix_flop(import_torch(model, [Input(shape)], purpose="inference"), "forward") == counter.get_total_flops()


def test_batch_norm_with_stored_statistics_is_elementwise_and_with_the_batch_s_a_norm() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    stored = import_torch(model, [Input((2, 3, 6, 6))], purpose="inference").operations[-1]
    assert (stored.kind, stored.attributes["function"]) == ("elementwise", "batch_norm")
    elements = 2 * 8 * 4 * 4
    assert dict(stored.dims) == {"elements": elements, "reads": elements + 4 * 8, "writes": elements}
    assert "norm" in kinds(import_torch(model.train(), [Input((2, 3, 6, 6))]))


def test_the_module_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    model.eval()
    before = {name: id(tensor) for name, tensor in model.named_parameters()}
    import_torch(model, [Input(("batch", 4))])
    assert not model.training
    assert before == {name: id(tensor) for name, tensor in model.named_parameters()}
    assert all(p.grad is None for p in model.parameters())
    assert not model[0]._forward_hooks


def test_imports_save_and_load(tmp_path: Any) -> None:
    graph = import_torch(attention_block(), [Input(("batch", "seq_len", 64))], optimizer="adamw")
    graph.save(tmp_path / "block.json.gz")
    assert load_workload(tmp_path / "block.json.gz").identity == graph.identity


def test_what_cannot_be_recorded_says_why() -> None:
    with pytest.raises(InputError, match="cannot be recorded .forward.: RuntimeError"):
        import_torch(nn.Linear(4, 4), [Input(("batch", 5))])
    with pytest.raises(InputError, match="cannot be recorded .forward.: .*[Dd]ata"):
        import_torch(lambda x: x[: int(x.sum())], [Input((4, 4))], purpose="inference")
    with pytest.raises(InputError, match="no output needs a gradient"):
        import_torch(lambda x: x * 2, [Input((4, 4))])
    with pytest.raises(InputError, match="purpose = 'both'"):
        import_torch(nn.Linear(4, 4), [Input((4, 4))], purpose="both")
    with pytest.raises(InputError, match="unknown optimizer 'sdg'; did you mean 'sgd'"):
        import_torch(nn.Linear(4, 4), [Input((4, 4))], optimizer="sdg")


def test_operations_that_are_not_known_are_listed() -> None:
    graph = import_torch(lambda x: torch.linalg.inv(x), [Input(("batch", 4, 4))], purpose="inference")
    assert graph.uncounted == ("linalg_inv_ex",)
    assert next(op for op in graph if op.kind == "uncounted").cost["read"] != 0


def test_tensors_stand_for_their_shapes_and_what_else_is_given_is_named() -> None:
    model = nn.Linear(10, 20)
    by_tensor = import_torch(model, (torch.zeros(3, 10),))
    assert by_tensor.identity == import_torch(model, [Input((3, 10))]).identity
    assert by_tensor.identity == import_torch(model, torch.zeros(3, 10)).identity
    assert by_tensor.identity == import_torch(model, {"input": torch.zeros(3, 10, device="meta")}).identity
    scaled = import_torch(lambda x, by: x * by, (torch.zeros(3, 10), 0.5), purpose="inference")
    assert [op.name for op in scaled] == ["mul"]
    with pytest.raises(InputError, match=r"import_torch: inputs = .batch,10.: want several in a list or a dictionary"):
        import_torch(model, "batch,10")
    with pytest.raises(InputError, match=r"its inputs are .int, int., not tensors"):
        import_torch(model, (3, 10))
    with pytest.raises(InputError, match=r"its inputs are .., not tensors"):
        import_torch(model, [])


@pytest.mark.parametrize(
    "compiled",
    [
        lambda model: torch.compile(model),
        lambda model: torch.compile(model.forward),
        lambda model: nn.Sequential(torch.compile(model)),
        lambda model: model.compile() or model,
    ],
    ids=["module", "its forward", "a part", "in place"],
)
def test_a_module_that_its_user_compiled_is_answered_as_compiled(compiled: Any) -> None:
    import slipstick as ss

    written = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    eager = import_torch(written, (torch.zeros(8, 64),), purpose="inference")
    graph = import_torch(compiled(written), (torch.zeros(8, 64),), purpose="inference")
    assert [op.dims for op in graph] == [op.dims for op in eager]
    assert ss.question(eager, "H100").machine.runtime.mode == "eager"
    assert ss.question(graph, "H100").machine.runtime.mode == "compiled"
    assert ss.question(graph, "H100", settings={"machine.runtime.mode": "eager"}).machine.runtime.mode == "eager"
    conditions = ss.question(graph, "H100").answer().conditions
    assert ("mode", "compiled") in [(one.name, one.value) for one in conditions]
