"""Complex tensors: against PyTorch, which has the same convention of gradients, and against differences of values.

The gradient of a real loss by z = x + iy is dL/dx + i dL/dy.
"""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from complex_expressions import EXPRESSIONS, LEAVES, arrays, evaluated, gradients, listed, numbers, weights
from numpy.exceptions import ComplexWarning
from selection import seeds
from support import assert_agree

import tracegrad
from tracegrad import compile_grad, nn, optim
from tracegrad.tensors.compiled_backward import tapes

T, F = tracegrad, nn.functional
C64, C128, F32, F64 = T.complex64, T.complex128, T.float32, np.dtype("float64")
GROUPS = pytest.mark.parametrize("group", EXPRESSIONS)
rng = np.random.default_rng(3)
A = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
V = A[0]

NOT_IN_TORCH = {  # errors there
    "x.sum(dtype=z.dtype)", "T.where(mask,x,z)", "z.nan_to_num()", "T.isin(z,w)",
}  # fmt: skip


@pytest.fixture
def torch():
    """PyTorch, with our default dtype."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    yield torch
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)


def leaf(array, **options):
    return T.tensor(array, requires_grad=True, **options)


def slopes(loss, array, step=1e-6):
    """Differences of a real *loss* of a complex array: dL/dx + i dL/dy."""
    found = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        for direction in (1, 1j):
            moved = np.zeros_like(array)
            moved[index] = step * direction
            found[index] += direction * (loss(array + moved) - loss(array - moved)) / (2 * step)
    return found


# ---- the table of expressions --------------------------------------------------------------------------------------


@GROUPS
@pytest.mark.parametrize("single", [False, True], ids=["complex128", "complex64"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_as_in_torch(group, single, torch):
    tolerance = 2e-5 if single else 1e-10
    wrong = []
    for text in listed(group):
        if text in NOT_IN_TORCH:
            continue
        (want, there), (got, here) = (evaluated(library, text, arrays(single)) for library in (torch, T))
        if not isinstance(want, torch.Tensor):
            same = want == pytest.approx(got) if isinstance(want, complex) else str(want).endswith(str(got))
            wrong += [] if same else [f"{text}: {want} in torch, here {got}"]
            continue
        pairs = [("value", numbers(want), numbers(got), tolerance)]
        wanted, found = gradients(torch, want, there), gradients(T, got, here)
        pairs += [(name, wanted[name], found.get(name), 20 * tolerance) for name in wanted]
        for name, w, g, limit in pairs:
            if w is None and g is None:
                continue
            if w is None or g is None or w.dtype != g.dtype or w.shape != g.shape:
                wrong.append(f"{text}, {name}: {w!r} in torch, here {g!r}")
            elif not np.allclose(g, w, rtol=limit, atol=limit, equal_nan=True):
                wrong.append(f"{text}, {name}: {w.ravel()[:4]} in torch, here {g.ravel()[:4]}")
        if want.requires_grad != got.requires_grad:
            wrong.append(f"{text}: requires_grad is {want.requires_grad} in torch")
    assert not wrong, "\n".join(["", *wrong])


@GROUPS
def test_gradients_by_differences(group):
    """The derivative in a direction, which takes two evaluations."""
    directions = {
        name: rng.normal(size=a.shape) * (1 if a.dtype.kind == "f" else 1 - 0.5j) for name, a in LEAVES.items()
    }
    wrong = []
    for text in listed(group):
        result, leaves = evaluated(T, text, arrays(False))
        found = gradients(T, result, leaves)
        if not found:
            continue
        ends = []
        for step in (1e-6, -1e-6):
            moved = {name: a + step * directions[name] for name, a in LEAVES.items()}
            value = numbers(evaluated(T, text, moved)[0])
            ends.append(float(np.sum((weights(result).conj() * value).real)))
        slope = sum(np.sum((g.conj() * directions[name]).real) for name, g in found.items() if g is not None)
        wanted = (ends[0] - ends[1]) / 2e-6
        single = result.dtype in (C64, F32)
        if not math.isclose(slope, wanted, rel_tol=1e-5, abs_tol=2 if single else 1e-6):
            wrong.append(f"{text}: {slope}, by differences {wanted}")
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.slow
@GROUPS
def test_compiled_backwards_give_the_same(group, monkeypatch):
    for text in listed(group):
        known = None
        for _ in range(3):  # node by node, then by a kernel
            monkeypatch.setattr(tapes, "credit", 1e3)  # for each expression
            result, leaves = evaluated(T, text, arrays(False))
            found = gradients(T, result, leaves)
            for name, g in found.items():
                if known is not None and g is not None:
                    np.testing.assert_allclose(g, known[name], rtol=1e-9, atol=1e-9, err_msg=f"{text}, {name}")
            known = found


SECOND = """
    (z.abs()**2*x).sum(); (z**3).real.sum(); (z*w).exp().abs().sum(); z.angle().sum(); (z/w).imag.sum();
    (z@w.conj()).abs(); ((z*x)**2).real.sum(); T.fft.fft(z).abs().sum(); T.view_as_real(z*z*w).prod();
    z.sgn().real.sum(); z.norm(); T.polar(x,x*2).imag.prod(); z.prod().abs(); (z.sqrt()*w.log()).imag.sum();
    T.complex(x,x**2).exp().abs().sum(); z.var(); (x**z).real.sum(); z.tanh().imag.sum(); (z*w.log1p()).abs().sum()
"""


@pytest.mark.parametrize("text", [text.strip() for text in SECOND.split(";")])
def test_second_derivatives(text):
    given = {"z": V, "w": np.array([0.5 + 1j, 1 - 2j, 0.7]), "x": np.array([1.0, 2.0, 0.5])}

    def squared_gradients(moved):
        """A real function of the gradients, and the leaves."""
        leaves = {name: leaf(array) for name, array in moved.items()}
        found = T.autograd.grad(
            eval(text, {"T": T, **leaves}), list(leaves.values()), create_graph=True, allow_unused=True
        )
        total = sum([(g.abs() ** 2 * T.tensor([1.0, 0.3, 2.0])).sum() for g in found if g is not None])
        return total, leaves

    total, leaves = squared_gradients(given)
    for name, g in zip(leaves, T.autograd.grad(total, list(leaves.values()), allow_unused=True), strict=True):
        direction = np.array([1.0, -0.5, 0.3]) * (1 if name == "x" else 1 - 2j)
        ends = [squared_gradients({**given, name: given[name] + h * direction})[0].item() for h in (1e-6, -1e-6)]
        slope = 0.0 if g is None else np.sum((g.numpy().conj() * direction).real)
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5)


class Squared(T.autograd.Function):
    """z², whose backward multiplies by the conjugate of the derivative."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z.conj()


class Wrong(Squared):
    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z


def test_gradcheck_sees_both_lanes():
    z, x = leaf(V), leaf([1.0, 2.0, 3.0])
    assert T.autograd.gradcheck(lambda z, x: (z * x).exp() * z.conj(), (z, x))
    assert T.autograd.gradcheck(T.abs, (z,)) and T.autograd.gradcheck(Squared.apply, (z,))
    assert T.autograd.gradgradcheck(lambda z, x: (z * z * x).sin(), (z, x))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        T.autograd.gradcheck(Wrong.apply, (z,))
    with pytest.raises(T.UnsupportedError, match="a Function of complex arrays is not supported in NumPy code"):
        compile_grad(lambda z: np.sum(np.abs(Squared.apply(z)))).grad(V)


def test_products_with_jacobians():
    z, v = T.tensor(V), T.tensor(V * 1j + 1)
    _, product = T.autograd.functional.jvp(lambda z: z * z * z.conj(), z, v)
    h = 1e-6
    ends = [(V + s * h * v.numpy()) ** 2 * (V + s * h * v.numpy()).conj() for s in (1, -1)]
    np.testing.assert_allclose(product.numpy(), (ends[0] - ends[1]) / (2 * h), rtol=1e-6)
    found = T.autograd.functional.jacobian(lambda z: z.abs() ** 2, z)
    np.testing.assert_allclose(found.numpy(), np.diag(2 * V))
    with pytest.raises(RuntimeError, match="jacobian of a result of complex128"):
        T.autograd.functional.jacobian(lambda z: z * z, z)


def test_the_convention():
    z = leaf(V)
    (z.abs() ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * V)
    with T.no_grad():
        z -= 0.25 * z.grad  # descends
    assert np.all(np.abs(z.detach().numpy()) < np.abs(V))


@pytest.mark.parametrize(
    "function",
    [
        np.linalg.inv, np.linalg.det, np.linalg.pinv, lambda a: np.linalg.solve(a, a.conj()),
        lambda a: np.linalg.qr(a)[1], lambda a: np.linalg.svd(a, compute_uv=False),
        lambda a: np.linalg.eigvalsh(a + a.mH),
        lambda a: np.linalg.cholesky(a @ a.mH + T.eye(3, dtype=a.dtype)), lambda a: np.fft.fft2(a) * np.conj(a),
        lambda a: np.real(a) + np.imag(a) + np.angle(a) + np.abs(a), lambda a: np.sign(a) + np.exp(a),
        lambda a: T.stack([np.linalg.norm(row, np.inf) for row in a]),
    ],
)  # fmt: skip
def test_functions_of_numpy(function):
    s = leaf(A)
    (function(s).abs() ** 2).sum().backward()
    found = slopes(lambda a: float(np.sum(np.abs(function(T.tensor(a)).numpy()) ** 2)), A)
    np.testing.assert_allclose(s.grad.numpy(), found, rtol=1e-6, atol=1e-6)


# ---- dtypes --------------------------------------------------------------------------------------------------------

PROMOTED = {  # of a row with a row, with a number
    (F32, C64): (C64, C64), (F64, C64): (C128, C128), (F32, C128): (C128, C64), (F64, C128): (C128, C128),
    (np.dtype("int32"), C64): (C64, C64), (np.dtype(bool), C128): (C128, C128), (C64, F64): (C128, C64),
    (C64, C128): (C128, C64), (C128, C64): (C128, C128), (T.float16, C64): (C64, C64),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PROMOTED, ids=str)
def test_promotion(a, b):
    row, other = T.tensor([1], dtype=a), T.tensor([1], dtype=b)
    both, with_number = PROMOTED[a, b]
    assert (row + other).dtype == (other * row).dtype == T.result_type(row, other) == both
    assert (row + other[0]).dtype == (other[0] * row).dtype == T.result_type(row, other[0]) == with_number


def test_numbers_of_python():
    for dtype, expected in ((F32, C64), (F64, C128), (C64, C64), ("int32", C128), (bool, C128)):
        row = T.tensor([1], dtype=dtype)
        assert (row * 1j).dtype == (1j + row).dtype == (row[0] * 1j).dtype == expected
        assert T.where(row == 1, row, 1j).dtype == expected
    assert T.tensor(1j).dtype == T.tensor([1, 2.0, 1j]).dtype == T.full((2,), 1j).dtype == C128
    assert T.tensor([1.0], dtype=complex).dtype == T.zeros(2, dtype="cdouble").dtype == C128
    before = T.get_default_dtype()
    T.set_default_dtype(F32)
    try:
        assert T.tensor(1j).dtype == (T.tensor([1]) * 1j).dtype == T.tensor([2], dtype=complex).dtype == C64
        assert (T.tensor([1.0], dtype=F64) * 1j).dtype == C128
    finally:
        T.set_default_dtype(before)
    assert T.cfloat == C64 and T.cdouble == C128


@pytest.mark.slow
def test_promotion_as_in_torch(torch):
    names = ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    for first in names:
        for second in names:
            if "float16" in first + second and "complex" in first + second and first != second:
                continue  # torch has a complex dtype of half precision
            for shapes in (((1,), (1,)), ((1,), ()), ((), (1,)), ((), ())):
                a, b = ([lib.ones(s, dtype=getattr(lib, n)) for s, n in zip(shapes, (first, second), strict=True)]
                        for lib in (torch, T))  # fmt: skip
                assert str(torch.result_type(*a)) == f"torch.{T.result_type(*b)}", (first, second, shapes)
            a, b = torch.ones(1, dtype=getattr(torch, first)), T.ones(1, dtype=getattr(T, first))
            if first not in ("float16",):
                assert str((a * 1j).dtype) == f"torch.{(b * 1j).dtype}"


def test_casts_to_real_numbers_warn_at_the_users_line():
    z = leaf(V)
    with pytest.warns(ComplexWarning, match="discards the imaginary part") as seen:
        y = z.to(F64)
    assert seen[0].filename == __file__
    (y * T.tensor([1.0, 2.0, 3.0])).sum().backward()
    np.testing.assert_array_equal(z.grad.numpy(), [1, 2, 3])
    with pytest.warns(ComplexWarning):
        assert T.tensor(V).int().tolist() == V.real.astype(int).tolist()
    with pytest.warns(ComplexWarning):
        x = T.zeros(3).copy_(T.tensor(V))
    with pytest.warns(ComplexWarning):
        x[:2] = T.tensor(V[:2])
    np.testing.assert_array_equal(x.numpy(), V.real)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert T.tensor([0j, 1j]).bool().tolist() == [False, True]
        assert z.to(C64).dtype == C64


def test_gradients_have_the_dtype_of_their_leaf():
    z, x = leaf(V, dtype=C64), leaf([1.0, 2.0, 3.0])
    (z * x * 1j).abs().sum().backward()
    assert z.grad.dtype == C64 and x.grad.dtype == F64
    np.testing.assert_allclose(x.grad.numpy(), np.abs(V), rtol=1e-6)


# ---- what is refused -----------------------------------------------------------------------------------------------

ORDER = """
    z<z; z<=1; 1>z; z>=x; x<z; x<1j; z.max(); z.max(0); z.min(); z.amax(0); z.amin(); z.argmax(); z.argmin(0); z.sort();
    z.argsort(); z.topk(1); z.kthvalue(1); z.median(); z.clamp(0,1); z.clamp_min(0); z.clip(max=1); T.maximum(z,x);
    T.fmin(x,z); z.floor(); z.ceil(); z.trunc(); z.round(); z.frac(); z.sign(); z.relu(); z.abs_(); z.floor_();
    z.clamp_(0,1); T.atan2(z,z); T.searchsorted(z,z); T.heaviside(z,z); z.aminmax()
"""
ALONE = """
    z//z; z//2; z%2; T.fmod(z,2); T.erfinv(z); z.lgamma(); z.logit(); T.deg2rad(z); z&z; z.exponential_();
    F.relu(z); F.gelu(z); F.softplus(z); F.mse_loss(z,z); F.huber_loss(z,z); F.layer_norm(z,(3,)); F.kl_div(z,z);
    F.cross_entropy(z,z); F.leaky_relu(z); F.rms_norm(z,(3,)); F.batch_norm(z[None],x,x); F.group_norm(z[None],1);
    F.max_pool2d(z[None,None],1); F.silu(z); T.bernoulli(z)
"""


def refused(texts, match):
    space = {"T": T, "F": F, "z": T.tensor(V), "x": T.tensor([1.0, 2.0, 3.0])}
    for text in [text.strip() for text in texts.split(";")]:
        with pytest.raises(NotImplementedError, match=match):
            eval(text, space)


def test_what_needs_an_order_is_refused():
    refused(ORDER, r"not implemented for complex tensors, whose elements have no order: take x\.abs\(\), x\.real")


def test_functions_of_real_numbers_are_refused():
    refused(ALONE, r"not implemented for complex tensors: compose it")


def test_softmax_and_quantiles_are_refused():
    z = T.tensor(V)
    for call in (lambda: z.softmax(0), lambda: F.log_softmax(z, 0), lambda: z.quantile(0.5), lambda: z.histc()):
        with pytest.raises(
            (NotImplementedError, RuntimeError), match=r"not implemented for 'ComplexDouble'|float or double"
        ):
            call()


def test_mistakes():
    z, x = leaf(V), leaf([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="only for real scalar outputs but got complex128"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        z.sum().backward(T.tensor(1.0))
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        x.sum().backward(T.tensor(1j))
    for write in (lambda t: t.fill_(1j), lambda t: t.masked_fill_(t > 0, 1j), lambda t: t.__setitem__(0, 1j)):
        with pytest.raises(
            RuntimeError, match=r"cannot be converted to type float64.*it is complex; write its real part"
        ):
            write(x.detach())
    with pytest.raises(RuntimeError, match="result type ComplexDouble can't be cast to the desired output type Double"):
        x.detach().mul_(z.detach())
    with pytest.raises(RuntimeError, match="cannot be converted to type float64"):
        T.full((2,), 1j, dtype=F64)
    with pytest.raises(TypeError, match="complex"):
        T.tensor([1j], dtype=F64)
    with pytest.raises(TypeError, match="complex"):
        float(T.tensor(1j))
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        _ = x.imag
    with pytest.raises(RuntimeError, match="only supported for complex tensors"):
        T.view_as_real(x)
    for bad, match in ((T.zeros(3), "last dimension of size 2"), (T.zeros(2, 2).t(), "stride 1"), (z, "scalar type")):
        with pytest.raises(RuntimeError, match=match):
            T.view_as_complex(bad)
    with pytest.raises(RuntimeError, match="Double but got scalar type Float"):
        T.complex(x, x.float())
    with pytest.raises(RuntimeError, match="Half, Float or Double"):
        T.polar(z, x)
    with pytest.raises(IndexError, match="must be long"):
        x[T.tensor([1j])]
    with pytest.raises(
        RuntimeError, match="expected both vectors to have same dtype, but found ComplexDouble and Double"
    ):
        T.dot(z, x)
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        T.arange(3, dtype=C64)
    with pytest.raises(TypeError, match="only floating-point types"):
        T.set_default_dtype(C64)


# ---- views ---------------------------------------------------------------------------------------------------------


def test_parts_share_the_memory():
    z = T.tensor(V)
    z.real.zero_()
    z.imag[0] = 5
    T.view_as_real(z)[1, 0] = 7
    assert z.tolist() == [5j, complex(7, V[1].imag), complex(0, V[2].imag)]
    pairs = T.zeros(2, 2)
    T.view_as_complex(pairs)[0] = 1 - 2j
    assert pairs.tolist() == [[1, -2], [0, 0]]
    assert z._version == 3 and z.real._version == 3
    x = T.tensor([1.0])
    assert x.real is x and T.conj(x) is x


def test_writes_into_parts_have_derivatives():
    z, x = leaf(V), leaf([1.0, 2.0, 3.0])
    y = z * 1
    y.imag = x * x
    (y.conj() * y * y).imag.sum().backward()
    # Im(conj(y) y y) = (a² + b²) b with a = Re z, b = x²
    a, b = V.real, np.array([1.0, 4.0, 9.0])
    np.testing.assert_allclose(z.grad.numpy(), 2 * a * b)
    np.testing.assert_allclose(x.grad.numpy(), (a * a + 3 * b * b) * 2 * np.array([1.0, 2.0, 3.0]))


def test_a_saved_value_that_was_overwritten_is_an_error():
    z = leaf(V)
    y = z * 2
    loss = (y * y).abs().sum()
    y.real.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# ---- texts and other formats ---------------------------------------------------------------------------------------


TEXTS = [
    (1j, "tensor(0.+1.j)"),
    ([1 + 2j, 3 - 4j], "tensor([1.+2.j, 3.-4.j])"),
    ([0.5 + 1j, 2.0 + 30j], "tensor([0.5000+1.j, 2.0000+30.j])"),
    ([-1 - 1j, complex(10, -0.0)], "tensor([-1.-1.j, 10.-0.j])"),
    ([1e-7 + 1j, 1e9], "tensor([1.0000e-07+1.j, 1.0000e+09+0.j])"),
    ([complex(math.nan, 1), complex(1, math.inf)], "tensor([nan+1.j, 1.+infj])"),
    (np.zeros((2, 0), complex), "tensor([], size=(2, 0), dtype=tracegrad.complex128)"),
    (np.ones(1, C64), "tensor([1.+0.j], dtype=tracegrad.complex64)"),
]


@pytest.mark.parametrize(("data", "text"), TEXTS)
def test_texts(data, text):
    assert repr(T.tensor(data)) == text


def test_texts_are_those_of_torch(torch):
    for data, text in TEXTS:
        assert repr(torch.tensor(data)).replace("torch.", "tracegrad.") == text


def test_texts_with_facts():
    z = leaf([1j])
    assert repr(z) == "tensor([0.+1.j], requires_grad=True)"
    assert repr(z * 2) == "tensor([0.+2.j], grad_fn=<MulBackward0>)"
    assert f"{z.detach()[0]:.1f}" == "0.0+1.0j"
    assert "complex128" in z._repr_html_()
    assert z.type() == "torch.ComplexDoubleTensor"


def test_values_as_python_and_numpy_have_them():
    z = T.tensor(V)
    assert z[0].item() == complex(z[0]) == V[0] and z.tolist() == V.tolist()
    assert z.numpy().dtype == C128 and np.shares_memory(z.numpy(), z.numpy())
    assert bool(T.tensor(1j)) and not bool(T.tensor(0j))
    assert_agree(np.array([1j, 2, 3]) * z, V * np.array([1j, 2, 3]))
    assert T.tensor(V).is_complex() and not T.tensor([1.0]).is_complex() and not z.is_floating_point()


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_copies_and_files(dtype, tmp_path):
    z = T.tensor(A, dtype=dtype)
    for made in (pickle.loads(pickle.dumps(z)), copy.deepcopy(z), T.from_dlpack(z), T.from_numpy(z.numpy())):
        assert made.dtype == dtype and T.equal(made, z)
    T.save({"z": z}, tmp_path / "state.npz")
    assert T.equal(T.load(tmp_path / "state.npz")["z"], z)
    pytest.importorskip("safetensors", minversion="0.6", reason="safetensors is not installed, or has no complex64")
    if dtype == C128:
        with pytest.raises(TypeError, match="complex128, which the safetensors format has not: save to"):
            T.save({"z": z}, tmp_path / "state.safetensors")
        return
    T.save({"z": z}, tmp_path / "state.safetensors")
    assert T.equal(T.load(tmp_path / "state.safetensors")["z"], z)


def test_draws():
    T.manual_seed(0)
    z = T.randn(4000, dtype=C64)
    assert z.dtype == C64 and z.var().item() == pytest.approx(1, abs=0.1) and abs(z.mean().item()) < 0.1
    layer = nn.Linear(400, 50, dtype=C64)
    assert layer.weight.dtype == C64 and float(layer.weight.detach().imag.abs().max()) <= 0.05
    assert nn.init.normal_(z, 2.0, 3.0).mean().item() == pytest.approx(2, abs=0.5)
    assert z.var().item() == pytest.approx(9, rel=0.1) and z.real.var().item() == pytest.approx(4.5, rel=0.1)
    u = T.rand_like(T.tensor(V))
    assert u.dtype == C128 and bool(((u.real >= 0) & (u.imag < 1)).all())


# ---- transforms ----------------------------------------------------------------------------------------------------


def test_transforms_refuse():
    z = T.tensor(V)
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor, but got ComplexDouble"):
        T.fft.rfft(z)
    with pytest.raises(RuntimeError, match="ihfft expects a real input"):
        T.fft.ihfft(z)
    with pytest.raises(RuntimeError, match="Invalid normalization mode"):
        T.fft.fft(z, norm="none")
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\)"):
        T.fft.fft(z, 0)
    with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
        T.fft.fft(T.ones(2).half())
    with pytest.raises(RuntimeError, match="must have the same length"):
        T.fft.fftn(z[None], (2,), (0, 1))
    with pytest.raises(RuntimeError, match="appears multiple times"):
        T.fft.fft2(T.tensor(A), dim=(0, 0))
    with pytest.raises(IndexError, match="Dimension out of range"):
        T.fft.fft(z, dim=1)
    with pytest.raises(TypeError, match="must be Tensor"):
        T.fft.fft(V)


def test_transforms_are_those_of_numpy():
    z, x = T.tensor(A), T.tensor(A.real)
    assert_agree(T.fft.fftn(z, (2, -1)).numpy(), np.fft.fftn(A, (2, 3), (0, 1)))
    np.testing.assert_allclose(T.fft.irfft2(T.fft.rfft2(x), x.shape).numpy(), A.real, rtol=1e-12)
    assert T.fft.fft(x.float()).dtype == C64 and T.fft.rfft(T.arange(4)).dtype == C128
    assert T.fft.fftfreq(4, 0.5).tolist() == [0, 0.5, -1, -0.5] and T.fft.rfftfreq(4, dtype=F32).dtype == F32
    assert T.fft.ifftshift(T.fft.fftshift(x)).tolist() == x.tolist()


# ---- modules and optimizers ----------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1), "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_see_the_lanes(name):
    """A complex parameter goes the way of the real one that holds its lanes."""
    z = leaf(A)
    pairs = leaf(np.stack([A.real, A.imag], -1))
    for parameter, value in ((z, lambda: z), (pairs, lambda: T.view_as_complex(pairs))):
        optimizer = OPTIMIZERS[name]([parameter])
        for _ in range(4):  # by NumPy, then by a kernel
            optimizer.zero_grad()
            (((value() ** 2) - 1j).abs() ** 2).sum().backward()
            optimizer.step()
        assert all(s.dtype == parameter.dtype for s in optimizer.state[parameter].values() if s.ndim)
    np.testing.assert_allclose(z.detach().numpy(), T.view_as_complex(pairs).detach().numpy(), rtol=1e-9)


def test_lbfgs_refuses_complex_parameters():
    with pytest.raises(NotImplementedError, match=r"does not take complex parameters.*view_as_complex"):
        optim.LBFGS([leaf(V)])


def test_modules_take_complex_dtypes():
    layer = nn.Linear(3, 2).to(C128)
    assert layer.weight.dtype == layer.bias.dtype == C128
    z = T.tensor(A)
    out = layer(z)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    np.testing.assert_allclose(out.detach().numpy(), A @ weight.T + bias, rtol=1e-12)
    (out.abs() ** 2).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), 2 * out.detach().numpy().T @ A.conj(), rtol=1e-12)
    assert F.l1_loss(z, z * 0).item() == pytest.approx(np.abs(A).mean())
    assert layer.to(F32).weight.dtype == C128  # what is complex stays so


def test_gradients_are_clipped_by_their_sizes():
    p = nn.Parameter(T.tensor(V))
    p.grad = T.tensor(5 * V)
    size = 5 * np.linalg.norm(V)
    assert nn.utils.get_total_norm([p.grad], math.inf).item() == pytest.approx(5 * np.abs(V).max())
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(size)
    np.testing.assert_allclose(p.grad.numpy(), 5 * V / size, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="clip_grad_value_"):
        nn.utils.clip_grad_value_([p], 0.1)
    with pytest.raises(NotImplementedError, match=r"fill t\.real and t\.imag"):
        nn.init.trunc_normal_(p)
    with pytest.raises(NotImplementedError, match="dropout"):
        F.dropout(p)


# ---- compiled ------------------------------------------------------------------------------------------------------


def _trained(z, optimizer):
    optimizer.zero_grad()
    loss = ((z * z - 1j).abs() ** 2).sum()
    loss.backward()
    optimizer.step()
    return loss


def _iterated(z, optimizer):
    w = z.detach() * 0
    for _ in range(30):
        w = w * w + z * 0.1
    loss = w.abs().sum()
    loss.backward()
    return loss


def _written(z, optimizer):
    with T.no_grad():
        z.real.mul_(1.1)
        z[0] = z[1] * 1j
    y = z * 2
    y[0] = 1j
    y.imag.mul_(3)
    (y.abs() * T.fft.fft(y).abs()).sum().backward()
    return y.detach(), y.detach().real


def _returned(z, optimizer):
    return (z @ z.mH + 1j).sum(0), z.detach() * 2


STEPS = {"trained": _trained, "iterated": _iterated, "written": _written, "returned": _returned}


@pytest.mark.parametrize("name", STEPS)
def test_compiled_steps_do_what_eager_ones_do(name):
    results = []
    for compiled in (False, True):
        z = leaf(A * 0.5)
        optimizer = optim.Adam([z], lr=0.1)
        step = T.compile(STEPS[name]) if compiled else STEPS[name]
        seen = []
        for k in range(5):
            out = step(z, optimizer)
            if name == "returned":
                z.grad = None
                (out[0] * (1 - 1j * k)).abs().sum().backward()
            outs = out if isinstance(out, tuple) else (out,)
            seen += [o.detach().numpy().copy() for o in (*outs, z, z.grad)]
        results.append(seen)
        if compiled:
            assert not step.stats.live and step.stats.compiles
    for eager, compiled in zip(*results, strict=True):
        assert eager.dtype == compiled.dtype
        np.testing.assert_allclose(compiled, eager, rtol=1e-9, atol=1e-9)


def test_a_compiled_step_sees_other_complex_arguments():
    step = T.compile(lambda z, factor, array: (z * factor * T.tensor(array)).sum())
    for k in range(5):
        found = step(T.tensor(V * k), 1j * k, np.array([k, 1j, 2 - k * 1j]))
        assert found.item() == pytest.approx(np.sum(V * k * 1j * k * np.array([k, 1j, 2 - k * 1j])))


def test_second_derivatives_of_a_compiled_function():
    for function in (lambda z: (z**3 + 1j).abs().sum(), T.compile(lambda z: (z**3 + 1j).abs().sum())):
        z = leaf(V)
        for _ in range(3):
            z.grad = None
            (g,) = T.autograd.grad(function(z), [z], create_graph=True)
            g.abs().sum().backward()
        found = z.grad.numpy()
    np.testing.assert_allclose(found, slopes(_size_of_gradient, V), rtol=1e-5)


def _size_of_gradient(v):
    z = leaf(v)
    (g,) = T.autograd.grad((z**3 + 1j).abs().sum(), [z])
    return g.abs().sum().item()


def test_compiled_functions_take_complex_tensors_and_refuse_their_gradient():
    f = compile_grad(lambda z: (z * z).abs().sum())
    assert f(T.tensor(V)).item() == pytest.approx(np.sum(np.abs(V * V)))
    with pytest.raises(T.DifferentiationError, match=r"complex128.*call \.backward\(\) of its result"):
        f.grad(T.tensor(V))


UNARY = """
    a.exp(); a.sin(); a.tanh(); a*a; a.conj(); a*1j; (a+2).log(); a.real*a; T.view_as_complex(T.view_as_real(a)*0.5);
    a.abs()*1j+a; T.fft.fft(a); a.flip(0); a.cumsum(0); a/(a.abs()+1); T.complex(a.imag,a.real); a.sgn();
    a[T.tensor([2,0,1])]; T.where(a.real>0,a,a*0.5); (a+3).sqrt()
"""
BINARY = """
    a+b; a*b; a-b*0.5; a/(b+3); T.stack([a,b]).sum(0); a*b.conj(); T.where(a.abs()>b.abs(),a,b); a*b.real;
    T.outer(a,b)@b*0.1
"""


@pytest.mark.parametrize("seed", seeds(6, quick=1))
def test_random_programs_eager_and_compiled(seed):
    random = np.random.default_rng(seed)
    lines = []
    for count in range(2, 2 + random.integers(3, 8)):
        texts = [text.strip() for text in (UNARY if random.random() < 0.6 else BINARY).split(";")]
        lines.append((random.choice(texts), *random.integers(0, count, 2)))

    def loss(z, x):
        values = [z, x.to(C128) * 0.5]
        for text, i, j in lines:
            values.append(eval(text, {"T": T, "a": values[i], "b": values[j]}))
        total = sum([value * (0.1 * (n + 1)) for n, value in enumerate(values)])
        return (total.abs() ** 2).sum().log1p()

    compiled = T.compile(loss)
    for _ in range(4):
        start = random.normal(size=3) + 1j * random.normal(size=3), random.normal(size=3)
        found = []
        for function in (loss, compiled):
            leaves = [leaf(array) for array in start]
            value = function(*leaves)
            value.backward()
            found.append([value.detach().numpy(), *[t.grad.numpy() for t in leaves]])
        for eager, replayed in zip(*found, strict=True):
            np.testing.assert_allclose(replayed, eager, rtol=1e-8, atol=1e-9, err_msg=str(lines))
    directions = np.array([1 - 0.5j, 0.3j, -1]), np.array([0.5, -1, 0.2])
    ends = [loss(*[T.tensor(a + h * d) for a, d in zip(start, directions, strict=True)]).item() for h in (1e-6, -1e-6)]
    slope = sum([np.sum((g.conj() * d).real) for g, d in zip(found[0][1:], directions, strict=True)])
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6), lines


# ---- on a device ---------------------------------------------------------------------------------------------------

ON_DEVICE = """
    z*w+1j; z@v; (z/w).abs(); z.exp(); z.real*z.imag; T.view_as_real(z).sum(0); z.cumprod(1); T.fft.fft(z); z[idx];
    T.complex(x,2*x); z.angle(); z.conj(); z.sum(0); T.stack([z,w]); z.mul_(w); z.real = x; z.var(); z.norm()
"""


@pytest.mark.usefixtures("cupy")
def test_on_a_device():
    for text in [text.strip() for text in ON_DEVICE.split(";")]:
        found = []
        for device in ("cpu", "cuda"):
            before = T.get_default_device()
            T.set_default_device(device)
            try:
                result, leaves = evaluated(T, text, arrays(False))
                result.backward(T.tensor(weights(result), dtype=result.dtype))
            finally:
                T.set_default_device(before)
            found.append([None if t is None else t.detach().cpu().numpy() for t in
                          (result, *[leaf.grad for leaf in leaves.values()])])  # fmt: skip
        for host, device in zip(*found, strict=True):
            assert (host is None) == (device is None), text
            if host is not None:
                assert host.dtype == device.dtype
                np.testing.assert_allclose(device, host, rtol=1e-9, atol=1e-12, err_msg=text)


@pytest.mark.usefixtures("cupy")
def test_steps_run_eagerly_with_complex_tensors_on_a_device():
    z = T.tensor(V, device="cuda")
    p = leaf(V, device="cuda")
    (p.abs() ** 2).sum().backward()
    with pytest.raises(NotImplementedError, match="do not take complex parameters on a CUDA device"):
        optim.Adam([p]).step()
    step = T.compile(lambda z: (z * z).abs().sum())
    for _ in range(3):
        assert step(z).item() == pytest.approx(np.sum(np.abs(V * V)))
    assert "does not take complex tensors on a CUDA device" in step.stats.live
