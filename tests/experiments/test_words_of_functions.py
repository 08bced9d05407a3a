"""Functions take the command's words: files and programs by name; a wrong keyword is answered by a sentence."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import ARGUMENTS
from slipstick.experiments.serve.serving_text import overload
from tests.printed import printed

PLAIN = {"symbol", "machine", "main", "seqpoint"}
"""Called with one positional argument, by everybody and in loops; `seqpoint` takes sizes of any name."""


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ss.__all__
        if inspect.isfunction(one := getattr(ss, name)) and inspect.signature(one).parameters and name not in PLAIN
    ],
)
def test_a_keyword_that_is_not_known_is_a_sentence(name: str) -> None:
    with pytest.raises(InputError, match=f"unknown argument of {name} 'nosuchword'.*(known: |known)"):
        getattr(ss, name)(nosuchword=1)


def test_the_nearest_keyword_is_named() -> None:
    with pytest.raises(InputError, match=r"unknown argument of oracle 'dtpe'; did you mean 'dtype'\?"):
        ss.oracle("llama-3.1-8b", "h100-sxm", dtpe="fp8")
    with pytest.raises(InputError, match=r"unknown argument of serve 'concurency'; did you mean 'concurrency'\?"):
        ss.serve("llama-3.1-8b", "h100-sxm", concurency=2)


def test_a_file_of_times_is_a_series(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("threads,time_s\n1,10\n2,5.5\n4,3.25\n8,2.125\n")
    series = ss.Series((1, 2, 4, 8), (10.0, 5.5, 3.25, 2.125), (1,) * 4, parameter="threads")
    of_file = ss.extrapolate(str(path), [16, 32], "strong")
    assert of_file.value == pytest.approx(ss.extrapolate(series, [16, 32], "strong").value)
    with pytest.raises(InputError, match=r"unknown region 'main'"):
        ss.extrapolate(path, 16, region="main")
    with pytest.raises(InputError, match="parameter: of a file, but a series was given"):
        ss.extrapolate(series, 16, parameter="threads")
    with pytest.raises(InputError, match=r"targets \(to\) 'many': want numbers"):
        ss.extrapolate(path, "many")
    with pytest.raises(InputError, match=r"none\.csv"):
        ss.extrapolate("none.csv", 16)


def test_a_program_is_named_as_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("import torch\n\ndef build():\n    return torch.nn.Linear(64, 64)\n")
    words = {"input": ["batch,64"], "allow_code": ["net.py:build"]}
    settings = {"workload.batch": 8}
    inference = ss.estimate("net.py:build", "h100", settings=settings, **words)
    training = ss.estimate("net.py:build", "h100", settings=settings, train="adamw", **words)
    assert training.time > inference.time
    table = ss.whatif("net.py:build", "h100", {"machine.clock": ["1 GHz"]}, settings=settings, **words)
    assert table.today.time == pytest.approx(inference.time)
    with pytest.raises(
        InputError, match=r"would import your or somebody's code and run it: .* allow_code=\['net.py:build'\]"
    ):
        ss.estimate("net.py:build", "h100")
    with pytest.raises(InputError, match=r"gpt2'?: input and train are of a torch program"):
        ss.estimate("gpt2", "h100", train="adamw")


def test_a_module_trains_with_the_words_of_the_command() -> None:
    torch = pytest.importorskip("torch")
    shapes = [ss.Input(("batch", 64))]
    made = ss.import_torch(torch.nn.Linear(64, 64), shapes, train="adamw")
    assert made.identity == ss.import_torch(torch.nn.Linear(64, 64), shapes, optimizer="adamw").identity
    with pytest.raises(InputError, match="train = 'sgd' and purpose = 'inference': give one of them"):
        ss.import_torch(torch.nn.Linear(64, 64), shapes, train="sgd", purpose="inference")


def test_a_configuration_is_served_by_name(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,'
        ' "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256,'
        ' "head_dim": 64, "torch_dtype": "bfloat16", "tie_word_embeddings": true}'
    )
    own = ss.estimate(f"serve:{config}", "h100", settings={"run.concurrency": 2, "run.num_requests": 20})
    shipped = ss.estimate("llama-3.2-1b", "h100", settings={"run.concurrency": 2, "run.num_requests": 20})
    assert own.headline.value == pytest.approx(shipped.headline.value, rel=0.05)


@pytest.mark.parametrize(
    ("name", "arguments", "more", "words"),
    [
        ("serve", (None, "h100-sxm"), {}, "serve: model = None: want a text"),
        ("estimate", ("resnet50", None), {}, "estimate: machine = None: want a text or an object of Machine"),
        ("explain", ("resnet50", None), {}, "explain: machine = None"),
        ("estimate", ("resnet50", "h100-sxm"), {"dtype": 3}, "estimate: dtype = 3: want a text or None"),
        ("serve", ("llama-3.1-8b", "h100-sxm"), {"concurrency": "8"}, "concurrency = '8': want a whole number"),
        ("estimate", ("resnet50", ["h100-sxm", "l4"]), {}, "machine = .'h100-sxm', 'l4'.: want a text"),
        (
            "estimate",
            ("gpt2", "l4"),
            {"settings": "run.threads=4"},
            "estimate: settings = 'run.threads=4': want a dict",
        ),
        ("explain", ("gpt2", "l4", "machine.clock"), {}, "explain: vary = 'machine.clock': want several in a list"),
        ("bricks", ("gpt2",), {}, "bricks: models = 'gpt2': want several in a list"),
        ("page", ("a.html", "b.html"), {}, "page: answer = 'a.html': want an object of Answer"),
        ("extrapolate", ([1, 2, 4], [4, 2, 1], [8], "strnog"), {}, "machine: unknown machine 'strnog'.*kind is one of"),
        ("extrapolate", (ss.Series.of([1, 2], [4, 2]), "x"), {}, r"targets \(to\) 'x': want numbers"),
    ],
)
def test_an_argument_of_another_kind_is_a_sentence(
    name: str, arguments: tuple[object, ...], more: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        getattr(ss, name)(*arguments, **more)


def test_serve_answers_one_user_of_llama_cpp() -> None:
    answer = ss.serve("llama-3.1-8b", "rtx-4090", engine="llama.cpp", dtype="q4_k_m")
    assert answer.row() == ss.serve_locally("llama-3.1-8b", "rtx-4090", dtype="q4_k_m").row()
    alone = ss.serve("llama-3.1-8b", "rtx-4090", engine="llama.cpp", dtype="q4_k_m", concurrency=1)
    assert alone.rows() == answer.rows()
    for several in ({"concurrency": 4}, {"rate": 1.0}, {"devices": 2}, {"link_bandwidth": 1e9}):
        with pytest.raises(InputError, match='for one user on one device.*engine="vllm"'):
            ss.serve("llama-3.1-8b", "rtx-4090", engine="llama.cpp", **several)


def test_a_kind_of_scaling_after_two_lists() -> None:
    values, times = [1, 2, 4, 8], [9.0, 5.0, 3.0, 2.0]  # 1 + 8/x
    answer = ss.extrapolate(values, times, [16], "strong")
    assert answer.kind == "strong" and answer.value[0] == pytest.approx(1.5, rel=0.02)
    assert ss.extrapolate(values, times, [16], "weak").kind == "weak"


def test_laws_say_which_argument_is_of_another_kind() -> None:
    one = ss.Series.of([1, 2], [4, 2])
    with pytest.raises(InputError, match="extrapolate_many: machine = 'h100-sxm': want an object of Machine"):
        ss.laws.extrapolate_many([one], [8], machine="h100-sxm")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="extrapolate_many: series = Series.*: want several in a list"):
        ss.laws.extrapolate_many(one, [8])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="extrapolate_surface: parameters = 'threads': want several in a list"):
        ss.laws.extrapolate_surface([(1, 1), (2, 1)], [4, 2], "threads", [(4, 4)])
    with pytest.raises(InputError, match="unknown statistic of repeats .* 'leest'"):
        ss.Series.of([1, 2], [4, 2], statistic="leest")  # type: ignore[arg-type]


def test_a_size_is_a_word_as_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """``--batch 4`` is ``batch=4``, of a step of serving its sequences; a mode is the runtime's."""
    by_name = {"workload.batch": 4, "machine.runtime.mode": "graph_replay"}
    for function in (ss.question, ss.estimate, ss.explain, ss.budget):
        made, same = function("gpt2", "h100", batch=4, mode="graphs"), function("gpt2", "h100", settings=by_name)
        assert repr(made) == repr(same)
    row = printed(["estimate", "decode:llama-3.1-8b", "--on", "h100", "--batch", "4", "--seq-len", "512"], capsys)
    assert ss.estimate("decode:llama-3.1-8b", "h100", batch=4, seq_len=512).time == pytest.approx(row["time_s"])
    assert ss.estimate("phi-cnn-small", "xeon-phi-7120p", threads=60).work.endswith("60 threads")


@pytest.mark.parametrize("vary", [{"workload.batch": [4, 8]}, ["workload.batch=4,8"], ["run.batch=4,8"]])
def test_a_size_that_varies_may_have_a_value_of_today(vary: dict[str, list[int]] | list[str]) -> None:
    ratios = [row["time_ratio"] for row in ss.whatif("gpt2", "h100", vary, batch=4).rows()]
    assert ratios[0] == pytest.approx(1.0) and ratios[1] > 1.5


def test_a_word_that_is_no_number_of_the_question_is_a_sentence() -> None:
    with pytest.raises(InputError, match="unknown argument of estimate 'bach'; did you mean 'batch'"):
        ss.estimate("gpt2", "h100", bach=4)
    with pytest.raises(InputError, match=r"unknown number of the run.*run\.nosuchword"):
        ss.estimate("gpt2", "h100", nosuchword=1)
    with pytest.raises(InputError, match=r"workload\.batch is set twice"):
        ss.estimate("gpt2", "h100", batch=4, settings={"workload.batch": 8})


SHOWN = {"format", "report", "out", "top", "verbose", "timeline", "plot", "next", "check"}
"""Options of printing, of files and of exit codes; what to measure next is `ss.laws.next_points`."""


@pytest.mark.parametrize(
    ("verb", "function"),
    [
        (("serve",), "serve"),
        (("plan", "serving"), "plan_serving"),
        (("plan", "training"), "plan_training"),
        (("extrapolate",), "extrapolate"),
    ],
)
def test_a_function_takes_every_option_of_its_verb(verb: tuple[str, ...], function: str) -> None:
    import typer

    from slipstick.experiments.cli import extrapolate, plan, serve

    app = typer.Typer()
    for module in (extrapolate, plan, serve):
        module.register(app)
    command = typer.main.get_command(app)
    for word in verb:
        command = command.commands[word]  # type: ignore[attr-defined]
    options = {ARGUMENTS.get(str(one.name), str(one.name)) for one in command.params} - SHOWN - {"help"}
    assert options <= inspect.signature(getattr(ss, function)).parameters.keys()


@pytest.mark.parametrize(
    ("function", "words", "said"),
    [
        ("serve", {"concurrency": 0}, "concurrency=0: want 1 to"),
        ("serve", {"rate": -1.0}, "rate=-1: want a finite"),
        ("serve", {"rate": 1.0, "concurrency": 2}, r"give one of concurrency \(users of a closed loop\), rate \("),
        ("serve", {"devices": 3, "tp": 2, "concurrency": 1}, "devices=3, but tp 2 takes 2"),
        ("serve", {"acceptance": 0.5, "concurrency": 1}, "say how many, draft_tokens=4"),
        ("plan_serving", {"draft_cost": 0.5}, "say how many, draft_tokens=4"),
    ],
)
def test_errors_in_python_speak_of_arguments(function: str, words: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        getattr(ss, function)("llama-3.1-8b", "h100-sxm", **words)
    assert "--" not in str(raised.value) and "--" in raised.value.typed


def test_serve_takes_what_the_command_takes(capsys: pytest.CaptureFixture[str]) -> None:
    more = {
        "tp": 2,
        "num_requests": 20,
        "max_num_seqs": 8,
        "length_range": 0.0,
        "host_power": 300.0,
        "pue": 1.2,
        "grid_intensity": 380.0,
    }
    words = [text for name, value in more.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    typed = printed(["serve", "llama-3.1-8b", "--on", "h100-sxm", "--concurrency", "4", *words], capsys)
    answer = ss.serve("llama-3.1-8b", "h100-sxm", concurrency=4, **more)  # type: ignore[call-overload]
    assert answer.summary()["output_tokens_per_s"] == pytest.approx(typed["output_tokens_per_s"])
    assert answer.meter == pytest.approx(typed["meter_W"])
    table = ss.serve("llama-3.1-8b", "h100-sxm", vary={"run.concurrency": [1, 4]}, num_requests=20)
    assert len(table.rows()) == 2
    with pytest.raises(InputError, match="limit: not used: vary compares servers"):
        ss.serve("llama-3.1-8b", "h100-sxm", vary={"run.concurrency": [1, 4]}, limit={"ttft": 1.0})


def test_a_rate_sizes_a_deployment() -> None:
    """By arithmetic: 50 requests/s of 230 tokens want more than 50 x 230 tokens/s; one copy fewer does not keep up."""
    limits = {"ttft": 0.5, "tpot": 0.03}
    sized = ss.plan_serving("llama-3.1-8b", "h100-sxm", devices=1, rate=50.0, limit=limits).sized
    assert sized is not None and sized.keeps >= 0.9 and sized.layout.replicas > 1
    assert sized.per_device * sized.layout.devices <= 50 * 256
    copies = sized.layout.replicas
    answer = ss.serve("llama-3.1-8b", "h100-sxm", rate=50.0, replicas=copies)
    assert answer.band("tpot", "mean")[0] == pytest.approx(sized.tpot) and not overload(answer)
    assert overload(ss.serve("llama-3.1-8b", "h100-sxm", rate=50.0, replicas=1))
    in_flight = 50 / copies * (sized.ttft + 229 * sized.tpot)  # Little's law
    assert sized.users == pytest.approx(in_flight, rel=0.15)
