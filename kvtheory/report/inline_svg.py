"""Figures as SVG inside a page: colours of the page's theme, ids of their own, a text alternative.

Text stays text (``svg.fonttype = none``), so that a page is small, its figures can be searched and
read aloud, and labels take the font of the page; matplotlib lays them out in a wider one.
"""

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from kvtheory.report.plot import COLOURS, OPTIMUM_COLOUR, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (5.6, 4.0)  # inches of 72 px: about as wide as a telephone, so that labels stay readable
SETTINGS = {
    "svg.fonttype": "none",
    "font.size": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "mathtext.default": "regular",
}
# what matplotlib writes, and the name that the page gives a light and a dark colour
THEME = {
    **{colour.lower(): f"--series-{i}" for i, colour in enumerate(COLOURS)},
    OPTIMUM_COLOUR.lower(): "--ink",
    "#666666": "--faint",
    "#bfbfbf": "--pale",
    "#ffffff": "--page",
}
_XLINK = "{http://www.w3.org/1999/xlink}href"


def inline_svg(
    name: str,
    alternative: tuple[str, str],
    draw: "Callable[[Axes], object]",
    legend_lines: int = 2,
) -> str:
    """Draw one figure and return its SVG, to be put into HTML as it is.

    Parameters
    ----------
    name
        Prefix of all ids, unique in the page: letters, digits and hyphens.
    alternative
        Title and description for readers who do not see it.
    draw
        Draws into the axes it is given, as the functions of `kvtheory.plot` do.
    legend_lines
        Lines of its legend; from the third on the figure is higher.

    Notes
    -----
    Equal figures give equal text: ids are hashed with the name as salt, and there is no date.
    """
    figure = blank(SIZE[0], SIZE[1] + 0.19 * max(0, legend_lines - 2))
    from matplotlib import rc_context

    with rc_context(SETTINGS | {"svg.hashsalt": name}):
        ax = figure.subplots()
        draw(ax)
        ax.set_title("")  # the page has a heading and a caption
        figure.patch.set_visible(False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return _as_html(file.getvalue(), name, alternative)


def _as_html(text: str, name: str, alternative: tuple[str, str]) -> str:
    root = ET.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            # a style sheet in a figure would rule over the whole page
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    for element in root.iter():
        element.tag = _local(element.tag)
        if (link := element.attrib.pop(_XLINK, None)) is not None:
            element.set("href", f"#{name}-{link[1:]}")
        if (own := element.attrib.pop("id", None)) in used:
            element.set("id", f"{name}-{own}")
        for key in ("style", "clip-path"):
            if key in element.attrib:
                element.set(key, _themed(element.attrib[key], name, is_text=element.tag == "text"))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
    for place, (tag, told) in enumerate(zip(("title", "desc"), alternative, strict=True)):
        element = ET.Element(tag, {"id": f"{name}-{tag}"})
        element.text = told
        root.insert(place, element)
    return re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode").strip())


def _themed(style: str, name: str, *, is_text: bool) -> str:
    style = style.replace("url(#", f"url(#{name}-")
    style = re.sub(r"#[0-9a-f]{6}", lambda m: _variable(m[0]), style)
    if is_text:
        # a size in front of the font of the page
        style = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", style)
        style = re.sub(r"font-family:[^;]*;?", "", style)
        if "fill" not in style:
            style += "; fill: var(--ink)"
    return style


def _variable(colour: str) -> str:
    return f"var({THEME[colour]})" if colour in THEME else colour


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
