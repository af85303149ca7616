"""The tables of operations on tensors: values, gradients, dtypes, errors, in each spelling.

The expressions of ``eager_expressions.py`` are compared with PyTorch, where it is installed, their gradients with
finite differences, and some of them with themselves in a compiled step.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special
from eager_expressions import CONSTANTS, ERRORS, EXPRESSIONS, LEAVES, NUMPY, listed
from selection import some

import tracegrad as T  # noqa: N812
from tracegrad.tensors.compiled_backward import tapes
from tracegrad.tensors.methods import PUBLIC
from tracegrad.tensors.tensor import METHODS

_STATEMENT = re.compile(r"^(\w+)\[.*\]\s*=[^=]")


def tensors_in(value: Any, kind: type) -> Iterator[Any]:
    """The tensors in nested results."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple | list):
        for v in value:
            yield from tensors_in(v, kind)


def evaluated(library: Any, functional: Any, text: str, leaves: dict[str, np.ndarray], grad: bool = True) -> Any:
    """(what *text* gives, the leaves as tensors)"""
    roots = {name: library.tensor(array, requires_grad=grad) for name, array in leaves.items()}
    space: dict[str, Any] = {name: root * 1 for name, root in roots.items()}
    space.update({name: library.tensor(array) for name, array in CONSTANTS.items()})
    space.update(T=library, F=functional, np=np)
    changed = _STATEMENT.match(text)
    if not changed:
        return eval(text, space), roots
    exec(text, space)
    return space[changed[1]], roots


def weights(shape: Any) -> np.ndarray:
    return (0.5 + np.arange(int(np.prod(shape))) % 7).reshape(tuple(shape))


def total_of(library: Any, result: Any) -> Any:
    """A scalar in which each element of the result counts differently; None where nothing has a gradient."""
    total = None
    for t in tensors_in(result, library.Tensor):
        if t.requires_grad and t.numel():
            part = (t * library.tensor(weights(t.shape), dtype=t.dtype)).sum().double()
            total = part if total is None else total + part
    return total


def gradients(library: Any, result: Any, roots: dict[str, Any]) -> dict[str, np.ndarray] | None:
    total = total_of(library, result)
    if total is None:
        return None
    found = library.autograd.grad(total, list(roots.values()), allow_unused=True)
    return {
        name: np.zeros(tuple(root.shape)) if g is None else g.detach().numpy()
        for (name, root), g in zip(roots.items(), found, strict=True)
    }


def close(a: np.ndarray, b: np.ndarray, loose: bool = False) -> bool:
    loose = loose or np.float32 in (a.dtype, b.dtype)
    return bool(np.allclose(a, b, rtol=1e-4 if loose else 1e-8, atol=1e-6 if loose else 1e-10, equal_nan=True))


# ---- PyTorch ----------------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    module = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
    before = module.get_default_dtype()
    module.set_default_dtype(module.float64)
    yield module
    module.set_default_dtype(before)


def facts(library: Any, value: Any, named: bool) -> Any:
    """What has to agree of one result, apart from the numbers."""
    if not isinstance(value, library.Tensor):
        return str(value).replace("torch.", "")
    node = value.grad_fn.name().split("::")[-1] if named and value.grad_fn is not None else None
    return str(value.dtype).replace("torch.", ""), tuple(value.shape), value.requires_grad, node


def leaves_of(value: Any) -> list[Any]:
    return [v for part in value for v in leaves_of(part)] if isinstance(value, tuple | list) else [value]


def difference(torch: Any, text: str, named: bool) -> str:
    want, theirs = evaluated(torch, importlib.import_module("torch.nn.functional"), text, LEAVES)
    got, ours = evaluated(T, T.nn.functional, text, LEAVES)
    want, got = leaves_of(want), leaves_of(got)
    expected, found = [facts(torch, v, named) for v in want], [facts(T, v, named) for v in got]
    if expected != found:
        return f"{text}: {expected} in PyTorch, here {found}"
    for a, b in zip(want, got, strict=True):
        if isinstance(b, T.Tensor) and not close(a.detach().numpy(), b.detach().numpy()):
            return f"{text}: {a} in PyTorch, here {b}"
    expected, found = gradients(torch, want, theirs), gradients(T, got, ours)
    for name in expected or {}:
        if not close(expected[name], found[name], "32" in text):
            return f"{text}: the gradient of {name} is {expected[name]} in PyTorch, here {found[name]}"
    return ""


@pytest.mark.parametrize("group", EXPRESSIONS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_as_in_torch(torch, group):
    lines = [difference(torch, text, group != "composed") for text in listed(EXPRESSIONS[group])]
    assert not any(lines), "\n".join(["", *filter(None, lines)])


@pytest.mark.parametrize("group", some(sorted(EXPRESSIONS, key="products and changes in place".__ne__), quick=1))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_backwards_that_are_seen_again_are_compiled_and_give_the_same(group, monkeypatch):
    """The first is walked node by node; then there is a kernel."""
    wrong, compiled = [], tapes.compiled
    for text in listed(EXPRESSIONS[group]):
        found = []
        for _ in range(3):
            monkeypatch.setattr(tapes, "credit", 1e3)  # a kernel for each expression
            got, ours = evaluated(T, T.nn.functional, text, LEAVES)
            total = total_of(T, leaves_of(got))
            if total is not None:
                total.backward()
                found.append({name: root.grad for name, root in ours.items() if root.is_leaf})
        for name, first in found[0].items() if found else ():
            again = [other[name] for other in found[1:]]
            if first is None:
                wrong += [text] * any(g is not None for g in again)
            elif not all(close(first.numpy(), g.numpy(), "32" in text) for g in again):
                wrong.append(f"{text}: the gradient of {name} is {again} in a kernel, and {first} without")
    assert not wrong, "\n".join(["", *wrong])
    assert tapes.compiled > compiled


@pytest.mark.parametrize("group", ERRORS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_errors_are_those_of_torch(torch, group):
    functional = importlib.import_module("torch.nn.functional")
    for text in listed(ERRORS[group]):
        with pytest.raises(Exception) as theirs:
            evaluated(torch, functional, text, LEAVES)
        with pytest.raises(type(theirs.value)) as ours:
            evaluated(T, T.nn.functional, text, LEAVES)
        assert str(ours.value).split("\n")[0][:25] == str(theirs.value).split("\n")[0][:25], text


# ---- without it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ERRORS)
def test_errors(group):
    for text in listed(ERRORS[group]):
        with pytest.raises((RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)):
            evaluated(T, T.nn.functional, text, LEAVES)


def number(text: str, leaves: dict[str, np.ndarray]) -> float:
    result, _ = evaluated(T, T.nn.functional, text, leaves)
    total = total_of(T, result)
    return 0.0 if total is None else float(total.item())


def wrong_gradient(text: str) -> str:
    """How the gradient differs from that of finite differences along one direction."""
    result, roots = evaluated(T, T.nn.functional, text, LEAVES)
    found = gradients(T, result, roots)
    if found is None:
        return ""
    rng = np.random.default_rng(1)
    direction = {name: rng.normal(size=array.shape) for name, array in LEAVES.items()}
    along = sum(float((found[name] * direction[name]).sum()) for name in found)
    single = any(t.dtype == np.float32 for t in tensors_in(result, T.Tensor))
    h = 1e-3 if single else 1e-6
    ends = [number(text, {name: LEAVES[name] + s * h * direction[name] for name in LEAVES}) for s in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * h)
    size = max(1.0, abs(expected), abs(ends[0]) if single else 0.0)
    if not np.isfinite(expected) or abs(expected - along) <= (5e-2 if single else 1e-5) * size:
        return ""
    return f"{text}: {along}, finite differences give {expected}"


@pytest.mark.parametrize("group", [g for g in EXPRESSIONS if g != "kinks"])
def test_gradients_are_those_of_finite_differences(group):
    lines = [wrong_gradient(text) for text in listed(EXPRESSIONS[group])]
    assert not any(lines), "\n".join(["", *filter(None, lines)])


# ---- NumPy's functions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", listed(NUMPY))
def test_numpy_functions_of_tensors(text):
    space = {**LEAVES, "np": np, "T": T}
    want = [np.asarray(v) for v in leaves_of(eval(text, space))]
    got, _ = evaluated(T, T.nn.functional, text, LEAVES)
    for a, b in zip(want, leaves_of(got), strict=True):
        assert isinstance(b, T.Tensor)
        assert b.requires_grad == (a.dtype.kind == "f")
        assert (a.dtype, a.shape) == (b.dtype, tuple(b.shape))
        assert close(a, b.detach().numpy())
    assert not wrong_gradient(text)


def test_numpy_functions_of_plain_tensors_are_not_recorded():
    x = T.tensor([1.0, 2.0])
    assert np.sin(x).grad_fn is None
    assert isinstance(np.sum(x), T.Tensor)
    assert np.shape(x) == (2,) and np.allclose(x, x) is True
    assert np.linalg.inv(T.eye(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_numpy_functions_give_no_views():
    x = T.zeros(4)
    y = np.reshape(x, (2, 2))
    y.add_(1)
    assert x.tolist() == [0.0] * 4


def test_numpy_out():
    x, a = T.tensor([1.0, 2.0]), np.ones(2)
    a += x
    assert a.tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="out="):
        np.sin(x.requires_grad_(), out=a)
    with pytest.raises(TypeError, match="out="):
        np.sin(a, out=T.zeros(2))


def test_numpy_function_without_derivative_raises_at_once():
    with pytest.raises(T.UnsupportedError, match="spacing"):
        np.spacing(T.eye(2, requires_grad=True))


def test_linear_algebra_of_tensors():
    a = T.tensor([[2.0, 1.0], [0.5, 3.0]], requires_grad=True)
    np.linalg.det(np.linalg.inv(a)).backward()
    inverse = np.linalg.inv(a.detach().numpy())
    assert close(a.grad.numpy(), -np.linalg.det(inverse) * inverse.T)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_plain_functions_of_scipy(name):
    x = T.tensor(LEAVES["x"], requires_grad=True)
    y = getattr(scipy.special, name)(x, axis=1)
    assert close(y.detach().numpy(), getattr(scipy.special, name)(LEAVES["x"], axis=1))
    (y * T.tensor(weights(y.shape))).sum().backward()
    z = T.tensor(LEAVES["x"], requires_grad=True)
    own = getattr(T, name)(z, dim=1)
    (own * T.tensor(weights(own.shape))).sum().backward()
    assert close(x.grad.numpy(), z.grad.numpy())


def test_numpy_scalars_do_not_widen():
    x = T.ones(2, dtype=T.float32)
    assert (np.float64(2) * x).dtype == (x * np.float64(2)).dtype == np.float32
    assert (np.ones(2) * x).dtype == np.float64


# ---- the tables -------------------------------------------------------------------------------------------------


def test_tables():
    for name, method in METHODS.items():
        assert getattr(T.Tensor, name) is method, name
    for name, function in PUBLIC.items():
        assert getattr(T, name) is function, name
    assert T.float == np.float32 and T.bool == np.bool_  # dtypes, not the methods of that name


def test_both_spellings():
    x = T.tensor(LEAVES["v"])
    for name in ("sum", "mean", "prod", "amax", "std", "var", "all", "any", "logsumexp", "argmax", "nansum", "norm"):
        function = getattr(T, name)
        assert T.equal(function(x, dim=1, keepdim=True), function(x, axis=1, keepdims=True)), name
    for name in ("max", "min", "median"):
        function = getattr(T, name)
        assert T.equal(function(x, dim=2).values, function(x, axis=2)[0])
    assert T.equal(x.softmax(dim=1), x.softmax(axis=1))
    assert T.equal(T.cat([x, x], dim=1), T.cat([x, x], axis=1))
    with pytest.raises(TypeError, match="both"):
        x.sum(dim=0, axis=0)
    assert T.equal(x.kthvalue(1, axis=0).values, x.kthvalue(1, 0)[0])
    assert T.equal(x.unbind(axis=1)[0], x.select(1, 0))


def test_signatures():
    """What users see of a reader: the parameters of its body and NumPy's spellings, a name, a docstring."""
    for name, function in (METHODS | PUBLIC).items():
        assert function.__name__.rstrip("_") and inspect.signature(function).parameters, name
        assert "body" not in (function.__name__, function.__qualname__), name
    parameters = inspect.signature(T.sum).parameters
    assert list(parameters) == ["input", "dim", "keepdim", "dtype", "axis", "keepdims"]
    assert [parameters[k].kind.name for k in ("keepdim", "dtype")] == ["POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"]
    assert T.sum.__module__ == "tracegrad.tensors.ops_reduce" and "along *dim*" in T.sum.__doc__
    assert T.Tensor.lerp_.__name__ == "lerp_" and T.Tensor.lerp_.__doc__ == "``lerp`` in place."


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: T.sort([1.0]), TypeError, "sort(): argument 'input' (position 1) must be Tensor, not list"),
        (lambda x: T.lerp(x, 1.0, 0.5), TypeError, "lerp(): argument 'end' (position 2) must be Tensor, not float"),
        (lambda x: x.lerp_(1.0, 0.5), TypeError, "lerp_(): argument 'end' (position 2) must be Tensor, not float"),
        (lambda x: x.softmax(), TypeError, 'softmax() missing 1 required positional arguments: "dim"'),
        (lambda x: x.unsqueeze(), TypeError, 'unsqueeze() missing 1 required positional arguments: "dim"'),
        (lambda x: x.cumsum("0"), TypeError, "argument 'dim' must be int, not str"),
        (lambda x: x.amax(3), IndexError, "Dimension out of range (expected to be in range of [-3, 2], but got 3)"),
        (lambda x: x.sum((0, -3)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (lambda x: x.long().clamp_(0.5), RuntimeError, "result type Double can't be cast to the desired output type"),
        (lambda x: x.sum(dims=0), TypeError, "sum() got an unexpected keyword argument 'dims'"),
    ],
)
def test_arguments_are_read(call, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        call(T.tensor(LEAVES["v"]))


def test_named_results():
    x = T.tensor([[3.0, 1.0], [2.0, 5.0]])
    values, indices = x.max(1)
    assert values.tolist() == [3.0, 5.0] and indices.tolist() == [0, 1]
    assert repr(x.max(1)) == "max(\nvalues=tensor([3., 5.]),\nindices=tensor([0, 1]))"
    assert x.sort(descending=True).indices.tolist() == [[0, 1], [1, 0]]


def test_gradient_of_an_extreme_goes_to_the_index_or_is_shared():
    x = T.tensor([[2.0, 2.0, 1.0]], requires_grad=True)
    x.max(1).values.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0]]
    x.grad = None
    x.amax(1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0.5, 0.0]]


# ---- memory -----------------------------------------------------------------------------------------------------

VIEWS = {
    "view": lambda x: x.view(4, 3), "reshape": lambda x: x.reshape(2, 6), "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x.squeeze(), "unsqueeze": lambda x: x.unsqueeze(1), "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(1, 0), "T": lambda x: x.T,
    "slice": lambda x: x[1:, ::2], "row": lambda x: x[0], "element": lambda x: x[0, 1], "narrow": lambda x:
    x.narrow(1, 1, 2), "select": lambda x: x.select(0, 1), "chunk": lambda x: x.chunk(2, 1)[1], "unbind":
    lambda x: x.unbind()[2], "diagonal": lambda x: x.diagonal(1), "none": lambda x: x[:, None],
    "column": lambda x: x.t()[:2].t(), "movedim": lambda x: x.movedim(0, 1), "view_of_view": lambda x: x[1:].view(-1),
}  # fmt: skip
COPIES = {
    "reshape": lambda x: x.t().reshape(-1), "contiguous": lambda x: x.t().contiguous(), "clone": lambda x: x.clone(),
    "index": lambda x: x[T.tensor([0, 1])], "mask": lambda x: x[x > -9], "cat": lambda x: T.cat([x]),
    "flip": lambda x: x.flip(0), "einsum": lambda x: T.einsum("ij->ji", x), "diag": lambda x: x[:3, :3].diag(),
    "roll": lambda x: x.roll(0), "tril": lambda x: x.tril(9), "repeat": lambda x: x.repeat(1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_and_history(name):
    x = T.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    base = x * 1
    part = VIEWS[name](base)
    if name in ("unbind", "chunk"):  # one of several
        with pytest.raises(RuntimeError, match="a function that returns multiple views"):
            part.mul_(3)
        return
    assert np.shares_memory(part.detach().numpy(), base.detach().numpy())
    part.mul_(3)
    factor = np.ones((3, 4))
    memory = T.tensor(factor)
    VIEWS[name](memory).mul_(3)
    base.sum().backward()
    assert close(x.grad.numpy(), memory.numpy())
    assert close(base.detach().numpy(), np.arange(12.0).reshape(3, 4) * memory.numpy())


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not(name):
    base = T.tensor(np.arange(12.0).reshape(3, 4))
    COPIES[name](base).add_(1)
    assert base.tolist() == np.arange(12.0).reshape(3, 4).tolist()


def test_numpy_shares_memory():
    x = T.zeros(3)
    x.numpy()[1] = 2.0
    assert x.tolist() == [0.0, 2.0, 0.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        x.requires_grad_().numpy()


def test_expanded_tensors_are_not_written():
    with pytest.raises(RuntimeError, match="clone"):
        T.zeros(3).expand(2, 3).add_(1)
    with pytest.raises(RuntimeError, match="clone"):
        T.zeros(3).expand(2, 3)[0, 0] = 1.0


def test_assignment_of_the_view_itself_records_nothing():
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y[0] += x[1]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


# ---- random numbers ---------------------------------------------------------------------------------------------

FILLS = {
    "uniform_": (lambda x: x.uniform_(-1, 3), 1.0, 4 / 12**0.5), "normal_": (lambda x: x.normal_(2, 3), 2.0, 3.0),
    "bernoulli_": (lambda x: x.bernoulli_(0.25), 0.25, 0.1875**0.5), "exponential_": (lambda x: x.exponential_(2),
    0.5, 0.5), "random_": (lambda x: x.random_(0, 10), 4.5, 8.25**0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_fills_with_random_numbers(name):
    fill, center, spread = FILLS[name]
    T.manual_seed(1)
    x = T.zeros(10000)
    assert fill(x) is x
    assert abs(x.mean().item() - center) < 0.05 * spread and abs(x.std().item() - spread) < 0.05 * spread
    T.manual_seed(1)
    assert T.equal(fill(T.zeros(10000)), x)
    with pytest.raises(RuntimeError, match="leaf"):
        fill(T.zeros(2, requires_grad=True))
    w = T.ones(2, requires_grad=True)
    fill(w * 2).sum().backward()
    assert w.grad.tolist() == [0.0, 0.0]


# ---- what the derivative reads ------------------------------------------------------------------------------------

OVERWRITTEN = {  # the operand or the result may be overwritten after these
    "result of a quotient": lambda a, b: ((a / b).add_(1), a, b),
    "operand of relu": lambda a, b: (a.relu(), a.add_(1), b),
    "operand of max": lambda a, b: (a.max(0).values, a.add_(1), b),
    "operand of sort": lambda a, b: (a.sort(0).values, a.add_(1), b),
    "operand of exp": lambda a, b: (a.exp(), a.add_(1), b),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_what_may_be_overwritten(name):
    x, y = (T.tensor(LEAVES[n], requires_grad=True) for n in "xz")
    OVERWRITTEN[name](x * 1, y * 1)[0].sum().backward()
    assert x.grad is not None


# ---- compiled steps -------------------------------------------------------------------------------------------------

COMPILED = """
    x.sum(0); x.mean(); x.max(1); x.std(0); x.norm(); x.logsumexp(1); x.softmax(1); x.log_softmax(0); x.cumsum(1);
    x.sort(1); x.topk(2); x.median(0); x.prod(1); x.relu(); x.clamp(0.6, 1.4); T.where(mask, x, z); T.maximum(x, z);
    x.masked_fill(mask, 0.); x.view(2, 6); x.t().reshape(-1); x[0]; x[1:, ::2]; x[idx]; x[:, idx]; x[mask]; x[g, g];
    x[T.tensor(1)]; x[idx[0]]; x.gather(1, g); x.scatter_add(0, g, z); x.index_add(0, idx, z[:2]); x @ z.t(); v @ w;
    T.einsum("ij,kj->ik", x, z); T.cat([x, z]); T.stack([x, z], 1); x[0] = y; x[mask] = 0.; x[idx] = z[:2];
    x.t().mul_(2); x.diagonal().fill_(0.); x.roll(1); x.tril(); np.diff(x); np.mean(x, axis=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", listed(COMPILED))
def test_compiled_steps_give_the_same(text):
    names = list(LEAVES)
    source = f"def step({', '.join([*names, *CONSTANTS])}):\n    leaves = ({', '.join(names)},)\n"
    source += "".join(f"    {name} = {name} * 1\n" for name in names)
    changed = _STATEMENT.match(text)
    source += f"    {text}\n    result = {changed[1]}\n" if changed else f"    result = {text}\n"
    source += "    return result, T.autograd.grad(total(T, result), leaves, allow_unused=True)\n"
    space: dict[str, Any] = {"T": T, "np": np, "total": weighted}
    exec(source, space)
    step = space["step"]
    compiled = T.compile(step)
    for shift in (0.0, 0.01, 0.02, 0.03):
        leaves = [LEAVES[name] + shift for name in names]
        runs = []
        for call in (step, compiled):
            operands = [T.tensor(array, requires_grad=True) for array in leaves]
            operands += [T.tensor(array) for array in CONSTANTS.values()]
            runs.append([t.detach().numpy() for t in tensors_in(call(*operands), T.Tensor)])
        for a, b in zip(*runs, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and close(a, b), text


WEIGHTS = T.tensor(0.5 + np.arange(100.0) % 7)


def weighted(library: Any, result: Any) -> Any:
    total = 0.0
    for t in tensors_in(result, T.Tensor):
        if t.requires_grad:
            total = total + (t * WEIGHTS[: t.numel()].reshape(t.shape)).sum()
    return total


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge", "logical_and"])
def test_integers_are_compared_in_a_dtype_that_holds_both(name):
    """PyTorch compares 300 with int8 numbers as 44."""
    of_numpy = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "logical_and": np.logical_and,
    }
    small, wide = np.array([44, -1, 0], np.int8), np.int16(300)
    wanted = of_numpy[name]
    for a, b in ((small, wide), (wide, small)):
        assert np.array_equal(getattr(T, name)(T.tensor(a), T.tensor(b)).numpy(), wanted(a, b))
