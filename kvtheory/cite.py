"""The works behind what was used, as BibTeX.

The module can be called: ``kvtheory.cite(rows)`` prints what `bibtex` returns for the policies,
routers, generators and methods that the rows of a comparison name.
"""

import re
import sys
import types
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from kvtheory.errors import bad, unknown
from kvtheory.parameters import label, split, unbracketed

MODEL = "wu2026randomization"
_SYSTEMS = {"sglang": "zheng2024sglang", "vllm": "kwon2023efficient"}
_GRAPH = ("koutsoupias2000beyond", "dasdan2004experimental", "howard1960dynamic")

# name: keys in references.bib, beside that of the model, which is always cited
EVICTION: dict[str, tuple[str, ...]] = {
    "llru": (MODEL, _SYSTEMS["vllm"], _SYSTEMS["sglang"]),
    "rlt": (MODEL, "fiat1991competitive"),
    "lrlt": ("koutsoupias2000beyond",),
    "layered": ("koutsoupias2000beyond", "brodal2015onlinemin"),
    "duel": ("koutsoupias2000beyond",),
    "random_leaf": ("gelenbe1973unified", "raghavan1989memory"),
    "fifo": ("sleator1985amortized", _SYSTEMS["sglang"]),
    "lfu": (_SYSTEMS["sglang"], "lmcache"),
    "mru": (_SYSTEMS["sglang"], "lmcache"),
    "slru": ("karedla1994caching", _SYSTEMS["sglang"]),
    "cost_per_unit": ("cao1997cost",),
    "tail_lru": ("zhang2025tail",),
    "node_lru": (_SYSTEMS["sglang"],),
    "marking": ("lykouris2018competitive",),
    "belady": ("belady1966study", "mattson1970evaluation"),
}
ROUTING: dict[str, tuple[str, ...]] = {
    "random": (),
    "round_robin": (),
    "join_shortest_queue": ("winston1977optimality",),
    "least_work_left": ("graham1966bounds",),
    "power_of_two": ("mitzenmacher2001power",),
    "consistent_hash_bounded": ("mirrokni2018consistent", "kubeai"),
    "max_hit": (MODEL,),
    "cache_aware": (_SYSTEMS["sglang"], MODEL),
    "cache_aware_min_load": (_SYSTEMS["sglang"],),
    "cache_aware_spill": (_SYSTEMS["sglang"],),
    "dynamo": ("dynamo",),
    "dynamo_2026": ("dynamo",),
    "llm_d": ("llmd",),
    "aibrix_prefix": ("aibrix2025",),
    "preble_e2": ("srivatsa2025preble",),
    "lmetric": ("zhang2026lmetric",),
    "dualmap": ("yuan2026dualmap",),
    "gorgo": ("riccitoniolo2026gorgo",),
    "lbgr": (MODEL,),
    "lbgr_published": (MODEL,),
    "exponential_potential": ("aspnes1997online",),
    "hedge": ("freund1997decision", "cesabianchi2006prediction"),
    "fixed_share": ("herbster1998tracking", "cesabianchi2006prediction"),
    "exp3": ("auer2002nonstochastic",),
    "exp4": ("auer2002nonstochastic",),
    "affinity_mw": (),
}
INSTANCES: dict[str, tuple[str, ...]] = {
    "affinity_trap": (),
    "agentic": (),
    "cyclic_broom": ("sleator1985amortized",),
    "distribution_aware": (),
    "documents": ("li2024loogle",),
    "drift": (),
    "greedy_trap": ("aspnes1997online",),
    "heavy_tail": ("crovella1996self",),
    "load_trap": (),
    "markov": ("karlin2000markov",),
    "multi_turn": (),
    "partition_gadget": ("karp1972reducibility",),
    "shared_prefix": (MODEL,),
    "tournament": ("azar1995competitiveness",),
    "worst_cycle": _GRAPH,
    "yao_uniform": ("borodin1998online",),
    "zipf": ("breslau1999web", "gelenbe1973unified"),
}
METHODS: dict[str, tuple[str, ...]] = {
    # offline optimum
    "layers": ("koutsoupias2000beyond",),
    "interval_lp": ("ghouilahouri1962caracterisation", "huangfu2018parallelizing"),
    "lp": ("huangfu2018parallelizing",),
    "mip": ("huangfu2018parallelizing",),
    "pooled": ("graham1969bounds",),
    # ratios
    "exact": (*_GRAPH, "fiat1991competitive", "achlioptas2000competitive"),
    "survey": (*_GRAPH, "fiat1991competitive", "achlioptas2000competitive"),
    "best_randomised": ("koller1996efficient", "yao1977probabilistic", "huangfu2018parallelizing"),
    "yao_lower_bound": ("yao1977probabilistic", "puterman1994markov"),
    # learning
    "gradient_descent": ("zinkevich2003online",),
    "perturbed_leader": ("kalai2005efficient",),
    "recursive_least_squares": ("azoury2001relative",),
    # traces
    "azure": ("patel2024splitwise",),
    "mooncake": ("qin2025mooncake",),
}
WORKS = {**EVICTION, **ROUTING, **INSTANCES, **METHODS}

_NESTED = ("experts", "policy", "router")
_NAMED = ("policy", "eviction", "router", "source", "method")


def bibtex(names: Iterable[str]) -> str:
    """BibTeX of the project, of the paper of the model, and of the works behind some names.

    Parameters
    ----------
    names
        Eviction policies, routers and generators as they are written elsewhere, with or without
        parameters (``"hedge:experts=lbgr+max_hit"`` stands for all three), and methods: those of
        the offline optimum and of ratios, learners, formats of traces (`METHODS`).

    Returns
    -------
    str
        Entries, each work once, in the order in which the names call for them.

    Raises
    ------
    InputError
        For an unknown name, with the nearest known ones.

    Examples
    --------
    >>> text = bibtex(["rlt:phase=query", "lbgr"])
    >>> [line.split("{")[1] for line in text.splitlines() if line.startswith("@")]
    ['kvtheory,', 'wu2026randomization,', 'fiat1991competitive,']
    """
    if isinstance(names, str):
        raise bad("names", names, "must be several names, as a list")
    keys = dict.fromkeys([MODEL, *(key for name in names for key in works(name))])
    return "\n\n".join([_software(), *(entries()[key] for key in keys)]) + "\n"


def works(name: str) -> tuple[str, ...]:
    """Keys of the works behind one name, those of policies among its parameters included.

    Raises
    ------
    InputError
        For an unknown name, with the nearest known ones.

    Examples
    --------
    >>> works("exp4:experts=cache_aware_spill+[lbgr:target=latency]")
    ('auer2002nonstochastic', 'zheng2024sglang', 'wu2026randomization')
    """
    head, _, parameters = name.strip().partition(":")
    if head not in WORKS:
        raise unknown("method", head, WORKS)
    keys = list(WORKS[head])
    for item in split(parameters, ","):
        key, _, value = item.partition("=")
        if key.strip() in _NESTED and value:
            keys += (k for part in split(unbracketed(value), "+") for k in works(unbracketed(part)))
    return tuple(dict.fromkeys(keys))


@cache
def entries() -> dict[str, str]:
    """The entries of ``references.bib`` by key."""
    text = files("kvtheory").joinpath("references.bib").read_text(encoding="utf-8")
    return {m[1]: m[0] for m in re.finditer(r"^@\w+\{([^,\s]+),\n.*?^\}", text, re.M | re.S)}


def cite(*runs: object) -> None:
    """Print the BibTeX of what some runs used.

    Parameters
    ----------
    *runs
        Names, as `bibtex` takes them, and what runs return: rows of `kvtheory.ratio.compare` and
        `kvtheory.cross_table.cross_table`, optima, policies, instances, or lists of these. A
        policy or a source that is not of this project, such as a file, stands in a comment.

    Raises
    ------
    InputError
        For an unknown name that was passed as a text, or a value that names nothing.

    Examples
    --------
    >>> cite("zipf")
    @software{kvtheory,
      title   = {kvtheory: online KV-cache eviction and routing on prefix trees},
    ...
    """
    names: dict[str, None] = {}
    foreign: dict[str, None] = {}
    for name, ours in _names(runs):
        known = ours or name.partition(":")[0].strip() in WORKS
        (names if known else foreign)[name] = None
    print(bibtex(names), end="")
    for name in foreign:
        print(f"\n% {name}: not of this project")


def _names(run: object) -> Iterator[tuple[str, bool]]:
    """Names in a run, and whether they have to be known."""
    if isinstance(run, str):
        yield run, True
        return
    if isinstance(run, list | tuple):
        for part in run:
            yield from _names(part)
        return
    if hasattr(run, "guarantee"):  # a policy: its source is a text for people
        named = [label(run)]
    else:
        named = [name for key in _NAMED if isinstance(name := getattr(run, key, None), str)]
        if not any(named):
            named = [getattr(run, "name", "")]
    if not any(named):
        raise bad("run", run, "names no policy, router, source or method")
    yield from ((name, False) for name in named if name)


def _software() -> str:
    try:
        number = version("kvtheory")
    except PackageNotFoundError:  # run from a source tree that is not installed
        number = "unreleased"
    return (
        "@software{kvtheory,\n"
        "  title   = {kvtheory: online KV-cache eviction and routing on prefix trees},\n"
        "  author  = {{The kvtheory developers}},\n"
        f"  version = {{{number}}},\n"
        "}"
    )


class _Callable(types.ModuleType):
    """A module that does what its function ``cite`` does."""

    def __call__(self, *runs: object) -> None:
        cite(*runs)


sys.modules[__name__].__class__ = _Callable
