"""Numbers of a workload and of a run as options of their own: ``--batch 8``, ``--threads 240``, ``--seq-len=1024``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from slipstick.experiments.cli.command_help import HelpPage
from slipstick.experiments.cli.option_conflicts import meant, spelled

if TYPE_CHECKING:
    from slipstick.workloads.graph.workload import Workload

OPTION = "--number"
OF_A_SERVER = "--tensor-parallel (ranks of one server) or --replicas (servers)"
OF_TRAINING = "--dp, --tp, --pp and --cp, whose product it is (slipstick plan training searches them)"
MEANT = {"devices": OF_A_SERVER, "gpus": OF_A_SERVER, "tp": "--tensor-parallel", "users": "--concurrency"}
"""What people write of requests to a language model, and what is meant."""
OF_REQUESTS = ("input_tokens", "output_tokens", "memory_share", "num_requests", "prefix_hit_rate", "max_num_seqs")
"""Numbers that nothing but requests to a language model has."""


class WithNumbers(HelpPage):
    """A command that takes any number by its name; its own options win.

    What is no option of the command and stands with a value becomes ``--number NAME=VALUE``: the value is never taken
    for the workload, wherever the option stands.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click: `args` as typed."""
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        return list(super().parse_args(ctx, rewritten(args, known | {"--help"})))


def rewritten(args: Sequence[str], known: Iterable[str]) -> list[str]:
    """Arguments with unknown options as ``--number NAME=VALUE``.

    Examples
    --------
    >>> rewritten(["--batch", "8", "gpt2", "--on", "t4", "--seq-len=64"], ["--on"])
    ['--number', 'batch=8', 'gpt2', '--on', 't4', '--number', 'seq_len=64']
    """
    options = set(known)
    texts: list[str] = []
    index = 0
    while index < len(args):
        word = args[index]
        name, equals, value = word.partition("=")
        index += 1
        if word == "--":
            return [*texts, *args[index - 1 :]]
        if not word.startswith("--") or name in options:
            texts.append(word)
            if name in options and not equals and index < len(args) and not args[index].startswith("--"):
                texts.append(args[index])  # a value, or the argument after a flag: either way as it stands
                index += 1
            continue
        if not equals and index < len(args) and not args[index].startswith("--"):
            value = args[index]
            index += 1
        texts += [OPTION, f"{name.removeprefix('--').replace('-', '_')}={value}"]
    return texts


def typed(context: typer.Context) -> list[str]:
    """Names of the parameters of a command that were written down, in its order."""
    names = [str(one.name) for one in context.command.params]
    return [name for name in names if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"]


def only(context: typer.Context, what: str, read: Iterable[str]) -> None:
    """Refuse options that were given and that an answer of this kind does not read: none is dropped in silence.

    Parameters
    ----------
    what
        The kind, for the message: "a simulated job".
    read
        Names of the parameters of the command that it reads, beside its arguments.

    Raises
    ------
    InputError
        Names the options that were given, and those that can be.
    """
    from slipstick.common.errors import InputError

    known = {one.name: one for one in context.command.params if one.param_type_name == "option" and one.name}
    taken = {*read}
    wrong = [max(known[name].opts, key=len) for name in typed(context) if name in known and name not in taken]
    if wrong:
        can = [
            max(known[name].opts, key=len) for name in known if name in taken and not getattr(known[name], "hidden", 0)
        ]
        raise InputError(f"{context.info_name} of {what} does not read {', '.join(wrong)} (it reads {', '.join(can)})")


def job_settings(settings: Sequence[str] | None, numbers: Sequence[str] | None) -> list[str]:
    """Settings as typed, and numbers of a job as options: ``--steps 50`` is ``job.steps=50``."""
    return [*(settings or []), *(f"job.{text}" for text in numbers or [])]


def as_settings(numbers: Sequence[str] | None, workload: Any, context: typer.Context | None = None) -> list[str]:
    """``NAME=VALUE`` texts as settings: sizes of the workload, else numbers of the run.

    Parameters
    ----------
    workload
        Whose sizes have names.
    context
        Of the command, whose options the error of a misspelt one knows.

    Raises
    ------
    InputError
        Where a value is missing, or a name is near to an option's and to no number's.
    """
    from slipstick.common.errors import InputError
    from slipstick.common.renamed_arguments import RENAMED
    from slipstick.experiments.question.settings import MODES, RUN, setting_of
    from slipstick.workloads.graph.workload_kind import workload_kind

    sizes = sorted(set(workload.symbols) | set(workload.defaults))
    options = spelled(context.command) if context else []
    settings = []
    for text in numbers or []:
        name, _, value = text.partition("=")
        if not value:
            hint = meant(name, options)
            known = f"did you mean {hint}?" if hint else f"want a value, or one of the options {', '.join(options)}"
            raise InputError(f"--{name.replace('_', '-')}: {known}")
        setting = setting_of(name, sizes)
        typed_as, kind = name.replace("_", "-"), workload_kind(workload)
        if name in OF_REQUESTS and name not in sizes and kind != "requests":
            raise InputError(f"--{typed_as} is of requests to a language model, {workload.name} is none")
        if setting == f"run.{name}" and name not in {*RUN, *RENAMED}:
            if name in MEANT and kind == "requests":
                raise InputError(f"unknown option --{name} of requests; did you mean {MEANT[name]}?")
            if name in ("devices", "gpus") and kind == "training":
                raise InputError(f"unknown option --{name} of a training step; did you mean {OF_TRAINING}?")
            spellings, of_runs = ([f"--{one.replace('_', '-')}" for one in names] for names in (sizes, RUN))
            hint = meant(name, [*options, *spellings, *of_runs])
            if hint or value[0] not in "+-.0123456789":
                there = f"sizes of {workload.name}: {', '.join(spellings) or 'none'}"
                raise InputError(f"unknown option --{typed_as}{hint and f'; did you mean {hint}?'} ({there})")
        settings.append(f"{setting}={MODES.get(value, value) if name == 'mode' else value}")
    return settings


def named_settings(
    workload: str | Workload, settings: Sequence[str] | None, numbers: Sequence[str] | None, context: typer.Context
) -> list[str]:
    """Settings as typed, and those of options that are numbers; the workload is read for the latter only.

    Raises
    ------
    InputError
        Where an option is neither.
    """
    if not numbers:
        return list(settings or [])
    if isinstance(workload, str):
        from slipstick.workloads.catalog import workload as by_name

        workload = by_name(workload)
    return [*(settings or []), *as_settings(numbers, workload, context)]
