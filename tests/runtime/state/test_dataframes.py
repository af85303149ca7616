"""Everyday code over DataFrames: no Python in calls that have been verified, whatever pandas stores columns in."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

pd = pytest.importorskip("pandas")
W = np.array([0.3, 0.7])
N = 30


def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": rng.normal(size=N),
            "k": np.arange(N),
            "g": [f"s{i % 5}" for i in range(N)],
            "c": pd.Categorical([("u", "v", "w")[i % 3] for i in range(N)]),
            "d": pd.date_range("2020-01-01", periods=N),
            "n": pd.array(np.arange(N), dtype="Int64"),
        }
    )


def groups(w, d, **how):
    total = 0.0
    for _, part in d.groupby(**how):
        total = total + np.sum((part["b"].values - w[0] * part["a"].to_numpy()) ** 2)
    return total


OTHER = pd.DataFrame({"g": [f"s{i}" for i in range(5)], "z": np.arange(5.0)})
LOSSES = {
    "columns": lambda w, d: np.sum((d["b"] - w[0] * d["a"]) ** 2),
    "attributes": lambda w, d: np.sum((d.b - w[0] * d.a) ** 2),
    "tables": lambda w, d: np.sum((d[["a", "b"]].values @ w) ** 2) + np.sum(d[["a", "k"]].to_numpy(dtype=float) @ w),
    "places": lambda w, d: np.sum(d.iloc[3:20]["a"] * w[0]) + d.loc[3, "b"] * w[1] + d.iat[2, 1] * w[0] ** 2,
    "masks": lambda w, d: np.sum(d[d["a"] > 0]["b"] * w[0] ** 2) + np.sum(d.loc[d.k > 3, "a"] * w[1]),
    "texts": lambda w, d: np.sum(d[d["g"] == "s1"]["b"].values * w[0] ** 2),
    "texts in": lambda w, d: np.sum(d.loc[d["g"].isin(["s1", "s2"]), "a"].values * w[0] ** 2),
    "parts of texts": lambda w, d: np.sum(d["a"].values * w[0] * d["g"].str.endswith("1").values),
    "each text": lambda w, d: sum(np.sum((d["b"][d["g"] == u].values - w[0]) ** 2) for u in d["g"].unique()),
    "places of texts": lambda w, d: np.sum(np.tile(w, 3)[pd.factorize(d["g"])[0]] * d["a"].values),
    "categories": lambda w, d: np.sum(np.tile(w, 2)[d["c"].cat.codes.values] * d["a"].values),
    "groups by text": lambda w, d: groups(w, d, by="g"),
    "groups in order": lambda w, d: groups(w, d, by="g", sort=False),
    "groups by category": lambda w, d: groups(w, d, by="c", observed=True),
    "groups by both": lambda w, d: groups(w, d, by=["g", "c"], observed=True),
    "means of groups": lambda w, d: np.sum((d.groupby("g")["a"].mean().values * w[0] - 1) ** 2),
    "aggregates": lambda w, d: np.sum((d.groupby("g").agg({"a": "sum", "b": "mean"}).values @ w) ** 2),
    "transformed": lambda w, d: np.sum((d["a"] - d.groupby("g")["a"].transform("mean")).values ** 2 * w[0]),
    "query": lambda w, d: np.sum(d.query("a > 0 and g == 's1'")["b"].values * w[0] ** 2),
    "eval": lambda w, d: np.sum(d.eval("a * b").values * w[0] ** 2),
    "named tuples": lambda w, d: sum((r.a * w[0] - r.b) ** 2 for r in d.itertuples()),
    "rows": lambda w, d: sum((r["a"] * w[0] - r["b"]) ** 2 for _, r in d[["a", "b"]].iterrows()),
    "items": lambda w, d: sum(np.sum(v.values * w[0]) ** 2 for _, v in d[["a", "b"]].items()),
    "merged": lambda w, d: np.sum((d.merge(OTHER, on="g")["z"].values * w[0] - 1) ** 2),
    "joined": lambda w, d: np.sum((d.join(OTHER.set_index("g"), on="g")["z"].values * w[0] - 1) ** 2),
    "sorted": lambda w, d: np.sum(np.diff(d.sort_values(["g", "a"])["b"].values * w[0]) ** 2),
    "indexed": lambda w, d: np.sum(d.set_index("g").loc["s1", "a"].values * w[0] ** 2),
    "rolling": lambda w, d: np.sum(d["a"].rolling(3).mean().dropna().values * w[0] ** 2),
    "dates": lambda w, d: np.sum((d["d"] - d["d"].iloc[0]).dt.days.values * w[0] ** 2),
    "days after": lambda w, d: np.sum(d.loc[d["d"] > "2020-01-15", "a"].values * w[0] ** 2),
    "missing integers": lambda w, d: np.sum((d["n"].to_numpy(dtype=float) - w[0]) ** 2),
    "pivoted": lambda w, d: np.sum(d.pivot_table(index="g", columns="c", values="a", observed=True).values * w[0] ** 2),
    "by rows": lambda w, d: np.sum(d[["a", "b"]].apply(lambda r: r["a"] * r["b"], axis=1).values * w[0] ** 2),
}


def replayed(loss):
    """Of *loss* over a frame as an argument, and from outside."""
    d = frame()
    expected = float(loss(W, d)), numerical_gradient(loss, (W, d))
    for f, args in ((compile_grad(loss), (W, d)), (compile_grad(lambda w: loss(w, d)), (W,))):
        for _ in range(3):
            value, gradient = f.value_and_grad(*args)
            np.testing.assert_allclose(float(value), expected[0])
            np.testing.assert_allclose(gradient, expected[1], rtol=1e-5, atol=1e-5)
        assert f.stats.live == ""


@pytest.mark.parametrize("name", LOSSES)
def test_no_python_runs_in_verified_calls(name):
    replayed(LOSSES[name])


@pytest.mark.slow
@pytest.mark.skipif("not __import__('importlib').util.find_spec('pyarrow')", reason="is what the others test")
def test_without_pyarrow():
    program = (
        "import sys; sys.modules['pyarrow'] = None\nimport test_dataframes as t\n"
        "for loss in t.LOSSES.values(): t.replayed(loss)\n"
        "print(type(t.frame()['g'].array).__name__)"
    )
    paths = [os.path.dirname(__file__), os.path.dirname(sys.modules["agreement"].__file__)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    assert "Arrow" not in done.stdout


def test_changed_texts_categories_and_dates_are_seen():
    changes = {
        "texts": lambda d: d.__setitem__("g", ["s1"] * N),
        "one text": lambda d: d.loc.__setitem__((3, "g"), "s1"),
        "category": lambda d: d.loc.__setitem__((3, "c"), "u"),
        "names of categories": lambda d: d.__setitem__("c", d["c"].cat.rename_categories(["w", "u", "v"])),
        "date": lambda d: d.loc.__setitem__((3, "d"), pd.Timestamp("2021-01-01")),
        "missing": lambda d: d.loc.__setitem__((3, "n"), 99),
        "index": lambda d: setattr(d, "index", range(5, N + 5)),
    }
    loss = lambda w, d: (  # noqa: E731
        groups(w, d, by="g") + groups(w * 2, d, by="c", observed=True)
        + np.sum(w[0] * d.loc[d["c"] == "u", "a"].values) + np.sum(w[1] * d["d"].dt.year.values)
        + np.sum(w[0] * d["n"].to_numpy(dtype=float))
    )  # fmt: skip
    d = frame()
    given, outside = compile_grad(loss), compile_grad(lambda w: loss(w, d))
    for change in [lambda d: None, *changes.values()]:
        change(d)
        for _ in range(2):
            for value, gradient in (given.value_and_grad(W, d), outside.value_and_grad(W)):
                np.testing.assert_allclose(float(value), float(loss(W, d)))
                np.testing.assert_allclose(gradient, numerical_gradient(loss, (W, d)), rtol=1e-5, atol=1e-4)


CHOICES = {
    "rows": lambda w, d, rows, limit: np.sum(d.iloc[rows]["a"].values * w[0]) + np.sum(d["b"].loc[rows].values * w[1]),
    "columns": lambda w, d, rows, limit: np.sum(d[["a", "b"][: rows[0]]].values * w[0]),
    "a part of rows": lambda w, d, rows, limit: np.sum(d.loc[rows, ["a", "b"]].values @ w),
    "rows by a function": lambda w, d, rows, limit: np.sum(d.loc[lambda t: t["a"] > limit[0], "b"].values * w[0]),
    "items by a function": lambda w, d, rows, limit: np.sum(d["a"].map(lambda v: v * limit[0]).values * w[0]),
    "a column of a list": lambda w, d, rows, limit: np.sum(d.iloc[:3].assign(z=limit)["z"].values * w[0]),
    "an item that is set": lambda w, d, rows, limit: set_items(d.iloc[:3].copy(), limit, w),
    "an aggregate": lambda w, d, rows, limit: np.sum(d.groupby("g")["a"].agg(lambda s: s.max() * limit[0]) * w[0]),
    "a key of groups": lambda w, d, rows, limit: np.sum(d.groupby(lambda k: k % rows[0])["a"].max().values * w[0]),
}


def set_items(d, values, w):
    d["z"] = values
    d.loc[d.index[0], "a"] = values[1]
    return np.sum(d["z"].values * w[0]) + np.sum(d["a"].values * w[1])


@pytest.mark.parametrize("name", CHOICES)
def test_lists_and_functions_of_the_users_that_tables_are_given(name):
    d, rows, limit = frame(), [1, 2, 3], [0.5, 1.0, 2.0]
    plain = functools.partial(CHOICES[name], d=d, rows=rows, limit=limit)
    f = compile_grad(lambda w: plain(w))
    for rows[0], limit[0] in ((1, 0.5), (1, 0.5), (2, 0.5), (2, -0.5), (1, 0.5), (1, 0.25)):
        limit[1] = limit[0] * 3
        for _ in range(2):
            np.testing.assert_allclose(f(W), plain(W))
    assert not f.stats.live


def test_warnings_of_a_library_count_where_they_are_shown(tmp_path, monkeypatch):
    """Within filters of the library's own, too: those that it ignores have no effect."""
    library = tmp_path / "site-packages" / "pandas_of_ours.py"
    library.parent.mkdir()
    library.write_text(
        "import warnings\n"
        "def quiet(x):\n    with warnings.catch_warnings():\n        warnings.simplefilter('ignore')\n"
        "        warnings.warn('never seen')\n    return x * 2\n"
        "def loud(x):\n    with warnings.catch_warnings():\n        warnings.simplefilter('always')\n"
        "        warnings.warn('always seen')\n    return x * 2\n"
    )
    monkeypatch.syspath_prepend(str(library.parent))
    import pandas_of_ours

    from tracegrad.runtime.state import libraries

    monkeypatch.setitem(libraries._TABLE, "pandas_of_ours", libraries.PURE)
    libraries.verdict.cache_clear()
    quiet, loud = compile_grad(lambda w: pandas_of_ours.quiet(w[0])), compile_grad(lambda w: pandas_of_ours.loud(w[0]))
    for _ in range(3):
        assert quiet.grad(W)[0] == 2.0
        with pytest.warns(UserWarning, match="always seen"):
            assert loud.grad(W)[0] == 2.0
    assert quiet.stats.live == ""
    libraries.verdict.cache_clear()
