"""Edits that break a good file (bytes, words, cells, fields, what stands at its place); drawn by hypothesis."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import os
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.attack.shared_pages import rebuilt

LARGEST = 1 << 18
GROWN = 80_000_000
"""Bytes that a repeated field makes at most: beyond what any reader takes, and written in a second."""
MARK = "SLIPSTICK_CANARY"
"""Stands in every piece that is code: a worker's audit hook looks for it in whatever is executed."""
FIRED = "fired"

NUMBERS = ["0", "-1", "-0.0", "1", "3", "0.5", "1e-320", "1e-30", "1e5", "1e15", "1e30", "1e300", "-1e300", "1e999"]
NUMBERS += ["NaN", "-Infinity", ".inf", ".nan", "9" * 400, "1" + "0" * 5000, "0x10", "1_0", "1,5", "2147483648"]
NUMBERS += ["18446744073709551616", "735134400", "1000000000", "1" + "0" * 100]
NUMBERS += ["9223372036854775808", "4.5", "١٢", "5 apples", "1 GHz", "-3 GiB", "1e999 s", "3 **9**9**9 Hz"]
WORDS = ["", " ", "null", "true", "[]", "{}", "a", "nope", "\0", "\x1b[31m", "\ud800", "é" * 3, "x" * 5000, "=1+1"]
WORDS += ["@SUM(A1)", "+1", "-1", "../../etc/passwd", "/dev/zero", ".", "//", "a.b.c", "machine.clock", "time_s", "%s"]
WORDS += [
    "{0.__class__}",
    "run.threads",
    "</script><script>1",
    "\r\n",
    "\\",
    '"',
    "'",
    "#",
    ":",
    "- -",
    "<!ENTITY a 'b'>",
]
CODE = [
    f"__import__('os').system('touch {FIRED}')#{MARK}",
    f"**({{}} if __import__('os').system('touch {FIRED}') is None else {{}})) #{MARK}",
    f"x');__import__('os').system('touch {FIRED}')#{MARK}",
    f"!!python/object/apply:os.system ['touch {FIRED}; #{MARK}']",
    f"$(touch {FIRED}) `touch {FIRED}` {MARK}",
    f"lambda: open('{FIRED}', 'w') or '{MARK}'",
    f"(1).__class__.__mro__[-1].__subclasses__() or {MARK}",
    "antigravity:fly",
    "os:system",
    "evil:make",
    "evil.py:make",
]
PIECES = [*NUMBERS, *WORDS, *CODE]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    1e-320,
    1e300,
    -1e300,
    10**18,
    10**39,
    10**400,
    1e15,
    [],
    {},
    [[]],
]
VALUES += ["", {}, [[]], [1, 2], {"a": 1}, float("nan"), float("inf"), [None] * 50, {"": ""}, *PIECES]
PLACES = ("fifo", "device", "folder", "missing", "empty", "bomb", "long line", "wide", "loop", "deep", "utf-16")
PLACES += ("aliases", "shared pages", "view", "trigger", "many keys")
EVIL = f"open('{FIRED}', 'w')\nmake = lambda: None  # {MARK}\n"
"""A module that stands beside every file, and that no file may have imported."""
KINDS = ("flip", "drop", "insert", "truncate", "double", "word", "cell", "cell", "value", "value", "value", "key")
KINDS += ("remove", "nest", "swap", "repeat")


@dataclass(frozen=True)
class Edit:
    """One change: its kind, where (in ten-thousandths of the content), and what is put there."""

    kind: str
    where: int
    piece: int


EDITS = st.lists(
    st.builds(Edit, st.sampled_from(KINDS), st.integers(0, 9999), st.integers(0, len(VALUES) - 1)),
    min_size=1,
    max_size=3,
)
"""Changes to the content; one case in thirty changes what stands at the file's place instead."""
PLACED = st.builds(lambda kind: [Edit(kind, 0, 0)], st.sampled_from(PLACES))
ALL_EDITS = st.integers(0, 29).flatmap(lambda number: PLACED if number == 29 else EDITS)


_NO_DOCUMENT = (
    csv.Error,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    yaml.YAMLError,
)


def broken(content: bytes, edits: list[Edit], name: str) -> bytes:
    """The content with the edits made, packed again where it was packed."""
    packed = content[:2] == b"\x1f\x8b"
    plain = gzip.decompress(content) if packed else content
    for edit in edits:
        if len(plain) > LARGEST:
            break  # what grows at each edit would keep the editing busy, not the reader
        try:
            plain = _EDITS[edit.kind](plain, edit, name)
        except _NO_DOCUMENT:
            plain = _word(plain, edit, name)  # what is no document any more is changed as text
    return gzip.compress(plain, 1) if packed else plain


def put(path: Path, kind: str, content: bytes) -> None:
    """Something else at the file's place."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "bomb":
        path.with_name(path.name).write_bytes(_BOMB)
    elif kind in ("shared pages", "view", "trigger"):
        path.write_bytes(content)
        if content.startswith(b"SQLite"):
            rebuilt(path, kind)
    elif kind != "missing":
        text = {
            "empty": b"",
            "long line": content[:200] + b"1 " * 2_000_000,
            "wide": b",".join(b"c%d" % i for i in range(20_000)) + b"\n" + b"1," * 19_999 + b"1\n",
            "deep": b"[" * 100_000,
            "aliases": b"a0: &a0 [x, x]\n"
            + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 12)),
            "many keys": b"{" + b", ".join(b'"k%d": {"a": [1]}' % i for i in range(200_000)) + b"}",
            "utf-16": content.decode("utf-8", "replace").encode("utf-16"),
        }[kind]
        path.write_bytes(text)


_BOMB = gzip.compress(b"1 1\n" * 30_000_000, 9)


def _at(content: bytes, edit: Edit) -> int:
    return len(content) * edit.where // 10_000


def _piece(edit: Edit) -> bytes:
    return PIECES[edit.piece % len(PIECES)].encode("utf-8", "surrogatepass")


def _flip(content: bytes, edit: Edit, name: str) -> bytes:
    place = _at(content, edit)
    return content[:place] + bytes([content[place] ^ (1 << edit.piece % 8)]) + content[place + 1 :]


def _drop(content: bytes, edit: Edit, name: str) -> bytes:
    place = _at(content, edit)
    return content[:place] + content[place + 1 + edit.piece % 40 :]


def _insert(content: bytes, edit: Edit, name: str) -> bytes:
    place = _at(content, edit)
    return content[:place] + _piece(edit) + content[place:]


def _truncate(content: bytes, edit: Edit, name: str) -> bytes:
    return content[: _at(content, edit)]


def _double(content: bytes, edit: Edit, name: str) -> bytes:
    place = _at(content, edit)
    return content[:place] + content[place : place + 80] * 2 + content[place + 80 :]


def _word(content: bytes, edit: Edit, name: str) -> bytes:
    words = list(re.finditer(rb'-?\d+(?:\.\d+)?(?:e-?\d+)?|"[^"]*"|\w+', content))
    if not words:
        return _insert(content, edit, name)
    word = words[len(words) * edit.where // 10_000]
    return content[: word.start()] + _piece(edit) + content[word.end() :]


def _cell(content: bytes, edit: Edit, name: str) -> bytes:
    if ".csv" not in name:
        return _word(content, edit, name)
    rows = list(csv.reader(io.StringIO(content.decode())))
    row = rows[(edit.where // 100) % len(rows)]
    row[edit.where % len(row)] = PIECES[edit.piece % len(PIECES)]
    if edit.piece % 11 == 0:
        rows = [[*own, own[-1]] for own in rows]
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue().encode("utf-8", "surrogatepass")


def _document(content: bytes, name: str) -> tuple[Any, Callable[[Any], str]]:
    text = content.decode()
    if ".jsonl" in name:
        lines = [json.loads(line) for line in text.splitlines()]
        return lines, lambda made: "\n".join(map(json.dumps, made if isinstance(made, list) else [made]))
    if ".json" in name:
        return json.loads(text), json.dumps
    if ".toml" in name:
        from slipstick.experiments.studies.study import toml_text

        return tomllib.loads(text), toml_text
    if ".y" in name:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return yaml.load(text, Loader=_Any), lambda made: yaml.dump(made, Dumper=_DUMPER, sort_keys=False)
    raise ValueError(name)


_DUMPER = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
"""Ten times as fast in C: what an edit grew is written within the clock of its case."""


class _Any(yaml.SafeLoader):
    """Tags of others as text."""


_Any.add_multi_constructor("", lambda loader, suffix, node: getattr(node, "value", ""))


def _spots(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in children:
        yield (*at, key)
        yield from _spots(value, (*at, key))


def _changed(content: bytes, edit: Edit, name: str, change: Callable[[Any, Any, Any], None]) -> bytes:
    document, text = _document(content, name)
    spots = list(_spots(document))
    spot = spots[len(spots) * edit.where // 10_000]
    parent = document
    for key in spot[:-1]:
        parent = parent[key]
    change(parent, spot[-1], document)
    return text(document).encode("utf-8", "surrogatepass")


def _value(content: bytes, edit: Edit, name: str) -> bytes:
    def change(parent: Any, key: Any, document: Any) -> None:
        parent[key] = copy.copy(VALUES[edit.piece])

    return _changed(content, edit, name, change)


def _key(content: bytes, edit: Edit, name: str) -> bytes:
    def change(parent: Any, key: Any, document: Any) -> None:
        if isinstance(parent, dict):
            items = [(PIECES[edit.piece % len(PIECES)] if own == key else own, value) for own, value in parent.items()]
            parent.clear()
            parent.update(items)
        else:
            parent.insert(key, VALUES[edit.piece])

    return _changed(content, edit, name, change)


def _remove(content: bytes, edit: Edit, name: str) -> bytes:
    def change(parent: Any, key: Any, document: Any) -> None:
        del parent[key]

    return _changed(content, edit, name, change)


def _nest(content: bytes, edit: Edit, name: str) -> bytes:
    def change(parent: Any, key: Any, document: Any) -> None:
        value = parent[key]
        for _ in range(1 + edit.piece):
            value = [value] if edit.piece % 2 else {"a": value}
        parent[key] = value

    return _changed(content, edit, name, change)


def _swap(content: bytes, edit: Edit, name: str) -> bytes:
    def change(parent: Any, key: Any, document: Any) -> None:
        spots = list(_spots(document))
        other = document
        for step in spots[len(spots) * (edit.piece * 97 % 10_000) // 10_000]:
            other = other[step]
        parent[key] = copy.deepcopy(other)

    return _changed(content, edit, name, change)


def _repeat(content: bytes, edit: Edit, name: str) -> bytes:
    times = 1 + min(edit.piece * 10, GROWN // (len(content) + 1))

    def change(parent: Any, key: Any, document: Any) -> None:
        value = parent[key]
        if isinstance(value, list):
            parent[key] = value * times
        elif isinstance(value, str):
            parent[key] = value * min(1 + edit.piece, times)
        elif isinstance(value, dict):
            parent[key] = {f"{own}{i}": one for own, one in value.items() for i in range(20)}
        else:
            parent[key] = [value] * times

    return _changed(content, edit, name, change)


_EDITS: dict[str, Callable[[bytes, Edit, str], bytes]] = {
    "flip": _flip,
    "drop": _drop,
    "insert": _insert,
    "truncate": _truncate,
    "double": _double,
    "word": _word,
    "cell": _cell,
    "value": _value,
    "key": _key,
    "remove": _remove,
    "nest": _nest,
    "swap": _swap,
    "repeat": _repeat,
}
