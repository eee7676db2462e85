"""The map of claim 14: exact ratios of RLT against those of leaf LRU."""

from collections import Counter
from typing import TYPE_CHECKING

from proofs_check.judge import forests
from proofs_check.ratios import fraction

if TYPE_CHECKING:
    from fractions import Fraction

    from matplotlib.axes import Axes

Pair = tuple["Fraction", "Fraction"]


def ratios_up_to(units: int = 6) -> list[Pair]:
    """(leaf LRU, RLT) on every pair of a forest and a capacity."""
    pairs = []
    for parents, capacity in forests.small_pairs(units):
        lru, rlt = (fraction(p, parents, capacity, literally=False) for p in ("llru", "rlt"))
        if lru is not None and rlt is not None:
            pairs.append((lru, rlt))
    return pairs


def worse_than_lru(pairs: list[Pair], ax: "Axes") -> "Axes":
    """A mark a value of the two ratios, larger for more pairs; above the line RLT is worse.

    Parameters
    ----------
    pairs
        From `ratios_up_to`.
    ax
        Where to draw.
    """
    many = Counter(pairs)
    highest = float(max(max(pair) for pair in pairs)) + 0.3
    ax.plot([1, highest], [1, highest], color="0.6", linewidth=1, zorder=0)
    for worse, colour in ((False, "C0"), (True, "C3")):
        some = {pair: count for pair, count in many.items() if (pair[1] > pair[0]) == worse}
        ax.scatter(
            [float(lru) for lru, _ in some],
            [float(rlt) for _, rlt in some],
            s=[12 + 14 * count**0.5 for count in some.values()],
            color=colour,
            alpha=0.8,
            linewidths=0,
            label=f"RLT is {'worse' if worse else 'no worse'}: {sum(some.values())} pairs",
        )
    for lru, rlt in many:
        if rlt > lru:
            ax.annotate(
                f"{rlt} against {lru}",
                (float(lru), float(rlt)),
                xytext=(-6, 6),
                textcoords="offset points",
                ha="right",
                fontsize="small",
            )
    ax.set_xlim(0.8, highest)
    ax.set_ylim(0.8, highest)
    ax.set_xlabel("competitive ratio of leaf LRU, exact")
    ax.set_ylabel("competitive ratio of RLT, exact")
    ax.set_title(f"{len(pairs)} pairs of a forest and a capacity")
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    return ax


def draw(path: str) -> None:
    """Write the map for forests of at most 6 units to a file."""
    from kvtheory.report.plot import blank, save

    page = blank(4.6, 4.2)
    worse_than_lru(ratios_up_to(), page.subplots())
    save(page, path)
