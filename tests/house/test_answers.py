"""One record answers every verb: what an answer holds is said once, and what shows it stands in one place."""

from __future__ import annotations

import ast

from tools.imports import FILES, nodes

FACE = ("to_frame", "_repr_html_", "to_json")
"""What `Answer` makes of the rows, heads and notes of an answer."""
OWN_FRAME = {
    "Estimate": "a row an operation",
    "WhatIf": "its columns are arrays",
    "SimulationResult": "a row a request",
    "Serving": "a row a request",
    "Simulated": "a row a run",
    "Plan": "all candidates, not the front alone",
}
"""Answers whose frame is not their rows, and why."""


def classes() -> dict[str, tuple[set[str], set[str]]]:
    """Classes with a method `rows`: the names of their bases, and of their own methods."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for path in FILES:
        if {"papers", "scoreboards", "scoring"} & {*path.parts}:
            continue
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
                bases = {ast.unparse(one) for one in node.bases}
                if "rows" in methods and (methods & {*FACE, "declared"} or "Answer" in bases):
                    found[node.name] = bases, methods
    return found


def test_every_answer_is_the_one_record() -> None:
    # 15 classes wrote their own frame and their own notebook text before there was one record; six frames are left
    answers = {name: one for name, one in classes().items() if name not in ("Answer", "StepTimePredictor")}
    assert {name for name, (bases, _) in answers.items() if "Answer" not in bases} == set()
    assert len(answers) <= 17
    framed = {name for name, (_, methods) in answers.items() if "to_frame" in methods}
    assert framed == set(OWN_FRAME)
    assert {name for name, (_, methods) in answers.items() if "_repr_html_" in methods} == {"Prediction"}  # its formula
    assert {name for name, (_, methods) in answers.items() if "to_json" in methods} == set()
