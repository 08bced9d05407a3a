"""The command `slipstick`: verbs from experiments/cli, errors as one line, stable exit codes."""

from __future__ import annotations

import codecs
import io
import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from traceback import extract_tb
from typing import Annotated, Any

import typer

from slipstick.experiments.cli.command_help import with_help_pages
from slipstick.experiments.cli.option_conflicts import missing, require_apart, require_once, unknown
from slipstick.experiments.cli.renamed_options import todays_words
from slipstick.experiments.cli.verb_groups import VerbGroups
from slipstick.experiments.studies.versions import installed_version

TRACEBACK = "--traceback"
LONGEST_LINE = 2_000
INTERRUPTED = 130
DRAWN = ("--plot", "--report")
"""Options that draw, which the light install cannot."""
LACKING = "slipstick-lacking"
"""How outputs write what their encoding lacks (`codecs.register_error`)."""
LETTERS = {"µ": "u", "μ": "u", "×": "x", "±": "+-", "→": "->", "…": "...", "≤": "<=", "≥": ">=", "–": "-", "°": " deg"}
HOME = Path(__file__).resolve().parents[2]
_USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[2]  # click's base error, which typer carries but does not export


def build(only: str | None = None) -> typer.Typer:
    """The application with every verb registered, or only with one."""
    app = typer.Typer(
        name="slipstick",
        cls=VerbGroups,
        help="A slide rule for machines: how long would this take on hardware you do not have, and how sure is that?",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    known = verbs()
    for verb in [only] if only in known else known:
        import_module(f"slipstick.experiments.cli.{verb}").register(app)
    return with_help_pages(app)


def verbs() -> list[str]:
    """Names of the verbs: the modules beside this one that register themselves; parts of a verb have an underscore."""
    files = sorted(path for path in Path(__file__).parent.glob("[a-z]*.py") if "_" not in path.stem)
    return [path.stem for path in files if path.stem not in ("cli", "vocabulary")]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        print(f"slipstick {installed_version('slipstick')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options that stand before the verb."""


def run(arguments: list[str] | None = None, command: Any = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 a check failed, 2 bad input, 3 our defect, 130 Ctrl-C.

    `command` was made of `build` before, where many lines are run. ``--traceback``, anywhere, lets an error that nobody
    foresaw through with all its frames.
    """
    codecs.register_error(LACKING, _in_letters_of_all)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        sys.stdout = _until_closed(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=LACKING)
    words = list(sys.argv[1:] if arguments is None else arguments)
    traced = TRACEBACK in words
    words = [word for word in words if word != TRACEBACK]
    if any("\0" in word for word in words):
        _say("a NUL byte stands among the arguments")
        return 2
    try:
        return _run(words, command)
    except Exception as error:
        if traced:
            raise
        from slipstick.workloads.importers.torch.named_program import own_failure, raised_in_own

        if raised_in_own(error):
            _say(f"your own code: {own_failure(error)}", f" ({TRACEBACK} shows all)")
            return 2
        _say(_defect(words, error))
        return 3


class _UntilClosed(io.RawIOBase):
    """Bytes for whoever reads them; once nobody does they go nowhere, and the command still writes its files."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.closed_early = descriptor, False

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self.descriptor

    def isatty(self) -> bool:
        """Whether a terminal reads."""
        return os.isatty(self.descriptor)

    def write(self, data: Any) -> int:
        """How many bytes were taken."""
        if not self.closed_early:
            try:
                return os.write(self.descriptor, data)
            except BrokenPipeError:
                self.closed_early = True
        return len(data)


def _until_closed(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    raw = io.BufferedWriter(_UntilClosed(stream.fileno()))
    return io.TextIOWrapper(
        raw, stream.encoding, LACKING, line_buffering=stream.line_buffering, write_through=stream.write_through
    )


def _in_letters_of_all(error: UnicodeError) -> tuple[str, int]:
    """What stands in an output for what its encoding lacks: usual letters, or an escape as Python writes it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    letters = (LETTERS.get(one) or one.encode("ascii", "backslashreplace").decode() for one in lacking)
    return "".join(letters), error.end


def _run(arguments: list[str], command: Any = None) -> int:
    try:
        if any(word.partition("=")[0] in DRAWN for word in arguments):  # before an answer that may take long
            from slipstick.common.optional_packages import require_packages

            require_packages(("matplotlib",))
        with warnings.catch_warnings():
            warnings.showwarning = _one_line_each(warnings.showwarning)
            command = command or typer.main.get_command(build(arguments[0] if arguments else None))
            words = todays_words(command, arguments)
            require_once(command, words)
            require_apart(words)
            code = command.main(args=words, standalone_mode=False)
    except typer.Exit as leave:
        return int(leave.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except _USAGE_ERROR as error:
        message = str(error.format_message())
        if message.startswith("Usage:"):  # no verb, or a group without one of its verbs
            return _run([*arguments, "--help"], command)
        if message.startswith(("Missing option", "Missing argument")):
            message = missing(error, words) or message
        if message.startswith("No such option"):
            message = unknown(error)
        _say(message)
        return 2
    except ValueError as error:
        from slipstick.common.errors import InputError

        if not isinstance(error, InputError):
            raise
        from slipstick.workloads.importers.formats.registry import of_another_verb

        verb = getattr(command, "commands", {}).get(arguments[0])
        flags = [name for one in verb.params if getattr(one, "is_flag", False) for name in one.opts] if verb else []
        _say(error.typed, of_another_verb(arguments, error.typed, flags))
        return 2
    except ModuleNotFoundError as error:
        from slipstick.common.optional_packages import EXTRAS, package_error

        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        _say(str(package_error(name)))
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"{where}{error.strerror or error}")
        return 2
    if code == INTERRUPTED:  # what typer makes of Ctrl-C
        return _interrupted()
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    _say("interrupted")
    return INTERRUPTED


def _defect(words: list[str], error: Exception) -> str:
    """The message for an error that nobody foresaw: the verb, the files, the error and where it was raised."""
    verb = next((word for word in words if not word.startswith("-")), "")
    files = [word for word in words if len(word) < 4096 and Path(word).is_file()]
    frames = [frame for frame in extract_tb(error.__traceback__) if _is_ours(Path(frame.filename))]
    place = f" at {Path(frames[-1].filename).relative_to(HOME)}:{frames[-1].lineno}" if frames else ""
    return (
        f"{' '.join([verb, *files[:3]])}: a defect of slipstick, not of your input: "
        f"{type(error).__name__}: {str(error)[:200]}{place} (please report it; {TRACEBACK} shows all of it)"
    )


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(HOME) and "site-packages" not in path.relative_to(HOME).parts


def _one_line_each(usual: Callable[..., None]) -> Callable[..., None]:
    """What a user is warned of is a line on stderr; numpy's own warnings say nothing of the input, which is checked."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            _say(f"warning: {message}")
        elif not issubclass(category, RuntimeWarning):
            usual(message, category, *rest, **more)

    return show


def _say(text: str, more: str = "") -> None:
    """A line on stderr, cut at `LONGEST_LINE` characters before what stands behind it; a terminal wraps it."""
    from slipstick.common.formatting import visible

    line = visible(" ".join(text[:LONGEST_LINE].split()))
    line = f"slipstick: {line} ...{more}" if len(text) > LONGEST_LINE else f"slipstick: {line}{more}"
    if sys.stderr.isatty():
        line = fill(line, get_terminal_size().columns, subsequent_indent="  ", break_on_hyphens=False)
    print(line, file=sys.stderr)
