"""Data that is no plain array, as arguments and from outside: right values and gradients, never stale."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, numerical_gradient

from tracegrad import DifferentiationError, UnsupportedError, compile_grad
from tracegrad.autograd import grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

W = np.array([0.5, -1.2])
RNG = np.random.default_rng(4)


def fit(w, x):
    return np.sum((w[0] * x - w[1]) ** 2 * np.arange(3.0))


def check(f, w, d):
    """As an argument and from outside, in the first calls and after."""
    given, captured = compile_grad(f), compile_grad(lambda w: f(w, d))
    expected = float(f(w, d)), numerical_gradient(f, (w, d))
    for _ in range(3):
        for value, gradient in (given.value_and_grad(w, d), captured.value_and_grad(w)):
            np.testing.assert_allclose(float(value), expected[0])
            np.testing.assert_allclose(gradient, expected[1], rtol=1e-5, atol=1e-6)
    return given, captured


def replayed(f, w, d, runs=1, outside=1):
    given, captured = check(f, w, d)
    assert not given.stats.live and not captured.stats.live
    assert (given.stats.traces, captured.stats.traces) == (runs, outside)
    return given, captured


def test_other_forms_of_arrays(tmp_path):
    np.arange(3.0).tofile(tmp_path / "x.bin")
    mapped = np.memmap(tmp_path / "x.bin", dtype=float, mode="r+")
    for x in (mapped, np.arange(3.0).astype(">f8"), np.arange(3).astype(">i4"), np.arange(9.0)[::3].astype(">f4")):
        given, captured = replayed(fit, W, x, runs=1, outside=1)
        x[1] = 7
        agree(given, fit, W, x)
        agree(captured, lambda w, x=x: fit(w, x), W)
        assert given.stats.traces <= 3 and captured.stats.traces <= 3
    for x in (mapped, np.arange(3.0).astype(">f8")):  # differentiated
        found = compile_grad(lambda x: np.sum(np.sin(x) * x))
        for _ in range(3):
            np.testing.assert_allclose(found.grad(x), np.cos(x) * x + np.sin(x))
        assert type(found.grad(x)) is np.ndarray and found.stats.traces == 1
    swapped = compile_grad(lambda w: np.sum(w[0] * np.frombuffer(np.arange(3.0).astype(">f8").tobytes(), ">f8")))
    assert swapped.grad(W)[0] == 3.0


def test_objects_that_give_an_array():
    class Wave:
        def __init__(self, samples):
            self.samples = samples

        def __array__(self, dtype=None, copy=None):
            return self.samples

    wave = Wave(np.array([1.0, 2.0, 4.0]))
    given, captured = replayed(
        lambda w, x: np.sum(w[0] * np.asarray(x)) + np.dot(np.asarray(x), x.samples) * w[1], W, wave, 1, 1
    )
    wave.samples[0] = 5.0
    assert given.grad(W, wave)[0] == captured.grad(W)[0] == 11.0


def test_what_would_be_something_else_is_refused():
    mask, matrix = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), np.matrix([1.0, 2.0, 3.0])
    for x in (mask, matrix):
        for f in (lambda w, x=x: w[0] * x, lambda w, x=x: x * w[0], lambda w, x=x: np.add(x, w[0])):
            with pytest.raises(UnsupportedError, match=r"cannot be used with traced arrays|needs plain NumPy arrays"):
                grad(lambda w, f=f: np.sum(f(w)))(W)
        with pytest.raises(UnsupportedError, match=f"{type(x).__name__} argument"):
            grad(lambda w, x: np.sum(w[0] * x))(W, x)
    with pytest.raises(UnsupportedError, match="object array"):
        grad(lambda w, x: np.sum(w[0] * x))(W, np.array([1.0, 2.0], dtype=object))


def test_tensors_of_pytorch_as_data():
    torch = pytest.importorskip("torch")
    t = torch.arange(3, dtype=torch.float64)
    given, captured = replayed(lambda w, t: fit(w, t.numpy()) + fit(w[::-1], np.asarray(t)) * len(t), W, t)
    t[1] = 9.0
    np.testing.assert_allclose(given.grad(W, t), captured.grad(W))
    agree(given, given.__wrapped__, W, t)
    with pytest.raises(RuntimeError, match="requires grad"):
        grad(lambda w, t: fit(w, np.asarray(t)))(W, t.clone().requires_grad_())


def test_arrays_of_jax_as_data():
    jnp = pytest.importorskip("jax.numpy")
    x = jnp.arange(3.0)
    given, _ = replayed(lambda w, x: fit(w, np.asarray(x, dtype=float)), W, x)
    np.testing.assert_allclose(given.grad(W, x + 1), grad(fit)(W, np.arange(3.0) + 1))


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    values = {"x": RNG.normal(size=6), "y": RNG.normal(size=6), "n": np.arange(6), "s": list("aabbcc")}
    return pandas.DataFrame(values, index=list("pqrstu"))


def columns(w, d):
    error = d["x"] * w[0] + w[1] - d.y
    total = (error**2).mean() + np.mean(np.exp(w[0] * d["x"])) + np.sum(np.where(d["x"] > 0, w[0] * d["x"], w[1]))
    total = total + error.std() + np.std(error) + error.var(ddof=0) + error.abs().max() + np.maximum(error, 0).sum()
    return total + sum(w[0] * v for v in d["x"]) + np.log1p(np.exp(-d["y"] * w[0])).sum() * len(d)


def selections(w, d):
    scaled = w[0] * d["x"]
    total = (
        scaled[d.x > 0].sum() + scaled.iloc[2] + scaled.loc["q"] + scaled.head(2).sum() + scaled.tail(2).to_numpy()[0]
    )
    total = total + (w[1] * d.groupby("s")["x"].mean()).sum() ** 2 + np.sum(w[0] * d.loc[d.n > 1, "y"])
    total = total + d["x"].mul(w[0]).add(w[1]).rsub(d.y).pow(2).sum() + (w[0] ** 2) ** d["n"].iloc[2]
    return total + np.dot(d["x"], np.full(6, 1.0) * w[1]) + d.y @ (np.ones(6) * w[0]) + np.polyval(w, d["y"]).sum()


def products(w, d):
    X = d[["x", "n"]]
    total = np.sum((X @ w - d["y"]) ** 2) + np.sum((X.values @ w) ** 2) + np.sum((X.dot(w) * d["x"]) ** 2)
    return total + np.sum((w @ X.T) ** 2) + np.sum(X.to_numpy()[:, 0] * w[0]) + np.sum(np.column_stack([d.x, d.y]) @ w)


def tables(w, d):
    X = d[["x", "n"]]
    scaled, centred = X * w, (X - X.mean()) / np.exp(w)
    total = scaled.sum(axis=1).pow(2).sum() + (centred**2).mean().mean() + np.sum(scaled) + scaled["x"].max()
    total = total + (scaled * (1 - X)).abs().sum().sum() + (scaled.dot(w) - d["y"]).std() + X.mul(w[0]).sum()["n"]
    return total + np.sum(np.where(w < X, scaled, 0.0)) + np.sum((w @ scaled.T) ** 2) + scaled[["n"]].to_numpy()[2, 0]


@pytest.mark.slow
def test_regression_on_a_frame(frame):
    for f in (columns, selections, products, tables):
        replayed(f, W, frame)
    scaled = compile_grad(lambda w, d: d[["x", "n"]] * w)(W, frame)
    assert scaled.equals(frame[["x", "n"]] * W)
    by_label = compile_grad(lambda w, d: (w[0] * d["x"])["r":"t"].sum())
    np.testing.assert_allclose(by_label.grad(W, frame), [frame["x"]["r":"t"].sum(), 0.0])


def test_what_changes_in_a_frame_is_seen(frame):
    f = compile_grad(lambda w, d: (d["x"] * w[0]).sum() * (1 + ("z" in d.columns)))
    captured = compile_grad(lambda w: (frame["x"] * w[0]).sum() * (1 + ("z" in frame.columns)))

    def check():
        expected = frame["x"].sum() * (1 + ("z" in frame.columns))
        for _ in range(2):
            np.testing.assert_allclose([f.grad(W, frame)[0], captured.grad(W)[0]], expected, rtol=1e-6)

    check()
    frame.loc["p", "x"] = 9.0
    check()
    frame["x"] = np.arange(6.0)
    check()
    frame["z"] = frame["x"]
    check()
    frame["x"] = frame["x"].astype("float32")
    check()
    frame.index = range(6)
    check()
    del frame["z"]
    check()
    text = compile_grad(lambda w, d: w[0] * (d["s"] == "a").sum())
    assert [text.grad(W, frame)[0] for _ in range(3)] == [2.0] * 3
    frame.loc[4, "s"] = "a"
    assert text.grad(W, frame)[0] == 3.0


def test_missing_values_and_results_that_are_series(frame):
    frame.loc["q", "x"] = np.nan
    replayed(lambda w, d: (d["x"] * w[0] - d["y"] * w[1]).mean() + np.sum(d.x * w[0]) + (d.x * w[0]).std(), W, frame)
    predict = compile_grad(lambda w, d: d["x"] * w[0] + w[1])
    for _ in range(2):
        found = predict(W, frame)
        assert type(found) is type(frame["x"]) and found.equals(frame["x"] * W[0] + W[1])


def test_what_pandas_would_align_and_what_has_no_recorded_form_is_refused(frame):
    other = frame.copy()
    other.index = range(6)
    with pytest.raises(UnsupportedError, match="other indexes, which pandas would align"):
        grad(lambda w: (frame["x"] * w[0] - other["y"]).sum())(W)
    for f, what in [
        (lambda w, d: (d[["x", "y"]] * w).iloc[2].sum(), r"`\.iloc` of a DataFrame with traced values"),
        (lambda w, d: (d[["x", "y"]] * w - d[["y", "x"]]).sum().sum(), "other axes, which pandas would align"),
        (lambda w, d: (d * w[0]).sum().sum(), "columns that are no numbers"),
        (lambda w, d: (d["s"] * w[0]).sum(), "'s'"),
        (lambda w, d: (d["x"] * w[0]).rolling(2).mean().sum(), r"`\.rolling`"),
        (lambda w, d: d.x * w[0], "scalar loss"),
    ]:
        with pytest.raises((UnsupportedError, DifferentiationError), match=what) as error:
            grad(f)(W, frame)
        assert "test_data_objects.py" in str(error.value)
    drawn = compile_grad(lambda w, d: (d.sample(6)["x"] * w[0]).sum())
    for _ in range(3):
        drawn.grad(W, frame)
    assert "sample" in drawn.stats.live


def test_labelled_arrays():
    xarray = pytest.importorskip("xarray")
    da = xarray.DataArray(np.arange(6.0).reshape(2, 3), dims=("t", "k"), coords={"t": [10, 20]})
    f = lambda w, d: ((d * w[0] - w[1]).mean("t") ** 2).sum() + np.sum(d.values * w[0]) + np.sum(np.exp(d * w[1]))  # noqa: E731
    given, _ = replayed(f, W, da)
    da[0, 1] = 5.0
    np.testing.assert_allclose(given.grad(W, da), numerical_gradient(f, (W, da)), rtol=1e-5)
    np.testing.assert_allclose(float(given(W, da)), float(f(W, da)))
    check(lambda w, d: ((d.sel(t=10) * w[0] - d.isel(t=1)) ** 2).sum().item(), W, da)


@pytest.mark.parametrize("change", [
    lambda d: d.pop("y").sum(), lambda d: d.drop(index=0, inplace=True) or 1.0, lambda d: d.insert(0, "k", 1.0) or 2.0,
    lambda d: d["x"].to_numpy(copy=False).sum(),
])  # fmt: skip
def test_a_frame_that_the_function_changes_is_changed_once(change):
    pd = pytest.importorskip("pandas")

    def made(compiled):
        d = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [2.0, 3.0, 4.0]})
        f = lambda w: np.sum(w) * change(d)  # noqa: E731
        found = []
        for _ in range(2):
            try:
                found.append(float((compile_grad(f) if compiled else f)(W)))
            except Exception as error:
                found.append(type(error).__name__)
        return found, d.to_dict()

    assert made(True) == made(False)


def test_data_are_compared_by_their_contents():
    pd = pytest.importorskip("pandas")
    d = pd.Series([1.0, 2.0])
    f = compile_grad(lambda w: np.sum(w) * d.sum())
    assert f(W) == f(W) == pytest.approx(3.0 * np.sum(W))
    d.iloc[0] = 5.0
    assert f(W) == pytest.approx(7.0 * np.sum(W)) and not f.stats.live
