"""A workload from a networkx graph of your own, or from that of another (`Workload.graph`) after edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError, Problems, errors_at
from slipstick.common.expressions import expression_text, is_symbolic, parse_expression, sp
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import LARGEST, Amount, Cost, check_resource, symbols_of
from slipstick.workloads.graph.kinds import KINDS, operation
from slipstick.workloads.graph.workload import FIELDS, WHOLE, Attribute, Op, Workload

if TYPE_CHECKING:
    import networkx as nx


def from_digraph(graph: nx.Graph[Any]) -> Workload:
    """A workload from a directed graph of your own, or from one of `Workload.graph` that was edited.

    A node is an operation: ``kind`` (a word of the taxonomy, or one of your own where ``cost`` is given), ``dims``
    (sizes by name), ``dtype`` (float32), ``cost`` (resource -> amount; by the kind's formula where it is left out),
    ``times`` (1) and ``attributes``. An amount is a number, a formula as text (``"4*batch"``) or a sympy expression;
    names in it stay open. An edge says that its second node waits for its first. The graph itself may have ``name``,
    ``defaults`` (of the open names), ``metadata`` and ``uncounted``.

    Where a node of an existing workload gets other dims, another data type or other attributes, its cost follows by the
    formula of its kind; one that had a cost of its own needs a new one.
    Raises InputError, which names each node and field that cannot be used, all at once.

    Examples
    --------
    >>> import networkx as nx
    >>> graph = nx.DiGraph(name="mine", defaults={"batch": 8})
    >>> graph.add_node("product", kind="gemm", dims={"batch": 1, "m": 4096, "n": "batch", "k": 1024})
    >>> graph.add_node("maximum", kind="reduction", dims={"elements": "4096*batch", "outputs": "batch"})
    >>> graph.add_edge("product", "maximum")
    >>> from_digraph(graph).bound().cost.flop
    67141632
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise InputError(f"no workload, but {type(graph).__name__}: want a name, a Workload or a networkx DiGraph")
    name = graph.graph.get("name") or "graph"
    where = f"graph {str(name)[:60]!r}"
    if not graph.is_directed():
        raise InputError(f"{where}: its edges have no direction: want a DiGraph, whose edges say what waits for what")
    if not len(graph):
        raise InputError(f"{where}: has no node: want at least one operation")
    problems = Problems(where)
    made = _operations(graph, problems)
    edges = dict.fromkeys((str(before), str(after)) for before, after in graph.edges())
    for before, after, fields in graph.edges(data=True):
        problems += [f"edge {before!s} -> {after!s}: {field!r}: an edge has no field" for field in fields]
    whole = _whole(graph.graph, problems)
    problems.refuse()
    return Workload(str(name), made, tuple(edges), whole["defaults"], whole["metadata"], whole["uncounted"])


def _whole(facts: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """What the graph says of the workload, by field."""
    for name in facts:
        if name not in WHOLE:
            problems.append(str(unknown_name("field of the graph", name, WHOLE)))
    defaults: dict[str, float] = {}
    for name, value in read_mapping(facts.get("defaults", {}), "field 'defaults'", problems).items():
        number = read_amount(value, f"defaults.{name}", problems)
        if number == 0 or (number is not None and symbols_of(number)):
            problems.append(f"defaults.{name} = {str(value)[:40]!r}: want a number > 0")
        elif number is not None:
            defaults[str(name)] = float(number) if is_symbolic(number) else number
    metadata = read_facts(facts.get("metadata", {}), "field 'metadata'", problems)
    uncounted = facts.get("uncounted", ())
    if not isinstance(uncounted, (list, tuple)):
        problems.append("field 'uncounted': want a list of names")
        uncounted = ()
    return {"defaults": FrozenDict(defaults), "metadata": metadata, "uncounted": tuple(map(str, uncounted))}


def _operations(graph: nx.Graph[Any], problems: Problems) -> tuple[Op, ...]:
    """The operations of all nodes, alike ones read once; what is wrong with the others is added to `problems`."""
    read: dict[tuple[object, ...], Op] = {}
    made: list[Op] = []
    for node, fields in graph.nodes(data=True):
        if not isinstance(node, (str, int)) or isinstance(node, bool):
            problems.append(f"node {str(node)[:60]!r}: want a text or a whole number as its name")
        content: list[object] = []
        try:
            _say(fields, content)
            op = read.get(key := tuple(content))
        except (TypeError, RecursionError):  # no value of an operation: an error for each node
            op, key = None, (id(fields),)
        if op is None and (op := _operation(node, fields, problems)) is not None:
            read[key] = op
        if op is not None:
            made.append(op.repeated(str(node), op.times))
    return tuple(made)


def _say(value: Any, content: list[object]) -> None:
    """Add what a field says to `content`, types and lengths included: 2 and 2.0 are not alike."""
    content.append(type(value))
    if isinstance(value, (str, int, float)):
        content.append(value)
    elif isinstance(value, Mapping):
        content.append(len(value))
        for name, one in value.items():
            content.append(str(name))
            _say(one, content)
    elif isinstance(value, (list, tuple)):
        content.append(len(value))
        for one in value:
            _say(one, content)
    else:
        content.append(id(value) if isinstance(value, Op) else value)


def _operation(node: Any, fields: Mapping[str, Any], problems: Problems) -> Op | None:
    """The operation of a node; None where something is wrong, which is added to `problems`."""
    where = f"node {str(node)[:60]!r}"
    known = len(problems)
    for field in fields:
        if field not in (*FIELDS, "op"):
            hint = "; sizes stand in dims" if any(field in kind.dims for kind in KINDS.values()) else ""
            problems.append(f"{where}: {unknown_name('field', field, FIELDS)}{hint}")
    of = fields.get("op")
    base = of if isinstance(of, Op) else None
    if base is not None and all(fields.get(field, None) is getattr(base, field) for field in FIELDS):
        return base

    def given(field: str, otherwise: Any) -> Any:
        return fields.get(field, otherwise if base is None else getattr(base, field))

    kind, dtype = given("kind", None), given("dtype", "float32")
    if kind is None:
        problems.append(f"{where}: field 'kind' is missing (known: {', '.join(KINDS)})")
    elif not isinstance(kind, str) or not isinstance(dtype, str):
        problems.append(f"{where}: kind = {str(kind)[:40]!r}, dtype = {str(dtype)[:40]!r}: want texts")
    dims = read_amounts(given("dims", {}), f"{where}: dims", problems)
    attributes = read_facts(given("attributes", {}), f"{where}: attributes", problems)
    times = read_amount(given("times", 1), f"{where}: times", problems)
    cost = fields.get("cost")
    if base is not None and cost == base.cost:
        cost = None if [kind, dims, dtype, attributes] != [base.kind, base.dims, base.dtype, base.attributes] else cost
        if cost is None and not _by_formula(base):
            problems.append(
                f"{where}: cost: it is that of the sizes before, and not by the formula of {base.kind}: give the new "
                "one, or take the node's 'op' and 'cost' away"
            )
    amounts = None if cost is None else read_cost(cost, f"{where}: cost", problems)
    if len(problems) > known or times is None:
        return None
    with problems, errors_at(where):
        return _made(str(node), kind, dims, dtype, amounts, times, attributes, base)
    return None


def _made(
    name: str,
    kind: str,
    dims: FrozenDict[Amount],
    dtype: str,
    amounts: Mapping[str, Amount] | None,
    times: Amount,
    attributes: FrozenDict[Attribute],
    base: Op | None,
) -> Op:
    """The operation, checked as its kind wants; a kind of the user's own needs a cost."""
    body, payload = (base.body, base.payload) if base is not None and base.kind == kind else (None, None)
    if kind in KINDS:
        made = operation(name, kind, dims, dtype, attributes, times=times, body=body)
        cost = made.cost if amounts is None else Cost(amounts)
    elif amounts is None:
        raise InputError(f"{unknown_name('kind', kind, list(KINDS))}; a kind of your own needs a cost")
    else:
        cost = Cost(amounts)
    return Op(name, kind, dims, dtype, cost, times, attributes, body, payload)


def _by_formula(op: Op) -> bool:
    """Whether an operation's cost is that of its kind's formula."""
    try:
        return op.kind in KINDS and operation(op.name, op.kind, op.dims, op.dtype, op.attributes).cost == op.cost
    except InputError:
        return False


def read_mapping(value: Any, where: str, problems: Problems) -> Mapping[Any, Any]:
    """A table by name; an empty one where it is none, which is added to `problems`, as the other readers do."""
    if isinstance(value, Mapping):
        return value
    problems.append(f"{where}: want a dict, got {str(value)[:40]!r}")
    return {}


def read_amounts(value: Any, where: str, problems: Problems) -> FrozenDict[Amount]:
    """Amounts by name."""
    amounts: dict[str, Amount] = {}
    for name, amount in read_mapping(value, where, problems).items():
        number = read_amount(amount, f"{where}.{str(name)[:60]}", problems)
        if number is not None:
            amounts[str(name)] = number
    return FrozenDict(amounts)


def read_cost(value: Any, where: str, problems: Problems) -> FrozenDict[Amount]:
    """Amounts of resources by name."""
    known: dict[str, Any] = {}
    for name, amount in read_mapping(value, where, problems).items():
        with problems, errors_at(f"{where}.{str(name)[:60]}"):
            check_resource(str(name))
            known[str(name)] = amount
    return read_amounts(known, where, problems)


def read_amount(value: Any, where: str, problems: Problems) -> Amount | None:
    """An amount: a number, or a formula over open names; None where it is neither, which is added to `problems`."""
    plain = value.item() if hasattr(value, "item") and not is_symbolic(value) else value
    if isinstance(plain, (int, float)) and not isinstance(plain, bool) and 0 <= plain <= LARGEST:
        return plain
    problem = f" = {str(value)[:40]}: want a finite amount >= 0, up to {LARGEST:g}, or a formula of open names"
    if isinstance(plain, str) or is_symbolic(plain):
        try:
            # the same words as in a file: what no file may say is refused here too
            formula = _parsed(expression_text(plain) if is_symbolic(plain) else plain)
        except InputError as error:
            problem = f": {str(error).removeprefix('formula: ')}"
        else:
            if is_symbolic(plain) and symbols_of(plain) != symbols_of(formula):
                problem = f" = {str(plain)[:40]!r}: want numbers as digits, no constants by name"
            elif not formula.is_number or 0 <= formula <= LARGEST:
                return formula
    problems.append(f"{where}{problem}")
    return None


@lru_cache(maxsize=1024)
def _parsed(text: str) -> sp.Expr:
    # A graph repeats a few expressions thousands of times.
    return parse_expression(text)


def read_facts(value: Any, where: str, problems: Problems) -> FrozenDict[Attribute]:
    """Plain facts by name: texts, numbers, truth values, and tuples of them."""

    def frozen(fact: Any) -> Attribute:
        if isinstance(fact, Sequence) and not isinstance(fact, str):
            return tuple(frozen(part) for part in fact)
        if fact is not None and not isinstance(fact, (str, int, float, bool)):
            raise TypeError
        return fact

    facts: dict[str, Attribute] = {}
    for name, fact in read_mapping(value, where, problems).items():
        try:
            facts[str(name)] = frozen(fact)
        except (TypeError, RecursionError):
            problems.append(f"{where}.{str(name)[:60]}: want plain values, got {str(fact)[:40]!r}")
    return FrozenDict(facts)
