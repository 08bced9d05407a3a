"""The workloads by name: builders, and imported graphs that ship as files."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.opener import is_there
from slipstick.common.readers import read_json
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.shipped_graphs import graph_document, graphs_folder

if TYPE_CHECKING:
    import networkx as nx

    from slipstick.workloads.graph.workload import Workload
    from slipstick.workloads.language.language_model import LanguageModel
    from slipstick.workloads.runs.feed import Feed

MATRIX_FILES = (".mtx", ".edges", ".triplet0", ".npz")
IMPORTED = "imported/"
"""How names of networks begin that ship as files."""


@cache
def workload_builders() -> dict[str, Callable[[], Workload]]:
    """What builds each network and kernel that ships, by name."""
    from slipstick.workloads.kernels import collective, examples, loop_kernels, plain
    from slipstick.workloads.networks import (
        data_parallel,
        deepspeech2,
        gnmt,
        llama,
        mlp,
        phi_cnn,
        resnet,
        transformer,
        vgg,
    )
    from slipstick.workloads.networks.megatron import step as megatron
    from slipstick.workloads.networks.tpu_programs import feeds, programs

    builders: dict[str, Callable[[], Workload]] = {
        f"phi-cnn-{size}": partial(phi_cnn.phi_cnn, size) for size in ("small", "medium", "large")
    }
    networks: dict[str, Callable[..., Workload]] = {
        "gnmt": gnmt.gnmt,
        "deepspeech2": deepspeech2.deepspeech2,
        "resnet18": partial(resnet.resnet, 18),
        "resnet50": partial(resnet.resnet, 50),
        "resnet101": partial(resnet.resnet, 101),
        "vgg16": partial(vgg.vgg, 16),
        "bert-base": transformer.bert,
        "bert-large": partial(transformer.bert, layers=24, width=1024, heads=16),
        "gpt2": transformer.gpt,
        "gpt2-medium": partial(transformer.gpt, layers=24, width=1024, heads=16),
        "gpt2-large": partial(transformer.gpt, layers=36, width=1280, heads=20),
        "gpt2-xl": partial(transformer.gpt, layers=48, width=1600, heads=25),
        "mlp": mlp.mlp,
    }
    builders["gemm"], builders["vector-sum"] = plain.matrix_product, plain.vector_sum
    builders |= {name: partial(megatron.megatron, name) for name in megatron.SIZES}
    for name in ("bert-base", "bert-large", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"):
        builders[f"{name}-data-parallel"] = partial(_data_parallel, networks[name])
    builders["data-parallel-mlp"] = data_parallel.data_parallel_mlp
    decoders: dict[str, Callable[..., Workload]] = {
        "llama-7b": llama.llama,
        "llama-3-8b": partial(llama.llama, kv_heads=8, feed_forward=14_336, vocabulary=128_256, dtype="bfloat16"),
        "llama-3-70b": partial(
            llama.llama,
            layers=80,
            width=8192,
            heads=64,
            kv_heads=8,
            feed_forward=28_672,
            vocabulary=128_256,
            dtype="bfloat16",
        ),
        "qwen3-8b": partial(
            llama.llama, layers=36, kv_heads=8, feed_forward=12_288, vocabulary=151_936, dtype="bfloat16"
        ),
    }
    for name, build in decoders.items():
        builders[f"{name}-decode"] = partial(build, purpose="decode", name=name)
        builders[f"{name}-inference"] = partial(build, purpose="inference")
    builders |= collective.builders() | examples.builders() | loop_kernels.builders()
    builders |= {name: partial(programs.program, name) for name in programs.PROGRAMS}
    for name, build in networks.items():
        builders[name] = partial(build, purpose="training")
        if name in feeds.BY_NETWORK:
            builders[name] = partial(_with_feed, builders[name], feeds.BY_NETWORK[name])
        builders[f"{name}-inference"] = partial(build, purpose="inference")
    return builders


def _with_feed(build: Callable[[], Workload], feed: Feed) -> Workload:
    from slipstick.workloads.runs.feed import with_feed

    return with_feed(build(), feed)


def _data_parallel(build: Callable[..., Workload]) -> Workload:
    from slipstick.workloads.transforms.parallel import data_parallel

    return data_parallel(build(purpose="training"))


def workload_names() -> list[str]:
    """Names of the workloads that ship: builders first, then imported graphs (``imported/NAME``), by the index.

    Examples
    --------
    >>> import slipstick as ss
    >>> {"gpt2", "resnet50"} <= set(ss.workload_names())
    True
    """
    return list(_outlines())


def _imported(name: str) -> Workload | None:
    """The graph of another program's file; None where the name is no such file's.

    Raises InputError where another verb takes the file; names it.
    """
    if not (is_there(name) and Path(name).is_file()) or name.endswith((*MATRIX_FILES, ".py")):
        return None
    from slipstick.workloads.importers.detect import import_file
    from slipstick.workloads.importers.formats.registry import elsewhere, identify

    kind = identify(name)
    if kind is None or kind.target in ("model", "matrix") or kind.key == "workload":
        return None
    if kind.target != "graph" and kind.key not in ("chakra", "chrome-trace"):
        raise elsewhere(name, "graph")
    try:
        return import_file(name)
    except InputError:
        if kind.key != "chrome-trace":
            raise
        raise elsewhere(name, "graph") from None


@checked
def workload(name: str | nx.DiGraph[Any], dtype: str | None = None, work: str | None = None) -> Workload:
    """A workload by name, or one of your own by the path of its .json or .json.gz file, or as a networkx DiGraph.

    Networks are training steps (forward, backward, update); ``NAME-inference`` is the forward pass, ``NAME-decode`` one
    new word from a cache of keys and values. A matrix file (.mtx, .edges, .triplet0, each also .gz, or .npz) is a
    sparse product with it, ``pagerank:FILE`` PageRank on it. A language model's config.json or .gguf file, or
    ``decode:MODEL``, is a step of serving that makes a token for each sequence; ``prompt:MODEL`` reads prompts.
    Requests to a language model are ``serve:MODEL``, or the name alone of one that ships; ``train:MODEL`` is a step of
    training it.
    What ships is called by its name here, so that a name in an answer is the name to ask for.

    Parameters
    ----------
    name
        Or a graph: its nodes are operations with kind, dims, dtype and cost (see `digraph.from_digraph`).
    dtype
        The data type to compute in ("bfloat16", "nvfp4"; see `narrow.computed_in`); None: as it is written down.
    work
        "train", "forward", "prefill" or "decode", where the name is a model's (`works`).

    Raises
    ------
    InputError
        Where the name or the data type is unknown, or the file or the graph is broken.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.workload("gpt2").metadata["parameters"]
    124439808
    """
    if work is not None:
        name = work_named(name, work)
    if dtype is not None:
        from slipstick.workloads.language.language_step import in_stored_type
        from slipstick.workloads.transforms.narrow import computed_in

        if isinstance(name, str) and name.startswith(TRAINING):
            return _training(name.removeprefix(TRAINING), dtype).called(name)
        made = workload(name)
        stored = in_stored_type(made, dtype)
        return computed_in(made, dtype) if stored is None else stored
    if not isinstance(name, str):
        from slipstick.workloads.graph.digraph import from_digraph

        return from_digraph(name)
    if name.startswith(TRAINING):
        return _training(name.removeprefix(TRAINING)).called(name)
    if name.startswith(REQUESTS):
        return _requests(name.removeprefix(REQUESTS)).called(name)
    if name.startswith(STEPS) or name.endswith(".gguf"):
        return _served(name)
    if (graph := _imported(name)) is not None:
        return graph
    if name.endswith((".json", ".json.gz")):
        from slipstick.workloads.graph.workload_file import load_workload
        from slipstick.workloads.importers.configs.huggingface import is_config

        return _served(name) if is_config(name) else load_workload(name)
    if name.startswith("pagerank:") or name.removesuffix(".gz").endswith(MATRIX_FILES):
        from slipstick.workloads.kernels.examples import of_file

        return of_file(name)
    from slipstick.workloads.language_catalog import language_model_names, shipped_name

    builders = workload_builders()
    name = name if name in builders or name in workload_names() else _spelled(name, builders)
    if name in builders:
        return _built(str(name))  # a word of the shell is a text of its own class
    if name.startswith(STEPS):
        return _served(name)
    if name in language_model_names():
        return _requests(name).called(name)
    if "/" in name and shipped_name(name):  # ORG/NAME of the hub
        return _requests(name).called(name)
    if name not in workload_names():
        from slipstick.workloads.unknown_workload import unknown_workload

        raise unknown_workload(name, workload_names())
    from slipstick.workloads.graph.workload_file import from_json

    return from_json(graph_document(name.removeprefix(IMPORTED)), name).called(name)


def works(name: str) -> dict[str, str]:
    """What can be done of a model by its name, each with the full name of that workload.

    Raises InputError where nothing is called so.

    Examples
    --------
    >>> works("gpt2"), works("decode:llama-3.1-8b")
    ({'forward': 'gpt2-inference', 'train': 'gpt2'}, {'decode': 'decode:llama-3.1-8b'})
    """
    if name.startswith(REQUESTS):
        return works(name.removeprefix(REQUESTS))
    if before := next((one for one in WORKS.values() if name.startswith(one)), ""):
        return {work: name for work, one in WORKS.items() if one == before}
    from slipstick.workloads.importers.configs.huggingface import is_config
    from slipstick.workloads.language_catalog import language_model_names, shipped_name

    builders, is_file = workload_builders(), name.endswith((".json", ".json.gz", ".gguf"))
    if is_file:
        is_model = name.endswith(".gguf") or is_config(name)
    elif (base := name if name in builders or name in workload_names() else _spelled(name, builders)) != name:
        return works(base)
    else:
        is_model = name in language_model_names() or ("/" in name and bool(shipped_name(name)))
    made = {work: f"{name}{end}" for work, end in ENDS.items() if f"{name}{end}" in builders}
    if "forward" in made and name in builders:
        made["train"] = name
    if is_model:
        made |= {work: f"{before}{name}" for work, before in WORKS.items()}
    if made:
        return made
    if name in builders and (end := next((work for work, end in ENDS.items() if name.endswith(end)), "")):
        return {end: name}
    metadata = workload(name).metadata  # a graph of one purpose
    purpose = PURPOSES.get(str(metadata.get("purpose", "training" if "network" in metadata else "")))
    return {purpose: name} if purpose else {}


def work_named(name: object, work: str) -> str:
    """The workload that a model's name and a work mean together.

    Raises InputError where the model has no such work: those that it has are named.
    """
    from slipstick.common.errors import InputError
    from slipstick.common.readers import unknown_name

    if work not in (known := ("train", "forward", "prefill", "decode")):
        raise unknown_name("work", work, known)
    if not isinstance(name, str):
        raise InputError(f"work = {work!r}: of a model's name; what is given is one graph, whose work is fixed")
    has = works(name)
    if work not in has:
        these = f"it has {', '.join(sorted(has))}" if has else "it is one piece of work: leave it out"
        raise InputError(f"workload {name!r} has no work {work!r} (--work): {these}")
    return has[work]


@lru_cache(maxsize=8)
def _built(name: str) -> Workload:
    """A network by the name of its builder; one holds a megabyte or two."""
    from slipstick.workloads.graph.workload_cache import cached_workload

    return cached_workload(name, lambda: workload_builders()[name]().called(name))


def cached_rewrite(workload: Workload, rewrite: str, make: Callable[[], Workload]) -> Workload:
    """What `make` makes of a workload; of a built network without sizes, rewritten or not, it is kept from run to run.

    `rewrite`: all that decides it beside the network, such as "autocast float16".
    """
    from slipstick.common.records import Same
    from slipstick.workloads.graph.workload_cache import cached_workload

    is_built = workload.name in workload_builders() and _built(workload.name) is workload
    before = [workload.name] if is_built else _cached_as(Same(workload))
    if not before:
        return make()
    place = _rewritten(name := f"{before[0]} {rewrite}")
    if not place:
        place.append(cached_workload(name, make, workload))
        _cached_as(Same(place[0])).append(name)
    return place[0]


@lru_cache(maxsize=8)
def _rewritten(name: str) -> list[Workload]:
    """The place for a rewritten network, by its name and all that was done to it."""
    return []


@lru_cache(maxsize=16)
def _cached_as(workload: Hashable) -> list[str]:
    """Names under which a rewritten network is kept."""
    return []


SERVED = ("decode", "prompt")
STEPS = tuple(f"{kind}:" for kind in SERVED)
"""What stands before a language model's name where a step of serving it is meant."""
REQUESTS = "serve:"
"""What stands before it where requests to it are meant; a model that ships is meant so by its name alone."""
TRAINING = "train:"
"""What stands before it where a step of training it is meant."""
WORKS = {"train": TRAINING, "prefill": "prompt:", "decode": "decode:"}
"""What can be done of a language model, and what stands before its name then."""
ENDS = {"forward": "-inference", "decode": "-decode"}
"""What can be done of a network that ships, and what stands behind its name then; alone it is a training step."""
PURPOSES = {"training": "train", "inference": "forward"}
USUAL = {"bert": "bert-base", "llama2-7b": "llama-7b", "llama3-8b": "llama-3-8b", "llama3-70b": "llama-3-70b"}
"""Short names; a purpose (``-inference``, ``-decode``) stays behind them."""


def _spelled(name: str, known: Collection[str]) -> str:
    """The workload that a name means whatever its case and hyphens (``ResNet-50``, ``GPT-2``); else the name itself.

    A graph that ships is meant by its own name too (``convnext``), a training step by ``NAME-training`` and a step of
    serving by ``MODEL-decode`` and ``MODEL-prompt``, where nothing else is called so.
    """
    from slipstick.workloads.language_catalog import language_model_names

    def plain(text: str) -> str:
        return re.sub("[^a-z0-9/]", "", text.lower())

    graphs = [one for one in workload_names() if one.startswith("imported/")]
    meant = {plain(f"{model}-{kind}"): f"{kind}:{model}" for model in language_model_names() for kind in SERVED}
    meant |= {plain(model): model for model in language_model_names()}
    meant |= {plain(one): one for one in graphs} | {plain(one.removeprefix("imported/")): one for one in graphs}
    meant |= {plain(f"{one}-training"): one for one in known if f"{one}-inference" in known}
    meant |= {plain(one): one for one in known}
    for end in ("", "-inference", "-decode"):
        meant |= {plain(f"{short}{end}"): f"{full}{end}" for short, full in USUAL.items()}
    return meant.get(plain(name), name)


CatalogEntry = tuple[int, float | None, Mapping[str, float]]
"""Operations, parameters (None where the workload does not say) and defaults."""


def outlines_file() -> Path:
    """Outlines of all workloads that ship; `python -m tools.indexes` writes it anew."""
    return graphs_folder() / "outlines.json"


def outline(name: str) -> CatalogEntry:
    """Operations, parameters and defaults of a shipped workload; no graph is built where the index has it."""
    known = _outlines().get(name)
    return built_outline(name) if known is None else (known[0], known[1], known[2])


@cache
def _outlines() -> dict[str, tuple[int, float | None, dict[str, float]]]:
    outlines: dict[str, tuple[int, float | None, dict[str, float]]] = read_json(outlines_file())
    return outlines


def built_outline(name: str) -> CatalogEntry:
    """The outline of a workload that is built or read for it."""
    if name.startswith(IMPORTED):
        document = graph_document(name.removeprefix(IMPORTED))
        return len(document["nodes"]), document["metadata"].get("parameters"), document["defaults"]
    built = workload(name)
    parameters = built.metadata.get("parameters")
    return len(built), float(parameters) if isinstance(parameters, (int, float)) else None, dict(built.defaults)


def _served(name: str) -> Workload:
    """A step of serving a language model on one device."""
    from slipstick.workloads.language.language_step import language_step, on_one_device
    from slipstick.workloads.language_catalog import language_model

    model = language_model(name.removeprefix("decode:").removeprefix("prompt:"))
    step = on_one_device(language_step(model, purpose="prompt" if name.startswith("prompt:") else "decode"))
    return step.called(name) if name.startswith(STEPS) else step


def _requests(name: str) -> Workload:
    """Requests to a language model by its name, or the path of its file, which is read each time."""
    from slipstick.workloads.language_catalog import language_model

    return _requests_to(language_model(name))


def _training(name: str, precision: str = "bf16") -> Workload:
    """A training step of a language model by its name, or the path of its file, which is read each time."""
    from slipstick.workloads.language_catalog import language_model

    return _training_of(language_model(name), precision)


@lru_cache(maxsize=8)
def _training_of(model: LanguageModel, precision: str) -> Workload:
    from slipstick.workloads.language.language_training import training_of

    return training_of(model, precision)


@lru_cache(maxsize=8)
def _requests_to(model: LanguageModel) -> Workload:
    from slipstick.workloads.language.language_requests import requests_to

    return requests_to(model)
