"""NumPy's ufuncs, their methods, and the functions that stand beside them (``clip``, ``nan_to_num``, ``sinc``)."""

from __future__ import annotations

import numpy as np

from .case import Case

ANY = np.array([[0.3, -1.2, 2.1], [0.7, 1.3, -0.4]])
SMALL = np.array([0.3, -0.6, 0.8])  # inside (-1, 1)
POSITIVE = np.array([0.3, 1.2, 2.7])
LARGE = np.array([1.3, 2.2, 3.7])  # above 1
ROW = np.array([0.9, 2.4, -1.7])
A, B = np.array([0.4, -1.3]), np.array([1.1, 0.6])  # parts of complex numbers
PAIR = [ANY, ROW]  # of two shapes

_UNARY = [
    ("sin cos tan sinh cosh tanh arctan arcsinh exp exp2 expm1 cbrt", ANY),
    ("absolute fabs negative positive square reciprocal conjugate deg2rad degrees rad2deg radians", ANY),
    ("arcsin arccos arctanh", SMALL),
    ("sqrt log log2 log10 log1p", POSITIVE),
    ("arccosh", LARGE),
]
_BINARY = [
    ("add subtract multiply divide arctan2 hypot maximum minimum fmax fmin logaddexp logaddexp2 copysign", PAIR),
    ("remainder fmod", PAIR),
    ("power float_power", [POSITIVE, np.array([2.5, -1.0, 0.5])]),
]
_OF_COMPLEX = (
    "sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p sqrt "
    "square reciprocal absolute negative conjugate"
)
_STEPS = "floor ceil rint trunc sign signbit isfinite isinf isnan logical_not"
_TESTS = "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor floor_divide"


def _case(name: str, args: list[np.ndarray], order: int = 2) -> Case:
    return Case(f"numpy.{name}", getattr(np, name), args, order)


def _of_complex(name: str) -> Case:
    ufunc = getattr(np, name)
    return Case(f"numpy.{name}", lambda a, b: ufunc(a + 1j * b), [A, B], label="complex")


def _logs(x: np.ndarray) -> list[np.ndarray]:
    """Methods of a ufunc with a derivative through each."""
    return [np.logaddexp.reduce(x, axis=0), np.logaddexp.reduce(x, axis=1, keepdims=True)]


def _added_at(x: np.ndarray) -> np.ndarray:
    total = np.zeros(4)
    np.add.at(total, [0, 2, 2], x)
    np.multiply.at(total, [2], x[0])
    return total


def _product(x: np.ndarray) -> np.ndarray:
    """A product of a list, written into one array that is read afterwards."""
    out = np.zeros(2)
    np.multiply([x[0], x[1]], x[1:], out=(out,))
    return out**2


CASES = [
    *[_case(name, [x]) for names, x in _UNARY for name in names.split()],
    *[_case(name, args) for names, args in _BINARY for name in names.split()],
    *[_of_complex(name) for name in _OF_COMPLEX.split()],
    *[_case(name, [ANY], 0) for name in _STEPS.split()],
    *[_case(name, PAIR, 0) for name in _TESTS.split()],
    Case("numpy.add", lambda x, y: np.add(x, y, where=ANY > 0, out=np.ones((2, 3))), PAIR, label="where"),
    Case("numpy.exp", lambda x: np.exp(x, out=np.empty((2, 3))), [ANY], label="out"),
    Case("numpy.exp", lambda x: np.exp(x, dtype=np.float64), [ANY], label="dtype"),
    Case("numpy.sqrt", lambda x: np.sqrt(x, np.zeros(3)), [POSITIVE], label="out-by-position"),
    Case("numpy.power", lambda x: np.power(x, 3), [ANY], label="integer"),
    Case("numpy.power", lambda x: 2.0**x, [ANY], label="of-a-number"),
    Case("numpy.power", lambda a, b: (a + 1j * b) ** (1.5 + 0.5j), [A, B], label="complex"),
    Case("numpy.divide", lambda a, b: (a + 2j) / (b - 1j * a), [A, B], label="complex"),
    Case("numpy.multiply", lambda a, b: (a + 2j) * (b - 1j * a), [A, B], label="complex"),
    Case("numpy.divmod", lambda x, y: np.divmod(x, y)[1], PAIR),
    Case("numpy.modf", np.modf, [ANY]),
    Case("numpy.frexp", np.frexp, [ANY]),
    Case("numpy.ldexp", lambda x: np.ldexp(x, [[2], [-1]]), [ANY]),
    Case("numpy.nextafter", np.nextafter, PAIR),
    Case("numpy.spacing", lambda x: x * np.spacing(2.0), [ANY], 0),
    Case("numpy.heaviside", lambda x: np.heaviside(x, 0.5), [ANY], 0),
    Case("numpy.matmul", np.matmul, [ANY, ANY.T]),
    Case("numpy.matmul", np.matmul, [np.stack([ANY, 2 * ANY]), ROW], label="stack-vector"),
    Case("numpy.vecdot", np.vecdot, [ANY, ROW]),
    Case("numpy.matvec", lambda x, y: np.matvec(x, y), [ANY, ROW]),
    Case("numpy.vecmat", lambda x, y: np.vecmat(x, y), [ROW, ANY.T]),
    Case("numpy.bitwise_and", lambda x: (x > 0) & (x < 1), [ANY], 0),
    Case("numpy.bitwise_or", lambda x: (x > 0) | (x < -1), [ANY], 0),
    Case("numpy.bitwise_xor", lambda x: (x > 0) ^ (x < -1), [ANY], 0),
    Case("numpy.invert", lambda x: ~(x > 0), [ANY], 0),
    Case("numpy.left_shift", lambda x: np.argsort(x) << 2, [ROW], 0),
    Case("numpy.right_shift", lambda x: np.argsort(x) >> 1, [ROW], 0),
    # methods
    Case("numpy.logaddexp", _logs, [ANY], label="reduce"),
    Case("numpy.multiply", lambda x: np.multiply.reduce(x, axis=-1), [ANY], label="reduce"),
    Case("numpy.add", lambda x: np.add.reduce(x, initial=2.0, where=ANY > 0), [ANY], label="reduce"),
    Case("numpy.add", lambda x: np.add.accumulate(x, axis=1), [ANY], label="accumulate"),
    Case("numpy.maximum", lambda x: np.maximum.accumulate(x), [ROW], label="accumulate"),
    Case("numpy.multiply", lambda x, y: np.multiply.outer(x, y), PAIR, label="outer"),
    Case("numpy.add", lambda x: np.add.reduceat(x, [0, 2]), [ROW], label="reduceat"),
    Case("numpy.maximum", lambda x: np.maximum.reduceat(x, np.arange(len(x))[::2]), [ROW], label="reduceat"),
    Case("numpy.add", _added_at, [POSITIVE], label="at"),
    # of lists of traced values
    Case("numpy.maximum", lambda x, y: np.maximum.reduce([x, 2.2 * y, -x]), [ROW, POSITIVE], label="reduce-list"),
    Case("numpy.add", lambda x: np.add.outer([x[0], x[1]], x), [ROW], label="outer-list"),
    Case("numpy.logical_and", lambda x: np.logical_and.reduce((x > 0, x < 1)), [ROW], 0, label="reduce-list"),
    Case("numpy.multiply", _product, [ROW], label="list-out"),
    Case("numpy.lib.scimath.sqrt", lambda x: np.emath.sqrt([x[0], x[2]]), [ROW], label="list"),
    # beside them
    Case("numpy.clip", lambda x: np.clip(x, -1.0, 1.5), [ANY]),
    Case("numpy.clip", lambda x, y: np.clip(x, None, y), PAIR, label="array"),
    Case("numpy.clip", lambda x: np.clip(x, min=0.0), [ANY], label="keywords"),
    Case("numpy.nan_to_num", lambda x: np.nan_to_num(np.where(x > 2, np.nan, x), nan=1.0, posinf=2.0), [ANY]),
    Case("numpy.real", lambda a, b: np.real(np.exp(a + 1j * b)), [A, B]),
    Case("numpy.imag", lambda a, b: np.imag(np.exp(a + 1j * b)), [A, B]),
    Case("numpy.imag", lambda x: x + np.imag(x), [ANY], label="of-reals"),
    Case("numpy.angle", lambda a, b: np.angle(a + 1j * b), [A, B]),
    Case("numpy.angle", lambda a, b: np.angle(a + 1j * b, deg=True), [A, B], label="degrees"),
    Case("numpy.real_if_close", lambda x: np.real_if_close(x + 0j), [ANY]),
    Case("numpy.real_if_close", lambda a, b: np.real_if_close(a + 1j * b), [A, B], label="complex"),
    Case("numpy.sinc", np.sinc, [ANY]),
    Case("numpy.sinc", np.sinc, [np.zeros(1)], label="at-0"),
    Case("numpy.i0", np.i0, [ANY]),
    Case("numpy.fix", np.fix, [ANY], 0),
    Case("numpy.round", lambda x: np.round(x, 1), [ANY], 0),
    Case("numpy.around", lambda x: np.around(x, 1), [ANY], 0),
    Case("numpy.isposinf", np.isposinf, [ANY], 0),
    Case("numpy.isneginf", np.isneginf, [ANY], 0),
    Case("numpy.unwrap", np.unwrap, [np.array([0.3, 3.0, 6.5, 9.1])]),
    Case("numpy.unwrap", lambda x: np.unwrap(x, period=2.0, axis=0), [3 * ANY], label="period"),
    Case("numpy.lib.scimath.sqrt", np.emath.sqrt, [ANY]),
    Case("numpy.lib.scimath.sqrt", np.emath.sqrt, [POSITIVE], label="real"),
    Case("numpy.lib.scimath.log", np.emath.log, [ANY]),
    Case("numpy.lib.scimath.log2", np.emath.log2, [ANY]),
    Case("numpy.lib.scimath.log10", np.emath.log10, [ANY]),
    Case("numpy.lib.scimath.logn", lambda x: np.emath.logn(3.0, x), [ANY]),
    Case("numpy.lib.scimath.power", lambda x: np.emath.power(x, 1.5), [ANY]),
    Case("numpy.lib.scimath.arcsin", np.emath.arcsin, [2 * ANY]),
    Case("numpy.lib.scimath.arccos", np.emath.arccos, [2 * ANY]),
    Case("numpy.lib.scimath.arctanh", np.emath.arctanh, [2 * ANY]),
]
