"""YAML of plain values, bounded: the loader of `readers.read_yaml`, apart since few commands read YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from yaml.composer import Composer

from slipstick.common.errors import InputError
from slipstick.common.opener import MAX_DEPTH

MAX_YAML_NODES = 200_000


class _BoundedComposer(Composer):
    """PyYAML's composer in Python, put before the parser: libyaml's composer, in C, cannot be bounded."""


class _PlainLoader(_BoundedComposer, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML without aliases (no bombs), with unique keys and a bounded number of nodes.

    libyaml makes the events where PyYAML was built with it: a file is read seven times as fast.
    """

    nodes = 0
    depth = 0

    def __init__(self, text: str) -> None:
        super(_BoundedComposer, self).__init__()
        super(Composer, self).__init__(text)

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        line = self.peek_event().start_mark.line + 1
        if self.nodes > MAX_YAML_NODES:
            raise InputError(f"line {line}: more than {MAX_YAML_NODES} YAML nodes")
        if self.check_event(yaml.AliasEvent):
            raise InputError(f"line {line}: YAML aliases (*name) are not accepted")
        if self.depth == MAX_DEPTH:
            raise InputError(f"line {line}: nested deeper than {MAX_DEPTH} levels")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001 - PyYAML's signature
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise InputError(f"line {key.start_mark.line + 1}: field {key.value!r} is given twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _plain(loader: Any, node: Any) -> Any:
    return loader.construct_mapping(node) if isinstance(node, yaml.MappingNode) else loader.construct_scalar(node)


def loader(text_tags: Sequence[str]) -> type[Any]:
    """A class of loaders in which scalars with one of the tags are texts, and mappings are plain ones."""

    class Loader(_PlainLoader):
        pass

    for tag in text_tags:
        Loader.add_constructor(tag, _plain)
    return Loader
