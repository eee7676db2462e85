"""What a report shows, as data: made by `kvtheory.report.measure` or read from a sweep."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtheory.cross_table import CrossRow
from kvtheory.curve.points import CurvePoint
from kvtheory.instance import Instance
from kvtheory.ratio.comparison import Comparison
from kvtheory.report.inside import Inside


@dataclass(frozen=True)
class Lane:
    """One seed of a randomised policy.

    Parameters
    ----------
    policy, capacity_units
        Who ran, with how large a cache.
    seed, lane
        The run used ``jax.random.fold_in(jax.random.key(seed), lane)``.
    misses
        Units, those that the ratio counts.
    ratio, mean_ratio
        Of this lane and of the mean over all lanes to the optimum; nan without one.
    replay
        Python that runs this lane again on the ``instance`` of `SourceReport.call`.
    """

    policy: str
    capacity_units: int
    seed: int
    lane: int
    misses: int
    ratio: float
    mean_ratio: float
    replay: str


@dataclass(frozen=True)
class SourceReport:
    """Everything about one request sequence.

    Parameters
    ----------
    name
        The source, as it is written on the command line.
    call
        Python that makes the instance.
    digest
        SHA-256 of what is served; empty if it is not known.
    rows
        A policy at a capacity beside the optimum.
    points
        Hit rates against capacity, the optimum's among them.
    worst
        The lanes with the largest ratios.
    methods
        What else is cited for it, as `kvtheory.cite.bibtex` takes it: a generator or a format.
    inside
        Misses by depth and contents of the cache at one capacity.
    cluster
        Routers × eviction policies on several workers; rows from a sweep may be of several
        clusters.
    cluster_curves
        Those whose latencies and load over time are drawn, all of one cluster.
    notes
        What is missing, and why.
    """

    name: str
    call: str = ""
    digest: str = ""
    rows: tuple[Comparison, ...] = ()
    points: tuple[CurvePoint, ...] = ()
    worst: tuple[Lane, ...] = ()
    methods: tuple[str, ...] = ()
    inside: Inside | None = None
    cluster: tuple[CrossRow, ...] = ()
    cluster_curves: tuple[CrossRow, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportData:
    """A whole report.

    Parameters
    ----------
    title
        In the head of the page.
    sources
        One for each request sequence.
    command
        The command line that makes the page again.
    parameters
        Everything that the numbers depend on, by name.
    versions
        Of the packages that computed them.
    bibtex
        The works behind what was used.
    date
        As given, not the clock's: equal input makes equal pages.
    notes
        What concerns all sources.
    """

    title: str
    sources: tuple[SourceReport, ...]
    command: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    bibtex: str = ""
    date: str = ""
    notes: tuple[str, ...] = ()


def methods_of(instance: Instance) -> tuple[str, ...]:
    """The generator of an instance, or the format of its file, to be cited if it is known."""
    return tuple(filter(None, (instance.name, str(instance.parameters.get("format", "")))))
