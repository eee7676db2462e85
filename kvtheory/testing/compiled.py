"""Compiled programs as XLA prints them: what a loop does to whole arrays.

A scan is fast if no step touches a whole array of its state; `whole_arrays` finds what does.
"""

import math
import re
from typing import NamedTuple


class Operation(NamedTuple):
    """One instruction of a compiled program."""

    computation: str
    name: str
    shape: str
    kind: str
    calls: list[str]
    root: bool

    @property
    def size(self) -> int:
        """Elements of its result, 0 for a tuple."""
        found = re.match(r"\w+\[([\d,]*)\]", self.shape)
        return math.prod(int(n) for n in found[1].split(",") if n) if found else 0


def operations(program: str) -> tuple[str, dict[str, list[Operation]]]:
    """The entry of a program as XLA prints it, and the instructions of each computation."""
    entry, inside = "", ""
    found: dict[str, list[Operation]] = {}
    for line in program.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$", line):
            inside = head[2]
            found[inside] = []
            entry = inside if head[1] else entry
        elif line.startswith("}"):
            inside = ""
        elif inside and (
            part := re.match(r"\s+(ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\(", line)
        ):
            calls = re.findall(r"(?:calls|body|condition|to_apply)=%?([\w.\-]+)", line)
            root, name, shape, kind = part.groups()
            found[inside].append(Operation(inside, name, shape, kind, calls, bool(root)))
    return entry, found


def in_the_loop_over_queries(program: str) -> list[Operation]:
    """What runs inside two loops or more: that over the lanes and that over the queries."""
    entry, found = operations(program)
    seen: set[tuple[str, int]] = set()
    ahead = [(entry, 0)]
    while ahead:
        name, depth = ahead.pop()
        if (name, depth) not in seen:
            seen.add((name, depth))
            for op in found[name]:
                ahead.extend((c, min(2, depth + (op.kind == "while"))) for c in op.calls)
    return [op for name, depth in seen if depth == 2 for op in found[name]]


HARMLESS = {"parameter", "get-tuple-element", "bitcast", "dynamic-update-slice"}


def whole_arrays(program: str, least: int) -> list[Operation]:
    """Operations inside the loop whose result is a whole array, if not written in place."""
    _, found = operations(program)
    out = []
    for op in in_the_loop_over_queries(program):
        kind = op.kind
        if kind == "fusion":
            (kind,) = (inner.kind for inner in found[op.calls[0]] if inner.root)
        if op.size >= least and kind not in HARMLESS:
            out.append(op)
    return out
