"""slipstick mcp: the verbs as tools of the Model Context Protocol (https://modelcontextprotocol.io), over stdio."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from inspect import unwrap
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from slipstick.common.trusted_code import only_code
from slipstick.experiments.cli.command_help import EXAMPLES
from slipstick.experiments.cli.vocabulary import Trusted, option

TOOLS = (
    *("estimate", "whatif", "explain", "extrapolate", "serve", "plan serving", "plan training", "read"),
    *("machines list", "machines show", "machines check", "machines compare", "workloads list", "estimators list"),
)
"""Verbs that answer and write nothing."""
SHOWN = ("verbose", "rows", "top", "counters", "routes", "next")
"""Of the options under "Output", those that shape the answer; the others write files, which no tool does."""
MOST_PARTS = 20
"""Parts of an answer: an agent reads all that it is given, and the 775 operations of GPT-2 are 150 kB."""
NUMBERS = "number"
JSON_TYPES: Mapping[type, str] = MappingProxyType({int: "integer", float: "number", bool: "boolean"})


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def mcp(
        allow_code: Trusted = None,
        skill: Annotated[bool, option("skill")] = False,
    ) -> None:
        """Answer the questions of an agent or planner: a server of the Model Context Protocol on standard input.

        Tools are the verbs, with their options and JSON answers; they write no file and import no code that
        --allow-code does not name.
        """
        if skill:
            print(skill_text(), end="")
            return
        from slipstick.common.optional_packages import require_packages

        require_packages(["mcp"])
        import anyio
        from mcp.server.stdio import stdio_server

        async def served() -> None:
            server = make_server(allow_code or ())
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

        anyio.run(served)


def skill_text() -> str:
    """What an agent should know before it asks: how to ask, how to read bands and conditions, when not to believe."""
    from slipstick.common.opener import read_bytes

    return read_bytes(Path(__file__).with_name("agent_skill.md")).decode()


@dataclass(frozen=True)
class VerbTool:
    """A verb as a tool.

    Parameters
    ----------
    name
        As the tool is called: words of the verb, joined by underscores.
    verb
        As it is typed.
    command
        The command of the verb.
    """

    name: str
    verb: tuple[str, ...]
    command: Any

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments and options of the verb that a tool takes, by name."""
        return {one.name: one for one in self.command.params if _is_taken(one)}

    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        hints = get_type_hints(unwrap(self.command.callback))
        properties = {name: _property(hints[name], one.help) for name, one in self.parameters.items()}
        if NUMBERS in {one.name for one in self.command.params}:
            properties[NUMBERS] = {
                "type": "object",
                "additionalProperties": {"type": ["string", "number"]},
                "description": 'sizes of the workload and numbers of the run, {"batch": 256, "seq_len": 1024}',
            }
        required = [name for name, one in self.parameters.items() if one.required]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def description(self) -> str:
        """What the verb answers, and what is typed for it."""
        about = " ".join((self.command.help or "").split())
        typed = "; ".join(" ".join(["slipstick", *self.verb, one]).strip() for one in EXAMPLES[" ".join(self.verb)])
        return f"{about} As typed: {typed}"

    def words(self, arguments: Mapping[str, Any], allow_code: Collection[str] = ()) -> list[str]:
        """Arguments of a call as words of a command line; `allow_code` is named to a job's file, which may need it.

        Raises
        ------
        InputError
            Where an argument is none of the tool's, or its numbers are no object.
        """
        from slipstick.common.errors import InputError
        from slipstick.common.readers import require_mapping, unknown_name
        from slipstick.experiments.jobs import is_job

        options: list[str] = []
        places: list[str] = []
        for name, value in arguments.items():
            if value is None:
                continue
            if name == NUMBERS and name in self.schema()["properties"]:
                numbers = require_mapping(value, self.name, NUMBERS)
                if odd := [size for size in numbers if not size.isidentifier()]:
                    raise InputError(f"{self.name}: {NUMBERS}: {odd[0]!r} is no name of a size")
                options += [f"--{NUMBERS}={size}={each}" for size, each in numbers.items()]
                continue
            if name not in self.parameters:
                raise unknown_name("argument", name, self.schema()["properties"])
            values = value if isinstance(value, list) else [value]
            parameter = self.parameters[name]
            if parameter.param_type_name == "argument":
                places += [str(each) for each in values]
            elif isinstance(value, bool):
                options += [max(parameter.opts, key=len)] if value else []
            else:
                options += [f"{max(parameter.opts, key=len)}={each}" for each in values]
        if any(map(is_job, places)) and any(one.name == "allow_code" for one in self.command.params):
            options += [f"--allow-code={name}" for name in allow_code]
        return [*self.verb, *options, "--format=json", *(["--", *places] if places else [])]


def _is_taken(parameter: Any) -> bool:
    panel = getattr(parameter, "rich_help_panel", None)
    is_writing = panel == "Output" and parameter.name not in SHOWN
    return not (is_writing or getattr(parameter, "hidden", False) or parameter.name in ("allow_code", "help"))


def _property(hint: Any, about: str | None) -> dict[str, Any]:
    kind = get_args(hint)[0] if type(None) in get_args(hint) else hint
    is_list = get_origin(kind) is list
    one = {"type": JSON_TYPES.get(get_args(kind)[0] if is_list else kind, "string")}
    return {**({"type": "array", "items": one} if is_list else one), "description": about or ""}


def tools_of(command: Any) -> dict[str, VerbTool]:
    """The tools by name; `command` is the whole command line, `typer.main.get_command` of `build()`."""
    tools = {}
    for verb in TOOLS:
        inner = command
        for word in verb.split():
            inner = inner.commands[word]
        tools[verb.replace(" ", "_")] = VerbTool(verb.replace(" ", "_"), tuple(verb.split()), inner)
    return tools


def answer(
    tool: VerbTool, arguments: Mapping[str, Any], command: Any, allow_code: Collection[str] = ()
) -> tuple[list[Any] | None, str]:
    """Rows of the answer as `--format json` prints them, or none; and what was said on standard error.

    Only code that `allow_code` names is imported.
    """
    from slipstick.common.errors import InputError
    from slipstick.experiments.cli.cli import run

    printed, errors = io.StringIO(), io.StringIO()
    try:
        words = tool.words(arguments, allow_code)
    except InputError as error:
        return None, str(error)
    with redirect_stdout(printed), redirect_stderr(errors), only_code(allow_code):
        code = run(words, command)
    text = printed.getvalue()
    if not text or code not in (0, 1):
        return None, errors.getvalue().strip()
    rows = json.loads(text)
    cut = [f"parts: the {MOST_PARTS} slowest of {len(parts)}." for row in rows if (parts := _cut_parts(row))]
    return rows, " ".join([errors.getvalue().strip(), *cut]).strip()


def _cut_parts(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Leave the `MOST_PARTS` slowest parts of an answer in its row; returns all, none where it has no more."""
    parts: list[dict[str, Any]] = row.get("parts") or []
    if len(parts) <= MOST_PARTS:
        return []
    row["parts"] = sorted(parts, key=lambda part: -part["time_s"])[:MOST_PARTS]
    return parts


def make_server(allow_code: Collection[str] = ()) -> Any:
    """The server: `mcp.server.Server`, whose tools are those of `TOOLS`."""
    from anyio import Lock, to_thread
    from mcp import types
    from mcp.server import Server

    from slipstick.experiments.cli.cli import build
    from slipstick.experiments.studies.versions import installed_version

    command = typer.main.get_command(build())
    tools = tools_of(command)
    one_at_a_time = Lock()

    async def listed(context: Any, parameters: Any) -> Any:
        del context, parameters
        hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        output = {"type": "object", "properties": {"rows": {"type": "array"}, "notes": {"type": "string"}}}
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=one.name,
                    description=one.description(),
                    input_schema=one.schema(),
                    output_schema={**output, "required": ["rows", "notes"]},
                    annotations=hints,
                )
                for one in tools.values()
            ]
        )

    async def called(context: Any, request: Any) -> Any:
        del context
        if request.name not in tools:
            return _refusal(types, f"unknown tool {request.name!r} (known: {', '.join(tools)})")
        async with one_at_a_time:  # what a verb prints is caught for the whole process
            rows, notes = await to_thread.run_sync(
                answer, tools[request.name], request.arguments or {}, command, allow_code
            )
        if rows is None:
            return _refusal(types, notes)
        content = {"rows": rows, "notes": notes}
        texts = [types.TextContent(type="text", text=json.dumps(content))]
        return types.CallToolResult(content=texts, structured_content=content)

    return Server(
        "slipstick",
        version=installed_version("slipstick"),
        instructions=skill_text(),
        on_list_tools=listed,
        on_call_tool=called,
    )


def _refusal(types: Any, text: str) -> Any:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
