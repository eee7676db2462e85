"""The page of `kvtheory report`: its numbers against slow counts, its text, and a browser."""

import base64
import hashlib
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jax
import numpy as np
import pytest

import kvtheory.instances
import kvtheory.plot
from kvtheory.atomic import atomic
from kvtheory.cli import main
from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.offline.optimum import optimum
from kvtheory.ratio import compare
from kvtheory.report import figures, from_sweep, page, snapshots
from kvtheory.report.data import ReportData, SourceReport
from kvtheory.report.inside import OPTIMUM, look_inside, units_by_depth
from kvtheory.report.measure import Question, measure
from kvtheory.simulate import simulate, simulate_capacities

SOURCE = "zipf:documents=12,requests=90,levels=3,branching=2,length=2"
QUESTION = Question(policies=("llru", "rlt"), capacities=("20%", "60%"), seeds=4)


@pytest.fixture(scope="module")
def instance() -> Instance:
    return kvtheory.instances.source(SOURCE)


@pytest.fixture(scope="module")
def report(instance: Instance) -> SourceReport:
    return measure(instance, QUESTION, call=f"kvtheory.instances.source({SOURCE!r})")


@pytest.fixture(scope="module")
def data(report: SourceReport) -> ReportData:
    return ReportData(
        title="A <title> & more",
        sources=(report,),
        command=f"kvtheory report {SOURCE}",
        parameters={"source": SOURCE},
        versions={"kvtheory": "1"},
        bibtex="@misc{x,\n  url = {https://example.org/<paper>}\n}",
    )


@pytest.fixture(scope="module")
def html(data: ReportData) -> str:
    return page.page(data)


# -- numbers ------------------------------------------------------------------------------


def hits_from_contents(run: Instance, cached: np.ndarray) -> list[int]:
    """Hits of each query, from the cache as it was after the one before."""
    before = np.vstack([np.zeros_like(cached[:1]), cached[:-1]])
    return [int(before[t][run.tree.path(int(q))].sum()) for t, q in enumerate(run.query)]


def check_contents(run: Instance, cached: np.ndarray, capacity: int) -> None:
    """Each moment holds at most B units, the last query whole, and nothing below a gap."""
    assert (cached.sum(axis=1) <= capacity).all()
    for t, q in enumerate(run.query):
        path = run.tree.path(int(q))
        assert (cached[t][path] == run.tree.length[path]).all()
    above = run.tree.parent
    inner = above >= 0
    below = cached[:, inner] > 0
    assert (cached[:, above[inner]] == run.tree.length[above[inner]])[below].all()


@pytest.mark.parametrize(
    "name",
    ["llru", *(pytest.param(p, marks=pytest.mark.slow) for p in ("rlt", "lfu", "lrlt", "belady"))],
)
def test_snapshots_are_lane_0(instance, name):
    eviction, key = policy(name), jax.random.key(3)
    capacity = 12
    seen = snapshots.snapshots(instance, capacity, eviction, wanted=10**6, key=key)
    assert seen.served.tolist() == list(range(1, instance.requests + 1))
    assert hits_from_contents(seen.instance, seen.cached) == seen.hits.tolist()
    check_contents(seen.instance, seen.cached, capacity)
    lanes = simulate(instance, capacity, eviction, seeds=2, key=key)
    assert seen.hits.tolist() == lanes.hits[0].tolist()


@pytest.mark.slow
def test_snapshots_at_a_few_moments_are_some_of_all(instance):
    every = snapshots.snapshots(instance, 12, policy("llru"), wanted=10**6)
    few = snapshots.snapshots(instance, 12, policy("llru"), queries=85, wanted=7)
    assert few.served.tolist() == [13, 26, 39, 52, 65, 78]
    assert (few.cached == every.cached[few.served - 1]).all()
    assert few.hits.tolist() == every.hits[:85].tolist()


@pytest.mark.parametrize("capacity", [7, 12, 30])
def test_contents_of_the_optimum_are_those_of_its_schedule(instance, capacity):
    best = optimum(instance, capacity)
    served = np.arange(1, instance.requests + 1)
    cached = snapshots.scheduled(best.schedule, instance, served)
    assert hits_from_contents(instance, cached) == best.hits.tolist()
    check_contents(instance, cached, capacity)
    assert (snapshots.scheduled(best.schedule, instance, served[9::10]) == cached[9::10]).all()


def test_misses_by_depth_are_those_of_each_unit(instance, report):
    inside = report.inside
    capacity = inside.capacity_units
    best = optimum(instance, capacity)
    longest = int(instance.query_length.max())
    one_by_one = [0] * (longest + 1)
    first: set[tuple[int, ...]] = set()
    new = [0] * (longest + 1)
    for hit, ids in zip(best.hits.tolist(), instance.sequences(), strict=True):
        for depth in range(1, len(ids) + 1):
            one_by_one[depth] += depth > hit
            new[depth] += tuple(ids[:depth]) not in first
            first.add(tuple(ids[:depth]))
    bands = list(zip(inside.bands[:-1].tolist(), inside.bands[1:].tolist(), strict=True))
    assert bands[0] == (0, 1)
    assert bands[-1][1] == longest
    mine = {d.policy: d.misses.tolist() for d in inside.depth}
    assert mine[OPTIMUM] == [sum(one_by_one[a + 1 : b + 1]) for a, b in bands]
    assert inside.compulsory.tolist() == [sum(new[a + 1 : b + 1]) for a, b in bands]
    assert sum(mine[OPTIMUM]) == best.upper
    row = next(r for r in report.rows if (r.policy, r.capacity_units) == ("llru", capacity))
    assert sum(mine["llru"]) == row.misses
    for misses in mine.values():
        assert (np.array(misses) >= inside.compulsory).all()
    assert inside.asked.sum() == instance.units_requested


def test_useful_units_are_asked_for_later(instance, report):
    inside = report.inside
    seen = snapshots.snapshots(instance, inside.capacity_units, policy("llru"), wanted=200)
    shown = next(o for o in inside.occupancy if o.policy == "llru")
    assert shown.served.tolist() == seen.served.tolist()
    paths = [set(instance.tree.path(int(q))) for q in instance.query]
    for t, cached, useful in zip(shown.served, seen.cached, shown.useful, strict=True):
        later = set().union(*paths[t:])
        assert useful == sum(int(cached[e]) for e in later)
    assert shown.useful[-1] == 0


@pytest.mark.slow
def test_of_a_long_trace_the_first_queries_are_looked_at(instance):
    key = jax.random.key(0)
    whole = look_inside(instance, 12, ["llru"], key=key)
    part = look_inside(instance, 12, ["llru"], key=key, optimum=optimum(instance, 12), most=40)
    assert (part.queries, part.requests) == (40, instance.requests)
    assert part.asked.sum() == instance.query_length[:40].sum()
    # what is useful is judged by the whole trace
    at = {int(t): int(u) for o in whole.occupancy for t, u in zip(o.served, o.useful, strict=True)}
    mine = part.occupancy[0]
    assert [at[int(t)] for t in mine.served] == mine.useful.tolist()
    alone = look_inside(instance.prefix(40), 12, ["llru"], key=key)
    assert alone.occupancy[0].useful.sum() < mine.useful.sum()


def test_units_below_a_cut_are_missed_by_depth():
    deep = Instance.from_tokens([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]])
    best = optimum(deep, 3, oversize="truncate")
    seen = look_inside(deep, 3, [], key=jax.random.key(0), optimum=None, oversize="truncate")
    assert seen.compulsory.tolist() == [1, 1, 2, 1]
    bands = seen.bands
    assert units_by_depth(best.hits, deep.query_length, bands).tolist() == [1, 1, 3, 2]


@pytest.mark.slow
def test_rows_are_those_of_compare(instance, report):
    rows = compare(instance, QUESTION.policies, QUESTION.capacities, seeds=QUESTION.seeds)
    times = {"seconds": 0.0, "compile_seconds": 0.0, "optimum_seconds": 0.0}
    assert [replace(r, **times) for r in report.rows] == [replace(r, **times) for r in rows]


def test_the_worst_seeds_can_be_run_again(instance, report):
    assert {lane.policy for lane in report.worst} == {"rlt"}
    lane = report.worst[0]
    assert lane.ratio == max(other.ratio for other in report.worst)
    every = simulate(instance, lane.capacity_units, policy("rlt"), seeds=QUESTION.seeds).misses
    assert (lane.misses, lane.lane) == (every.max(), every.argmax())
    told = eval(  # what a reader would paste
        lane.replay,
        {"simulate": simulate, "instance": instance, "policy": policy, "key": jax.random.key},
    )
    assert told.tolist() == [lane.misses]


def test_a_policy_that_fails_leaves_the_others(instance, monkeypatch):
    def run(*arguments, **named):
        if arguments[2].name == "rlt":
            raise InputError("no")
        return simulate_capacities(*arguments, **named)

    monkeypatch.setattr("kvtheory.report.measure.simulate_capacities", run)
    failures: list[str] = []
    told = measure(instance, QUESTION, failures=failures)
    assert failures == ["rlt: no"]
    assert {row.policy for row in told.rows} == {"llru"}
    assert [d.policy for d in told.inside.depth] == ["llru", OPTIMUM]
    assert told.worst == ()
    with pytest.raises(InputError, match="no"):
        measure(instance, QUESTION)


# -- text ---------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Tags with their attributes, and the nesting checked for tags that must be closed."""

    VOID = ("meta", "link", "br", "img", "path", "use", "rect")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_needs_nothing_else(html):
    elements = Elements(html)
    for tag, attributes in elements.tags:
        for name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,")), (tag, attributes)
    style = re.search("<style>(.*?)</style>", html, re.S)[1]
    assert "@import" not in style
    assert set(re.findall(r"url\((.)", html)) == {"#"}
    policy_of_page = next(
        a["content"] for t, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy_of_page.startswith("default-src 'none'")
    script = re.search("<script>(.*?)</script>", html, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy_of_page


def test_ids_are_unique_and_found(html):
    elements = Elements(html)
    ids = [a["id"] for _, a in elements.tags if "id" in a]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', html))
    named = {name for pair in used for name in pair if name}
    for _, attributes in elements.tags:
        named |= set((attributes.get("aria-labelledby") or "").split())
    assert named <= set(ids)
    assert len(named) > 20


def test_figures_have_alternatives_and_colours_of_the_theme(html, report):
    svgs = re.findall(r"<svg .*?</svg>", html, re.S)
    assert len(svgs) == 4
    for svg in svgs:
        assert 'role="img"' in svg
        assert re.search(r"<title [^>]*>.+?</title>", svg)
        told = re.search(r"<desc [^>]*>(.+?)</desc>", svg)[1]
        assert len(re.findall(r"\d", told)) > 10
        assert re.findall(r"#[0-9a-f]{6}\b", svg) == []
        assert "<style" not in svg
    style = re.search("<style>(.*?)</style>", html, re.S)[1]
    for name in set(re.findall(r"var\((--[\w-]+)\)", html)):
        # light, dark and print
        assert style.count(f"{name}:") == 3, name
    first = report.rows[0]
    assert f"{first.policy}: {first.ratio:.3f} at {first.capacity_units:,} units" in html


def test_tables_are_whole(html):
    for body in re.findall(r"<table.*?</table>", html, re.S):
        rows = [
            len(re.findall(r"<t[hd][ >]", row)) for row in re.findall(r"<tr.*?</tr>", body, re.S)
        ]
        assert len(set(rows)) == 1
        assert "<caption" in body
        for value in re.findall(r'data-value="([^"]*)"', body):
            assert np.isfinite(float(value))


def test_text_is_escaped_and_the_same_twice(data, html):
    assert page.page(data) == html
    assert "A &lt;title&gt; &amp; more" in html
    assert "<title> & more" not in html
    odd = replace(data.sources[0], notes=("<script>alert(1)</script>",), name="<b>")
    text = page.page(replace(data, sources=(odd,)))
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert str(Path.home()) not in html


def test_a_page_of_nothing_still_stands():
    text = page.page(ReportData(title="empty", sources=(SourceReport(name="none"),), command="x"))
    assert Elements(text).tags
    assert "<table" not in text


def test_plot_functions_draw_into_given_axes(report):
    inside = report.inside
    for draw, what in (
        (kvtheory.plot.ratios, report.rows),
        (kvtheory.plot.hit_rate_curves, report.points),
        (kvtheory.plot.misses_by_depth, inside),
        (kvtheory.plot.occupancy, inside),
    ):
        ax = kvtheory.plot.blank(5, 4).subplots()
        assert draw(what, ax) is ax
        named = {text.get_text() for text in ax.get_legend().get_texts()}
        assert {"llru", "rlt"} <= named
    assert {f.name for f in figures.inside_figures(inside, "s0")} == {"s0-depth", "s0-occupancy"}


# -- command ------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch, report):
    """The command without the work."""
    monkeypatch.setattr("kvtheory.report.measure.measure", lambda *a, **k: report)


def test_command_writes_the_page(measured, tmp_path, capsys):
    out = tmp_path / "report.html"
    argv = ["report", SOURCE, "--capacity", "20%", "60%", "--seeds", "4", "-o", str(out)]
    assert main([*argv, "--plot", str(tmp_path / "paper.pdf")]) == 0
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")
    text = out.read_text("utf-8")
    told = capsys.readouterr()
    assert f"{out}: {len(text.encode()) / 1000:,.0f} kB" in told.out
    assert "no arrival times" in text
    assert "--seeds 4" in text
    assert "@inproceedings{wu2026randomization" in text
    assert "--plot" in text


def test_an_interrupt_leaves_the_old_page(measured, monkeypatch, tmp_path):
    out = tmp_path / "report.html"
    with atomic(out) as file:
        file.write("old")

    def stop(data: ReportData) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvtheory.report.page.page", stop)
    assert main(["report", SOURCE, "-o", str(out)]) == 130
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([SOURCE, "-o", "no/such/report.html"], "does not exist"),
        ([SOURCE, "-o", "."], "is a folder; name a file"),
        ([SOURCE, "--router", "lbgr"], "pass --rate, queries per second"),
        ([SOURCE, "--router", "lbrg", "--rate", "3"], "did you mean lbgr"),
        ([SOURCE, "--eviction", "rtl"], "did you mean rlt"),
        ([SOURCE, "--seeds", "0"], "seeds = 0: must be at least 1"),
        ([SOURCE, "--single", "--rate", "3"], "goes without --router and --rate"),
        ([SOURCE, "--plot", "x.jpg"], "must end in one of .png, .pdf, .svg"),
        (["greedy_trap", "--capacity", "50%"], "kvtheory simulate runs it"),
        (["nothing.jsonl"], "is neither a file nor a generator"),
        (["."], "is no folder of a sweep: it has no runs"),
        ([".", "--seeds", "3", "--rate", "2"], "--seeds, --rate: . is a folder of a sweep"),
    ],
)
def test_bad_input_is_told_at_once(argv, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *argv]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") <= 2
    assert os.listdir(tmp_path) == []


def test_missing_packages_are_named(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "jinja2" else name)
    assert main(["report", SOURCE]) == 2
    assert "need jinja2: pip install 'kvtheory[report]'" in capsys.readouterr().err


# -- sweeps -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Path:
    """A sweep of one cache and of a cluster."""
    pytest.importorskip("pyarrow")
    from kvtheory.sweep import grid, run

    folder = tmp_path_factory.mktemp("swept")
    both = {"source": SOURCE, "eviction": ["llru", "rlt"], "seeds": 4}
    cells = grid(**both, capacity=["20%", "60%"])
    cells += grid(**both, capacity="20%", router=["random", "lbgr"], workers=2, rate=5.0)
    run(cells, folder, executor="inline")
    return folder


@pytest.mark.slow
def test_a_sweep_has_the_numbers_of_a_comparison(swept, report):
    told = from_sweep.read_sweep(swept)
    assert (told.planned, told.finished, told.failed) == (8, 8, 0)
    grids = {"source": SOURCE, "eviction": "llru, rlt", "router": "random, lbgr", "rate": "5.0"}
    assert grids.items() <= told.parameters.items()
    single, cluster = told.sources
    mine = {(r.policy, r.capacity_units): r for r in report.rows}
    for row in single.rows:
        other = mine[row.policy, row.capacity_units]
        for name in ("misses", "hits", "optimum_low", "optimum_high", "bound", "seeds"):
            assert getattr(row, name) == getattr(other, name), name
        assert row.ratio == pytest.approx(other.ratio, rel=1e-12)
    assert {(w.policy, w.capacity_units, w.lane, w.misses, w.replay) for w in single.worst} == {
        (w.policy, w.capacity_units, w.lane, w.misses, w.replay) for w in report.worst
    }
    assert [d.misses.tolist() for d in single.inside.depth] == [
        d.misses.tolist() for d in report.inside.depth
    ]
    assert single.digest == report.digest
    for curve in cluster.cluster_curves:  # all 4 lanes are drawn, so they are those of the table
        row = next(
            r for r in cluster.cluster if (r.router, r.eviction) == (curve.router, curve.eviction)
        )
        assert row.makespan.mean == pytest.approx(curve.makespan.mean, rel=1e-12)
        assert row.latency_p50.mean == pytest.approx(curve.latency_p50.mean, rel=1e-12)
    assert len(cluster.cluster_curves) == len(cluster.cluster) == 4


@pytest.mark.slow
def test_asymptotic_ratios_of_a_sweep(instance, tmp_path):
    pytest.importorskip("pyarrow")
    from kvtheory.sweep import grid, run

    both = {"source": SOURCE, "eviction": ["llru", "rlt"], "capacity": "60%", "seeds": 4}
    run(grid(**both, kind="asymptotic"), tmp_path, executor="inline")
    told = from_sweep.read_sweep(tmp_path).sources[0]
    capacity = told.rows[0].capacity_units
    rows = compare(
        instance, ["llru", "rlt"], capacity, seeds=4, kind="asymptotic", interval="normal"
    )
    for row, other in zip(told.rows, rows, strict=True):
        for name in ("ratio", "ratio_low", "ratio_high"):
            assert getattr(row, name) == pytest.approx(getattr(other, name), rel=1e-12)
    # the optimum is known of the second half alone, so it has no row and no curve
    view = page.section(told, "s0").headline
    assert [cells[0].text for cells in view.rows] == ["llru", "rlt"]
    assert OPTIMUM not in {point.policy for point in told.points}
    names = {"simulate": simulate, "instance": instance, "policy": policy, "key": jax.random.key}
    for lane in told.worst:
        assert eval(lane.replay, names).tolist() == [lane.misses]


@pytest.mark.slow
def test_the_optimum_of_the_curves_is_the_one_of_the_rows(instance):
    question = replace(QUESTION, admission="bypass", policies=("llru",))
    told = measure(instance, question)
    mine = {p.capacity_units: p.misses for p in told.points if p.policy == OPTIMUM}
    assert mine == {row.capacity_units: row.optimum_high for row in told.rows}
    assert OPTIMUM in {d.policy for d in told.inside.depth}
    assert OPTIMUM not in {o.policy for o in told.inside.occupancy}


@pytest.mark.slow
def test_an_unfinished_sweep_is_shown_as_it_is(swept, tmp_path, capsys):
    folder = tmp_path / "half"
    shutil.copytree(swept, folder)
    lost = sorted((folder / "cells").iterdir())[:3]
    for path in lost:
        path.unlink()
    out = tmp_path / "half.html"
    assert main(["report", str(folder), "-o", str(out), "--single"]) == 0
    text = out.read_text("utf-8")
    assert "5 of 8 cells are finished" in text
    Elements(text)
    for path in (folder / "cells").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="no finished cells"):
        from_sweep.read_sweep(folder)


@pytest.mark.slow
def test_a_source_that_has_changed_is_not_looked_into(tmp_path):
    pytest.importorskip("pyarrow")
    from kvtheory.sweep import grid, run

    trace = tmp_path / "trace.tokens"
    trace.write_text("1 2 3\n4 5\n1 2 3\n4 5\n1 2 6\n")
    run(grid(source=str(trace), capacity="3", eviction="llru"), tmp_path / "out")
    assert from_sweep.read_sweep(tmp_path / "out").sources[0].inside is not None
    trace.write_text("1 2 3\n4 5\n")
    changed = from_sweep.read_sweep(tmp_path / "out").sources[0]
    assert changed.inside is None
    assert "is not what the sweep read" in changed.notes[0]
    assert len(changed.rows) == 1
    trace.unlink()
    gone = from_sweep.read_sweep(tmp_path / "out").sources[0]
    assert "cannot be read here" in gone.notes[0]


# -- browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    named = os.environ.get("KVTHEORY_CHROMIUM")
    places = (named,) if named else ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, places)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(places)} is there (set KVTHEORY_CHROMIUM)")
    with sync_api.sync_playwright() as play:
        # in a container there is no sandbox to be had for the superuser
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = play.chromium.launch(executable_path=found, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def written(swept, tmp_path_factory) -> list[Path]:
    """A page of a comparison with workers, and one of the sweep."""
    folder = tmp_path_factory.mktemp("pages")
    one, all_of_it = folder / "one.html", folder / "sweep.html"
    argv = ["report", SOURCE, "--capacity", "20%", "60%", "--seeds", "4", "--rate", "5"]
    assert main([*argv, "--workers", "2", "-o", str(one)]) == 0
    assert main(["report", str(swept), "-o", str(all_of_it)]) == 0
    return [one, all_of_it]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_in_a_browser(browser, written, width, scheme):
    for path in written:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab = context.new_page()
        told: list[str] = []
        asked: list[str] = []
        tab.on("console", lambda message, told=told: told.append(message.text))
        tab.on("pageerror", lambda error, told=told: told.append(str(error)))
        tab.on("request", lambda request, asked=asked: asked.append(request.url))
        tab.goto(path.as_uri())
        assert told == []
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
        # only tables scroll to the side, not the page
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        clipped = """Array.from(document.querySelectorAll('figure svg')).flatMap(svg => {
            const box = svg.getBoundingClientRect();
            return Array.from(svg.querySelectorAll('text')).filter(text => {
                const own = text.getBoundingClientRect();
                return own.left < box.left - 1 || own.right > box.right + 1
                    || own.top < box.top - 1 || own.bottom > box.bottom + 1;
            }).map(text => `${svg.closest('figure').id}: ${text.textContent}`);
        })"""
        assert tab.evaluate(clipped) == []
        dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        assert dark == (scheme == "dark")
        if named := os.environ.get("KVTHEORY_SCREENSHOTS"):
            name = f"{path.stem}-{width}-{scheme}.png"
            tab.screenshot(path=Path(named) / name, full_page=True)
        assert tab.screenshot(full_page=True).startswith(b"\x89PNG")
        context.close()


@pytest.mark.slow
def test_tables_sort_and_return(browser, written):
    tab = browser.new_page()
    tab.goto(written[0].as_uri())
    column = "Array.from(document.querySelectorAll('#s0-headline tbody tr')).map(r => r.cells[{}])"
    values = f"({column.format(6)}).map(c => Number(c.dataset.value))"
    names = f"({column.format(0)}).map(c => c.textContent)"
    button = tab.locator("#s0-headline thead button").nth(6)
    before, order = tab.evaluate(values), tab.evaluate(names)
    assert len(before) == 6
    head = "document.querySelectorAll('#s0-headline thead th')[6].getAttribute('aria-sort')"
    button.click()
    assert tab.evaluate(head) == "ascending"
    shown = [v for v in tab.evaluate(values) if v == v]
    assert shown == sorted(shown)
    button.press("Enter")
    assert tab.evaluate(head) == "descending"
    shown = [v for v in tab.evaluate(values) if v == v]
    assert shown == sorted(shown, reverse=True)
    assert tab.evaluate(names)[-2:] == ["optimum", "optimum"]  # no value: last either way
    button.click()
    assert tab.evaluate(head) is None
    assert tab.evaluate(names) == order
    tab.close()


@pytest.mark.slow
def test_it_prints(browser, written):
    tab = browser.new_page(color_scheme="dark")
    tab.goto(written[0].as_uri())
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.pdf(format="A4").startswith(b"%PDF")
    tab.close()
