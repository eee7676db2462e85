"""Azure's LLM inference CSV: when requests came and how long they were, not what they said.

``TIMESTAMP,ContextTokens,GeneratedTokens`` and rows like
``2023-11-16 18:17:03.9799600,4808,10``. Times count from the first request.

References
----------
Patel et al., Splitwise: Efficient Generative LLM Inference Using Phase Splitting, ISCA 2024.
"""

import re
from array import array
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np

from kvtheory.errors import InputError, bad
from kvtheory.instance import Ids, Instance
from kvtheory.traces.files import at_line, lines, stem
from kvtheory.tree import PrefixTree

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens"
_ROW = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?,(\d{1,18}),(\d{1,18})"
)


def read(
    path: Path, ids: Ids | None = None, block_size: int | None = None, progress: bool = False
) -> Instance:
    """Read arrivals and lengths; each request is a path of its own, so no cache ever hits.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong with it.
    """
    block = 1 if block_size is None else block_size
    if block < 1:
        raise bad("block_size", block, "must be at least 1 token")
    times, given, made = array("d"), array("q"), array("q")
    first, begin, last = None, Decimal(0), Decimal(0)
    for number, text in lines(path, progress):
        if number == 1 and text == HEAD:
            continue
        row = _ROW.fullmatch(text)
        try:
            if row is None:
                raise ValueError
            moment = datetime.fromisoformat(row[1])
        except ValueError:
            raise at_line(path, number, f"{text[:60]!r} is not a row of {HEAD}") from None
        fraction = Decimal(f"0{row[2] or ''}")
        if first is None:
            first, begin = moment, fraction
        # exact until the end: the stamps have more digits than datetime holds
        now = int((moment - first).total_seconds()) + fraction - begin
        if now < last:
            raise at_line(path, number, "TIMESTAMP is before that of the row above")
        last = now
        times.append(float(now))
        given.append(int(row[3]))
        made.append(int(row[4]))
    if not times:
        raise InputError(f"{path}: holds no requests")
    tokens = np.array(given)
    units = -(-tokens // block)
    some = units > 0
    return Instance(
        PrefixTree(np.full(int(some.sum()), -1), units[some]),
        np.where(some, np.cumsum(some) - 1, -1),
        arrival=np.array(times),
        input_length=tokens,
        output_length=np.array(made),
        block_size=block,
        name=stem(path),
        parameters={"format": "azure"},
        source=path.name,
    )


def join(instance: Instance, load: Instance) -> Instance:
    """``instance`` with the arrivals and output lengths of the first requests of ``load``.

    Prompts keep their own lengths, since their paths do.

    Raises
    ------
    InputError
        If ``load`` has no arrivals or fewer requests.

    Examples
    --------
    >>> load = Instance.from_tokens([[1], [2], [3]], arrival=[0.0, 0.5, 2.0])
    >>> join(Instance.from_tokens([[7, 8], [7, 9]]), load).arrival
    array([0. , 0.5])
    """
    n = instance.requests
    if load.arrival is None:
        raise bad("load", load, "has no arrival times")
    if load.requests < n:
        raise bad("load", load, f"has fewer requests than the instance, {n}")
    return replace(
        instance,
        arrival=load.arrival[:n],
        output_length=None if load.output_length is None else load.output_length[:n],
        parameters={**instance.parameters, "load": load.name},
        source=f"{instance.source} joined to {load.source}",
    )
