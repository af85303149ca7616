"""Functions of the namespace against NumPy's, and against array_api_strict where it is installed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import array_api as xp

FLOATS, INTEGERS = ("float32", "float64"), tuple(f"{k}{b}" for k in ("int", "uint") for b in (8, 16, 32, 64))
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, math.inf, -math.inf, math.nan]
WHOLE = [0, 1, 2, 3, 5, 7, 100, 127]

OF_FLOATS = """
acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan tanh signbit
"""
OF_NUMBERS = "abs ceil floor round trunc sign square positive isfinite isinf isnan conj real"
OF_TWO_FLOATS = "atan2 copysign divide hypot logaddexp nextafter"
OF_TWO_NUMBERS = """
add equal floor_divide greater greater_equal less less_equal maximum minimum multiply not_equal remainder subtract pow
"""
OF_TWO_INTEGERS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"

# x: 3 × 4 numbers, v: 5 numbers with repetitions, m: a 3 × 3 matrix, s: a symmetric one; n: 2 × 0 numbers
CALLS = """
sum(x) sum(x, axis=0) sum(x, axis=(0, 1), keepdims=True) sum(x, axis=-1, dtype=xp.float64) sum(x, dtype=xp.int8)
sum(n, axis=1) prod(x) prod(x, axis=1) prod(x, dtype=xp.float32) max(x) max(x, axis=0, keepdims=True) min(x, axis=-1)
min(x) mean(x) mean(x, axis=0) mean(x, axis=(0, 1), keepdims=True) var(x) var(x, axis=1, correction=1.0)
std(x, axis=0) std(x, correction=1, keepdims=True) all(x) all(x, axis=0) any(n, axis=1) any(x, axis=1, keepdims=True)
cumulative_sum(v) cumulative_sum(x, axis=1) cumulative_sum(x, axis=0, include_initial=True) cumulative_prod(v)
cumulative_prod(x, axis=1, dtype=xp.float64) count_nonzero(x) count_nonzero(x, axis=1, keepdims=True) argmax(x)
argmax(x, axis=1) argmin(x, axis=0, keepdims=True) diff(v) diff(x, axis=0) diff(v, n=2)
diff(v, prepend=v[:2], append=v[:1]) matmul(x, xp.matrix_transpose(x)) matmul(v, v) vecdot(x, x) vecdot(x, x, axis=-2)
tensordot(x, x, axes=((0, 1), (0, 1))) tensordot(m, m, axes=1) tensordot(v, v, axes=0) matrix_transpose(x)
concat([x, x]) concat((x, x), axis=1) concat([x, v], axis=None) stack([v, v]) stack([x, x], axis=-1)
broadcast_to(v, (2, 5)) broadcast_arrays(x, x[0, :]) expand_dims(x, axis=0) expand_dims(x, axis=-1) flip(x)
flip(x, axis=1) flip(v) moveaxis(x, 0, 1) moveaxis(x, (0, 1), (1, 0)) permute_dims(x, (1, 0)) repeat(x, 2)
repeat(x, 2, axis=1) repeat(v, xp.asarray([1, 0, 2, 1, 1])) reshape(x, (4, 3)) reshape(x, (-1,))
reshape(x, (2, 6), copy=True) reshape(x, (2, -1), copy=False) roll(x, 1) roll(x, (1, 2), axis=(0, 1))
roll(v, -1, axis=0) squeeze(x[:1, :], axis=0) squeeze(x[:1, :1], axis=(0, 1)) tile(v, (2,)) tile(x, (2, 1, 2))
tile(x, (2,)) unstack(x) unstack(x, axis=1) take(v, xp.asarray([0, 2, 2])) take(x, xp.asarray([1, 0]), axis=1)
take(x, xp.asarray([-1]), axis=0) take_along_axis(x, xp.argsort(x, axis=1), axis=1) take_along_axis(x, xp.argsort(x))
nonzero(x) nonzero(v) searchsorted(xp.sort(v), v) searchsorted(xp.sort(v), x, side='right')
searchsorted(v, v, sorter=xp.argsort(v)) sort(x) sort(x, axis=0) argsort(x) argsort(x, axis=0)
sort(x, axis=0, descending=True) argsort(v, descending=True) argsort(v, descending=True, stable=True) unique_all(v)
unique_counts(v) unique_inverse(x) sort(xp.unique_values(x)) where(x > 1, x, x * 2) where(x > 1, x, 1) clip(x, 1, 2)
clip(x, max=2) clip(x, min=1) clip(x) tril(x) triu(x) tril(x, k=-1) triu(x, k=1) zeros_like(x) ones_like(x)
full_like(x, 3) meshgrid(v, v[:2]) meshgrid(v, v[:2], indexing='ij') astype(x, xp.float32) astype(x, xp.int64)
astype(x, xp.bool) result_type(x, x) result_type(x, 1) isdtype(x.dtype, 'real floating')
isdtype(x.dtype, ('integral', 'bool')) can_cast(x, x.dtype) can_cast(x.dtype, xp.int16) linalg.diagonal(m)
linalg.diagonal(x, offset=1) linalg.trace(m) linalg.trace(m, offset=-1) linalg.outer(v, v) linalg.cross(m, m)
linalg.matrix_transpose(m) linalg.matmul(m, m) linalg.vecdot(m, m) linalg.tensordot(m, m)
"""
WITHOUT_X = """
arange(5) arange(1, 9, 3) arange(0.0, 1.0, 0.25) arange(5, dtype=xp.float32) arange(3, 0) arange(5, 0, -2)
linspace(0.0, 1.0, 5) linspace(0, 1, 4, endpoint=False) linspace(2.0, 3.0, 1, dtype=xp.float32) eye(3) eye(2, 3, k=1)
eye(3, dtype=xp.int8) zeros((2, 3)) zeros(4, dtype=xp.uint8) ones((), dtype=xp.bool) full((2,), 1.5) full(3, 2)
full((2, 2), True) asarray(1) asarray(1.5) asarray([[1, 2], [3, 4]], dtype=xp.float32) asarray([True, False])
fft.fftfreq(5) fft.rfftfreq(6, d=0.5) fft.fftshift(xp.arange(5.0)) fft.ifftshift(xp.arange(5.0))
fft.fftshift(xp.eye(3), axes=0)
"""
OF_MATRICES = """
det(m) inv(m) solve(m, m) solve(m, m[0]) cholesky(s) cholesky(s, upper=True) eigvalsh(s) svdvals(m) slogdet(m) pinv(m)
matrix_norm(m) matrix_norm(m, ord=1, keepdims=True) matrix_norm(m, ord='nuc') matrix_rank(m) matrix_power(m, 3)
matrix_power(m, -1) vector_norm(m) vector_norm(m, axis=0, ord=1) vector_norm(m, axis=(0, 1), keepdims=True)
"""


def split(text: str) -> list[str]:
    """The calls in *text*: at spaces outside of brackets."""
    found, depth, start = [], 0, 0
    for k, c in enumerate(text := f"{' '.join(text.split())} "):
        depth += (c in "([") - (c in ")]")
        if c == " " and not depth:
            found.append(text[start:k])
            start = k + 1
    return [call for call in found if call]


def data(dtype: str) -> dict[str, Any]:
    """The arrays that calls use."""
    numbers = np.asarray([3, 1, 0, 2, 5, 1, 1, 4, 2, 0, 6, 3])
    x = (numbers + 0.25 * (numbers % 3) if dtype in FLOATS else numbers).reshape(3, 4)
    m = x[:, :3] + 4 * np.eye(3)
    arrays = {"x": x, "v": x.reshape(-1)[:5] % 3, "m": m, "s": m @ m.T, "n": np.ones((2, 0))}
    return {name: array.astype(dtype) for name, array in arrays.items()}


def called(call: str, space: Any, arrays: dict[str, Any]) -> Any:
    return eval(f"xp.{call}", {"xp": space, **{n: space.asarray(a) for n, a in arrays.items()}})


def plain(value: Any) -> Any:
    """Results as NumPy's arrays, dtypes by name."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, np.dtype)) or "DType" in type(value).__name__:
        return str(value).rpartition(".")[2]
    return np.asarray(value)


def assert_same(mine: Any, theirs: Any, call: str, exact: bool = True) -> None:
    if isinstance(theirs, (list, str)):
        assert type(mine) is type(theirs), call
        assert len(mine) == len(theirs), call
        for a, b in zip(mine, theirs, strict=True):
            assert a == b if isinstance(a, str) else assert_same(a, b, call, exact) is None, call
        return
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), call
    if exact:
        np.testing.assert_array_equal(mine, theirs, err_msg=call)
        signs = [np.signbit(np.where(np.isnan(v * 1.0), 0.0, v)) for v in (mine, theirs)]
        np.testing.assert_array_equal(*signs, err_msg=call)
    else:
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5, err_msg=call)


def others() -> list[Any]:
    """Implementations to compare with."""
    found: list[Any] = [np]
    try:
        import array_api_strict

        found.append(array_api_strict)
    except ImportError:
        pass
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "uint8"])
def test_calls_give_the_same_as_other_implementations(dtype: str) -> None:
    whole = dtype not in FLOATS
    skipped = ("mean", "var", "std") if whole else ()
    arrays = data(dtype)
    for call, other in itertools.product(split(CALLS), others()):
        if call.startswith(skipped) or (other is np and "descending" in call):
            continue
        if dtype == "uint8" and "where" in call and other is not np:
            continue  # * 2
        theirs = plain(called(call, other, arrays))
        assert_same(plain(called(call, xp, arrays)), theirs, f"{call} of {dtype}", not call.startswith(("var", "std")))


def test_creation_gives_the_same_as_other_implementations() -> None:
    for call, other in itertools.product(split(WITHOUT_X), others()):
        assert_same(plain(called(call, xp, {})), plain(called(call, other, {})), call)


@pytest.mark.parametrize("dtype", FLOATS)
def test_matrices(dtype: str) -> None:
    arrays = data(dtype)
    for call in split(OF_MATRICES):
        call = f"linalg.{call}"
        assert_same(plain(called(call, xp, arrays)), plain(called(call, np, arrays)), call, exact=False)
    for name, back in {
        "qr": "Q @ R",
        "svd": "U * S @ Vh",
        "eigh": "eigenvectors * eigenvalues @ eigenvectors.T",
    }.items():
        made = getattr(xp.linalg, name)(xp.asarray(arrays["s"]))
        parts = {field: getattr(made, field) for field in made._fields}
        np.testing.assert_allclose(eval(back, {}, parts).numpy(), arrays["s"], 1e-4)


@pytest.mark.filterwarnings("ignore")
def test_elementwise_functions_have_numpys_values_and_dtypes() -> None:
    def compare(name: str, *arrays: Any) -> None:
        mine, theirs = getattr(xp, name)(*map(xp.asarray, arrays)), getattr(np, name)(*arrays)
        assert_same(plain(mine), np.asarray(theirs), f"{name} of {[str(a.dtype) for a in arrays]}")

    for dtype in (*FLOATS, *INTEGERS):
        a = np.asarray(SPECIAL if dtype in FLOATS else WHOLE, dtype)
        pairs = np.meshgrid(a, a)
        for name in [*OF_NUMBERS.split(), *(OF_FLOATS.split() if dtype in FLOATS else ["bitwise_invert"])]:
            compare(name, a)
        for name in [*OF_TWO_NUMBERS.split(), *(OF_TWO_FLOATS if dtype in FLOATS else OF_TWO_INTEGERS).split()]:
            compare(name, *(np.minimum(p, 6) if "pow" in name or "shift" in name else p for p in pairs))
    truth = np.asarray([[True, False], [True, True]])
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "equal"):
        compare(name, truth, truth.T)
    compare("logical_not", truth)
    compare("bitwise_invert", truth)


CASES = {  # special cases of the standard
    "atan2(0.0, -0.0)": math.pi, "atan2(-0.0, 0.0)": -0.0, "atan2(inf, -inf)": 3 * math.pi / 4, "pow(nan, 0.0)": 1.0,
    "pow(1.0, nan)": 1.0, "pow(-0.0, -3.0)": -math.inf, "pow(-inf, 3.0)": -math.inf, "pow(-1.0, inf)": 1.0,
    "divide(1.0, -0.0)": -math.inf, "divide(0.0, 0.0)": math.nan, "floor_divide(-0.0, 2.0)": -0.0,
    "remainder(-3.0, 2.0)": 1.0, "remainder(3.0, -2.0)": -1.0, "remainder(5.0, inf)": 5.0, "sign(nan)": math.nan,
    "sign(-0.0)": 0.0, "sqrt(-0.0)": -0.0, "sqrt(-1.0)": math.nan, "log(0.0)": -math.inf, "log1p(-0.0)": -0.0,
    "expm1(-inf)": -1.0, "exp(-inf)": 0.0, "acosh(0.5)": math.nan, "atanh(1.0)": math.inf, "round(2.5)": 2.0,
    "round(-0.5)": -0.0, "ceil(-0.5)": -0.0, "trunc(-0.5)": -0.0, "floor(-0.0)": -0.0, "copysign(nan, -1.0)": math.nan,
    "hypot(inf, nan)": math.inf, "maximum(nan, 1.0)": math.nan, "minimum(1.0, nan)": math.nan, "tanh(-inf)": -1.0,
    "logaddexp(-inf, -inf)": -math.inf, "signbit(-0.0)": True, "isfinite(nan)": False, "reciprocal(-0.0)": -math.inf,
    "nextafter(0.0, 1.0)": 5e-324, "abs(-0.0)": 0.0, "square(-inf)": math.inf, "sum([])": 0.0, "prod([])": 1.0,
    "mean([])": math.nan, "max([1.0, nan])": math.nan, "min([nan, 1.0])": math.nan, "all([])": True, "any([])": False,
    "var([1.0], correction=1.0)": math.nan,
}  # fmt: skip


@pytest.mark.parametrize("call", CASES)
def test_special_cases_of_the_standard(call: str) -> None:
    name, _, rest = call[:-1].partition("(")
    numbers = {"nan": math.nan, "inf": math.inf}
    args, options = eval(f"(lambda *a, **k: (a, k))({rest})", numbers)
    found = getattr(xp, name)(*[xp.asarray(a) for a in args], **options)
    assert_same(plain(found), np.asarray(CASES[call]), call)


def promoted(a: str, b: str) -> str:
    """The standard's table of promotion."""
    (kind_a, size_a), (kind_b, size_b) = ((n.rstrip("0123456789"), int(n.lstrip("intufloa"))) for n in (a, b))
    if kind_a == kind_b:
        return f"{kind_a}{max(size_a, size_b)}"
    signed, unsigned = (size_a, size_b) if kind_a == "int" else (size_b, size_a)
    return f"int{signed if signed > unsigned else 2 * unsigned}"


def test_promotion_does_not_depend_on_the_number_of_axes() -> None:
    pairs = [*itertools.product(FLOATS, FLOATS), *itertools.product(INTEGERS, INTEGERS)]
    for a, b in pairs:
        if {a[0], b[0]} == {"i", "u"} and "uint64" in (a, b):
            continue  # not in the table
        wanted = np.dtype(promoted(a, b))
        for m, n in ((), (2,)), ((2,), ()), ((2,), (2,)), ((), ()):
            x, y = xp.ones(m, dtype=np.dtype(a)), xp.ones(n, dtype=np.dtype(b))
            assert xp.add(x, y).dtype == wanted
            assert xp.where(xp.asarray(True), x, y).dtype == wanted
            assert xp.result_type(x, y) == xp.result_type(x.dtype, y.dtype) == wanted
        assert xp.concat([xp.ones(2, dtype=x.dtype), xp.ones(2, dtype=y.dtype)]).dtype == wanted


def test_python_numbers_yield() -> None:
    for dtype in (xp.float32, xp.float64):
        x = xp.ones(2, dtype=dtype)
        assert {f(x, n).dtype for f in (xp.add, xp.pow, xp.maximum, xp.atan2) for n in (2, 2.0)} == {dtype}
        assert {f(n, x).dtype for f in (xp.subtract, xp.pow, xp.divide) for n in (2, 2.0)} == {dtype}
        assert xp.where(x > 0, 1.0, x).dtype == xp.clip(x, 0, 1.0).dtype == dtype
    for name in INTEGERS:
        x = xp.ones(2, dtype=np.dtype(name))
        assert xp.add(x, 1).dtype == xp.multiply(2, x).dtype == xp.pow(x, 2).dtype == x.dtype
    assert xp.logical_and(xp.asarray([True]), False).dtype == xp.bool


def test_sums_of_integers_are_of_the_default_dtype() -> None:
    for name in INTEGERS:
        x = xp.ones(3, dtype=np.dtype(name))
        wanted = xp.int64 if name[0] == "i" else xp.uint64
        assert {f(x).dtype for f in (xp.sum, xp.prod, xp.cumulative_sum, xp.cumulative_prod)} == {wanted}


def test_the_default_dtype_is_that_of_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    before = tracegrad.get_default_dtype()
    tracegrad.set_default_dtype(tracegrad.float32)
    try:
        made = xp.zeros(2), xp.asarray(1.5), xp.linspace(0, 1, 3), xp.arange(1.0), xp.full(2, 0.5), xp.eye(2)
        made += xp.empty(1), xp.ones(1), xp.fft.fftfreq(3)
        assert {t.dtype for t in made} == {xp.float32}
        assert xp.__array_namespace_info__().default_dtypes()["real floating"] == xp.float32
    finally:
        tracegrad.set_default_dtype(before)
    assert xp.zeros(2).dtype == xp.float64


def test_asarray_copies_as_it_is_told() -> None:
    array = np.arange(3.0)
    shared, copied = xp.asarray(array, copy=False), xp.asarray(array, copy=True)
    array[0] = 7.0
    assert (float(shared[0]), float(copied[0])) == (7.0, 0.0)
    assert xp.asarray(shared) is xp.asarray(shared, copy=False) is shared
    x = xp.asarray(shared, copy=True).requires_grad_()
    xp.sum(xp.asarray(x, copy=True, dtype=xp.float32)).backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    for obj, dtype in ((array, xp.float32), ([1.0], None), (1.0, None), (shared, xp.int64)):
        with pytest.raises(ValueError, match="has to be copied"):
            xp.asarray(obj, dtype=dtype, copy=False)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="can't be written"):
        xp.asarray(array, copy=False)


def test_reshape_and_astype_copy_as_they_are_told() -> None:
    x = xp.reshape(xp.arange(6.0), (2, 3))
    xp.reshape(x, (6,))[0] = 9.0
    xp.reshape(x, (6,), copy=True)[1] = 9.0
    assert x[0].tolist() == [9.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="view size"):
        xp.reshape(xp.matrix_transpose(x), (6,), copy=False)
    assert xp.astype(x, x.dtype, copy=False) is x
    assert xp.astype(x, x.dtype) is not x


def test_limits_are_python_numbers() -> None:
    found = xp.finfo(xp.float32)
    assert (found.bits, found.eps, found.dtype) == (32, 2.0**-23, xp.float32)
    assert {type(v) for v in (found.eps, found.max, found.min, found.smallest_normal)} == {float}
    assert (xp.iinfo(xp.uint8).max, xp.iinfo(xp.asarray(1)).min, xp.iinfo(xp.int8).bits) == (255, -(2**63), 8)
    assert xp.finfo(xp.ones(1)).max == np.finfo(float).max


def test_info() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() in info.devices()
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}


def test_errors_say_what_to_write() -> None:
    t = xp.ones(2)
    with pytest.raises(TypeError, match=r"sin\(\) takes Tensors, not list: tracegrad.array_api.asarray makes one"):
        xp.sin([1.0])
    with pytest.raises(TypeError, match="add"):
        xp.add(1, 2)
    with pytest.raises(TypeError, match="not str"):
        xp.add(t, "text")
    with pytest.raises(ValueError, match="axes of size 1"):
        xp.squeeze(t, axis=0)
    with pytest.raises(ValueError, match="at least 2 axes"):
        xp.matrix_transpose(t)
    with pytest.raises(ValueError, match="takes vectors"):
        xp.linalg.outer(t, xp.ones((2, 2)))
    with pytest.raises(ValueError, match="axes of size 3"):
        xp.linalg.cross(t, t)
    with pytest.raises(TypeError, match="positional"):
        xp.sum(x=t)
