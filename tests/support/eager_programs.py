"""Small programs in the eager style, written against names that torch and tracegrad share: one source, two libraries.

    python tests/support/eager_programs.py torch              # run all of them on PyTorch
    python tests/support/eager_programs.py tracegrad NAME -v # some of them, with their results

A program is a function of the module ``T``.  It returns tensors, Python numbers, strings, bools and None, in dicts,
lists and tuples.  Inputs come from NumPy, because the random streams of the two libraries differ.  The default dtype
is float64: ``default_float64`` sets it where it is not.  ``test_eager_oracle.py`` compares the results.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Register a program under its name."""
    return add(function.__name__, function)


def add(name: str, function: Program) -> Program:
    assert name not in PROGRAMS, name
    PROGRAMS[name] = function
    return function


# ---- what programs are made of -----------------------------------------------------------------------------------


def numbers(*shape: int, seed: int = 0, low: float | None = None, high: float = 1.7) -> np.ndarray:
    """Normal numbers, or uniform ones between ``low`` and ``high``.  No two are equal."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) if low is None else rng.uniform(low, high, size=shape)


def const(T: Any, *shape: int, **options: Any) -> Any:
    return T.tensor(numbers(*shape, **options))


def leaf(T: Any, *shape: int, **options: Any) -> Any:
    return T.tensor(numbers(*shape, **options), requires_grad=True)


def weighted(T: Any, y: Any) -> Any:
    """A scalar in which all elements count differently, so that no permutation of a gradient passes."""
    return (y * T.tensor(0.5 + np.arange(y.numel()).reshape(tuple(y.shape)) % 7)).sum()


def value_and_grads(T: Any, y: Any, *leaves: Any) -> list[Any]:
    weighted(T, y).backward()
    return [y, *(x.grad for x in leaves)]


def raised(kind: type[Exception], phrase: str, function: Callable[[], Any]) -> tuple[str, str]:
    """Call ``function``, which must raise ``kind`` with a message that contains ``phrase``."""
    try:
        function()
    except kind as error:
        if phrase not in str(error):
            raise AssertionError(f"{phrase!r} is not in the message of {type(error).__name__}: {error}") from error
        return kind.__name__, phrase
    raise AssertionError(f"no {kind.__name__} was raised ({phrase!r})")


def dtype_name(dtype: Any) -> str:
    return str(dtype).split(".")[-1]


def node_name(node: Any) -> str:
    return node.name().split("::")[-1]


def fill(T: Any, module: Any, seed: int = 0) -> Any:
    """Parameters from NumPy."""
    rng = np.random.default_rng(seed)
    with T.no_grad():
        for p in module.parameters():
            p.copy_(T.tensor(0.5 * rng.normal(size=tuple(p.shape))))
    return module


def gradients(module: Any) -> dict[str, Any]:
    return {name: p.grad for name, p in module.named_parameters()}


# ---- tables: one operation, its value and its gradient -----------------------------------------------------------

ONE = {  # of a (3, 4) tensor with elements in (0.3, 1.7)
    "neg": lambda T, x: -x,
    "abs": lambda T, x: (x - 1).abs(),
    "exp": lambda T, x: x.exp(),
    "log": lambda T, x: x.log(),
    "sqrt": lambda T, x: x.sqrt(),
    "sin": lambda T, x: x.sin(),
    "cos": lambda T, x: x.cos(),
    "tanh": lambda T, x: x.tanh(),
    "sigmoid": lambda T, x: x.sigmoid(),
    "relu": lambda T, x: (x - 1).relu(),
    "clamp": lambda T, x: x.clamp(0.6, 1.4),
    "clamp_min": lambda T, x: x.clamp(min=0.8),
    "clamp_max": lambda T, x: x.clamp(max=0.8),
    "pow_integer": lambda T, x: x.pow(3),
    "pow_fraction": lambda T, x: x**1.5,
    "pow_negative": lambda T, x: x ** (-2),
    "pow_base": lambda T, x: 2.0**x,
    "pow_itself": lambda T, x: x**x,
    "reciprocal": lambda T, x: 1 / x,
    "rsub": lambda T, x: 3 - x,
    "functions": lambda T, x: T.exp(T.sin(x)) + T.log(T.sqrt(x)) - T.tanh(T.cos(x)) * T.abs(x) / T.sigmoid(x),
    "sum": lambda T, x: x.sum(),
    "sum_dim": lambda T, x: x.sum(dim=0),
    "sum_dim_positional": lambda T, x: x.sum(1),
    "sum_dims_keepdim": lambda T, x: x.sum(dim=(0, 1), keepdim=True),
    "mean": lambda T, x: x.mean(),
    "mean_dim": lambda T, x: x.mean(dim=-1),
    "mean_keepdim": lambda T, x: x.mean(0, keepdim=True),
    "norm": lambda T, x: x.norm(),
    "norm_1": lambda T, x: x.norm(p=1),
    "norm_dim": lambda T, x: x.norm(dim=1),
    "norm_dim_keepdim": lambda T, x: x.norm(p=2, dim=0, keepdim=True),
    "std": lambda T, x: x.std(),
    "std_dim": lambda T, x: x.std(dim=1),
    "std_biased": lambda T, x: x.std(dim=0, unbiased=False),
    "var": lambda T, x: x.var(),
    "var_dim_keepdim": lambda T, x: x.var(dim=1, keepdim=True),
    "var_biased": lambda T, x: T.var(x, dim=0, unbiased=False),
    "max": lambda T, x: x.max(),
    "max_dim": lambda T, x: x.max(dim=1)[0],
    "max_values": lambda T, x: x.max(0, keepdim=True).values,
    "min": lambda T, x: T.min(x),
    "min_dim": lambda T, x: T.min(x, dim=0).values,
    "prod": lambda T, x: x.prod(),
    "prod_dim": lambda T, x: x.prod(dim=1),
    "cumsum": lambda T, x: x.cumsum(dim=1),
    "cumsum_first": lambda T, x: T.cumsum(x, 0),
    "softmax": lambda T, x: x.softmax(dim=1),
    "softmax_first": lambda T, x: T.softmax(x, dim=0),
    "log_softmax": lambda T, x: x.log_softmax(dim=-1),
    "log_softmax_function": lambda T, x: T.log_softmax(x, dim=0),
    "logsumexp": lambda T, x: T.logsumexp(x, dim=1),
    "logsumexp_keepdim": lambda T, x: x.logsumexp(dim=0, keepdim=True),
    "view": lambda T, x: x.view(2, 6),
    "view_minus_one": lambda T, x: x.view(-1),
    "reshape": lambda T, x: x.reshape(4, 3),
    "reshape_tuple": lambda T, x: x.t().reshape((2, -1)),
    "flatten": lambda T, x: x.view(3, 2, 2).flatten(start_dim=1),
    "flatten_all": lambda T, x: T.flatten(x),
    "t": lambda T, x: x.t(),
    "T": lambda T, x: x.T,
    "transpose": lambda T, x: x.view(3, 2, 2).transpose(0, -1),
    "permute": lambda T, x: x.view(3, 2, 2).permute(2, 0, 1),
    "squeeze": lambda T, x: x.view(3, 1, 4, 1).squeeze(),
    "squeeze_dim": lambda T, x: x.view(3, 1, 4, 1).squeeze(1),
    "unsqueeze": lambda T, x: x.unsqueeze(0) * x.unsqueeze(-1).view(3, 4, 1)[:, :1],
    "expand": lambda T, x: x.unsqueeze(1).expand(3, 2, 4),
    "expand_minus_one": lambda T, x: x[:, :1].expand(-1, 5),
    "slice": lambda T, x: x[1:, ::2],
    "slice_negative": lambda T, x: x[-2:, :-1],
    "slice_past_the_end": lambda T, x: x[1:100, -100:2],
    "index_integers": lambda T, x: x[1, 2],
    "index_row": lambda T, x: x[-1],
    "index_none": lambda T, x: x[:, None, 1:3],
    "index_ellipsis": lambda T, x: x.view(3, 2, 2)[..., 0],
    "index_tensor": lambda T, x: x[T.tensor([2, 0, 2])],
    "index_tensor_pairs": lambda T, x: x[T.tensor([0, 1, 0]), T.tensor([3, 1, 3])],
    "index_tensor_and_slice": lambda T, x: x[:, T.tensor([[3, 0], [0, 0]])],
    "index_negative_tensor": lambda T, x: x[T.tensor([-1, -3])],
    "index_list": lambda T, x: x[[0, 2]],
    "index_mask": lambda T, x: x[x > 1.0],
    "index_row_mask": lambda T, x: x[T.tensor([True, False, True])],
    "gather": lambda T, x: x.gather(1, T.tensor([[0, 0], [3, 1], [2, 2]])),
    "gather_first": lambda T, x: T.gather(x, 0, T.tensor([[0, 2, 1, 1], [2, 2, 0, 1]])),
    "index_select": lambda T, x: x.index_select(0, T.tensor([2, 2, 0])),
    "index_select_columns": lambda T, x: T.index_select(x, 1, T.tensor([1, 3])),
    "masked_fill": lambda T, x: x.masked_fill(x > 1.0, -5.0),
    "where_scalar": lambda T, x: T.where(x > 1.0, x * x, 0.0),
    "where_broadcast": lambda T, x: T.where(x[:, :1] > 1.0, x * 2, x[0] * 3),
    "stack": lambda T, x: T.stack([x, x * x], dim=1),
    "cat": lambda T, x: T.cat([x, x[:1] * 2, x[1:]]),
    "cat_dim": lambda T, x: T.cat((x, x.sum(dim=1, keepdim=True)), dim=-1),
    "clone": lambda T, x: x.clone(),
    "to_float32": lambda T, x: x.to(T.float32) * 2,
    "float_double": lambda T, x: x.float().double() * x,
    "cpu": lambda T, x: x.cpu() * 2,
    "half_detached": lambda T, x: x * x.detach(),
    "center": lambda T, x: (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True),
    "standing_alone": lambda T, x: x,
}

TWO = {  # of a (3, 4) and a (4,) tensor with elements in (0.3, 1.7)
    "add": lambda T, x, y: x + y,
    "sub": lambda T, x, y: y - x,
    "mul": lambda T, x, y: x * y,
    "div": lambda T, x, y: x / y,
    "pow": lambda T, x, y: y**x,
    "maximum": lambda T, x, y: T.maximum(x, y),
    "minimum": lambda T, x, y: T.minimum(y, x),
    "where": lambda T, x, y: T.where(x > y, x.log(), y * y),
    "matmul_vector": lambda T, x, y: x @ y,
    "matmul_vector_matrix": lambda T, x, y: T.matmul(y, x.t()),
    "mm": lambda T, x, y: x.mm(y.view(4, 1) * y),
    "matmul_batch": lambda T, x, y: x.view(3, 2, 2) @ y.view(2, 2),
    "matmul_broadcast": lambda T, x, y: x.view(3, 1, 2, 2).matmul(y.view(1, 2, 2, 1)),
    "bmm": lambda T, x, y: T.bmm(x.view(3, 2, 2), (x * y).view(3, 2, 2)),
    "outer": lambda T, x, y: T.outer(y, x[1]),
    "dot": lambda T, x, y: T.dot(y, x[2]),
    "broadcast_both": lambda T, x, y: x[:, :1] * y - y.view(1, 4) / x[0, 0],
    "broadcast_scalar_tensor": lambda T, x, y: x * y[1] + y.sum(),
    "functions": lambda T, x, y: T.add(T.mul(x, y), T.sub(x, T.div(y, 2))),
    "cat": lambda T, x, y: T.cat([x.flatten(), y]),
    "stack": lambda T, x, y: T.stack([x[0], y, x[1]]),
    "unused": lambda T, x, y: x * 2,
    "expand_as_row": lambda T, x, y: y.expand(3, 4) * x,
    "normalised": lambda T, x, y: (x @ y).softmax(dim=0) @ x,
}


def of_one(op: Callable[[Any, Any], Any]) -> Program:
    def run(T: Any) -> Any:
        x = leaf(T, 3, 4, low=0.3)
        return value_and_grads(T, op(T, x), x)

    return run


def of_two(op: Callable[[Any, Any, Any], Any]) -> Program:
    def run(T: Any) -> Any:
        x, y = leaf(T, 3, 4, low=0.3), leaf(T, 4, low=0.3, seed=1)
        return value_and_grads(T, op(T, x, y), x, y)

    return run


def twice(op: Callable[..., Any], *shapes: tuple[int, ...]) -> Program:
    """The gradient of a gradient."""

    def run(T: Any) -> Any:
        leaves = [leaf(T, *shape, low=0.3, seed=i) for i, shape in enumerate(shapes)]
        first = T.autograd.grad(weighted(T, op(T, *leaves)), leaves, create_graph=True, allow_unused=True)
        total = sum(((g * g).sum() for g in first if g is not None), T.zeros(()))
        return first, T.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else None

    return run


for _name, _op in ONE.items():
    add(f"one_{_name}", of_one(_op))
for _name, _op in TWO.items():
    add(f"two_{_name}", of_two(_op))
for _name in """exp log sqrt sin tanh sigmoid relu pow_integer pow_base pow_itself reciprocal functions mean norm
                std max_dim prod cumsum softmax log_softmax logsumexp transpose index_tensor index_mask gather
                where_scalar cat_dim center""".split():
    add(f"twice_one_{_name}", twice(ONE[_name], (3, 4)))
for _name in "mul div pow maximum where matmul_vector mm matmul_broadcast bmm broadcast_both normalised".split():
    add(f"twice_two_{_name}", twice(TWO[_name], (3, 4), (4,)))


# ---- making tensors and asking about them ------------------------------------------------------------------------


@program
def factories(T):
    return {
        "zeros": T.zeros(2, 3),
        "zeros tuple": T.zeros((2, 3)),
        "ones": T.ones(3),
        "full": T.full((2, 2), 1.5),
        "eye": T.eye(3),
        "arange": T.arange(4),
        "arange float": T.arange(0.0, 1.0, 0.25),
        "arange steps": T.arange(1, 10, 3),
        "linspace": T.linspace(0, 1, 5),
        "empty": list(T.empty(2, 3).shape),
        "like": [T.ones_like(T.zeros(2)), T.zeros_like(T.tensor([1, 2]))],
    }


@program
def factories_with_options(T):
    x = T.zeros(2, requires_grad=True)
    y = T.ones(2, 2, dtype=T.float32)
    z = T.full((2,), 3, dtype=T.int64)
    return x, y, z, T.ones_like(y), T.zeros_like(x), T.zeros(()), T.tensor(2.5, dtype=T.float32)


@program
def constructors(T):
    x, y = T.Tensor(3, 5), T.FloatTensor([1.0, 2.0])
    return list(x.shape), dtype_name(x.dtype), y, T.Tensor([[1, 2], [3, 4]]), isinstance(y, T.Tensor)


@program
def tensor_from_nested_lists(T):
    return T.tensor([[1.0, 2.0], [3.0, 4.0]]), T.tensor([1, 2]), T.tensor([True, False]), T.tensor(3.0), T.tensor([])


@program
def tensor_copies_its_data(T):
    a = numbers(3)
    x, y = T.tensor(a), T.from_numpy(a)
    a[0] = 100.0
    return x, y


@program
def numpy_shares_memory(T):
    x = T.zeros(3)
    x.numpy()[1] = 5.0
    y = x.numpy()
    x.add_(1)
    return x, y.tolist()


@program
def from_numpy_is_read_when_used(T):
    a, w = np.array([1.0, 2.0, 3.0]), leaf(T, 3)
    x = T.from_numpy(a)
    grads = []
    for i in range(4):
        a[:] = i
        grads += T.autograd.grad((w * x).sum(), w)
    return grads


@program
def conversions(T):
    x = T.tensor([[1.0, 2.0], [3.0, 4.5]])
    y = T.tensor(2.5)
    return x.tolist(), y.item(), float(y), int(y), bool(y > 2), x.numpy().shape, y.tolist(), len(x), T.tensor(3).item()


@program
def questions(T):
    x = T.zeros(2, 3, 4)
    return x.numel(), tuple(x.size()), x.size(1), x.size(-1), x.dim(), tuple(x.shape), dtype_name(x.dtype), x.shape[1]


@program
def dtypes(T):
    x = T.ones(2)
    named = [T.float32, T.float64, T.int32, T.int64, T.long, T.bool, T.float, T.double]
    made = [x.float(), x.double(), x.to(T.int64), x > 0, x.to(T.float32) + x, T.tensor([1]) / 2, T.tensor([1]) * 2.0]
    return [dtype_name(d) for d in named], [dtype_name(t.dtype) for t in made]


@program
def promotion_of_python_numbers(T):
    f, i, b = T.ones(2, dtype=T.float32), T.tensor([1, 2]), T.tensor([True, False])
    return f * 2, f * 2.5, f + True, i + 1, i * 2.5, i / 2, b + 1, b * 0.5, i**2, -i, i.sum(), b.sum(), f.mean()


@program
def promotion_between_tensors(T):
    f, d = T.ones(2, dtype=T.float32), T.ones(2)
    i, b = T.tensor([1, 2]), T.tensor([True, False])
    return f + d, i + d, b + d, b + i, f + i, f * b


@program
def promotion_of_zero_dimensional_tensors(T):
    f, i = T.ones(2, dtype=T.float32), T.tensor([1, 2])
    return f * T.tensor(2.0), i * T.tensor(2.5), i + T.tensor(1)


@program
def comparisons(T):
    x, y = T.tensor([1.0, 2.0, 3.0]), T.tensor([2.0, 2.0, 2.0])
    return x > y, x >= y, x < 2, x <= y, x == y, x != 2, (x > 1) & (x < 3), (x < 2) | (x > 2), ~(x > 2)


@program
def comparisons_have_no_gradient(T):
    x = leaf(T, 3)
    return x > 0, (x == x).requires_grad, (x > 0).grad_fn is None, T.argmax(x)


@program
def argmax_and_indices(T):
    x = leaf(T, 3, 4)
    values, indices = x.max(dim=1)
    smallest = x.min(dim=0)
    return x.argmax(), x.argmax(dim=1), T.argmax(x, dim=0), values, indices, smallest.values, smallest.indices


@program
def bool_reductions(T):
    x = T.tensor([True, False, True])
    return x.any(), x.all(), x.any().item(), bool((T.ones(3) == 1).all()), x.sum().item()


@program
def iteration_and_unpacking(T):
    x = leaf(T, 3, 2)
    a, b, c = x
    total = sum(((i + 1) * row.sum() for i, row in enumerate(x)), (a * b).sum() + c[0])
    return value_and_grads(T, total, x)


@program
def numpy_functions_of_detached_tensors(T):
    x = leaf(T, 3)
    return float(np.sum(x.detach().numpy())), np.asarray(x.detach()).tolist()


@program
def errors_of_shape_and_index(T):
    x = T.zeros(2, 3)
    return [
        raised(RuntimeError, "", lambda: x + T.zeros(2)),
        raised(RuntimeError, "", lambda: x @ T.zeros(2, 2)),
        raised(RuntimeError, "", lambda: x.view(5)),
        raised(RuntimeError, "", lambda: T.cat([x, T.zeros(2, 4)])),
        raised(IndexError, "", lambda: x[2]),
        raised(IndexError, "", lambda: x.sum(dim=2)),
        raised(IndexError, "", lambda: x[0, 0, 0]),
    ]


@program
def errors_of_conversion(T):
    x = T.zeros(2, requires_grad=True)
    return [
        raised(RuntimeError, "requires grad", x.numpy),
        raised(RuntimeError, "", x.item),
        raised(RuntimeError, "ambiguous", lambda: bool(x)),
        raised(RuntimeError, "floating point", lambda: T.tensor([1, 2], requires_grad=True)),
        raised(RuntimeError, "", lambda: T.tensor([1, 2]).requires_grad_()),
    ]


@program
def view_of_noncontiguous_raises(T):
    x = T.zeros(2, 3).t()
    return raised(RuntimeError, "", lambda: x.view(6)), x.reshape(6), x.is_contiguous(), x.contiguous().view(6)


@program
def results_of_transposed_tensors_can_be_viewed(T):
    """What torch lays out in rows, whatever the layout of its operands."""
    x = leaf(T, 3, 4, low=0.3)
    t, norm = x.t(), T.nn.LayerNorm(3)
    ops = {
        "stack": lambda: T.stack([t, t]),
        "cat": lambda: T.cat([t, t], dim=1),
        "softmax": lambda: t.softmax(dim=1),
        "log_softmax": lambda: t.log_softmax(dim=1),
        "cumsum": lambda: t.cumsum(dim=0),
        "masked_fill": lambda: t.masked_fill(t > 1, 0.0),
        "index": lambda: t[:, T.tensor([0, 2])],
        "sum": lambda: t.unsqueeze(0).sum(dim=0),
        "mean": lambda: t.unsqueeze(2).mean(dim=2),
        "max": lambda: t.unsqueeze(0).max(dim=0)[0],
        "matmul": lambda: t @ x,
        "layer_norm": lambda: norm(t),
    }
    return {name: value_and_grads(T, op().view(-1), x)[0] for name, op in ops.items()}, x.grad


# ---- the graph ---------------------------------------------------------------------------------------------------


@program
def requires_grad_is_contagious(T):
    x, c = leaf(T, 3), const(T, 3, seed=1)
    results = [c + c, x + c, (x + c) * c, x.detach() + c, x.data * 2, T.stack([c, x]), c[x > 0], T.where(x > 0, x, c)]
    return [(r.requires_grad, r.grad_fn is None) for r in results]


@program
def leaves(T):
    x, c = leaf(T, 3), const(T, 3)
    y = x * 2
    late = (c * 2).requires_grad_()
    return [t.is_leaf for t in (x, c, y, c * 2, y.detach(), late, x[0], x.data)], x.grad


@program
def requires_grad_can_be_set(T):
    x = const(T, 3)
    before = (x * 2).requires_grad
    same = x.requires_grad_() is x
    after = (x * 2).requires_grad
    x.requires_grad = False
    y = leaf(T, 3).sum()
    return before, same, after, x.requires_grad, raised(RuntimeError, "leaf", lambda: y.requires_grad_(False))


@program
def names_of_nodes(T):
    x, y = leaf(T, 3, 3, low=0.3), leaf(T, 3, 3, low=0.3, seed=1)
    results = [
        *(x + y, x - y, x * y, x / y, -x, x**2, x @ y, x.exp(), x.log(), x.sqrt(), x.sin(), x.tanh(), x.sigmoid()),
        *(x.sum(), x.mean(), x.sum(dim=0), x.relu(), x.abs(), x.clone(), x.t(), x.view(9), x.unsqueeze(0), x[0], x[1:]),
        *(T.cat([x, y]), T.stack([x, y]), T.where(x > 1, x, y), x.max(), T.maximum(x, y), x.softmax(dim=0)),
    ]
    return [node_name(r.grad_fn) for r in results]


@program
def next_functions(T):
    x, y, c = leaf(T, 3), leaf(T, 3), const(T, 3)
    inner = x * y
    outer = (inner + c).sum()

    def names(node):
        return [(None if f is None else node_name(f), i) for f, i in node.next_functions]

    add = outer.grad_fn.next_functions[0][0]
    return names(outer.grad_fn), names(add), names(inner.grad_fn), c.grad_fn, x.grad_fn


@program
def walking_the_graph(T):
    x = leaf(T, 3)
    y = ((x * x).exp() + x).sum()
    names, stack = [], [y.grad_fn]
    while stack:
        node = stack.pop()
        names.append(node_name(node))
        stack.extend(f for f, _ in node.next_functions if f is not None)
    return names


@program
def accumulate_grad_knows_its_variable(T):
    x = leaf(T, 2)
    node = (x * 2).grad_fn.next_functions[0][0]
    return node_name(node), node.variable is x


@program
def grad_fn_is_one_object(T):
    x = leaf(T, 2)
    y = x.exp()
    z = y.sum()
    return y.grad_fn is y.grad_fn, z.grad_fn.next_functions[0][0] is y.grad_fn, y.grad_fn is x.exp().grad_fn


# ---- backward ----------------------------------------------------------------------------------------------------


@program
def backward_of_a_scalar(T):
    x = leaf(T, 3)
    y = (x * x).sum()
    return y.backward(), x.grad, x.grad.requires_grad, x.grad.is_leaf, y.grad_fn is None


@program
def backward_of_one_element(T):
    x = leaf(T, 1, 1)
    (x * x).backward()
    return x.grad


@program
def backward_needs_a_gradient_for_a_vector(T):
    x = leaf(T, 3)
    y = x * 2
    error = raised(RuntimeError, "grad can be implicitly created only for scalar outputs", y.backward)
    y.backward(T.tensor([1.0, 2.0, 3.0]))
    return error, x.grad


@program
def backward_with_gradient_keyword(T):
    x = leaf(T, 2, 2)
    (x.exp()).backward(gradient=T.ones(2, 2))
    return x.grad


@program
def backward_checks_the_shape_of_the_gradient(T):
    y = leaf(T, 3) * 2
    return raised(RuntimeError, "shape", lambda: y.backward(T.ones(2)))


@program
def backward_without_a_graph(T):
    c = const(T, 3)
    return raised(RuntimeError, "does not require grad", c.sum().backward)


@program
def backward_on_a_leaf(T):
    x = T.tensor(3.0, requires_grad=True)
    x.backward()
    x.backward()
    return x.grad


@program
def gradients_accumulate(T):
    x = leaf(T, 3)
    grads = []
    for k in range(4):
        (x * x * k).sum().backward()
        grads.append(x.grad.clone())
    x.grad = None
    (x * 3).sum().backward()
    return grads, x.grad


@program
def gradients_accumulate_in_place(T):
    x = leaf(T, 3)
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    return first is x.grad, first


@program
def gradient_zeroed_in_place(T):
    x = leaf(T, 3)
    grads = []
    for k in range(4):
        (x**2 * (k + 1)).sum().backward()
        grads.append(x.grad.clone())
        x.grad.zero_()
    return grads, x.grad


@program
def gradient_can_be_assigned(T):
    x = leaf(T, 3)
    x.grad = T.ones(3)
    (x * 2).sum().backward()
    return x.grad, raised(RuntimeError, "", lambda: setattr(x, "grad", T.ones(2)))


@program
def gradients_of_two_leaves_are_two_tensors(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    (x + y).sum().backward()
    x.grad.mul_(5)
    return x.grad, y.grad


@program
def non_leaf_has_no_grad(T):
    x = leaf(T, 3)
    y = x * 2
    y.sum().backward()
    return x.grad is not None, y.is_leaf, x.detach().grad


@program
def retained_gradients(T):
    x = leaf(T, 3)
    y = x.exp()
    y.retain_grad()
    z = y * y
    z.retain_grad()
    z.sum().backward()
    return x.grad, y.grad, z.grad, raised(RuntimeError, "requires_grad=False", const(T, 2).retain_grad)


@program
def second_backward_raises(T):
    x = leaf(T, 3)
    y = x.exp().sum()
    y.backward()
    return raised(RuntimeError, "backward through the graph a second time", y.backward), x.grad


@program
def second_backward_where_nothing_was_saved(T):
    x = leaf(T, 3)
    results = [(x + 1).sum(), (x - x[0]).mean(), (-x).sum(), x.view(3, 1).t().sum(), x[1:].sum(), T.cat([x, x]).sum()]
    for y in results:
        y.backward()
        y.backward()
    return x.grad


@program
def second_backward_of_scaled_sums(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    h = T.add(x, y, alpha=2.0)
    h.sub_(y, alpha=0.5)
    h.sum().backward()
    h.sum().backward()
    return x.grad, y.grad


@program
def second_backward_of_products(T):
    x = leaf(T, 3)
    results = [(x * x).sum(), (x**2).sum(), x.norm(), x @ x, x.sin().sum(), x.softmax(0)[0], T.where(x > 0, x, -x)[0]]
    for y in results:
        y.backward()
    return [raised(RuntimeError, "second time", y.backward) for y in results], x.grad


@program
def second_backward_through_a_shared_part(T):
    x = leaf(T, 3)
    saved, unsaved = x.exp(), x + 1
    saved.sum().backward()
    unsaved.sum().backward()
    unsaved.mean().backward()
    return raised(RuntimeError, "second time", saved.mean().backward), x.grad


@program
def retain_graph(T):
    x = leaf(T, 3)
    y = (x**3).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    return x.grad, raised(RuntimeError, "second time", y.backward)


@program
def backward_with_create_graph(T):
    x = leaf(T, 3)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    x.grad = None
    (first**2).sum().backward()
    return first.detach(), first.requires_grad, x.grad


@program
def backward_into_chosen_inputs(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    (x * y).sum().backward(inputs=[x])
    return x.grad, y.grad


@program
def backward_of_several_roots(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    a, b = (x * y).sum(), x.exp() * y
    T.autograd.backward([a, b], [None, T.tensor([1.0, 0.0, 2.0])])
    return x.grad, y.grad


@program
def backward_of_roots_that_share_a_part(T):
    x = leaf(T, 3)
    h = x.tanh()
    T.autograd.backward([h.sum(), (h * h).sum()])
    return x.grad


@program
def backward_of_one_root_given_twice(T):
    x = leaf(T, 3)
    y = (x * x).sum()
    T.autograd.backward([y, y])
    return x.grad


@program
def two_losses_one_after_the_other(T):
    x = leaf(T, 3)
    h = x.exp()
    h.sum().backward(retain_graph=True)
    first = x.grad.clone()
    (h * h).sum().backward()
    return first, x.grad


@program
def diamonds(T):
    x = leaf(T, 3)
    a = x * 2
    b, c = a.exp(), a.sin()
    d = b * c + a + x
    return value_and_grads(T, d * d + b + b, x)


@program
def an_operand_used_twice(T):
    x = leaf(T, 3)
    return value_and_grads(T, x * x + x - x / x + T.cat([x, x])[:3] + T.stack([x, x]).sum(dim=0), x)


@program
def a_long_chain(T):
    x = leaf(T, 2)
    y = x
    for i in range(2000):
        y = y * 0.999 + 0.001 * (i % 3)
    y.sum().backward()
    return y, x.grad


@program
def a_long_recurrence_with_two_terms(T):
    x = leaf(T, 2)
    a, b = x, x * 0.5
    for _ in range(60):
        a, b = b, 0.6 * a + 0.3 * b
    return value_and_grads(T, b, x)


@program
def loops_that_depend_on_data(T):
    counts, grads = [], []
    for start in (0.1, 1.0, 3.0, 0.1):
        x = T.tensor([start, 2 * start], requires_grad=True)
        y, count = x * 2, 0
        while y.norm() < 50:
            y = y * 2
            count += 1
        y.sum().backward()
        counts.append(count)
        grads.append(x.grad)
    return counts, grads


@program
def branches_that_depend_on_data(T):
    grads = []
    for value in (1.0, -1.0, 2.0, -2.0, 1.0):
        x = T.tensor(value, requires_grad=True)
        y = x.exp() if x > 0 else x * x
        y.backward()
        grads.append(x.grad)
    return grads


@program
def changing_shapes(T):
    grads = []
    for n in (1, 2, 5, 2, 7, 1, 5):
        x = leaf(T, n, 3, seed=n)
        grads.append(value_and_grads(T, (x @ x.t()).softmax(dim=1), x))
    return grads


@program
def changing_constants(T):
    x = leaf(T, 3)
    return [T.autograd.grad((x * k + k).exp().sum() * (k + 1), x)[0] for k in (0.5, 1.0, 1, 2, 0.0, -1.0)]


@program
def changing_requires_grad(T):
    grads = []
    for k in range(6):
        x = T.tensor(numbers(3), requires_grad=k % 2 == 0)
        y = T.tensor(numbers(3, seed=1), requires_grad=k % 3 != 1 or k % 2 == 1)
        (x * y).sum().backward()
        grads.append((x.grad, y.grad))
    return grads


@program
def zero_dimensional_and_empty(T):
    x, e = T.tensor(2.0, requires_grad=True), T.zeros(0, 3, requires_grad=True)
    y = x**3 + (e * 2).sum() + e.sum(dim=0).sum()
    y.backward()
    return y, x.grad, e.grad, e.exp()


@program
def float32_stays_float32(T):
    x = T.tensor(numbers(4), dtype=T.float32, requires_grad=True)
    y = (x * 2.5 + 1).exp().sum() / 3
    y.backward()
    return y, x.grad


@program
def gradients_through_a_cast(T):
    x = leaf(T, 3)
    y = T.tensor(numbers(3), dtype=T.float32, requires_grad=True)
    (x.float() * y).sum().backward()
    return x.grad, y.grad


@program
def integer_tensors_take_part(T):
    x = leaf(T, 3)
    return value_and_grads(T, x * T.tensor([1, 2, 3]) + T.arange(3) + (x > 0), x)


@program
def detach_cuts(T):
    x = leaf(T, 3)
    y = x * 2
    z = y.detach() * x + y
    z.sum().backward()
    return x.grad, y.detach().requires_grad, y.detach().is_leaf


@program
def detach_in_place(T):
    x = leaf(T, 3)
    y = x * 2
    same = y.detach_() is y
    return same, y.requires_grad, y.is_leaf, y.grad_fn, raised(RuntimeError, "", y.sum().backward)


@program
def data_is_outside_the_graph(T):
    x = leaf(T, 3)
    y = x.data
    y.mul_(2)
    return x, y, y.requires_grad, x._version


@program
def data_can_be_replaced(T):
    w = leaf(T, 3)
    (w * w).sum().backward()
    w.data = w.data - 0.1 * w.grad.data
    w.data -= 1.0
    first = w.grad
    w.grad = None
    (w * w).sum().backward()
    return w, first, w.grad, w.is_leaf


@program
def gradients_flow_to_a_late_leaf(T):
    c = const(T, 3)
    y = (c * 2).requires_grad_()
    (y.exp() * c).sum().backward()
    return y.grad, c.grad


# ---- autograd.grad -----------------------------------------------------------------------------------------------


@program
def grad_returns_and_does_not_store(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    grads = T.autograd.grad((x * y).sum(), [x, y])
    (one,) = T.autograd.grad((x * y).sum(), x)
    return isinstance(grads, tuple), grads, one, x.grad, y.grad


@program
def grad_of_vectors(T):
    x = leaf(T, 3)
    y = x.exp()
    v = T.tensor([1.0, 2.0, 3.0])
    error = raised(RuntimeError, "scalar outputs", lambda: T.autograd.grad(y, x, retain_graph=True))
    return error, T.autograd.grad(y, x, grad_outputs=v, retain_graph=True), T.autograd.grad([y], [x], [v])


@program
def grad_of_several_outputs(T):
    x = leaf(T, 3)
    a, b = x.sum() ** 2, (x**3).sum()
    return T.autograd.grad([a, b], x, retain_graph=True), T.autograd.grad(
        (a, b), (x,), grad_outputs=(T.tensor(2.0), T.tensor(-1.0))
    )


@program
def grad_with_respect_to_intermediates(T):
    x = leaf(T, 3)
    h = x.exp()
    y = (h * x).sum()
    return T.autograd.grad(y, [h, x], retain_graph=True), T.autograd.grad(y, h), T.autograd.grad(h.sum(), h)


@program
def grad_of_an_unused_input(T):
    x, y, c = leaf(T, 3), leaf(T, 3), const(T, 3)
    return (
        raised(RuntimeError, "not have been used in the graph", lambda: T.autograd.grad(x.sum(), [x, y])),
        T.autograd.grad((x * x).sum(), [x, y], allow_unused=True),
        raised(RuntimeError, "", lambda: T.autograd.grad((x * c).sum(), c)),
    )


@program
def grad_of_what_has_no_graph(T):
    x, c = leaf(T, 3), const(T, 3)
    return raised(RuntimeError, "does not require grad", lambda: T.autograd.grad(c.sum(), x))


@program
def grad_frees_the_graph(T):
    x = leaf(T, 3)
    y = x.exp().sum()
    T.autograd.grad(y, x)
    return raised(RuntimeError, "second time", lambda: T.autograd.grad(y, x))


@program
def grad_three_times(T):
    x = leaf(T, 3)
    y, grads = x.sin() * x**2, []
    for _ in range(3):
        (y,) = T.autograd.grad(y.sum(), x, create_graph=True)
        grads.append(y)
    return grads


@program
def gradient_penalty(T):
    x, w = leaf(T, 4, 3), leaf(T, 3, seed=1)
    y = (x @ w).tanh()
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    loss = y.pow(2).mean() + ((g.norm(dim=1) - 1) ** 2).mean()
    loss.backward()
    return loss, x.grad, w.grad


@program
def gradient_of_a_gradient_that_is_constant(T):
    x = leaf(T, 4)
    (g,) = T.autograd.grad(x.relu().sum(), x, create_graph=True)
    return g, T.autograd.grad((g * g).sum(), x)


@program
def gradient_penalty_of_a_relu_network(T):
    net, x = fill(T, T.nn.Sequential(T.nn.Linear(3, 4), T.nn.ReLU(), T.nn.Linear(4, 1))), leaf(T, 5, 3)
    (g,) = T.autograd.grad(net(x).sum(), x, create_graph=True)
    ((g.norm(dim=1) - 1) ** 2).mean().backward()
    return gradients(net), x.grad


@program
def hessian_vector_product_by_hand(T):
    x, v = leaf(T, 4), const(T, 4, seed=1)
    f = (x.exp() * x.sum()).sum()
    (g,) = T.autograd.grad(f, x, create_graph=True)
    return T.autograd.grad(g @ v, x)


@program
def grad_of_a_linear_function_is_constant(T):
    x = leaf(T, 3)
    (g,) = T.autograd.grad((x * 2).sum(), x, create_graph=True)
    return g.detach(), raised(RuntimeError, "", lambda: T.autograd.grad(g.sum(), x))


@program
def mixed_backward_and_grad(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = (x.exp() * y.sin()).sum()
    (g,) = T.autograd.grad(z, x, create_graph=True)
    (g * y).sum().backward(retain_graph=True)
    z.backward()
    return x.grad, y.grad


# ---- Function ----------------------------------------------------------------------------------------------------


def cube_function(T: Any) -> Any:
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    return Cube


@program
def function_with_saved_tensors(T):
    x = leaf(T, 3)
    y = cube_function(T).apply(x)
    return *value_and_grads(T, y * x, x), node_name(y.grad_fn), y.is_leaf


@program
def function_differentiated_twice(T):
    x = leaf(T, 3)
    y = cube_function(T).apply(x).sum()
    (g,) = T.autograd.grad(y, x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x)


@program
def function_in_a_chain(T):
    x = leaf(T, 3)
    cube = cube_function(T).apply
    return [value_and_grads(T, cube(cube(x * 0.5).tanh()) + x, x)[1].clone() for _ in range(3)]


@program
def function_without_graph(T):
    x, c = leaf(T, 2), const(T, 2)
    cube = cube_function(T).apply
    with T.no_grad():
        inside = cube(x)
    return cube(c), inside


@program
def function_that_uses_its_saved_result(T):
    class Exp(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = leaf(T, 3)
    y = Exp.apply(x)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    return y, g, T.autograd.grad((g * g).sum(), x)


@program
def function_with_other_arguments(T):
    class Power(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, exponent, scale=1.0):
            ctx.save_for_backward(x)
            ctx.exponent, ctx.scale = exponent, scale
            return scale * x**exponent

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * ctx.scale * ctx.exponent * x ** (ctx.exponent - 1), None, None

    x = leaf(T, 3)
    return [value_and_grads(T, Power.apply(x, n, s), x)[1].clone() for n, s in ((2, 1.0), (3, 0.5), (2, 2.0))]


@program
def function_with_needs_input_grad(T):
    seen = []

    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            seen.append(tuple(ctx.needs_input_grad))
            x, y = ctx.saved_tensors
            return grad * y if ctx.needs_input_grad[0] else None, grad * x if ctx.needs_input_grad[1] else None

    x, y, c = leaf(T, 3), leaf(T, 3, seed=1), const(T, 3)
    Product.apply(x, y).sum().backward()
    Product.apply(c, y).sum().backward()
    Product.apply(x, c).sum().backward()
    return seen, x.grad, y.grad, c.grad


@program
def function_with_several_outputs(T):
    class Split(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2, x.exp()

        @staticmethod
        def backward(ctx, first, second):
            (x,) = ctx.saved_tensors
            return 2 * first + second * x.exp()

    x = leaf(T, 3)
    a, b = Split.apply(x)
    (a * b).sum().backward()
    both = x.grad.clone()
    a, b = Split.apply(x)
    b.sum().backward()  # what was not used arrives as zeros
    return both, x.grad


@program
def function_with_non_differentiable_output(T):
    class SortedMax(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            index = x.argmax()
            ctx.mark_non_differentiable(index)
            ctx.save_for_backward(x, index)
            return x.max(), index

        @staticmethod
        def backward(ctx, grad, _):
            x, index = ctx.saved_tensors
            return T.where(T.arange(x.numel()) == index, grad, 0.0)

    x = leaf(T, 4)
    value, index = SortedMax.apply(x)
    value.backward()
    return value, index, index.requires_grad, x.grad


@program
def function_differentiable_once(T):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = leaf(T, 3)
    (plain,) = T.autograd.grad(Square.apply(x).sum(), x)
    (g,) = T.autograd.grad((Square.apply(x) ** 2).sum(), x, create_graph=True)
    return plain, g.detach(), raised(RuntimeError, "once_differentiable", g.sum().backward)


@program
def function_with_a_wrong_number_of_gradients(T):
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    return raised(RuntimeError, "incorrect number of gradients", Wrong.apply(leaf(T, 3)).sum().backward)


@program
def function_runs_without_recording(T):
    seen = []

    class Identity(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((T.is_grad_enabled(), (x * 2).requires_grad))
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append((T.is_grad_enabled(), grad.requires_grad))
            return grad

    x = leaf(T, 3)
    Identity.apply(x).sum().backward()
    (g,) = T.autograd.grad((Identity.apply(x) * x).sum(), x, create_graph=True)
    return seen, g


@program
def function_with_a_straight_through_estimator(T):
    class Sign(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return T.where(x > 0, 1.0, -1.0)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return T.where(x.abs() < 1, grad, T.zeros_like(grad))

    x, w = leaf(T, 5), leaf(T, 5, seed=1)
    return value_and_grads(T, Sign.apply(x * w) * w, x, w)


@program
def function_checks_saved_versions(T):
    x = leaf(T, 3)
    h = x * 2
    y = cube_function(T).apply(h).sum()
    h.add_(1)
    return raised(RuntimeError, "modified by an inplace operation", y.backward)


@program
def function_freed_after_backward(T):
    x = leaf(T, 3)
    y = cube_function(T).apply(x).sum()
    y.backward()
    return raised(RuntimeError, "second time", y.backward)


@program
def function_with_setup_context(T):
    class Double(T.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    x = leaf(T, 3)
    return value_and_grads(T, Double.apply(x, 4.0), x)


# ---- autograd.functional, gradcheck ------------------------------------------------------------------------------


@program
def functional_jacobian(T):
    x = const(T, 3)
    jacobian = T.autograd.functional.jacobian
    return jacobian(lambda x: T.stack([x.sum(), (x * x).prod()]), x), jacobian(lambda x: x.exp().sum(), x)


@program
def functional_jacobian_of_several(T):
    x, y = const(T, 2), const(T, 3, seed=1)
    return T.autograd.functional.jacobian(lambda x, y: (T.outer(x, y), x.sum() * y), (x, y))


@program
def functional_jacobian_with_graph(T):
    x = leaf(T, 2)
    j = T.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True)
    return j, T.autograd.grad(j.sum(), x)


@program
def functional_hessian(T):
    x, y = const(T, 3), const(T, 2, seed=1)
    hessian = T.autograd.functional.hessian
    return hessian(lambda x: (x.exp() * x.sum()).sum(), x), hessian(lambda x, y: (x.sum() * y.exp()).sum() ** 2, (x, y))


@program
def functional_products(T):
    x, v = const(T, 3), const(T, 3, seed=1)
    functional = T.autograd.functional
    return {
        "vjp": functional.vjp(lambda x: x.exp() * x.sum(), x, v),
        "jvp": functional.jvp(lambda x: x.exp() * x.sum(), x, v),
        "hvp": functional.hvp(lambda x: (x.exp() * x.sum()).sum(), x, v),
    }


@program
def functional_products_of_several(T):
    x, y, u, v = (const(T, 3, seed=i) for i in range(4))
    functional = T.autograd.functional
    return (
        functional.vjp(lambda x, y: (x * y, y.sin()), (x, y), (u, v)),
        functional.jvp(lambda x, y: x * y.exp(), (x, y), (u, v)),
        functional.hvp(lambda x, y: (x * x * y).sum(), (x, y), (u, v)),
    )


@program
def gradcheck_accepts(T):
    x, w = leaf(T, 3, 2), leaf(T, 2, seed=1)
    check = T.autograd.gradcheck
    return [
        check(lambda x: x.exp() * x.sin(), (x,)),
        check(lambda x, w: (x @ w).softmax(dim=0), (x, w)),
        check(cube_function(T).apply, (x,)),
        T.autograd.gradgradcheck(lambda x: x**3, (x,)),
    ]


@program
def gradcheck_refuses(T):
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.exp()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(T, 2)
    check = T.autograd.gradcheck
    return raised(RuntimeError, "", lambda: check(Wrong.apply, (x,))), check(Wrong.apply, (x,), raise_exception=False)


# ---- modes -------------------------------------------------------------------------------------------------------


@program
def no_grad_as_a_context(T):
    x = leaf(T, 3)
    with T.no_grad():
        y = x * 2
        fresh = T.ones(2, requires_grad=True)
        late = T.ones(2).requires_grad_()
    z = y * x
    z.sum().backward()
    return y, y.is_leaf, y.grad_fn, fresh, late, x.grad


@program
def modes_nested(T):
    x, seen = leaf(T, 2), []

    def note():
        seen.append((T.is_grad_enabled(), (x * 2).requires_grad))

    note()
    with T.no_grad():
        note()
        with T.enable_grad():
            note()
            with T.no_grad():
                note()
            note()
        note()
    with T.set_grad_enabled(False):
        note()
        with T.set_grad_enabled(True):
            note()
    note()
    return seen


@program
def modes_as_decorators(T):
    x = leaf(T, 2)

    @T.no_grad()
    def plain(x):
        return x * 2

    @T.no_grad
    def bare(x):
        return x * 2

    @T.enable_grad()
    def tracked(x):
        return x * 2

    @T.inference_mode()
    def inference(x):
        return x * 2

    with T.no_grad():
        inside = tracked(x).requires_grad
    return [plain(x).requires_grad, bare(x).requires_grad, inside, inference(x).requires_grad, plain.__name__]


@program
def modes_as_calls(T):
    x = leaf(T, 2)
    try:
        T.set_grad_enabled(False)
        off = (x * 2).requires_grad
        T.set_grad_enabled(True)
        on = (x * 2).requires_grad
    finally:
        T.set_grad_enabled(True)
    return off, on


@program
def modes_survive_exceptions(T):
    with contextlib.suppress(ValueError), T.no_grad():
        raise ValueError
    with contextlib.suppress(ValueError), T.no_grad(), T.enable_grad():
        raise ValueError
    return T.is_grad_enabled()


@program
def modes_on_generators(T):
    x, seen = leaf(T, 2), []

    @T.no_grad()
    def steps():
        for _ in range(3):
            yield (x * 2).requires_grad, T.is_grad_enabled()

    for step in steps():
        seen.append((step, T.is_grad_enabled(), (x * 2).requires_grad))
    return seen


@program
def a_mode_used_twice(T):
    x, mode = leaf(T, 2), T.no_grad()
    seen = []
    for _ in range(2):
        with mode:
            seen.append((x * 2).requires_grad)
        seen.append((x * 2).requires_grad)
    return seen


@program
def inference_mode_as_a_context(T):
    x = leaf(T, 3)
    with T.inference_mode():
        y = x * 2
        y.add_(1)
        inside = T.is_grad_enabled(), T.is_inference_mode_enabled()
    with T.inference_mode(False):
        z = x * 2
    return y.requires_grad, y.is_leaf, inside, z.requires_grad, T.is_inference_mode_enabled(), y.is_inference()


@program
def inference_tensors_outside(T):
    x = leaf(T, 3)
    with T.inference_mode():
        y = const(T, 3, seed=1)
    return (
        value_and_grads(T, x * y.clone(), x),
        x.detach() * y,
        raised(RuntimeError, "Inference tensors cannot be saved for backward", lambda: x * y),
        raised(RuntimeError, "inference tensor", y.requires_grad_),
        raised(RuntimeError, "Inplace update to inference tensor outside InferenceMode", lambda: y.add_(1)),
    )


@program
def grad_mode_does_not_change_the_graph(T):
    x = leaf(T, 3)
    y = (x * x).sum()
    with T.no_grad():
        y.backward()
    return x.grad


@program
def views_made_without_grad(T):
    x = leaf(T, 3)
    with T.no_grad():
        y = x[1:]
        y.add_(1)
    return x, y.requires_grad, x._version


# ---- in place ----------------------------------------------------------------------------------------------------


@program
def in_place_returns_self(T):
    x = const(T, 3, low=0.3)
    calls = [
        *(lambda: x.add_(1), lambda: x.sub_(0.5), lambda: x.mul_(2), lambda: x.div_(4), lambda: x.copy_(T.ones(3))),
        *(lambda: x.fill_(2.0), lambda: x.clamp_(0, 1), lambda: x.exp_(), lambda: x.relu_(), lambda: x.zero_()),
    ]
    return [(call() is x, x.tolist(), x._version) for call in calls]


@program
def in_place_operators(T):
    x = const(T, 3)
    y = x
    x += 1
    x -= T.tensor([1.0, 2.0, 3.0])
    x *= 2
    x /= 4
    return x is y, y, y._version


@program
def in_place_with_alpha(T):
    x, g = const(T, 3), const(T, 3, seed=1)
    return x.add_(g, alpha=-0.1), x.sub_(g, alpha=2), T.add(x, g, alpha=3)


@program
def gradient_descent_by_hand(T):
    w, X, y = leaf(T, 3), const(T, 8, 3, seed=1), const(T, 8, seed=2)
    losses = []
    for _ in range(8):
        loss = ((X @ w - y) ** 2).mean()
        loss.backward()
        with T.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
        losses.append(loss.item())
    return losses, w, w._version, w.is_leaf


@program
def gradient_descent_through_data(T):
    w = leaf(T, 3)
    for _ in range(6):
        (w**4).sum().backward()
        w.data.sub_(0.01 * w.grad)
        w.grad = None
    return w, w._version, w.requires_grad


@program
def leaf_in_place_raises(T):
    x, phrase = leaf(T, 3), "leaf Variable that requires grad"

    def augmented():
        y = x
        y += 1

    def assigned():
        x[0] = 1.0

    calls = (augmented, assigned, x.zero_, lambda: x.mul_(2), lambda: x.copy_(T.ones(3)))
    return [raised(RuntimeError, phrase, call) for call in calls], x


@program
def view_of_leaf_in_place_raises(T):
    x = leaf(T, 3)
    views = x[1:], x.view(3, 1), x.detach()
    errors = [raised(RuntimeError, "leaf Variable that requires grad", lambda v=v: v.add_(1)) for v in views[:2]]
    views[2].add_(1)
    return errors, x


@program
def in_place_on_an_intermediate(T):
    x = leaf(T, 3)
    y = x * 2
    y.add_(1).mul_(y.detach() + 3)
    y -= x
    return *value_and_grads(T, y, x), y._version


@program
def in_place_on_a_constant_makes_it_tracked(T):
    x, c = leaf(T, 3), const(T, 3)
    before = c.requires_grad, c.is_leaf
    c.mul_(x)
    return before, c.requires_grad, c.is_leaf, value_and_grads(T, c, x)


@program
def in_place_with_a_broadcast_operand(T):
    x, y = leaf(T, 2, 3), leaf(T, 3, seed=1)
    z = x * 1
    z.add_(y).mul_(y)
    wrong = raised(RuntimeError, "", lambda: (y * 1).add_(x))
    return *value_and_grads(T, z, x, y), wrong


SAVED = {  # of intermediates of 3 elements in (0.3, 1.7), and a constant like them
    "add": lambda T, a, b, c: a + b,
    "sub": lambda T, a, b, c: a - b,
    "neg": lambda T, a, b, c: -a,
    "add_number": lambda T, a, b, c: a + 1,
    "mul": lambda T, a, b, c: a * b,
    "mul_constant": lambda T, a, b, c: a * c,
    "mul_number": lambda T, a, b, c: a * 3,
    "div": lambda T, a, b, c: a / b,
    "div_constant": lambda T, a, b, c: a / c,
    "div_number": lambda T, a, b, c: a / 3,
    "div_of_constant": lambda T, a, b, c: c / a,
    "pow": lambda T, a, b, c: a**2,
    "pow_exponent": lambda T, a, b, c: 2**a,
    "dot": lambda T, a, b, c: a @ b,
    "matmul": lambda T, a, b, c: a.view(3, 1) @ b.view(1, 3),
    "matmul_constant": lambda T, a, b, c: c.view(1, 3) @ a.view(3, 1),
    **{
        name: lambda T, a, b, c, name=name: getattr(a, name)()
        for name in "exp log sin cos sqrt tanh sigmoid relu abs sum mean max norm prod var clone t".split()
    },
    "sum_dim": lambda T, a, b, c: a.sum(dim=0),
    "max_dim": lambda T, a, b, c: a.max(dim=0)[0],
    "softmax": lambda T, a, b, c: a.softmax(dim=0),
    "logsumexp": lambda T, a, b, c: a.logsumexp(dim=0),
    "cumsum": lambda T, a, b, c: a.cumsum(dim=0),
    "where": lambda T, a, b, c: T.where(c > 1, a, b),
    "maximum": lambda T, a, b, c: T.maximum(a, b),
    "clamp": lambda T, a, b, c: a.clamp(0.5, 1.5),
    "cat": lambda T, a, b, c: T.cat([a, b]),
    "stack": lambda T, a, b, c: T.stack([a, b]),
    "gather": lambda T, a, b, c: a.gather(0, T.tensor([0, 0, 1])),
    "index": lambda T, a, b, c: a[T.tensor([0, 2])],
    "masked_fill": lambda T, a, b, c: a.masked_fill(c > 1, 0.0),
}


def saved(op: Callable[..., Any]) -> Program:
    """Backward after an operand or the result was changed in place: gradients, or the error."""

    def after_change(T: Any, which: str) -> Any:
        x, z = leaf(T, 3, low=0.3), leaf(T, 3, low=0.3, seed=1)
        a, b = x * 1, z * 1
        y = op(T, a, b, const(T, 3, low=0.3))
        total = weighted(T, y)
        {"a": a, "b": b, "y": y}[which].detach().mul_(2)
        try:
            total.backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error), error
            return "raises"
        return x.grad, z.grad

    return lambda T: {which: after_change(T, which) for which in "aby"}


for _name, _saved in SAVED.items():
    add(f"saved_{_name}", saved(_saved))


@program
def what_is_saved_of_a_leaf(T):
    w, x = leaf(T, 3), leaf(T, 3, seed=1)
    y, z = (w * x).sum(), (w + x).sum()
    with T.no_grad():
        w.mul_(2)
    z.backward()
    return raised(RuntimeError, "modified by an inplace operation", y.backward), w.grad, x.grad


@program
def saved_only_where_a_gradient_needs_it(T):
    w, x = leaf(T, 3), const(T, 3, seed=1)
    y = (w * x).sum()
    with T.no_grad():
        w.mul_(2)  # only x was saved
    y.backward()
    return w.grad


@program
def message_of_the_version_error(T):
    x = leaf(T, 3)
    h = x.exp()
    y = h.sum()
    h.add_(1)
    h.add_(1)
    return raised(RuntimeError, "is at version 2; expected version 0 instead", y.backward)


@program
def version_error_through_data_is_not_seen(T):
    x = leaf(T, 3)
    h = x * 1
    y = (h * h).sum()
    h.data.mul_(2)
    y.backward()
    return x.grad


@program
def version_error_through_detach(T):
    x = leaf(T, 3)
    h = x * 1
    y = (h * h).sum()
    h.detach().mul_(2)
    return raised(RuntimeError, "modified by an inplace operation", y.backward), h._version


@program
def version_error_through_a_view(T):
    x = leaf(T, 3)
    h = x * 1
    y = (h * h).sum()
    h[0].mul_(2)
    z = (h.view(3, 1) * h.view(1, 3)).sum()
    h[1:] = 0
    return [raised(RuntimeError, "modified by an inplace operation", r.backward) for r in (y, z)]


@program
def versions(T):
    x = T.zeros(4)
    view, detached, clone = x[1:], x.detach(), x.clone()
    seen = [x._version]
    for change in (lambda: x.add_(1), lambda: view.mul_(2), lambda: detached.zero_(), lambda: x.data.add_(1)):
        change()
        seen.append((x._version, view._version, detached._version, clone._version))
    x[0] = 3.0
    x += 1
    return seen, x._version, (x + 1)._version


@program
def optimizer_step_between_forward_and_backward(T):
    w, x = leaf(T, 3, 3), leaf(T, 3, seed=1)
    y = (w @ (w @ x)).sum()
    with T.no_grad():
        w -= 0.1
    return raised(RuntimeError, "modified by an inplace operation", y.backward)


@program
def masked_fill_in_place(T):
    x = leaf(T, 4)
    y = x * 2
    y.masked_fill_(x > 0, 7.0)
    return value_and_grads(T, y * x, x)


@program
def zero_and_fill_cut_the_gradient(T):
    x = leaf(T, 3)
    y, z = x * 2, x * 3
    y.zero_()
    z.fill_(4.0)
    return value_and_grads(T, y + z + x, x)


@program
def copy_passes_the_gradient_on(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = x * 2
    z.copy_(y)
    return z, T.autograd.grad(weighted(T, z), [x, y], allow_unused=True)


@program
def copy_broadcasts_and_casts(T):
    x, row = T.zeros(2, 3), leaf(T, 3)
    x.copy_(row * 2)
    return *value_and_grads(T, x, row), T.zeros(2).copy_(T.tensor([1, 2])), T.tensor([0, 0]).copy_(T.tensor([1.7, 2.2]))


# ---- assignment to items -----------------------------------------------------------------------------------------


@program
def item_assignment_of_plain_data(T):
    x = T.zeros(3, 4)
    x[0] = 1.0
    x[1, 2] = T.tensor(5.0)
    x[:, -1] = T.tensor([7.0, 8.0, 9.0])
    x[T.tensor([0, 2]), T.tensor([0, 1])] = -1.0
    x[x == 1] = 2.0
    x[..., 0] += 0.5
    return x, x._version


@program
def item_assignment_of_a_slice(T):
    x, y = leaf(T, 4), leaf(T, 2, seed=1)
    z = x * 2
    z[1:3] = y * y
    return value_and_grads(T, z, x, y)


@program
def item_assignment_into_a_constant(T):
    x = leaf(T, 3)
    z = T.zeros(5)
    z[1:4] = x
    z[0] = x.sum()
    return value_and_grads(T, z, x)


@program
def item_assignment_by_mask(T):
    x, y = leaf(T, 5), leaf(T, 2, seed=1)
    z, w = x * 2, x * 3
    z[x > 0] = 0
    w[T.tensor([False, True, False, False, True])] = y
    return value_and_grads(T, z + w, x, y)


@program
def item_assignment_by_index_tensor(T):
    x, y = leaf(T, 5), leaf(T, 2, seed=1)
    z = x * 2
    z[T.tensor([3, 0])] = y
    return value_and_grads(T, z * z, x, y)


@program
def item_assignment_broadcasts(T):
    x, row = leaf(T, 3, 4), leaf(T, 4, seed=1)
    z = x * 2
    z[1:] = row
    z[:, 2] = row[0]
    return value_and_grads(T, z, x, row)


@program
def item_assignment_chains(T):
    x = leaf(T, 4)
    z = x * 1
    z[0] += 1
    z[1] += z[0] * 2
    z[2:] *= z[1].clone()
    z[3] -= z[2] + z[0]
    return value_and_grads(T, z, x)


@program
def item_assignment_in_a_loop(T):
    x = leaf(T, 5)
    z = T.zeros(5)
    z[0] = x[0]
    for i in range(1, 5):
        z[i] = z[i - 1].clone() * 0.5 + x[i].sin()
    return value_and_grads(T, z, x)


@program
def item_assignment_from_itself(T):
    x = leaf(T, 4)
    z = x * 2
    z[1:] = z[:-1].clone() + 1
    return value_and_grads(T, z, x)


@program
def item_assignment_to_what_was_saved(T):
    x = leaf(T, 3)
    z = x.exp()
    y = z.sum()
    z[0] = 0.0
    return raised(RuntimeError, "modified by an inplace operation", y.backward)


# ---- views -------------------------------------------------------------------------------------------------------


@program
def views_share_memory(T):
    x = T.zeros(2, 3)
    views = [x.view(6), x.t(), x[0], x[:, 1:], x.unsqueeze(0), x.transpose(0, 1), x.detach(), x.data, x.flatten()]
    x.add_(1)
    views[0][0] = 5.0
    views[1][2, 1] = 7.0
    return x, views


@program
def copies_do_not_share_memory(T):
    x = T.zeros(2, 3)
    copies = [x.clone(), x + 0, x[T.tensor([0, 1])], x.t().reshape(6), T.tensor(x.numpy()), x[x == 0]]
    x.fill_(1.0)
    return copies


@program
def in_place_through_a_view(T):
    x = leaf(T, 4)
    base = x * 2
    base[1:3].mul_(x[:2])
    return value_and_grads(T, base, x)


@program
def in_place_through_a_view_seen_by_the_view(T):
    x = leaf(T, 4)
    base = x * 2
    view = base[1:]
    view.mul_(3)
    view.add_(x[1:])
    return *value_and_grads(T, view * view, x), base


@program
def in_place_through_a_view_seen_by_another_view(T):
    x = leaf(T, 4)
    base = x * 2
    first, second = base[:3], base[1:]
    first.mul_(x[:3])
    return *value_and_grads(T, second * 2, x), base, first


@program
def in_place_on_the_base_seen_by_a_view(T):
    x = leaf(T, 4)
    base = x * 2
    view = base.view(2, 2)
    base.mul_(x)
    return *value_and_grads(T, view[1], x), view


@program
def in_place_with_gradient_into_a_constant_base(T):
    x, base = leaf(T, 2), T.zeros(4)
    other = base[:2]
    base[1:3].add_(x)
    return base, other, value_and_grads(T, base * 2, x)


@program
def views_of_views_in_place(T):
    x = leaf(T, 2, 3)
    base = x * 2
    rows = base[1:]
    cells = rows[:, 1:]
    cells.mul_(x[0, 1:])
    rows.add_(1)
    base.sub_(x)
    return *value_and_grads(T, cells * 3, x), rows, base


@program
def views_of_views_are_all_right_for_gradients(T):
    x = leaf(T, 2, 6)
    base = x * 1
    view = base.view(3, 4).t()[1:]
    view.mul_(2)
    total = weighted(T, base) + weighted(T, view.reshape(9)) + weighted(T, base[0])
    total.backward()
    return total, x.grad


@program
def parameters_that_are_views_of_one_buffer(T):
    flat = T.zeros(5)
    w, b = flat[:3].requires_grad_(), flat[3:].requires_grad_()
    losses = []
    for _ in range(4):
        loss = ((w - 1) ** 2).sum() + ((b + w.sum()) ** 2).sum()
        loss.backward()
        with T.no_grad():
            for p in (w, b):
                p -= 0.1 * p.grad
                p.grad = None
        losses.append(loss.item())
    error = raised(RuntimeError, "leaf Variable that requires grad", lambda: w.add_(1))
    return losses, flat, w, w.is_leaf, w.requires_grad, error


@program
def view_seen_before_its_base_is_tracked(T):
    x, base = leaf(T, 2), T.zeros(3)
    view, before = base[:2], base[1:].requires_grad
    base[1:] += x
    return before, view.requires_grad, value_and_grads(T, view * 2, x)


@program
def view_written_into_is_tracked(T):
    x, base = leaf(T, 2), T.ones(2)
    view = base.view(1, 2)
    view.mul_(x)
    return view.requires_grad, view.is_leaf, base.requires_grad, value_and_grads(T, view + base, x)


@program
def in_place_through_several_kinds_of_views(T):
    x = leaf(T, 2, 3)
    base = x * 2
    base.t().mul_(T.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    base.view(6)[::2] += 1
    base.unsqueeze(0).mul_(x)
    base.permute(1, 0)[0].zero_()
    return value_and_grads(T, base, x)


@program
def sum_before_and_after_a_change(T):
    x = leaf(T, 3)
    h = x + 1
    before = h.sum()
    h.mul_(2)
    after = h.sum()
    (before * after).backward()
    return x.grad


@program
def in_place_on_detached_is_seen(T):
    x = leaf(T, 3)
    h = x + 1
    h.detach().zero_()
    return value_and_grads(T, h * 2, x)


@program
def in_place_on_a_clone_is_not_seen(T):
    x = leaf(T, 3)
    h = x.exp()
    c = h.clone()
    c.add_(x).zero_()
    return value_and_grads(T, h, x)


@program
def in_place_under_no_grad_on_a_view(T):
    w = leaf(T, 4)
    view = w[1:]
    with T.no_grad():
        w[:2].mul_(10)
        w[3] = 0.0
    return *value_and_grads(T, view * w[0], w), w._version


@program
def in_place_differentiated_twice(T):
    x = leaf(T, 3)
    h = x**2
    h.mul_(x)
    h[1:] *= x[:2]
    (g,) = T.autograd.grad(h.sum(), x, create_graph=True)
    return h, g, T.autograd.grad((g * g).sum(), x)


@program
def in_place_activation(T):
    x, w = leaf(T, 4), leaf(T, 4, 4, seed=1)
    h = (w @ x).relu_()
    h = (w @ h).tanh_()
    return value_and_grads(T, h * 3, x, w)


@program
def hot_loop_with_in_place(T):
    x, sums = leaf(T, 4), []
    for k in range(6):
        h = x * (k + 1)
        h[k % 4] = 0.0
        h += x
        sums += T.autograd.grad((h * h).sum(), x)
    return sums


# ---- hooks -------------------------------------------------------------------------------------------------------


@program
def hook_on_a_leaf(T):
    x, seen = leaf(T, 3), []
    x.register_hook(lambda g: seen.append(g.clone()))
    (x * x + x).sum().backward()  # once, with the whole gradient
    (x * 2).sum().backward()
    return seen, x.grad


@program
def hook_on_an_intermediate(T):
    x, seen = leaf(T, 3), []
    h = x.exp()
    h.register_hook(lambda g: seen.append(g))
    (h * h + h).sum().backward()
    return seen, x.grad


@program
def hook_replaces_the_gradient(T):
    x = leaf(T, 3)
    h = x.exp()
    h.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g.clamp(max=20.0))
    (h * h).sum().backward()
    return x.grad


@program
def hook_removed(T):
    x, seen = leaf(T, 3), []
    handle = x.register_hook(lambda g: seen.append(1) or g * 2)
    (x * 3).sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    return seen, x.grad


@program
def hooks_in_order(T):
    x, seen = leaf(T, 2), []
    x.register_hook(lambda g: seen.append("a") or g + 1)
    middle = x.register_hook(lambda g: seen.append("b") or g * 100)
    x.register_hook(lambda g: seen.append("c") or g * 2)
    (x * 3).sum().backward()
    middle.remove()
    (x * 3).sum().backward()
    return seen, x.grad


@program
def hooks_along_a_chain(T):
    x, order = leaf(T, 2), []
    a = x * 2
    b = a.exp()
    for name, t in (("x", x), ("a", a), ("b", b)):
        t.register_hook(lambda g, name=name: order.append((name, g.clone())))
    b.sum().backward()
    return order


@program
def hooks_and_retained_gradients(T):
    x = leaf(T, 3)
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 5)
    (h * h).sum().backward()
    return h.grad, x.grad  # what was retained is what the hooks returned


@program
def hook_on_the_root(T):
    x, seen = leaf(T, 3), []
    y = (x * x).sum()
    y.register_hook(lambda g: seen.append(g) or g * 3)
    y.backward()
    return seen, x.grad


@program
def hooks_with_autograd_grad(T):
    x, h_seen = leaf(T, 3), []
    h = x * 2
    h.register_hook(lambda g: h_seen.append(g) or g * 2)
    x.register_hook(lambda g: g + 1)
    return T.autograd.grad((h * h).sum(), x), h_seen, x.grad


@program
def hooks_with_create_graph(T):
    x, seen = leaf(T, 3), []
    h = x**2
    h.register_hook(lambda g: seen.append((g.requires_grad, T.is_grad_enabled())) or g * 2)
    (g,) = T.autograd.grad((h * h).sum(), x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x), seen


@program
def hook_needs_a_gradient(T):
    c = const(T, 2)
    return raised(RuntimeError, "doesn't require gradient", lambda: c.register_hook(lambda g: g))


@program
def hook_of_a_view_and_its_base(T):
    x, seen = leaf(T, 4), {}
    base = x * 2
    view = base[1:]
    base.register_hook(lambda g: seen.__setitem__("base", g.clone()))
    view.register_hook(lambda g: seen.__setitem__("view", g.clone()))
    (view * view).sum().backward()
    return seen, x.grad


@program
def hook_before_a_change_in_place(T):
    x, seen = leaf(T, 3), []
    h = x * 2
    h.register_hook(lambda g: seen.append(("before", g.clone())))
    h.mul_(3)
    h.register_hook(lambda g: seen.append(("after", g.clone())))
    h.sum().backward()
    return seen, x.grad


@program
def retained_gradient_moves_with_a_change_in_place(T):
    x = leaf(T, 3)
    h = x * 2
    h.retain_grad()
    h.mul_(3)
    h.sum().backward()
    return h.grad, x.grad


@program
def hooks_that_come_and_go(T):
    x, grads = leaf(T, 3), []
    for k in range(6):
        h = x.exp()
        if k % 2:
            h.register_hook(lambda g, k=k: g * k)
        grads += T.autograd.grad((h * x).sum(), x)
    return grads


def _end(t: Any) -> Any:
    """The AccumulateGrad node of a leaf."""
    return t.view_as(t).grad_fn.next_functions[0][0]


def _all_hooks(seen: list[Any], **leaves: Any) -> list[Any]:
    """Hooks of every kind on each leaf, which write their names into ``seen``; returned are the nodes to be kept."""
    nodes = []
    for name, t in leaves.items():
        nodes.append(_end(t))
        t.register_hook(lambda g, name=name: seen.append(f"{name} tensor"))
        nodes[-1].register_prehook(lambda grads, name=name: seen.append(f"{name} before"))
        t.register_post_accumulate_grad_hook(lambda t, name=name: seen.append((f"{name} after", t.grad.clone())))
        nodes[-1].register_hook(lambda into, out, name=name: seen.append((f"{name} node", len(into), out[0].clone())))
    return nodes


@program
def hooks_at_the_end_in_order(T):
    a, b, c, seen = leaf(T, 3), leaf(T, 3, seed=1), leaf(T, 3, seed=2), []
    nodes = _all_hooks(seen, a=a, b=b, c=c)
    h = a * b
    h.register_hook(lambda g: seen.append("h"))
    h.retain_grad()
    ((h * c).exp() * a).sum().backward()
    T.autograd.grad((a * c).sum(), (a, c))
    (b * c).sum().backward(inputs=[c])
    return seen, len(nodes), h.grad, a.grad, b.grad, c.grad


@program
def hooks_at_the_end_of_shared_leaves(T):
    a, b, seen = leaf(T, 3), leaf(T, 3, seed=1), []
    nodes = _all_hooks(seen, a=a, b=b)
    for y in (a * a, a + b, T.cat([b, a, b]), b.detach() * a, T.stack([a, b]).prod(0)):
        y.sum().backward()
    return seen, len(nodes)


@program
def hooks_at_the_end_replace(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    of_x, of_y = _end(x), _end(y)
    of_x.register_prehook(lambda grads: (grads[0] * 10,))
    of_y.register_hook(lambda into, out: setattr(y, "grad", T.full((3,), 7.0)))
    handle = of_x.register_hook(lambda into, out: setattr(x, "grad", x.grad + 1))
    results = []
    for _ in range(3):
        (x * y).sum().backward()
        results += [x.grad.clone(), y.grad.clone()]
    handle.remove()
    (x * y).sum().backward()
    return results, x.grad, y.grad


@program
def hooks_and_what_is_asked_for(T):
    x, seen = leaf(T, 3), []
    h = x.exp()
    h.register_hook(lambda g: g * 3)
    h.grad_fn.register_prehook(lambda grads: (grads[0] * 100,))
    h.grad_fn.register_hook(lambda into, out: seen.append(out[0].clone()))
    both = T.autograd.grad(h.sum(), (h, x), retain_graph=True)
    return both, T.autograd.grad(h.sum(), h), seen


@program
def powers_at_edges(T):
    edges = [-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, math.nan]
    base = T.tensor([x for x in edges for _ in edges], requires_grad=True)
    exponent = T.tensor(edges * len(edges), requires_grad=True)
    results = list(T.autograd.grad((base**exponent).sum(), (base, exponent)))
    for number in (0.0, 0, 1, 2.0):
        e = T.tensor(edges, requires_grad=True)
        results += T.autograd.grad((number**e).sum(), e)
    for number in (0, 1, 2, -1, 0.0, 3.0, -2.0):
        b = T.tensor(edges, requires_grad=True)
        results += T.autograd.grad((b**number).sum(), b)
    return results


@program
def texts_of_views_made_without_grad(T):
    texts = []
    for view in (lambda a: a[:], lambda a: a.view(4), lambda a: a.t(), lambda a: a[0, 0], lambda a: a.unbind()[1]):
        a = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        with T.no_grad():
            b = view(a)
        texts += [repr(b), str(b.detach())]
        with T.no_grad():
            b *= 2
        texts += [repr(b), f"{a}", str([b]), b.requires_grad, b.tolist(), repr(b.data)]
        texts.append(raised(RuntimeError, "no_grad mode", lambda b=b: b + 1))
    h = T.ones(2, 2, requires_grad=True) * 2
    parts = h.unbind()
    h.mul_(2)
    return texts, repr(parts[0]), repr(h)


# ---- nn ----------------------------------------------------------------------------------------------------------


def through(make: Callable[[Any], Any], *shape: int, seed: int = 7) -> Program:
    """A module: result, gradients of its parameters and of its input."""

    def run(T: Any) -> Any:
        module = fill(T, make(T.nn))
        x = leaf(T, *shape, seed=seed)
        return value_and_grads(T, module(x), x), gradients(module)

    return run


MODULES = {
    "linear": (lambda nn: nn.Linear(4, 3), 5, 4),
    "linear_without_bias": (lambda nn: nn.Linear(4, 3, bias=False), 5, 4),
    "linear_of_a_vector": (lambda nn: nn.Linear(4, 3), 4),
    "linear_of_a_batch_of_matrices": (lambda nn: nn.Linear(4, 3), 2, 5, 4),
    "sequential_relu": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), 5, 4),
    "sequential_tanh": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2), nn.Sigmoid()), 5, 4),
    "sequential_gelu": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), 5, 4),
    "sequential_softmax": (lambda nn: nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), 5, 4),
    "layer_norm": (lambda nn: nn.LayerNorm(4), 5, 4),
    "layer_norm_of_two_axes": (lambda nn: nn.LayerNorm((3, 4)), 2, 3, 4),
    "conv": (lambda nn: nn.Conv2d(2, 3, 3), 2, 2, 5, 6),
    "conv_stride": (lambda nn: nn.Conv2d(2, 3, 3, stride=2), 2, 2, 7, 8),
    "conv_padding": (lambda nn: nn.Conv2d(1, 2, 3, padding=1), 2, 1, 4, 4),
    "conv_stride_padding": (lambda nn: nn.Conv2d(1, 2, (3, 2), stride=(2, 1), padding=(1, 0)), 1, 1, 5, 5),
    "conv_without_bias": (lambda nn: nn.Conv2d(2, 2, 1, bias=False), 1, 2, 3, 3),
    "max_pool": (lambda nn: nn.MaxPool2d(2), 2, 2, 4, 6),
    "max_pool_odd": (lambda nn: nn.MaxPool2d(2), 1, 1, 5, 5),
    "max_pool_stride_padding": (lambda nn: nn.MaxPool2d(3, stride=2, padding=1), 1, 2, 6, 7),
    "flatten": (lambda nn: nn.Sequential(nn.Flatten(), nn.Linear(6, 2)), 4, 2, 3),
    "convnet": (
        lambda nn: nn.Sequential(
            *(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4, 3)),
        ),
        *(2, 1, 6, 6),
    ),
}

for _name, (_make, *_shape) in MODULES.items():
    add(f"nn_{_name}", through(_make, *_shape))


def losses(make: Callable[..., Any], x: np.ndarray, target: np.ndarray) -> Program:
    def run(T: Any) -> Any:
        results = {}
        for reduction in ("mean", "sum", "none"):
            scores = T.tensor(x, requires_grad=True)
            results[reduction] = value_and_grads(T, make(T.nn, reduction=reduction)(scores, T.tensor(target)), scores)
        scores = T.tensor(x, requires_grad=True)
        return results, value_and_grads(T, make(T.nn)(scores, T.tensor(target)), scores)

    return run


add("loss_mse", losses(lambda nn, **o: nn.MSELoss(**o), numbers(4, 3), numbers(4, 3, seed=1)))
add("loss_l1", losses(lambda nn, **o: nn.L1Loss(**o), numbers(4, 3), numbers(4, 3, seed=1)))
add("loss_cross_entropy", losses(lambda nn, **o: nn.CrossEntropyLoss(**o), numbers(4, 3), np.array([2, 0, 1, 2])))
add("loss_bce_with_logits", losses(lambda nn, **o: nn.BCEWithLogitsLoss(**o), 9 * numbers(6), np.arange(6.0) % 2))


@program
def loss_of_large_scores(T):
    x = T.tensor([[800.0, -800.0, 0.0], [-900.0, 30.0, 20.0]], requires_grad=True)
    z = T.tensor([700.0, -700.0, 0.5], requires_grad=True)
    loss = T.nn.CrossEntropyLoss()(x, T.tensor([1, 0])) + T.nn.BCEWithLogitsLoss()(z, T.tensor([0.0, 1.0, 1.0]))
    return value_and_grads(T, loss, x, z)


@program
def nn_embedding(T):
    module = fill(T, T.nn.Embedding(5, 3))
    y = module(T.tensor([[0, 4], [4, 2]]))
    return value_and_grads(T, y * y, module.weight)


@program
def nn_dropout(T):
    dropout, x = T.nn.Dropout(0.5), leaf(T, 200)
    y = dropout(x)
    either = bool(((y == 0) | (y == 2 * x)).all())
    some = 40 < (y == 0).sum().item() < 160
    dropout.eval()
    return either, some, value_and_grads(T, dropout(x) * 2, x), dropout.training


@program
def nn_functional(T):
    F, x = T.nn.functional, leaf(T, 3, 4)
    w, b = leaf(T, 2, 4, seed=1), leaf(T, 2, seed=2)
    h = F.linear(F.relu(x), w, b)
    loss = F.cross_entropy(h, T.tensor([0, 1, 1])) + F.mse_loss(F.softmax(h, dim=1), T.zeros(3, 2)) + F.gelu(h).sum()
    return value_and_grads(T, loss, x, w, b)


@program
def nn_parameters(T):
    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = T.nn.Linear(3, 4)
            self.scale = T.nn.Parameter(T.ones(2))
            self.body = T.nn.Sequential(T.nn.Linear(4, 4), T.nn.ReLU(), T.nn.Linear(4, 2, bias=False))
            self.label = "a string"

        def forward(self, x):
            return self.body(self.first(x).tanh()) * self.scale

    net = fill(T, Net())
    x = const(T, 5, 3)
    return {
        "names": [name for name, _ in net.named_parameters()],
        "shapes": [tuple(p.shape) for p in net.parameters()],
        "keys": list(net.state_dict().keys()),
        "children": [name for name, _ in net.named_children()],
        "leaf": all(p.is_leaf and p.requires_grad for p in net.parameters()),
        "parameter": isinstance(net.scale, T.nn.Parameter) and isinstance(net.scale, T.Tensor),
        "result": value_and_grads(T, net(x), *net.parameters()),
    }


@program
def nn_state_dict(T):
    first, second = fill(T, T.nn.Linear(3, 2), seed=1), fill(T, T.nn.Linear(3, 2), seed=2)
    second.load_state_dict(first.state_dict())
    x = const(T, 4, 3)
    same = second(x)
    with T.no_grad():
        first.weight.zero_()
    return same, second(x), first.state_dict()["weight"], second.state_dict()["bias"].requires_grad


@program
def nn_train_and_eval(T):
    net = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Sequential(T.nn.Dropout(0.9)))
    seen = [net.training]
    same = net.eval() is net
    seen += [net.training, net[1][0].training]
    net.train()
    return same, [*seen, net.training, net[1][0].training], len(net), T.is_grad_enabled()


@program
def nn_zero_grad(T):
    net, x = fill(T, T.nn.Linear(3, 1)), const(T, 4, 3)
    net(x).sum().backward()
    once = net.weight.grad.clone()
    net(x).sum().backward()
    twice = net.weight.grad.clone()
    net.zero_grad()
    return once, twice, net.weight.grad


@program
def nn_shared_parameters(T):
    layer = T.nn.Linear(3, 3)
    net = fill(T, T.nn.Sequential(layer, T.nn.Tanh(), layer))
    x = const(T, 4, 3)
    net(x).pow(2).sum().backward()
    return [name for name, _ in net.named_parameters()], list(net.state_dict()), layer.weight.grad


@program
def nn_frozen_parameters(T):
    net, x = fill(T, T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Tanh(), T.nn.Linear(4, 1))), const(T, 5, 3)
    for p in net[0].parameters():
        p.requires_grad_(False)
    net(x).sum().backward()
    return gradients(net), [p.requires_grad for p in net.parameters()]


@program
def nn_initialised_within_bounds(T):
    layer = T.nn.Linear(16, 300)
    w, bound = layer.weight.detach().abs(), 1 / math.sqrt(16)
    return (w <= bound).all(), w.max() > 0.9 * bound, tuple(w.shape), tuple(layer.bias.shape), dtype_name(w.dtype)


@program
def nn_buffers_and_repr_of_modules(T):
    class Shift(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("offset", T.ones(2))

        def forward(self, x):
            return x + self.offset

    net = Shift()
    return list(net.state_dict()), list(net.named_parameters()), net(T.zeros(2)), [n for n, _ in net.named_buffers()]


@program
def nn_module_list(T):
    class Stack(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = T.nn.ModuleList([T.nn.Linear(3, 3) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = x + layer(x).tanh()
            return x

    net, x = fill(T, Stack()), const(T, 2, 3)
    return [n for n, _ in net.named_parameters()], value_and_grads(T, net(x), *net.parameters())


@program
def nn_second_order(T):
    net, x = fill(T, T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Tanh(), T.nn.Linear(4, 1))), leaf(T, 5, 3)
    (g,) = T.autograd.grad(net(x).sum(), x, create_graph=True)
    (g**2).sum().backward()
    return gradients(net)


@program
def attention_by_hand(T):
    x = leaf(T, 2, 4, 6)
    q, k, v = (fill(T, T.nn.Linear(6, 6), seed=i) for i in range(3))
    scores = q(x) @ k(x).transpose(-2, -1) / math.sqrt(6)
    mask = T.tensor(np.triu(np.ones((4, 4), dtype=bool), 1))
    y = scores.masked_fill(mask, float("-inf")).softmax(dim=-1) @ v(x)
    return value_and_grads(T, y, x, q.weight, k.weight, v.weight)


# ---- optim -------------------------------------------------------------------------------------------------------


def optimised(make: Callable[[Any, Any], Any], steps: int = 12) -> Program:
    """The parameters of a small network after some steps, and the losses on the way."""

    def run(T: Any) -> Any:
        net = fill(T, T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Tanh(), T.nn.Linear(4, 1)))
        x, y = const(T, 10, 3, seed=1), const(T, 10, 1, seed=2)
        optimizer, losses = make(T.optim, net.parameters()), []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach() for p in net.parameters()]

    return run


def sgd_groups(optim: Any, parameters: Any) -> Any:
    first, *others = parameters
    return optim.SGD([{"params": [first], "lr": 0.01}, {"params": others}], lr=0.1, momentum=0.9)


OPTIMIZERS = {
    "sgd_groups": sgd_groups,
    "sgd": lambda optim, p: optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda optim, p: optim.SGD(p, lr=0.05, momentum=0.9),
    "sgd_nesterov": lambda optim, p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "sgd_weight_decay": lambda optim, p: optim.SGD(p, lr=0.1, weight_decay=0.01, momentum=0.5, dampening=0.1),
    "adam": lambda optim, p: optim.Adam(p, lr=0.05),
    "adam_default": lambda optim, p: optim.Adam(p),
    "adam_options": lambda optim, p: optim.Adam(p, lr=0.02, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1),
    "adamw": lambda optim, p: optim.AdamW(p, lr=0.05),
    "adamw_weight_decay": lambda optim, p: optim.AdamW(p, lr=0.05, weight_decay=0.3),
    "rmsprop": lambda optim, p: optim.RMSprop(p, lr=0.01),
    "rmsprop_options": lambda optim, p: optim.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.5, weight_decay=0.01),
}

for _name, _make in OPTIMIZERS.items():
    add(f"optim_{_name}", optimised(_make))


def lbfgs(T: Any, steps: int, **options: Any) -> Any:
    x = T.tensor([-1.2, 1.0, 0.5], requires_grad=True)
    optimizer, losses = T.optim.LBFGS([x], **options), []

    def closure():
        optimizer.zero_grad()
        loss = ((1 - x[:-1]) ** 2).sum() + 5 * ((x[1:] - x[:-1] ** 2) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(float(optimizer.step(closure)))
    return losses, x.detach()


@program
def optim_lbfgs(T):
    return lbfgs(T, 5, lr=0.1, max_iter=4)


@program
def optim_lbfgs_strong_wolfe(T):
    return lbfgs(T, 4, max_iter=5, history_size=6, line_search_fn="strong_wolfe")


@program
def optim_with_a_closure(T):
    x = leaf(T, 3)
    optimizer = T.optim.SGD([x], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    return [float(optimizer.step(closure)) for _ in range(5)], x


@program
def optim_skips_what_has_no_gradient(T):
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    optimizer = T.optim.Adam([x, y], lr=0.1)
    (x**2).sum().backward()
    optimizer.step()
    return x, y, y.grad


@program
def optim_zero_grad(T):
    x = leaf(T, 3)
    optimizer = T.optim.SGD([x], lr=0.1)
    (x**2).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    zeros = x.grad.clone()
    optimizer.zero_grad()
    return zeros, x.grad


@program
def optim_learning_rate_can_be_changed(T):
    x = leaf(T, 3)
    optimizer, values = T.optim.SGD([x], lr=0.1), []
    for k in range(6):
        optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
        optimizer.zero_grad()
        (x**2).sum().backward()
        optimizer.step()
        values.append(x.detach().clone())
    return values, optimizer.param_groups[0]["lr"]


@program
def optim_counts_versions(T):
    x = leaf(T, 3)
    optimizer = T.optim.SGD([x], lr=0.1)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    optimizer.step()
    return x._version > 0, raised(RuntimeError, "modified by an inplace operation", y.backward)


@program
def optim_steps_back_in_the_same_storage(T):
    x = leaf(T, 3)
    view, array = x.detach(), x.detach().numpy()
    optimizer = T.optim.Adam([x], lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        (x**4).sum().backward()
        optimizer.step()
    return x, view, array.tolist()


def learning_rates(make: Callable[[Any, Any], Any], steps: int) -> Program:
    def run(T: Any) -> Any:
        x = leaf(T, 3)
        optimizer = T.optim.SGD([x], lr=0.5)
        scheduler, rates = make(T.optim.lr_scheduler, optimizer), []
        for _ in range(steps):
            optimizer.zero_grad()
            (x**2).sum().backward()
            optimizer.step()
            scheduler.step()
            rates.append((optimizer.param_groups[0]["lr"], *scheduler.get_last_lr()))
        return rates, x

    return run


add("scheduler_step", learning_rates(lambda s, o: s.StepLR(o, step_size=3, gamma=0.5), 10))
add("scheduler_step_default", learning_rates(lambda s, o: s.StepLR(o, 2), 5))
add("scheduler_cosine", learning_rates(lambda s, o: s.CosineAnnealingLR(o, T_max=8, eta_min=0.01), 8))
add("scheduler_cosine_beyond", learning_rates(lambda s, o: s.CosineAnnealingLR(o, T_max=4), 12))


@program
def clipping_by_norm(T):
    net, x = fill(T, T.nn.Linear(3, 2)), const(T, 5, 3)
    (net(x) ** 2).sum().backward()
    norm = T.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
    again = T.nn.utils.clip_grad_norm_(net.parameters(), max_norm=10.0)
    return norm, again, gradients(net)


@program
def clipping_by_value(T):
    net, x = fill(T, T.nn.Linear(3, 2)), const(T, 5, 3)
    (net(x) ** 2).sum().backward()
    T.nn.utils.clip_grad_value_(net.parameters(), 1.0)
    return gradients(net)


# ---- whole scripts -----------------------------------------------------------------------------------------------


@program
def training_a_classifier(T):
    X, labels = const(T, 20, 2), T.tensor((numbers(20, 2)[:, 0] > 0).astype(np.int64))
    net = fill(T, T.nn.Sequential(T.nn.Linear(2, 8), T.nn.ReLU(), T.nn.Linear(8, 2)))
    optimizer, loss_fn, losses = T.optim.Adam(net.parameters(), lr=0.05), T.nn.CrossEntropyLoss(), []
    for epoch in range(3):
        for start in range(0, 20, 6):  # the last batch is smaller
            loss = loss_fn(net(X[start : start + 6]), labels[start : start + 6])
            optimizer.zero_grad()
            loss.backward()
            T.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
        assert epoch < 3
    net.eval()
    with T.no_grad():
        accuracy = (net(X).argmax(dim=1) == labels).double().mean().item()
    return losses, accuracy, net.state_dict()


@program
def training_with_accumulated_gradients(T):
    net, X, y = fill(T, T.nn.Linear(3, 1)), const(T, 12, 3), const(T, 12, 1, seed=1)
    optimizer = T.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        for i in range(0, 12, 4):
            (T.nn.MSELoss()(net(X[i : i + 4]), y[i : i + 4]) / 3).backward()
        optimizer.step()
    return net.weight, net.bias


@program
def training_a_recurrent_network(T):
    cell, out = fill(T, T.nn.Linear(5, 4)), fill(T, T.nn.Linear(4, 1), seed=1)
    X, y = const(T, 3, 6, 1), const(T, 3, 1, seed=1)
    optimizer, losses = T.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.05), []
    for _ in range(4):
        h = T.zeros(3, 4)
        for t in range(6):
            h = cell(T.cat([h, X[:, t]], dim=1)).tanh()
        loss = ((out(h) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, cell.weight, out.weight


@program
def truncated_backpropagation(T):
    w, x = leaf(T, 3, 3), const(T, 8, 3, seed=1)
    h, losses = T.zeros(3), []
    for t in range(8):
        h = (w @ h + x[t]).tanh()
        if t % 3 == 2:
            loss = (h**2).sum()
            loss.backward()
            with T.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
            h = h.detach()
            losses.append(loss.item())
    return losses, w


@program
def meta_learning_step(T):
    w, x, y = leaf(T, 3), const(T, 6, 3), const(T, 6, seed=1)
    fast = w
    for _ in range(3):
        (g,) = T.autograd.grad(((x @ fast - y) ** 2).mean(), fast, create_graph=True)
        fast = fast - 0.1 * g
    loss = ((x @ fast - y).tanh() ** 2).sum()
    loss.backward()
    return loss, w.grad


@program
def newton_by_hessian(T):
    x = const(T, 2)
    values = []
    for _ in range(4):
        x = x.detach().requires_grad_()
        f = (x[0] - 1) ** 4 + (x[0] - x[1]) ** 2 + x[1].exp()
        (g,) = T.autograd.grad(f, x, create_graph=True)
        H = T.stack([T.autograd.grad(g[i], x, retain_graph=True)[0] for i in range(2)])
        det = H[0, 0] * H[1, 1] - H[0, 1] * H[1, 0]
        inverse = T.stack([T.stack([H[1, 1], -H[0, 1]]), T.stack([-H[1, 0], H[0, 0]])]) / det
        x = x - (inverse @ g).detach()
        values.append(f.item())
    return values, x


@program
def logistic_regression_by_hand(T):
    X, y = const(T, 15, 2), T.tensor(np.sign(numbers(15, seed=1)))
    w, b = T.zeros(2, requires_grad=True), T.zeros(1, requires_grad=True)
    for _ in range(10):
        margin = y * (X @ w + b)
        loss = (1 + (-margin).exp()).log().mean() + 0.01 * w.norm() ** 2 if bool(w.norm() > 0) else -margin.mean()
        loss.backward()
        with T.no_grad():
            for p in (w, b):
                p -= 0.5 * p.grad
                p.grad = None
    return w, b, loss


@program
def autoencoder_with_functions(T):
    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = T.nn.Linear(6, 2), T.nn.Linear(2, 6)

        def forward(self, x):
            code = T.sigmoid(self.encode(x))
            return self.decode(code), code

    net, x = fill(T, Net()), const(T, 8, 6)
    optimizer = T.optim.RMSprop(net.parameters(), lr=0.01)
    for _ in range(5):
        y, code = net(x)
        loss = T.nn.MSELoss()(y, x) + 0.1 * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss, net.state_dict()


@program
def results_are_kept_apart(T):
    """What earlier calls returned is not overwritten by later ones."""
    w, kept = leaf(T, 3), []
    for k in range(6):
        x = const(T, 3, seed=k)
        y = (w * x).exp()
        y.sum().backward()
        kept += [y, w.grad]
        w.grad = None
    return kept


@program
def gradients_of_graphs_made_before(T):
    """Graphs are built first and differentiated later, last one first."""
    w = leaf(T, 3)
    losses = [(w * const(T, 3, seed=k)).sin().sum() for k in range(5)]
    grads = []
    for loss in reversed(losses):
        loss.backward()
        grads.append(w.grad)
        w.grad = None
    return grads, losses


# ---- running them ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def default_float64(T: Any) -> Iterator[None]:
    """float64 as the default dtype, where the library has another."""
    before = T.get_default_dtype() if hasattr(T, "get_default_dtype") else None
    if before is None or dtype_name(before) == "float64":
        yield
        return
    T.set_default_dtype(T.float64)
    try:
        yield
    finally:
        T.set_default_dtype(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="torch or tracegrad")
    parser.add_argument("names", nargs="*", help="programs; all of them if none is given")
    parser.add_argument("-v", "--verbose", action="store_true", help="print results and tracebacks")
    parser.add_argument("-n", "--repeat", type=int, default=1, help="run each several times")
    args = parser.parse_args()
    T, failed = importlib.import_module(args.library), []
    for name in args.names or PROGRAMS:
        try:
            with default_float64(T):
                for _ in range(args.repeat):
                    result = PROGRAMS[name](T)
        except Exception as error:
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            if args.verbose:
                traceback.print_exc()
        else:
            if args.verbose:
                print(f"{name}: {result}")
    print(f"{len(args.names or PROGRAMS)} programs, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
