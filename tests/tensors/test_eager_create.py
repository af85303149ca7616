"""Dtypes of tensors, and the functions that make tensors: sizes, dtypes, data, random numbers, exact messages."""

from __future__ import annotations

import itertools
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from support import assert_same_bits

import tracegrad
from tracegrad import compile_grad
from tracegrad.tensors import create, dtypes, random
from tracegrad.tensors.capture import Capture, capturing
from tracegrad.tensors.tensor import Size, Tensor
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder

F64, F32, I64, I32, U8, BOOL = (np.dtype(n) for n in ("float64", "float32", "int64", "int32", "uint8", "bool"))


@pytest.fixture(autouse=True)
def float64_default():
    dtypes.set_default_dtype(F64)
    yield
    dtypes.set_default_dtype(F64)


@pytest.fixture
def torch():
    module = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
    before = module.get_default_dtype()
    module.set_default_dtype(module.float64)
    yield module
    module.set_default_dtype(before)


def raises(kind, message):
    """pytest.raises for exactly this message."""
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def check(made, values, dtype, requires_grad=False):
    """*made* is a Tensor of this dtype with these values."""
    assert type(made) is Tensor
    assert type(made._data) is np.ndarray
    assert made.requires_grad is requires_grad
    assert_same_bits(made._data, np.asarray(values).astype(dtype))


# ---- dtypes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (np.dtype("int16"), "int16"), (np.float32, "float32"), (np.bool_, "bool"), (float, "float64"), (int, "int64"),
        (bool, "bool"), ("float32", "float32"), ("float", "float32"), ("double", "float64"), ("int", "int32"),
        ("long", "int64"), ("short", "int16"), ("uint8", "uint8"), (np.dtype(">f8"), "float64"),
    ],
)  # fmt: skip
def test_as_dtype(spec, expected):
    found = dtypes.as_dtype(spec)
    assert found == np.dtype(expected)
    assert found.isnative


def test_python_float_is_the_default_dtype():
    dtypes.set_default_dtype(F32)
    assert dtypes.as_dtype(float) == F32
    assert dtypes.as_dtype(np.float64) == F64


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("float33", "dtype must be a dtype such as tracegrad.float32, not 'float33'; there are float64, double, float"),
        (3.0, "dtype must be a dtype such as tracegrad.float32, not float; there are"),
        (None, "dtype must be a dtype such as tracegrad.float32, not NoneType; there are"),
        (list, "dtype must be a dtype such as tracegrad.float32, not <class 'list'>; there are"),
        (np.clongdouble, "tensors of dtype complex256 are not supported; there are"),
        (
            np.dtype("U3"),
            "tensors of dtype <U3 are not supported; there are bfloat16, bool, complex128, complex64, float16",
        ),
        (
            np.dtype(object),
            "tensors of dtype object are not supported; there are bfloat16, bool, complex128, complex64, float16",
        ),
    ],
)
def test_as_dtype_says_what_it_found(spec, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        dtypes.as_dtype(spec)


def test_the_default_dtype():
    assert dtypes.get_default_dtype() == F64
    dtypes.set_default_dtype(dtypes.float32)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(dtypes.get_default_dtype()))
    thread.start()
    thread.join()
    assert seen == [F32]
    assert dtypes.get_default_dtype() == F32
    assert create.zeros(2).dtype == create.tensor([1.0]).dtype == random.rand(2).dtype == F32
    assert create.full((2,), 0.5).dtype == create.arange(0.0, 1.0, 0.5).dtype == create.eye(2).dtype == F32
    assert create.tensor(np.ones(2)).dtype == F64


@pytest.mark.parametrize("wrong", [I64, BOOL, np.int32, int])
def test_the_default_dtype_is_a_float(wrong):
    with raises(TypeError, "only floating-point types are supported as the default type"):
        dtypes.set_default_dtype(wrong)
    assert dtypes.get_default_dtype() == F64


@pytest.mark.parametrize("wrong", [None, 3, float])
def test_the_default_dtype_is_a_dtype(wrong):
    with raises(TypeError, "invalid dtype object: only floating-point types are supported as the default type"):
        dtypes.set_default_dtype(wrong)


@pytest.mark.parametrize(
    ("a", "a_ndim", "b", "b_ndim", "expected"),
    [
        (I64, 1, F32, 0, F32),  # the category decides alone
        (BOOL, 2, U8, 0, U8),
        (F32, 1, F64, 1, F64),
        (F32, 1, F64, 0, F32),  # within a category a tensor without axes yields
        (F64, 0, F32, 2, F32),
        (U8, 3, I64, 0, U8),
        (U8, 1, np.dtype("int8"), 1, np.dtype("int16")),
        (F32, 0, F64, -1, F32),  # and a Python number yields to that
        (I32, 0, I64, -1, I32),
        (I64, 0, F64, -1, F64),
    ],
)
def test_promotion(a, a_ndim, b, b_ndim, expected):
    assert dtypes.promote(a, a_ndim, b, b_ndim) == dtypes.promote(b, b_ndim, a, a_ndim) == expected


def test_no_integer_holds_uint64_and_int64():
    message = "Promotion for uint64 and signed integers is not supported, attempted to promote UInt64 and Long"
    with raises(RuntimeError, message):
        dtypes.promote(np.dtype("uint64"), 1, I64, 1)


def test_promotion_is_pytorchs(torch):
    names = "bool uint8 int8 int16 int32 int64 float32 float64".split()
    for a, b, m, n in itertools.product(names, names, (0, 1, 2), (0, 1, 2)):
        x, y = torch.ones((1,) * m, dtype=getattr(torch, a)), torch.ones((1,) * n, dtype=getattr(torch, b))
        expected = str(torch.result_type(x, y)).removeprefix("torch.")
        assert dtypes.promote(np.dtype(a), m, np.dtype(b), n).name == expected, (a, m, b, n)
    for a, m, number in itertools.product(names, (0, 1), (True, 1, 1.0)):
        expected = str(torch.result_type(torch.ones((1,) * m, dtype=getattr(torch, a)), number)).removeprefix("torch.")
        assert dtypes.promote(np.dtype(a), m, dtypes.infer(number), -1).name == expected, (a, m, number)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (1.0, F64), (1, I64), (True, BOOL), ([1, 2.0], F64), ([True, 2], I64), ([[True], [False]], BOOL), ([], F64),
        (np.float32(1), F32), (np.ones(2, np.uint8), U8), ([np.float32(1), 2], F32), ((1, (2)), I64), (range(3), I64),
        ([np.ones(2, "f"), np.zeros(2, "f")], F32), (np.ones(2, ">f4"), F32),
    ],
)  # fmt: skip
def test_infer(data, expected):
    assert dtypes.infer(data) == expected


# ---- sizes and dtypes -----------------------------------------------------------------------------------------------

FILLED = {"zeros": 0, "ones": 1}


@pytest.mark.parametrize("name", FILLED)
def test_sizes(name):
    make, value = getattr(create, name), FILLED[name]
    for made in (make(2, 3), make((2, 3)), make([2, 3]), make(size=(2, 3)), make(Size((2, 3))), make(np.int64(2), 3)):
        check(made, np.full((2, 3), value), F64)
    check(make(()), value, F64)
    check(make([]), value, F64)
    check(make(create.tensor(2)), np.full(2, value), F64)
    check(make(2, 0), np.zeros((2, 0)), F64)


@pytest.mark.parametrize("name", FILLED)
def test_dtypes_of_filled_tensors(name):
    make, value = getattr(create, name), FILLED[name]
    check(make(2, dtype=np.float32), np.full(2, value), F32)
    check(make(2, dtype="int32"), np.full(2, value), I32)
    check(make(2, dtype=bool), np.full(2, value), BOOL)
    check(make((2,), int), np.full(2, value), I64)  # in NumPy's order
    check(make(2, requires_grad=True), np.full(2, value), F64, requires_grad=True)
    check(make(2, device="cpu"), np.full(2, value), F64)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_sizes_that_are_none(name):
    make = getattr(create, name, None) or getattr(random, name)
    with raises(TypeError, f"{name}(): argument 'size' must be tuple of ints, not float"):
        make(2.5)
    with raises(TypeError, f"{name}(): argument 'size' must be tuple of ints, not bool"):
        make(True)
    with raises(TypeError, f"{name}(): argument 'size' must be tuple of ints, not NoneType at position 2"):
        make(2, None)
    with raises(TypeError, f"{name}(): argument 'size' must be tuple of ints, not Tensor"):
        make(create.tensor([2.0, 3.0]))
    with raises(TypeError, f'{name}() missing 1 required positional arguments: "size"'):
        make()
    with raises(RuntimeError, "Trying to create tensor with negative dimension -3: [2, -3]"):
        make(2, -3)


def test_empty_has_the_shape_and_the_dtype():
    made = create.empty(2, 3, dtype=F32)
    assert (made.shape, made.dtype) == ((2, 3), F32)
    assert create.empty_like(made).dtype == F32
    assert create.empty_like(made, dtype=int).dtype == I64


def test_full():
    check(create.full((2,), 1), [1, 1], I64)
    check(create.full((2,), True), [True, True], BOOL)
    check(create.full((2,), 1.5), [1.5, 1.5], F64)
    check(create.full((), 1.5), 1.5, F64)
    check(create.full(2, 1.5), [1.5, 1.5], F64)
    check(create.full((2,), 1.5, dtype=I64), [1, 1], I64)
    check(create.full((2,), create.tensor(1.5, dtype=F32)), [1.5, 1.5], F32)
    check(create.full((2,), 2.0, requires_grad=True), [2.0, 2.0], F64, requires_grad=True)
    with raises(TypeError, "full(): argument 'fill_value' must be Number, not NoneType"):
        create.full((2,), None)
    with raises(TypeError, "full(): argument 'fill_value' must be Number, not Tensor"):
        create.full((2,), create.ones(2))
    with raises(RuntimeError, "value cannot be converted to type uint8 without overflow"):
        create.full((2,), 300, dtype=U8)


def test_like():
    like = create.tensor([[1, 2]], dtype=I32)
    check(create.zeros_like(like), [[0, 0]], I32)
    check(create.ones_like(like), [[1, 1]], I32)
    check(create.full_like(like, 2.5), [[2, 2]], I32)
    check(create.full_like(like, 2.5, dtype=float), [[2.5, 2.5]], F64)
    check(create.zeros_like(like, dtype=F32, requires_grad=True), [[0, 0]], F32, requires_grad=True)
    with raises(TypeError, "zeros_like(): argument 'input' (position 1) must be Tensor, not list"):
        create.zeros_like([1])


@pytest.mark.parametrize("make", [create.zeros, create.ones, create.empty, random.randint, create.eye, create.tensor])
def test_only_floats_can_require_gradients(make):
    args = (3, (2,)) if make is random.randint else (2,)
    with raises(RuntimeError, "only Tensors of floating point dtype can require gradients"):
        make(*args, dtype=I64, requires_grad=True)


NO_CUDA = "needs a CUDA device: CuPy is not installed"


def test_devices(no_cuda):
    for device in (None, "cpu", "cpu:0", SimpleNamespace(type="cpu")):
        check(create.zeros(2, device=device), [0, 0], F64)
    for device in ("cuda", "cuda:1", 0, SimpleNamespace(type="cuda")):
        for make in (create.zeros, random.randn, create.arange, create.tensor, create.eye):
            with pytest.raises(RuntimeError, match=NO_CUDA):
                make(2, device=device)
    with pytest.raises(RuntimeError, match=NO_CUDA):
        random.Generator(device="cuda")
    with raises(RuntimeError, "Expected one of cpu, cuda device type at start of device string: foo"):
        create.zeros(2, device="foo")


# ---- by rule --------------------------------------------------------------------------------------------------------


def test_arange():
    check(create.arange(3), [0, 1, 2], I64)
    check(create.arange(end=3), [0, 1, 2], I64)
    check(create.arange(1, 4), [1, 2, 3], I64)
    check(create.arange(start=5, end=1, step=-2), [5, 3], I64)
    check(create.arange(2.0), [0, 1], F64)
    check(create.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75], F64)
    check(create.arange(3, dtype=F32, requires_grad=True), [0, 1, 2], F32, requires_grad=True)
    check(create.arange(1.5, 3.7, dtype=I64), [1, 2], I64)
    check(create.arange(create.tensor(3)), [0, 1, 2], I64)
    check(create.arange(0), np.zeros(0), I64)
    check(create.arange(0, 1, 0.1, dtype=F32), np.arange(10) * 0.1, F32)  # each element is rounded once


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        ((), TypeError, 'arange() missing 1 required positional arguments: "end"'),
        ((1, 5, 0), RuntimeError, "step must be nonzero"),
        ((1, 5, -1), RuntimeError, "upper bound and lower bound inconsistent with step sign"),
        ((5, 1), RuntimeError, "upper bound and lower bound inconsistent with step sign"),
        ((np.inf,), RuntimeError, "unsupported range: 0 -> inf"),
        (("a",), TypeError, "arange(): argument 'end' must be Number, not str"),
        ((np.ones(2),), TypeError, "arange(): argument 'end' must be Number, not ndarray"),
    ],
)
def test_arange_refuses(args, kind, message):
    with raises(kind, message):
        create.arange(*args)
    with raises(NotImplementedError, "\"arange_cpu\" not implemented for 'Bool'"):
        create.arange(2, dtype=bool)


def test_linspace_and_logspace():
    check(create.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1], F64)
    check(create.linspace(0, 1, 1), [0], F64)
    check(create.linspace(0, 1, 0), np.zeros(0), F64)
    check(create.linspace(0, 10, 5, dtype=I64), [0, 2, 5, 7, 10], I64)
    check(create.linspace(create.tensor(1.0), 2, 3, requires_grad=True), [1, 1.5, 2], F64, requires_grad=True)
    check(create.logspace(0, 2, 3), [1, 10, 100], F64)
    check(create.logspace(0, 2, 3, base=2, dtype=F32), [1, 2, 4], F32)
    with raises(RuntimeError, "number of steps must be non-negative"):
        create.linspace(0, 1, -1)
    with raises(TypeError, "linspace(): argument 'steps' must be int, not float"):
        create.linspace(0, 1, 2.5)


def test_eye():
    check(create.eye(2), np.eye(2), F64)
    check(create.eye(2, 3, dtype=bool), np.eye(2, 3), BOOL)
    with raises(RuntimeError, "m must be greater or equal to 0, got -1"):
        create.eye(2, -1)
    with raises(TypeError, "eye(): argument 'n' must be int, not float"):
        create.eye(2.5)


def test_triangles():
    check(create.tril_indices(3, 4, 1), [[0, 0, 1, 1, 1, 2, 2, 2, 2], [0, 1, 0, 1, 2, 0, 1, 2, 3]], I64)
    check(create.triu_indices(2, 3, offset=-1, dtype=I32), [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]], I32)
    check(create.triu_indices(0, 4), np.zeros((2, 0)), I64)
    with raises(RuntimeError, "row must be non-negative, got-1"):
        create.tril_indices(-1, 4)


def test_meshgrid():
    x, y = create.arange(2), create.arange(3)
    rows, columns = create.meshgrid(x, y)
    assert rows._data.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert columns._data.tolist() == [[0, 1, 2], [0, 1, 2]]
    rows, columns = create.meshgrid([x, y], indexing="xy")
    assert rows._data.tolist() == [[0, 1], [0, 1], [0, 1]]
    assert columns._data.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert [t.shape for t in create.meshgrid(create.tensor(1), y)] == [(1, 3), (1, 3)]
    with raises(RuntimeError, 'meshgrid: indexing must be one of "xy" or "ij", but received: a'):
        create.meshgrid(x, y, indexing="a")
    with raises(RuntimeError, "meshgrid expects all tensors to have the same dtype"):
        create.meshgrid(x, create.ones(2))


# ---- from data ------------------------------------------------------------------------------------------------------


def test_tensor_of_numbers_and_sequences():
    check(create.tensor(1.5), 1.5, F64)
    check(create.tensor([[1, 2], [3, 4]]), [[1, 2], [3, 4]], I64)
    check(create.tensor(((1, 2.5), [3, True])), [[1, 2.5], [3, 1]], F64)
    check(create.tensor([1.7, -1.7], dtype=I64), [1, -1], I64)
    check(create.tensor([1, 0], dtype=bool), [True, False], BOOL)
    check(create.tensor([1.0], requires_grad=True), [1.0], F64, requires_grad=True)
    check(create.tensor(range(3)), [0, 1, 2], I64)
    check(create.tensor([]), np.zeros(0), F64)
    check(create.tensor([[], []]), np.zeros((2, 0)), F64)
    check(create.tensor([1e300], dtype=F32), [np.inf], F32)


def test_tensor_of_arrays_and_tensors():
    array = np.arange(6.0).reshape(2, 3)
    made = create.tensor(array)
    array[0, 0] = 9.0
    check(made, [[0, 1, 2], [3, 4, 5]], F64)
    check(create.tensor(array[:, ::-1], dtype=F32), [[2, 1, 9], [5, 4, 3]], F32)
    check(create.tensor([np.ones(2, "f"), np.zeros(2, "f")]), [[1, 1], [0, 0]], F32)
    check(create.tensor(np.float32(0.5)), 0.5, F32)
    check(create.tensor(np.array([1, 2], ">i4")), [1, 2], I32)
    source = create.ones(2, requires_grad=True)
    copied = create.tensor(source)
    copied._data[0] = 5.0
    check(copied, [5, 1], F64)
    check(source, [1, 1], F64, requires_grad=True)
    check(create.tensor([create.tensor(1), 2.5, create.ones(1)]), [1, 2.5, 1], F64)
    check(create.tensor([[create.tensor(1, dtype=I32)], [create.tensor(2, dtype=I32)]]), [[1], [2]], I32)


@pytest.mark.parametrize(
    ("data", "dtype", "kind", "message"),
    [
        ([[1, 2], [1, 2, 3]], None, ValueError, "expected sequence of length 2 at dim 1 (got 3)"),
        ([[[1], [2]], [[3], [4, 5]]], None, ValueError, "expected sequence of length 1 at dim 2 (got 2)"),
        ([[1, 2], 3], None, TypeError, "not a sequence"),
        ([1, [2, 3]], None, TypeError, "'list' object cannot be interpreted as an integer"),
        ("a", None, TypeError, "new(): invalid data type 'str'"),
        (["a"], None, ValueError, "too many dimensions 'str'"),
        (None, None, RuntimeError, "Could not infer dtype of NoneType"),
        ([1.0, None], F64, RuntimeError, "Could not infer dtype of NoneType"),
        ({1: 2}, None, RuntimeError, "Could not infer dtype of dict"),
        (2**63, None, ValueError, "Overflow when unpacking long long"),
        ([300], U8, RuntimeError, "value cannot be converted to type uint8 without overflow"),
        ([np.nan], I64, RuntimeError, "value cannot be converted to type int64 without overflow"),
        ([1j], F64, TypeError, "float() argument must be a string or a real number, not 'complex'"),
    ],
)
def test_tensor_refuses(data, dtype, kind, message):
    with raises(kind, message):
        create.tensor(data, dtype)


def test_tensor_refuses_lists_of_longer_tensors():
    with raises(ValueError, "only one element tensors can be converted to Python scalars"):
        create.tensor([create.ones(2), create.ones(2)])


def test_lists_that_hold_themselves():
    endless: list = []
    endless.append(endless)
    with raises(ValueError, "too many dimensions"):
        create.tensor(endless)


def test_from_numpy_shares_memory():
    array = np.zeros(3)
    made = create.from_numpy(array)
    made._data[0] = 1.0
    array[1] = 2.0
    check(made, [1, 2, 0], F64)
    assert array.tolist() == [1, 2, 0]
    backward = create.from_numpy(array[::-1])
    array[2] = 7.0
    check(backward, [7, 2, 1], F64)


def test_from_numpy_refuses():
    with raises(TypeError, "expected np.ndarray (got list)"):
        create.from_numpy([1])
    with pytest.raises(ValueError, match="byte order different from the native byte order"):
        create.from_numpy(np.ones(2, ">f8"))
    with pytest.raises(TypeError, match=r"^tensors of dtype object are not supported; there are bfloat16, bool"):
        create.from_numpy(np.array([None]))
    fixed = np.ones(2)
    fixed.flags.writeable = False
    with raises(
        ValueError, "the given NumPy array is read-only, and a tensor over it could be written; pass array.copy()"
    ):
        create.from_numpy(fixed)
    check(create.as_tensor(fixed), [1, 1], F64)


def test_as_tensor():
    array = np.zeros(2)
    shared = create.as_tensor(array)
    array[0] = 1.0
    check(shared, [1, 0], F64)
    assert create.as_tensor(shared) is shared
    assert create.as_tensor(shared, dtype=F64) is shared
    check(create.as_tensor(array, dtype=F32), [1, 0], F32)
    check(create.as_tensor([1, 2], dtype=float), [1, 2], F64)
    narrow = create.tensor([1.0, 0.0], dtype=F32)
    assert create.as_tensor(narrow, dtype=F32) is narrow
    assert create.as_tensor(narrow, dtype=F64).dtype == F64


CONSTRUCTORS = {
    "FloatTensor": F32, "DoubleTensor": F64, "LongTensor": I64, "IntTensor": I32, "ShortTensor": np.dtype("int16"),
    "ByteTensor": U8, "BoolTensor": BOOL,
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_by_dtype(name):
    make, dtype = getattr(create, name), CONSTRUCTORS[name]
    check(make([1, 0]), [1, 0], dtype)
    check(make(((1, 0), (0, 1))), [[1, 0], [0, 1]], dtype)
    check(make(np.array([1.0, 0.0])), [1, 0], dtype)
    check(make(), np.zeros(0), dtype)
    for made in (make(2, 3), make(Size((2, 3)))):
        assert (made.shape, made.dtype) == ((2, 3), dtype)
    assert make(2).shape == (2,)
    same = create.ones(2, dtype=dtype)
    assert np.shares_memory(make(same)._data, same._data)
    with raises(TypeError, "new(): data must be a sequence (got float)"):
        make(2.0)
    with raises(TypeError, "new(): invalid data type 'str'"):
        make("a")
    other = create.ones(2, dtype=I32 if dtype != I32 else I64)
    with raises(TypeError, f"expected a tensor of dtype {dtype.name} (got {other.dtype.name})"):
        make(other)


# ---- random numbers -------------------------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda g: random.rand(3, 2, generator=g),
    "randn": lambda g: random.randn((3, 2), generator=g),
    "randint": lambda g: random.randint(100, (3, 2), generator=g),
    "randperm": lambda g: random.randperm(20, generator=g),
    "normal": lambda g: random.normal(1.0, 2.0, (3, 2), generator=g),
    "normal of tensors": lambda g: random.normal(create.zeros(3), create.ones(3), generator=g),
    "bernoulli": lambda g: random.bernoulli(create.full((40,), 0.5), generator=g),
    "multinomial": lambda g: random.multinomial(create.ones(40), 20, generator=g),
    "with replacement": lambda g: random.multinomial(create.ones(40), 20, replacement=True, generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_decides_the_numbers(name):
    draw = DRAWS[name]
    random.manual_seed(5)
    first, second = draw(None), draw(None)
    random.manual_seed(5)
    assert_same_bits(draw(None)._data, first._data)
    assert_same_bits(draw(None)._data, second._data)
    assert not np.array_equal(first._data, second._data)
    own = random.Generator().manual_seed(5)
    assert_same_bits(draw(own)._data, first._data)
    assert type(first) is Tensor
    with raises(TypeError, "generator must be a tracegrad.Generator, not int"):
        draw(3)


def test_seeds():
    assert random.manual_seed(7) is random.default_generator
    assert random.initial_seed() == 7
    assert random.manual_seed(-1).initial_seed() == 2**64 - 1
    assert random.manual_seed(1.7).initial_seed() == 1
    assert random.seed() == random.initial_seed()
    assert random.seed() != random.seed()
    assert random.Generator().initial_seed() == random.Generator("cpu").initial_seed() == 67280421310721
    assert repr(random.Generator().manual_seed(3)) == "<tracegrad.Generator seed=3>"
    for wrong in (2**64, -(2**63) - 1):
        with raises(ValueError, "Overflow when unpacking long long"):
            random.manual_seed(wrong)


def test_the_numbers_have_the_right_distribution():
    random.manual_seed(0)
    n = 20_000
    uniform, gauss = random.rand(n)._data, random.randn(n)._data
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    assert abs(gauss.mean()) < 0.03 and abs(gauss.std() - 1) < 0.03
    shifted = random.normal(3.0, 2.0, (n,))._data
    assert abs(shifted.mean() - 3) < 0.06 and abs(shifted.std() - 2) < 0.06
    spread = random.normal(create.tensor([0.0, 100.0]), create.tensor([0.0, 1e-3]))._data
    assert spread[0] == 0 and abs(spread[1] - 100) < 0.1
    dice = random.randint(1, 7, (n,))._data
    assert np.all(abs(np.bincount(dice, minlength=7)[1:] / n - 1 / 6) < 0.02)
    assert sorted(random.randperm(50)._data) == list(range(50))
    assert abs(random.bernoulli(create.full((n,), 0.3))._data.mean() - 0.3) < 0.02
    assert random.bernoulli(create.zeros(n)).dtype == F64 and not random.bernoulli(create.zeros(n))._data.any()
    assert random.bernoulli(create.ones(n, dtype=I64), 0.25)._data.mean() < 0.3
    weights = create.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]])
    chosen = random.multinomial(weights, n, replacement=True)
    assert (chosen.shape, chosen.dtype) == ((2, n), I64)
    assert abs((chosen._data[0] == 2).mean() - 0.75) < 0.02 and not (chosen._data[0] == 0).any()
    assert not chosen._data[1].any()
    first = np.array([random.multinomial(weights, 2)._data for _ in range(2000)])
    assert abs((first[:, 0, 0] == 2).mean() - 0.75) < 0.05 and np.all(np.sort(first[:, 0], -1) == [1, 2])


def test_dtypes_and_sizes_of_random_tensors():
    assert random.rand(2, dtype=F32).dtype == random.randn(2, dtype="float32").dtype == F32
    assert random.randint(5, (2,)).dtype == random.randperm(3).dtype == I64
    assert random.randint(0, 5, size=(2,), dtype=F32).dtype == F32
    assert random.randint(high=5, size=(2, 3)).shape == (2, 3)
    assert random.randint(0, 2, (4,), dtype=bool).dtype == BOOL
    assert random.randint(0, 2**64, (2,), dtype="uint64").dtype == np.dtype("uint64")
    assert random.randperm(0).shape == (0,)
    assert random.randperm(4, dtype=F32).dtype == F32
    assert random.rand(()).shape == ()
    assert random.randn(2, requires_grad=True).requires_grad
    like = create.zeros(2, 3, dtype=F32)
    for made in (random.rand_like(like), random.randn_like(like)):
        assert (made.shape, made.dtype) == ((2, 3), F32)
    assert random.rand_like(like, dtype=F64).dtype == F64
    assert random.normal(like, 1.0).dtype == F32
    assert random.normal(0.0, like).shape == (2, 3)
    assert random.normal(like).shape == (2, 3)


@pytest.mark.parametrize(
    ("draw", "kind", "message"),
    [
        (lambda: random.rand(2, dtype=I64), NotImplementedError, "\"check_uniform_bounds\" not implemented for 'Long'"),
        (lambda: random.randn(2, dtype=U8), NotImplementedError, "\"normal_kernel_cpu\" not implemented for 'Byte'"),
        (
            lambda: random.randint(5, 3, (2,)),
            RuntimeError,
            "random_ expects 'from' to be less than 'to', but got from=5 >= to=3",
        ),
        (lambda: random.randint(5, 2), TypeError, 'randint() missing 1 required positional arguments: "size"'),
        (lambda: random.randint(0, 5, 2), TypeError, "randint(): argument 'size' must be tuple of ints, not int"),
        (lambda: random.randint(0, 300, (2,), dtype=U8), RuntimeError, "to - 1 is out of bounds for uint8"),
        (lambda: random.randperm(2.5), TypeError, "randperm(): argument 'n' must be int, not float"),
        (lambda: random.randperm(-1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1]"),
        (lambda: random.normal(0, -1, (2,)), RuntimeError, "normal expects std >= 0.0, but found std -1"),
        (lambda: random.normal(0.0, 1.0), TypeError, "normal() of two numbers needs a size: normal(0.0, 1.0, (2, 3))"),
        (
            lambda: random.normal(create.zeros(2), create.full((2,), -1.0)),
            RuntimeError,
            "normal expects all elements of std >= 0.0",
        ),
        (
            lambda: random.normal(create.zeros(2), create.ones(3)),
            RuntimeError,
            "normal(): mean of shape (2,) and std of shape (3,) do not fit",
        ),
        (
            lambda: random.bernoulli(create.tensor([2.0])),
            RuntimeError,
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
        ),
        (
            lambda: random.bernoulli(create.tensor([1])),
            NotImplementedError,
            "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'",
        ),
        (
            lambda: random.bernoulli(create.ones(2), 1.5),
            RuntimeError,
            "bernoulli_ expects p to be in [0, 1], but got p=1.5",
        ),
        (
            lambda: random.bernoulli(0.5),
            TypeError,
            "bernoulli(): argument 'input' (position 1) must be Tensor, not float",
        ),
        (lambda: random.multinomial(create.ones(2), 0), RuntimeError, "cannot sample n_sample <= 0 samples"),
        (
            lambda: random.multinomial(create.ones(2), 3),
            RuntimeError,
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
        ),
        (lambda: random.multinomial(create.tensor(1.0), 1), RuntimeError, "prob_dist must be 1 or 2 dim"),
        (
            lambda: random.multinomial(create.tensor([1, 2]), 1),
            RuntimeError,
            "multinomial only supports floating-point dtypes for input, got: Long",
        ),
        (
            lambda: random.multinomial(create.tensor([-1.0, 1.0]), 1),
            RuntimeError,
            "probability tensor contains either `inf`, `nan` or element < 0",
        ),
        (
            lambda: random.multinomial(create.zeros(2), 1),
            RuntimeError,
            "invalid multinomial distribution (sum of probabilities <= 0)",
        ),
    ],
)
def test_random_functions_refuse(draw, kind, message):
    with raises(kind, message):
        draw()


def test_threads_may_share_a_generator():
    generator = random.Generator().manual_seed(0)
    together: list = []
    threads = [
        threading.Thread(target=lambda: together.extend(random.rand(1000, generator=generator)._data)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = random.rand(8000, generator=random.Generator().manual_seed(0))._data
    assert sorted(together) == sorted(alone)


# ---- within compile_grad --------------------------------------------------------------------------------------------


def test_in_compile_grad_they_give_arrays_that_can_be_assigned_into():
    @compile_grad
    def f(w):
        out, constant = create.zeros(3), create.tensor([1.0, 2.0, 3.0])
        out[0], constant[1] = w[0], w[1]
        if isinstance(out, Tensor) or not isinstance(out, np.ndarray):
            raise TypeError
        parts = [create.full((2,), w[0]), create.linspace(0.0, w[1], 4), create.tensor([w[0], 2.0, w[1]])]
        identity = create.eye(2)
        identity[0, 0] = w[0]
        total = np.sum(out * constant) + np.sum(identity) + create.tensor(0.5) * w[0]
        return total + sum(np.sum(part) for part in parts) + np.sum(create.arange(3) * create.ones_like(out))

    w = np.array([2.0, 3.0])
    for _ in range(3):
        value, gradient = f.value_and_grad(w)
        assert value == 2 + 2 + 1 + 1 + 4 + 6 + 7 + 3
        assert gradient.tolist() == [1 + 1 + 0.5 + 2 + 1, 2 + 1]
    assert not f.stats.live
    assert f.stats.compiles == 1
    assert type(create.zeros(3)) is Tensor


def test_the_public_names_of_old_still_give_traced_arrays():
    @compile_grad
    def f(x):
        out = tracegrad.zeros(3)
        out[1] = x[0] ** 2
        return np.sum(out * tracegrad.ones(3)) + tracegrad.full((2,), x[1]).sum()

    assert f.grad(np.array([3.0, 1.0])).tolist() == [6.0, 2.0]


own_generator = random.Generator()


@pytest.mark.parametrize(
    ("body", "reason", "values"),
    [
        (lambda w: np.sum(w * random.rand(2)), "draws random numbers at test_eager_create.py", 4),
        (lambda w: np.sum(random.normal(w, 1.0)), "draws random numbers at test_eager_create.py", 4),
        (lambda w: np.sum(w * random.rand(2, generator=own_generator)), "draws random numbers at", 4),
        (lambda w: np.sum(w * random.bernoulli(0 * w)), "draws random numbers at", 1),
        (lambda w: w[0] * random.default_generator.initial_seed(), "reads the seed of a random generator at", 1),
    ],
)
def test_a_recording_that_draws_is_not_replayed(body, reason, values):
    f = compile_grad(body)
    w = np.array([0.25, 0.5])
    assert len({float(f(w)) for _ in range(4)}) == values
    assert reason in f.stats.live


def test_a_recording_that_seeds_is_not_replayed():
    @compile_grad
    def f(w):
        random.manual_seed(1)
        return np.sum(w * random.rand(2))

    w = np.ones(2)
    values = {float(f(w)) for _ in range(3)}
    assert len(values) == 1
    assert f.stats.live.startswith("seeds a random generator at test_eager_create.py")
    after = random.rand(2)._data
    f(w)
    assert_same_bits(random.rand(2)._data, after)


def test_random_numbers_in_a_recording_can_be_assigned_into():
    @compile_grad
    def f(w):
        noise = random.randn(3)
        noise[0] = w[0]
        return np.sum(noise[:1] ** 2)

    assert f.grad(np.array([3.0])).tolist() == [6.0]


# ---- within a capture -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
def test_a_capture_draws_anew(name):
    """What is drawn is an input of the recording, together with the function that draws it."""
    random.manual_seed(5)
    expected = DRAWS[name](None)._data
    random.manual_seed(5)
    with capturing(Capture(Recorder())) as capture:
        made = DRAWS[name](None)
        assert type(made) is Tensor
        assert type(made._data) is TracedArray
        assert_same_bits(np.asarray(capture.value(made._data)), expected)
        made[0] = 0
    assert capture.recorder.reasons == []
    [draw] = [payload[0] for kind, payload in capture.sources if kind == "fresh"]
    again, after = draw(), draw()
    assert (again.shape, again.dtype) == (after.shape, after.dtype)
    assert not np.array_equal(again, after)


def test_seeding_in_a_capture_is_noted():
    with capturing(Capture(Recorder())) as capture:
        random.manual_seed(3)
        random.initial_seed()
    assert [reason.text.partition(" at ")[0] for reason in capture.recorder.reasons] == [
        "seeds a random generator",
        "reads the seed of a random generator",
    ]


def test_tensors_made_in_a_capture_are_traced():
    source = create.tensor([1.0, 2.0])
    with capturing(Capture(Recorder())) as capture:
        for made in (create.zeros(2), create.tensor([1, 2]), create.arange(2), create.tensor(source), create.eye(2)):
            assert type(made) is Tensor
            assert type(made._data) is TracedArray
        assert capture.value(create.tensor([source[1], 3.0])._data).tolist() == [2.0, 3.0]
        assert capture.value(create.full((2,), source[1])._data).tolist() == [2.0, 2.0]
    assert capture.recorder.reasons == []


def test_a_default_dtype_inside_a_recording():
    dtypes.set_default_dtype(F32)

    @compile_grad
    def f(x):
        return np.sum(create.ones(3) * x)

    assert f(np.ones(3, np.float32)).dtype == F32


# ---- against PyTorch ------------------------------------------------------------------------------------------------

DATA = [
    1, 2.5, True, [1, 2], [1.5, 2], [[True], [False]], [[]], [], [[1, 2], [3, 4.5]], (1, 2), [(1, 2), [3, 4]], range(4),
    np.float32(2), np.float64(2), np.int16(3), np.ones((2, 3), np.uint8), [np.float32(1), np.float32(2)], [np.ones(2)],
    [[1, 2], [3]], [[1], 2], [1, [2]], None, ["a"], "a", {1: 2}, 2**63, [None], ...,
]  # fmt: skip


def told(call) -> tuple:
    """What *call* gave, in a form that can be compared: its list, shape and dtype, or the error with its message."""
    try:
        made = call()
    except Exception as error:
        return type(error), str(error)
    array = made._data if isinstance(made, Tensor) else made.numpy()
    return array.tolist(), array.shape, array.dtype


@pytest.mark.parametrize("data", DATA, ids=[str(d) for d in DATA])
@pytest.mark.parametrize("default", ["float64", "float32"])
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
def test_tensor_is_pytorchs(torch, data, default):
    torch.set_default_dtype(getattr(torch, default))
    dtypes.set_default_dtype(np.dtype(default))
    assert told(lambda: create.tensor(data)) == told(lambda: torch.tensor(data))


RULES = [
    ("arange", (5,), {}), ("arange", (1, 7, 2), {}), ("arange", (0, 1, 0.1), {}), ("arange", (2.5, -3.7, -0.3), {}),
    ("arange", (0, 1, 0.1), {"dtype": "float32"}), ("arange", (0.9, 0, -0.1), {}), ("linspace", (0, 1, 7), {}),
    ("linspace", (3, -4, 8), {"dtype": "float32"}), ("linspace", (0, 10, 4), {"dtype": "int64"}),
    ("logspace", (0, 3, 7), {}), ("logspace", (-1, 1, 3), {"base": 2.0}), ("eye", (3, 2), {}), ("eye", (2,), {}),
    ("tril_indices", (3, 4, -1), {}), ("triu_indices", (4, 3), {"offset": 1}), ("full", ((2, 2), 7), {}),
    ("zeros", (2, 3), {"dtype": "bool"}), ("ones", ((2,),), {"dtype": "int16"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options"), RULES, ids=[f"{n}{a}" for n, a, _ in RULES])
def test_tensors_by_rule_are_pytorchs(torch, name, args, options):
    theirs = options | ({"dtype": getattr(torch, options["dtype"])} if "dtype" in options else {})
    expected = getattr(torch, name)(*args, **theirs).numpy()
    made = getattr(create, name)(*args, **options)._data
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(made, expected, rtol=4 * np.finfo(expected.dtype).eps if made.dtype.kind == "f" else 0,
                               atol=1e-7 if made.dtype == F32 else 1e-15)  # fmt: skip


def test_traced_arrays_pass_where_tensors_do():
    @compile_grad
    def f(x):
        return np.sum(create.zeros_like(x) + create.as_tensor(x) + create.tensor(x)) + create.from_numpy(x).sum()

    assert f.grad(np.ones(2)).tolist() == [3.0, 3.0]
    assert TracedArray not in {type(create.zeros_like(np.ones(2))), type(create.tensor(np.ones(2)))}
