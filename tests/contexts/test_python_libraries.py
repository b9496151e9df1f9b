# SPDX-License-Identifier: MIT
"""The driver of Python: what libraries show, which are installed into the tests' cache once."""

import os
import subprocess
import sys
from pathlib import Path

from harness import Picture, Skip, check, equal, language, matches

test = language("python")
PACKAGES = ["matplotlib", "numpy", "pandas", "pillow", "plotly", "polars", "seaborn", "sympy"]
ran = {}
kept = os.environ.get("NSBOX_TEST_KEEP")  # a folder for the pictures, to be looked at


def packages():
    """Variables with which Python finds the packages."""
    cache = Path(os.environ.get("NSBOX_TEST_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nsbox-tests")
    folder = cache / "contexts" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    done = folder / "complete"
    if not done.exists() or done.read_text() != " ".join(PACKAGES):
        if "failed" in ran:
            raise Skip(ran["failed"])
        folder.mkdir(parents=True, exist_ok=True)
        installed = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--upgrade", "--target", folder, *PACKAGES],
            capture_output=True, text=True)
        if installed.returncode:
            ran["failed"] = f"pip could not install packages: {installed.stderr.strip()[-300:]!r}"
            raise Skip(ran["failed"])
        done.write_text(" ".join(PACKAGES))
    # matplotlib looks for fonts once, which takes seconds.
    return {"PYTHONPATH": str(folder), "MPLCONFIGDIR": str(cache / "contexts" / "matplotlib")}


def keep(name, data):
    if kept:
        Path(kept, f"{name}.png").write_bytes(data)
    return Picture(data)


def only(cell, name):
    """The only picture of a cell, decoded, and the data of its chart."""
    cell.ok()
    equal((len(cell.images()), len(cell.charts())), (1, 1), f"pictures and charts of {cell}")
    picture = keep(name, cell.images()[0])
    check(picture.width > 200 and picture.height > 200, f"{picture.width} × {picture.height}")
    check(len(picture.colours()) > 20, "a picture with nothing on it")
    return picture, cell.charts()[0]


BLUE, ORANGE, GREEN = (31, 119, 180), (255, 127, 14), (44, 160, 44)


@test("matplotlib: figures that are open at the end are shown, once, and closed; show() shows", packages)
def _(driver):
    cell = driver.ok("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9], label='squares', color='tab:blue')\nplt.title('Growth')\nplt.xlabel('n')\nplt.ylabel('n²')\nplt.legend()", 120)
    picture, chart = only(cell, "line")
    check(cell.result["text/plain"].text.startswith("<matplotlib.legend.Legend"), cell)
    check(picture.near(BLUE) > 300, "no blue line")
    equal((chart["kind"], chart["title"], chart["x"]["label"], chart["y"]["label"], chart["x"]["scale"]), ("line", "Growth", "n", "n²", "linear"), "the chart")
    equal(chart["series"], [{"kind": "line", "label": "squares", "points": [[1, 1], [2, 4], [3, 9]]}], "its series")
    equal(chart["x"]["ticks"][0], "1.00", "a tick")
    equal(cell.stderr, b"", "standard error")
    equal(driver.ok("plt.get_fignums()").result["text/plain"].text, "[]", "open figures afterwards")
    cell = driver.ok("plt.plot([1]); plt.show()\nprint('between')\nplt.figure(); plt.plot([2]); plt.savefig('own.png', dpi=40)\nfig, ax = plt.subplots()\n5")
    equal((len(cell.images()), cell.out, cell.result["text/plain"].text), (3, "between\n", "5"), "three figures")
    check(cell.stderr == b"", cell.err)
    equal(Picture((driver.workspace / "own.png").read_bytes()).width, 256, "what the code saves")
    cell = driver.ok("fig, ax = plt.subplots()\nax.plot([3, 1])\nfig")
    equal((len(cell.images()), cell.parts[0].kind), (1, "result"), "a figure that is the value")
    cell = driver.ok("fig, ax = plt.subplots()\nax.plot([3, 1])\ndisplay(fig)\nNone")
    equal(len(cell.images()), 1, "a figure that was displayed")
    cell = driver.ok("ax.set_title('later')\nfig")
    equal(cell.charts()[0]["title"], "later", "a figure of an earlier cell")
    cell = driver.run("plt.plot([1, 2])\n1 / 0")
    equal((cell.status, len(cell.images())), ("error", 1), "a figure of a cell that fails")
    cell = driver.ok("plt.plot([1, 2])\nplt.close()\nplt.figure();")
    equal(len(cell.images()), 0, "a figure that was closed, and an empty one")
    cell = driver.ok("import matplotlib\nmatplotlib.use('Agg')\nfrom matplotlib.figure import Figure\nplt.plot([1]); plt.show()\nf = Figure(); f.subplots().bar(['a'], [1]); f.show(); f")
    equal((len(cell.images()), cell.stderr), (3, b""), "with a backend, and without pyplot")
    equal(driver.ok("for i in range(30):\n    plt.figure(); plt.plot([i])\n    plt.close()\nplt.get_backend().lower()").result["text/plain"].text, "'agg'", "the backend")
    driver.ok("import os\nif os.fork() == 0:\n    plt.plot([1]); plt.show()\nelse:\n    _ = os.wait()")


CHARTS = {
    "scatter": ("x = np.arange(10)\nplt.scatter(x, x ** 2, color='tab:orange', label='s')\nplt.xscale('log'); plt.yscale('log')", {
        "kind": "scatter", "x.scale": "log", "y.scale": "log", "series.0.label": "s", "series.0.points.3": [3, 9], "series.0.points.len": 10}, ORANGE),
    "bars": ("plt.bar(['a', 'b', 'c'], [3, 1, 2], color='tab:green')\nplt.title('Bars')", {
        "kind": "bar", "title": "Bars", "x.scale": "categorical", "x.ticks": ["a", "b", "c"],
        "series.0.bars": [{"label": "a", "value": 3}, {"label": "b", "value": 1}, {"label": "c", "value": 2}]}, GREEN),
    "grouped": ("x = np.arange(2)\nplt.bar(x - .2, [1, 2], .4, label='one')\nplt.bar(x + .2, [3, 4], .4, label='two')\nplt.xticks(x, ['p', 'q'])\nplt.legend()", {
        "kind": "bar", "series.0.bars": [{"label": "p", "value": 1}, {"label": "q", "value": 2}], "series.1.label": "two", "series.1.bars.1": {"label": "q", "value": 4}}, ORANGE),
    "stacked": ("plt.bar(['a', 'b'], [1, 2], label='low')\nplt.bar(['a', 'b'], [3, 4], bottom=[1, 2], label='high')", {
        "kind": "bar", "series.1.bars": [{"label": "a", "value": 3, "base": 1}, {"label": "b", "value": 4, "base": 2}]}, ORANGE),
    "horizontal": ("plt.barh(['u', 'v'], [5, 6])", {
        "kind": "bar", "series.0.orientation": "horizontal", "y.scale": "categorical", "series.0.bars": [{"label": "u", "value": 5}, {"label": "v", "value": 6}]}, BLUE),
    "histogram": ("plt.hist([1, 1, 2, 5], bins=4, label='h')", {
        "kind": "histogram", "series.0.label": "h", "series.0.bars.0": {"label": "1 to 2", "value": 2, "from": 1, "to": 2}, "series.0.bars.len": 4}, BLUE),
    "histograms": ("plt.hist([[1, 1, 2], [2, 3, 3]], bins=2, label=['p', 'q'])", {
        "kind": "histogram", "series.len": 2, "series.1.label": "q", "series.1.bars.1.value": 3}, ORANGE),
    "pie": ("plt.pie([1, 3], labels=['small', 'large'], autopct='%1.0f%%')\nplt.title('Shares')", {
        "kind": "pie", "title": "Shares", "series.0.slices": [{"label": "small", "value": 1, "percent": 25}, {"label": "large", "value": 3, "percent": 75}]}, BLUE),
    "boxes": ("plt.boxplot([[1, 2, 3, 4, 100], [5, 6, 7]])\nplt.xticks([1, 2], ['A', 'B'])", {
        "kind": "box", "series.0.boxes.0": {"label": "A", "min": 1, "q1": 2, "median": 3, "q3": 4, "max": 4, "outliers": [100]}, "series.0.boxes.1.label": "B"}, ORANGE),
    "heatmap": ("plt.imshow([[1, 2], [3, 4]])\nplt.colorbar()", {"kind": "heatmap", "series.0.values": [[1, 2], [3, 4]]}, (68, 1, 84)),
    "large heatmap": ("plt.imshow(np.zeros((500, 300)))", {"series.0.values.len": 64, "series.0.omitted": 500 * 300 - 64 * 64}, (68, 1, 84)),
    "picture": ("plt.imshow(np.full((10, 20, 3), (255, 127, 14), dtype='uint8'))", {"kind": "image", "series.0.values": [], "series.0.omitted": 200}, ORANGE),
    "dates": ("import datetime\ndays = [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=i) for i in range(60)]\nplt.plot(days, range(60))\nplt.ylim(0, 100)", {
        "kind": "line", "x.scale": "datetime", "series.0.points.0": ["2024-01-01T00:00:00", 0], "series.0.points.59": ["2024-02-29T00:00:00", 59], "y.min": 0, "y.max": 100}, BLUE),
    "many points": ("plt.plot(np.arange(10001), np.arange(10001))", {
        "series.0.points.len": 200, "series.0.omitted": 9801, "series.0.points.0": [0, 0], "series.0.points.199": [10000, 10000]}, BLUE),
    "mixed": ("plt.plot([1, 2], [float('nan'), 2], label='l')\nplt.plot([1, 2], [1, 2], 'o', label='p')\nplt.axhline(1.5)\nplt.errorbar([1, 2], [1, 2], yerr=.1, capsize=3, label='e')", {
        "kind": "mixed", "series.len": 3, "series.0.points.0": [1, None], "series.1.kind": "scatter", "series.2.label": "e"}, BLUE),
    "figure": ("f, ((a, b), (c, d)) = plt.subplots(2, 2)\nf.suptitle('All')\na.plot([1]); a.set_title('A'); b.bar([1], [2]); c.hist([1]); d.scatter([1], [2])", {
        "kind": "figure", "title": "All", "axes.len": 4, "axes.0.title": "A", "axes.3.kind": "scatter"}, BLUE),
    "pandas bars": ("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': [3, 4]}, index=['x', 'y']).plot.bar(title='Pandas')", {
        "kind": "bar", "title": "Pandas", "series.1.label": "b", "series.1.bars.0": {"label": "x", "value": 3}}, ORANGE),
    "pandas dates": ("pd.Series(range(40), index=pd.date_range('2024-03-01', periods=40)).plot()", {
        "kind": "line", "x.scale": "datetime", "series.0.points.0": ["2024-03-01T00:00:00", 0], "series.0.points.39": ["2024-04-09T00:00:00", 39]}, BLUE),
    "pandas histogram": ("pd.Series([1, 2, 2, 3]).hist(bins=3)", {"kind": "histogram", "series.0.bars.1.value": 2}, BLUE),
    "seaborn": ("import seaborn as sns\ndf = pd.DataFrame({'g': ['u', 'u', 'v', 'v'], 'y': [1., 2., 3., 5.]})\nsns.boxplot(df, x='g', y='y')", {
        "kind": "box", "x.label": "g", "series.0.boxes.0.label": "u", "series.0.boxes.0.median": 1.5}, None),
    "seaborn histogram": ("sns.histplot(x=[1, 2, 2, 3, 3, 3], bins=3)", {"kind": "histogram", "series.0.bars.2.value": 3}, None),
    "seaborn heatmap": ("sns.heatmap(pd.DataFrame([[1., 2.], [3., 4.]], index=['r', 's'], columns=['t', 'u']), annot=True)", {
        "kind": "heatmap", "series.0.values": [[1, 2], [3, 4]], "x.ticks": ["t", "u"]}, None),
    "nothing of these": ("plt.figure().add_subplot(projection='3d').plot([1], [2], [3])", {"kind": "unknown"}, None),
}


def found(chart, path):
    for part in path.split("."):
        chart = len(chart) if part == "len" else chart[int(part)] if part.isdigit() else chart[part]
    return chart


@test("matplotlib, pandas and seaborn: what charts contain", packages)
def _(driver):
    driver.ok("import matplotlib.pyplot as plt, numpy as np", 120)
    for name, (code, expected, colour) in CHARTS.items():
        cell = driver.ok(code)
        picture, chart = only(cell, f"mpl {name}")
        check(cell.stderr == b"", f"{name}: {cell.err}")
        for path, value in expected.items():
            equal(found(chart, path), value, f"{name}: {path} of {str(chart)[:1500]}")
        if colour:
            check(picture.near(colour) > 20, f"{name}: nothing of {colour}")


@test("pandas, polars, numpy, sympy: text, HTML, LaTeX and JSON, bounded", packages)
def _(driver):
    driver.ok("import pandas as pd, numpy as np", 120)
    result = driver.ok("df = pd.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': pd.to_datetime(['2024-01-01', None]), 'd': [1.5, float('nan')]})\ndf").result
    matches(result["text/plain"].text, r"^   a +b +c +d\n0  1", "text")
    matches(result["text/html"].text, "<table.*<td>1.5</td>", "HTML")
    equal({key: value for key, value in result["application/json"].json.items() if key != "dtypes"}, {
        "columns": ["a", "b", "c", "d"], "index": [0, 1], "data": [[1, "x", "2024-01-01T00:00:00", 1.5], [2, None, None, None]], "rows": 2}, "JSON")
    result = driver.ok("pd.DataFrame(np.arange(8_000_000).reshape(100_000, 80))").result
    table = result["application/json"].json
    equal((len(table["data"]), len(table["data"][0]), table["rows"], table["omitted"], table["omitted_columns"]), (100, 50, 100_000, 99_900, 30), "a large table")
    equal((table["data"][-1][-1], table["index"][-1], table["columns"][-1]), (7_999_999, 99_999, 79), "its end")
    check(len(result["text/plain"].text) < 10_000, "its text")
    series = driver.ok("s = pd.Series([1, 2, 3], index=['x', 'y', 'z'], name='n')\ns").result
    equal(series["application/json"].json, {"name": "n", "index": ["x", "y", "z"], "data": [1, 2, 3], "dtype": "int64", "rows": 3}, "a series")
    equal(driver.ok("df.groupby('b')[['a']].sum().T.columns").result["application/json"].json["data"], ["x"], "an index")
    matches(driver.ok("df.style.highlight_max('a')").result["text/html"].text, "<style.*<table", "a styled table")
    grouped = driver.ok("pd.DataFrame({'k': ['a', 'a'], 'l': ['p', 'q'], 'v': [1, 2]}).pivot_table(index='k', columns=['l'], values=['v'])").result
    equal(grouped["application/json"].json["columns"], [["v", "p"], ["v", "q"]], "a pivot table")
    equal(driver.ok("np.arange(6).reshape(2, 3)").result["application/json"].json, [[0, 1, 2], [3, 4, 5]], "an array")
    equal(driver.ok("np.float64(2.5)").result["application/json"].json, 2.5, "a number")
    equal(driver.ok("{'mean': np.float32(0.5), 'n': np.int64(3)}").result["application/json"].json, {"mean": 0.5, "n": 3}, "numbers in a dictionary")
    check("application/json" not in driver.ok("np.array([float('nan')])").result, "not a number, as JSON")
    check("application/json" not in driver.ok("np.zeros((3000, 3000))").result, "a large array, as JSON")
    result = driver.ok("import polars as pl\npl.DataFrame({'a': [1, 2], 'b': ['x', None]})").result
    equal(result["application/json"].json["data"], [[1, "x"], [2, None]], "a table of polars")
    matches(result["text/html"].text, "<table", "its HTML")
    result = driver.ok("import sympy\nx = sympy.Symbol('x')\nsympy.Integral(x ** 2, x)").result
    equal((result["text/plain"].text, result["text/latex"].text), ("Integral(x**2, x)", "$\\displaystyle \\int x^{2}\\, dx$"), "an integral")
    driver.ok("pd.set_option('display.max_rows', None)")
    result = driver.ok("pd.DataFrame({'column': range(20_000)})").result
    check("left out" in result["text/plain"].text and "left out" in result["text/html"].text, "a table that is to be shown whole")


@test("PIL: images, and what their show() shows", packages)
def _(driver):
    cell = driver.ok("from PIL import Image\nimage = Image.new('RGB', (320, 240), (255, 127, 14))\nimage")
    picture = keep("pil", cell.images()[0])
    equal((picture.width, picture.height, picture.near(ORANGE)), (320, 240, 320 * 240), "an image")
    equal(set(cell.result), {"text/plain", "image/png"}, "its representations")
    equal(len(driver.ok("image.show()").images()), 1, "show()")
    cell = driver.ok("import os\nImage.frombytes('RGB', (2000, 2000), os.urandom(12_000_000))")
    check(cell.result["image/png"].data is None and cell.result["image/png"].length > 12_000_000, "an image that is too large")


@test("plotly: its JSON always, and a picture; charts as data", packages)
def _(driver):
    driver.ok("import plotly.express as px, plotly.graph_objects as go, pandas as pd\nfrom plotly.subplots import make_subplots\ndf = pd.DataFrame({'x': list('aabb'), 'g': list('pqpq'), 'y': [1, 2, 3, 4]})", 120)
    purple, red = (99, 110, 250), (239, 85, 59)
    for name, code, expected, colours in (
        ("line", "px.line(x=[1, 2, 3], y=[1, 4, 9], title='Squares', labels={'x': 'n', 'y': 'sq'})", {
            "kind": "line", "title": "Squares", "x.label": "n", "series.0.points": [[1, 1], [2, 4], [3, 9]], "x.scale": "linear", "y.max": 9}, [purple]),
        ("scatter", "px.scatter(df, x='y', y='y', color='g', log_x=True)", {
            "kind": "scatter", "x.scale": "log", "series.len": 2, "series.1.label": "q", "series.1.points": [[2, 2], [4, 4]]}, [purple, red]),
        ("bar", "px.bar(df, x='x', y='y', color='g', title='Bars')", {
            "kind": "bar", "barmode": "relative", "x.scale": "categorical", "x.ticks": ["a", "b"], "series.0.bars": [{"label": "a", "value": 1}, {"label": "b", "value": 3}]}, [purple, red]),
        ("grouped", "px.bar(df, y='x', x='y', color='g', barmode='group', orientation='h')", {
            "series.0.orientation": "horizontal", "y.scale": "categorical", "series.1.label": "q"}, [purple, red]),
        ("histogram", "px.histogram(x=[1, 1.2, 2, 5], nbins=5)", {"kind": "histogram", "series.0.bars.0": {"label": "1 to 2", "value": 2, "from": 1, "to": 2}}, [purple]),
        ("pie", "px.pie(names=['s', 'l'], values=[1, 3])", {"kind": "pie", "series.0.slices.1": {"label": "l", "value": 3, "percent": 75}}, [purple, red]),
        ("box", "px.box(df, x='g', y='y')", {"kind": "box", "series.0.boxes.0": {"label": "p", "min": 1, "q1": 1.5, "median": 2, "q3": 2.5, "max": 3, "outliers": []}}, []),
        ("heatmap", "px.imshow([[1, 2], [3, 4]], x=['u', 'v'], y=['r', 's'])", {"kind": "heatmap", "series.0.values": [[1, 2], [3, 4]]}, []),
        ("dates", "px.line(x=pd.date_range('2024-01-01', periods=50), y=range(50))", {"x.scale": "datetime", "series.0.points.0": ["2024-01-01T00:00:00", 0], "x.max": "2024-02-19T00:00:00"}, [purple]),
        ("subplots", "f = make_subplots(1, 2, subplot_titles=['l', 'r'])\nf.add_scatter(y=[1, 2], row=1, col=1)\nf.add_bar(x=['a'], y=[3], row=1, col=2)\nf.update_layout(title='Two')", {
            "kind": "figure", "title": "Two", "axes.len": 2, "axes.1.kind": "bar"}, [purple]),
    ):
        cell = driver.ok(code)
        check("application/vnd.plotly.v1+json" in cell.result, f"{name}: {cell}")
        equal(cell.result["application/vnd.plotly.v1+json"].json["data"][0]["type"], {"line": "scatter", "grouped": "bar", "dates": "scatter", "subplots": "scatter"}.get(name, name), "its type")
        picture, chart = only(cell, f"plotly {name}")
        matches(cell.result["text/plain"].text, r"\Aplotly figure: [a-z0-9, ]+('[A-Z][a-z]+')?; drawn by matplotlib, as kaleido is not installed\Z", "whose picture it is")
        for path, value in expected.items():
            equal(found(chart, path), value, f"{name}: {path} of {str(chart)[:1500]}")
        for colour in colours:
            check(picture.near(colour, 40) > 50, f"{name}: nothing of {colour}")
    # What would be drawn or said wrong is not.
    for code, kind in (("px.histogram(x=list('aab'), y=[1, 2, 3], histfunc='sum')", "histogram"), ("px.violin(y=[1, 2, 3])", "violin"),
                       ("go.Figure([go.Scatter(y=[1, 2]), go.Violin(y=[1, 2])])", "violin"), ("go.Figure(go.Bar(x=[1], y=[2], base=[1]))", "bar")):
        cell = driver.ok(code)
        equal(len(cell.images()), 0, f"pictures of {code}")
        matches(cell.result["text/plain"].text, f"\\Aplotly figure: .*; not in the chart: {kind}; no picture: [^\n]*\\Z", code)
    for code in ("px.area(x=[1, 2], y=[3, 4])", "go.Figure([go.Bar(x=['a'], y=[1]), go.Scatter(x=['b'], y=[2])])"):
        matches(driver.ok(code).result["text/plain"].text, r"\Aplotly figure: [^;\n]*; no picture: [^\n]*\Z", code)
    picture = keep("plotly bars of dates", driver.ok("px.bar(x=pd.date_range('2024-01-01', periods=60), y=range(60))").images()[0])
    check(picture.near(purple, 40) > 50, "no bars")
    cell = driver.ok("px.line(y=[1, 2]).show()")
    equal((len(cell.images()), cell.parts[0].kind, cell.out, cell.stderr), (1, "display", "", b""), "show()")
    cell = driver.ok("go.Figure(go.Scatter3d(x=[1], y=[1], z=[1]))")
    equal(len(cell.images()), 0, "what is not drawn here")
    matches(cell.result["text/plain"].text, "scatter3d.*no picture: kaleido is not installed, and matplotlib does not do for this kind", "that it is not")
