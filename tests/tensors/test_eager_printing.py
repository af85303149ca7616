"""How tensors are printed: exact texts, and the same as PyTorch's on random arrays where PyTorch is installed."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import tracegrad
from tracegrad.tensors import printing
from tracegrad.tensors.printing import format_tensor, set_printoptions

F64, F32, I64 = (np.dtype(name) for name in ("float64", "float32", "int64"))
NAN, INF = np.nan, np.inf


@pytest.fixture(autouse=True)
def default_options():
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def text(data, dtype=None, **how):
    """The text of an array of *data*, float64 being the default dtype."""
    return format_tensor(np.array(data, dtype), **{"default_dtype": F64, **how})


ONE_LINE = [
    (10.0, None, "tensor(10.)"),
    (-0.0, None, "tensor(-0.)"),
    (3.25, None, "tensor(3.2500)"),
    (1e-5, None, "tensor(1.0000e-05)"),
    (123456789.0, None, "tensor(1.2346e+08)"),
    (NAN, None, "tensor(nan)"),
    (-INF, None, "tensor(-inf)"),
    (7, None, "tensor(7)"),
    (True, None, "tensor(True)"),
    ([1, 2], None, "tensor([1, 2])"),
    ([100, -5, 7], None, "tensor([100,  -5,   7])"),
    ([True, False], None, "tensor([ True, False])"),
    ([1.0, 2.0], None, "tensor([1., 2.])"),
    ([0.0, 0.0], None, "tensor([0., 0.])"),
    ([1.0, 2.5], None, "tensor([1.0000, 2.5000])"),
    # what is not finite has no say in the width, nor in whether floats are whole
    ([1.5, NAN, -INF], None, "tensor([1.5000,    nan,   -inf])"),
    ([1.0, NAN, INF], None, "tensor([1., nan, inf])"),
    # scientific: a ratio above 1000, a magnitude above 1e8 or below 1e-4
    ([1.0, 1000.0], None, "tensor([   1., 1000.])"),
    ([1.0, 1001.0], None, "tensor([1.0000e+00, 1.0010e+03])"),
    ([0.5, 500.5], None, "tensor([5.0000e-01, 5.0050e+02])"),
    ([0.0, 1e8], None, "tensor([        0., 100000000.])"),
    ([0.0, 1.1e8], None, "tensor([0.0000e+00, 1.1000e+08])"),
    ([1e-4, 1e-4], None, "tensor([0.0001, 0.0001])"),
    ([9.9e-5, 9.9e-5], None, "tensor([9.9000e-05, 9.9000e-05])"),
    # dtypes other than the default, int64 and bool are named
    ([1, 2], "int32", "tensor([1, 2], dtype=tracegrad.int32)"),
    ([1, 2], "uint8", "tensor([1, 2], dtype=tracegrad.uint8)"),
    ([1.0, 2.0], "float32", "tensor([1., 2.], dtype=tracegrad.float32)"),
    # without elements the size is shown, except (0,), and every dtype but the default
    ([], None, "tensor([])"),
    (np.zeros((0, 3)), None, "tensor([], size=(0, 3))"),
    ([], "int64", "tensor([], dtype=tracegrad.int64)"),
    (np.zeros((2, 0)), "bool", "tensor([], size=(2, 0), dtype=tracegrad.bool)"),
    # from 1001 elements on the middle is left out
    (np.arange(1001), None, "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (np.arange(1001.0), None, "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])"),
]


@pytest.mark.parametrize(("data", "dtype", "expected"), ONE_LINE, ids=[e[:40] for _, _, e in ONE_LINE])
def test_one_line(data, dtype, expected):
    assert text(data, dtype) == expected


def test_the_default_dtype_is_not_named():
    assert text([1.0], "float32", default_dtype=F32) == "tensor([1.])"
    assert text([1.0], default_dtype=F32) == "tensor([1.], dtype=tracegrad.float64)"
    assert text([], default_dtype=F32) == "tensor([], dtype=tracegrad.float64)"


def test_what_is_said_of_the_gradient():
    assert text(10.0, grad_fn_name="AddBackward0") == "tensor(10., grad_fn=<AddBackward0>)"
    assert text([1.0, 2.0], requires_grad=True) == "tensor([1., 2.], requires_grad=True)"
    assert text(2.0, requires_grad=True, grad_fn_name="MulBackward0") == "tensor(2., grad_fn=<MulBackward0>)"
    expected = "tensor([], size=(0, 3), dtype=tracegrad.float32, requires_grad=True)"
    assert text(np.zeros((0, 3)), "float32", requires_grad=True) == expected


def test_a_prefix_stands_before_everything():
    shown = text([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, prefix="Parameter containing:\n")
    assert shown == dedent("""\
        Parameter containing:
        tensor([[1., 2.],
                [3., 4.]], requires_grad=True)""")


def test_matrices_and_blank_lines_between_them():
    assert text([[1e-10, 1.0], [2.0, 3.0]]) == dedent("""\
        tensor([[1.0000e-10, 1.0000e+00],
                [2.0000e+00, 3.0000e+00]])""")
    assert text(np.arange(8.0).reshape(2, 2, 2)) == dedent("""\
        tensor([[[0., 1.],
                 [2., 3.]],

                [[4., 5.],
                 [6., 7.]]])""")
    assert text(np.arange(8).reshape(2, 1, 2, 2)) == dedent("""\
        tensor([[[[0, 1],
                  [2, 3]]],


                [[[4, 5],
                  [6, 7]]]])""")


def test_lines_of_80_characters():
    assert text(np.arange(30) / 7) == dedent("""\
        tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,
                1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,
                2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,
                3.8571, 4.0000, 4.1429])""")


def test_a_note_that_does_not_fit_begins_a_line():
    assert text(np.arange(9) / 7, requires_grad=True) == dedent("""\
        tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429],
               requires_grad=True)""")
    assert text(np.arange(7) / 7, "float32", grad_fn_name="AddBackward0") == dedent("""\
        tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571],
               dtype=tracegrad.float32, grad_fn=<AddBackward0>)""")


def test_large_matrices_show_their_corners():
    row = "[0., 0., 0.,  ..., 0., 0., 0.]"
    indent = " " * 8
    rows = [row] * 3 + ["..."] + [row] * 3
    assert text(np.zeros((40, 40))) == "tensor([" + f",\n{indent}".join(rows) + "])"
    assert (
        text(np.zeros((500, 3)))
        == "tensor([" + f",\n{indent}".join(["[0., 0., 0.]"] * 3 + ["..."] + ["[0., 0., 0.]"] * 3) + "])"
    )


def test_what_is_not_shown_has_no_say_in_the_style():
    x = np.ones(1001)
    x[500] = 0.123
    assert text(x) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


OPTIONS = [
    ({"precision": 2}, np.array([1.12345]), "tensor([1.12])"),
    ({"threshold": 5}, np.arange(10), "tensor([0, 1, 2,  ..., 7, 8, 9])"),
    ({"threshold": 5, "edgeitems": 1}, np.arange(10), "tensor([0,  ..., 9])"),
    ({"threshold": 5, "edgeitems": 0}, np.arange(10), "tensor([...], size=(10,))"),
    ({"linewidth": 20}, np.arange(6), "tensor([0, 1, 2, 3,\n        4, 5])"),
    ({"sci_mode": True}, np.array([1.0, 2.0]), "tensor([1.0000e+00, 2.0000e+00])"),
    ({"sci_mode": False}, np.array([1.0, 12345.5]), "tensor([    1.0000, 12345.5000])"),
    ({"profile": "short"}, np.array([1.12345]), "tensor([1.12])"),
    ({"profile": "short", "precision": 1}, np.array([1.12345]), "tensor([1.1])"),
]


@pytest.mark.parametrize(("options", "array", "expected"), OPTIONS, ids=[str(o) for o, _, _ in OPTIONS])
def test_options(options, array, expected):
    set_printoptions(**options)
    assert text(array) == expected


def test_options_stay_until_they_are_changed():
    set_printoptions(precision=2, sci_mode=True)
    set_printoptions(linewidth=100)
    assert text([0.5]) == "tensor([0.50])"  # sci_mode alone is forgotten, as in PyTorch
    set_printoptions(profile="full")
    assert "..." not in text(np.arange(2000))
    with pytest.raises(ValueError, match="there is no print profile 'tiny'; there are 'default', 'short', 'full'"):
        set_printoptions(profile="tiny")


# ---- against PyTorch ------------------------------------------------------------------------------------------------


@pytest.fixture
def torch(monkeypatch):
    """PyTorch with float64 as its default, and our dtypes named as its own."""
    module = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
    before = module.get_default_dtype()
    module.set_default_dtype(module.float64)
    monkeypatch.setattr(printing, "PACKAGE", "torch")
    yield module
    module.set_default_dtype(before)
    module.set_printoptions(profile="default")


SHAPES = [
    (),
    (0,),
    (0, 3),
    (1,),
    (7,),
    (25,),
    (2, 3),
    (2, 3, 4),
    (1, 1, 1, 2),
    (1200,),
    (40, 40),
    (7, 7, 30),
    (2000, 1),
]
DTYPES = "float64 float32 int64 int32 int16 int8 uint8 bool".split()


def random_array(shape, dtype, rng):
    """An array of random magnitudes, which may hold whole numbers, NaN and infinities."""
    if dtype == "bool":
        return np.asarray(rng.random(shape) < rng.choice([0.0, 0.5, 1.0]))
    if dtype[0] in "iu":
        top = min(int(np.iinfo(dtype).max), 10 ** int(rng.integers(1, 18)))
        low = max(int(np.iinfo(dtype).min), -top) if rng.random() < 0.5 else 0
        return np.asarray(rng.integers(low, top, shape, dtype, endpoint=True))
    x = rng.standard_normal(shape)
    with np.errstate(all="ignore"):
        kind = rng.integers(0, 7)
        if kind == 0:
            x = x * 10.0 ** rng.integers(-8, 12)
        elif kind == 1:
            x = np.round(x * 10.0 ** rng.integers(0, 10))
        elif kind == 2:
            x = np.exp(x * rng.integers(1, 40))
        elif kind == 3:
            x = np.where(rng.random(shape) < 0.3, NAN, x)
        elif kind == 4:
            x = np.where(rng.random(shape) < 0.3, INF, np.round(x * 5))
        elif kind == 5:
            x = np.where(rng.random(shape) < 0.5, -INF, np.where(rng.random(shape) < 0.5, NAN, -0.0))
        return np.asarray(x, dtype)


def both(torch, array, gradient):
    """(PyTorch's text, ours) of *array*, with requires_grad, a grad_fn or neither."""
    tensor = torch.from_numpy(array)
    how = {}
    if gradient:
        tensor, how = tensor.clone().requires_grad_(), {"requires_grad": True}
    if gradient == "grad_fn":
        tensor, how = tensor * 1, {"requires_grad": True, "grad_fn_name": "MulBackward0"}
    default = np.dtype(str(torch.get_default_dtype()).removeprefix("torch."))
    return repr(tensor), format_tensor(array, default_dtype=default, **how)


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_pytorch(torch, dtype):
    rng = np.random.default_rng(DTYPES.index(dtype))
    for shape in SHAPES * 5:
        array = random_array(shape, dtype, rng)
        for gradient in (None, "leaf", "grad_fn") if dtype.startswith("float") else (None,):
            theirs, ours = both(torch, array, gradient)
            assert ours == theirs
        if array.ndim > 1:
            assert format_tensor(np.asfortranarray(array), default_dtype=F64) == both(torch, array, None)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_pytorch_with_float32_as_the_default(torch, dtype):
    torch.set_default_dtype(torch.float32)
    rng = np.random.default_rng(100 + DTYPES.index(dtype))
    for shape in SHAPES:
        theirs, ours = both(torch, random_array(shape, dtype, rng), None)
        assert ours == theirs


ALL_OPTIONS = [
    {"precision": 2}, {"precision": 0}, {"threshold": 5}, {"edgeitems": 1, "threshold": 5}, {"linewidth": 40},
    {"edgeitems": 0, "threshold": 5}, {"edgeitems": 0}, {"linewidth": 5}, {"threshold": 3, "linewidth": 30},
    {"sci_mode": True}, {"sci_mode": False}, {"profile": "short"}, {"profile": "full"},
]  # fmt: skip


@pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)
def test_as_pytorch_with_options(torch, options):
    torch.set_printoptions(**options)
    set_printoptions(**options)
    rng = np.random.default_rng(0)
    for shape in [(), (0, 3), (3,), (25,), (2, 3), (2, 3, 4), (9, 9, 2)]:
        for dtype in ("float64", "float32", "int64", "bool"):
            theirs, ours = both(torch, random_array(shape, dtype, rng), None)
            assert ours == theirs


# ---- histories -----------------------------------------------------------------------------------------------------


def without_grad(view, data=((1.0, 2.0), (3.0, 4.0))):
    base = tracegrad.tensor(data, requires_grad=True)
    with tracegrad.no_grad():
        return base, view(base)


VIEWS = {
    "[:]": (lambda a: a[:], "[[2., 4.],\n        [6., 8.]]"),
    "view": (lambda a: a.view(4), "[2., 4., 6., 8.]"),
    "item": (lambda a: a[0, 1], "4."),
    "of a view": (lambda a: a.t()[1:], "[[4., 8.]]"),
    "unbind": (lambda a: a.unbind()[1], "[6., 8.]"),
    "diagonal": (lambda a: a.diagonal(), "[2., 8.]"),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("written", ["the view", "the base"])
def test_a_view_whose_history_is_an_error(name, written):
    view, numbers = VIEWS[name]
    base, b = without_grad(view)
    assert "requires_grad=True" in repr(b)
    with tracegrad.no_grad():
        if written == "the base":
            base *= 2
        else:
            base[:].mul_(2)
            b += 0
    for text in (repr(b), str(b), f"{b!s}", "%s" % (b,), repr([b])[1:-1]):  # noqa: UP031
        assert text == f"tensor({numbers}, grad_fn=<Invalid>)"
    assert "Invalid" in b._repr_html_()
    with pytest.raises(RuntimeError, match="no_grad mode"):
        b.grad_fn  # noqa: B018
    assert repr(b.detach()) == f"tensor({numbers})"


def test_views_of_views_and_of_inference_tensors():
    base, b = without_grad(lambda a: a[:])
    c = b[0]
    assert repr(c) == "tensor([1., 2.], grad_fn=<SelectBackward0>)"
    with tracegrad.no_grad():
        b.mul_(3)
    assert repr(c) == "tensor([3., 6.], grad_fn=<Invalid>)"
    with tracegrad.inference_mode():
        z = tracegrad.ones(2, requires_grad=True)[:]
        z.mul_(2)
    assert repr(z) == "tensor([2., 2.])" and not z.requires_grad
    parts = (base * 2).split(1)
    parts[0]._base.mul_(2)
    assert repr(parts[0]).endswith("grad_fn=<Invalid>)") and repr(base).endswith("requires_grad=True)")


def test_a_view_made_without_grad_is_a_leaf():
    base, b = without_grad(lambda a: a[0])
    assert b.requires_grad and b.is_leaf
    (b * 3).sum().backward()
    assert b.grad.tolist() == [3.0, 3.0] and base.grad is None
