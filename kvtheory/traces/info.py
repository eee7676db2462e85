"""What a request sequence looks like, before any cache is simulated."""

from dataclasses import asdict, dataclass, fields

import numpy as np

from kvtheory.instance import Instance


@dataclass(frozen=True)
class TraceInfo:
    """Figures of one request sequence; see `trace_info`. Lengths are in units, times in seconds.

    None stands for what the sequence does not have: times, output lengths, a rate without a span.
    """

    name: str
    source: str
    block_size: int
    requests: int
    empty_requests: int
    units_requested: int
    units_distinct: int
    units_used_once: int
    ceiling_hits: int
    ceiling_hit_rate: float
    edges: int
    roots: int
    leaves: int
    branching_units: int
    max_children: int
    path_min: int
    path_mean: float
    path_median: float
    path_max: int
    path_edges_max: int
    tokens_in: int
    tokens_out: int | None
    arrival_first: float | None
    arrival_last: float | None
    arrival_span: float | None
    arrival_rate: float | None

    def as_dict(self) -> dict[str, object]:
        """The figures by name, ready for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of each figure that there is, as text for a table."""
        shown = ((f.name, getattr(self, f.name)) for f in fields(self))
        return [(key.replace("_", " "), _text(x)) for key, x in shown if x not in (None, "")]


def trace_info(instance: Instance) -> TraceInfo:
    """Count what is in a request sequence.

    Units, edges, leaves and children are those of the tree. The ceiling is the hit rate of a
    cache that never evicts: each unit is missed once, and the units below a cut always.

    Examples
    --------
    >>> info = trace_info(Instance.from_tokens([[1, 2, 3], [1, 2, 4], [1, 2, 3], []]))
    >>> info.units_distinct, info.units_requested, round(info.ceiling_hit_rate, 3)
    (4, 9, 0.556)
    >>> info.rows()[3]
    ('empty requests', '1')
    """
    tree, size = instance.tree, instance.query_length
    uses = np.bincount(instance.log.edge, minlength=tree.edges)
    requested = instance.units_requested
    cut = 0 if instance.beyond is None else int(instance.beyond.sum())
    hits = requested - cut - int(tree.length[uses > 0].sum(dtype=np.int64))
    widest = int(tree.children.max(initial=0))
    some = len(size) > 0
    first = last = None
    if instance.arrival is not None and some:
        first, last = float(instance.arrival[0]), float(instance.arrival[-1])
    span = None if first is None or last is None else last - first
    made = instance.output_length
    return TraceInfo(
        name=instance.name,
        source=instance.source,
        block_size=instance.block_size,
        requests=instance.requests,
        empty_requests=int((size == 0).sum()),
        units_requested=requested,
        units_distinct=tree.units,
        units_used_once=int(tree.length[uses == 1].sum(dtype=np.int64)),
        ceiling_hits=hits,
        ceiling_hit_rate=hits / requested if requested else 0.0,
        edges=tree.edges,
        roots=int((tree.parent < 0).sum()),
        leaves=int((tree.children == 0).sum()),
        branching_units=int((tree.children > 1).sum()),
        max_children=max(widest, int((tree.length > 1).any())),
        path_min=int(size.min()) if some else 0,
        path_mean=float(size.mean()) if some else 0.0,
        path_median=float(np.median(size)) if some else 0.0,
        path_max=int(size.max()) if some else 0,
        path_edges_max=int(np.diff(instance.log.start).max(initial=0)),
        tokens_in=int(instance.tokens.sum()),
        tokens_out=None if made is None else int(made.sum()),
        arrival_first=first,
        arrival_last=last,
        arrival_span=span,
        arrival_rate=(instance.requests - 1) / span if span else None,
    )


def _text(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
