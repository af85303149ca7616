"""The names and signatures of the Array API standard, revision 2024.12 (``signatures.txt``)."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import array_api as xp

LISTED = Path(__file__).with_name("signatures.txt").read_text().split("\n")[:-1]
TRANSFORMS = {f"fft.{n}" for n in "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft".split()}
METHODS = """
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__
__floordiv__ __ge__ __getitem__ __gt__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__
__index__ __int__ __invert__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ __le__ __lshift__ __lt__
__matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rand__ __rfloordiv__ __rlshift__
__rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __setitem__
__sub__ __truediv__ __xor__ to_device device dtype mT ndim shape T
""".split()


def bare(function: Any) -> str:
    """The signature without annotations."""
    found = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def found(name: str, space: Any = xp) -> Any:
    for part in name.split("."):
        space = getattr(space, part)
    return space


def expected() -> list[str]:
    """The lines of the list that apply: transforms are there where tensors have complex dtypes."""
    known = hasattr(xp, "complex64")
    return [line for line in LISTED if known or line.partition("(")[0] not in TRANSFORMS]


def test_every_name_has_the_signature_of_the_standard() -> None:
    assert len(LISTED) > 170
    lines = [f"{line.partition('(')[0]}{bare(found(line.partition('(')[0]))}" for line in expected()]
    assert lines == expected()


def test_the_list_is_that_of_the_reference_implementation() -> None:
    strict = pytest.importorskip("array_api_strict")
    theirs = [f"{n}{bare(found(n, strict))}" for n in [line.partition("(")[0] for line in LISTED]]
    assert [line.replace("<Undef.UNDEF: 0>", "None") for line in theirs] == LISTED


def test_constants_and_dtypes() -> None:
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (np.e, np.pi, np.inf, None)
    assert np.isnan(xp.nan)
    names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
    assert all(xp.asarray([1], dtype=getattr(xp, n)).dtype == getattr(xp, n) for n in names)
    assert {n for n in names if not hasattr(xp, n)} == set()
    assert set(xp.__array_namespace_info__().dtypes()) >= set(names)


def test_all_lists_every_name_and_each_has_a_docstring() -> None:
    assert {n for n in xp.__all__ if not hasattr(xp, n)} == set()
    for space in (xp, xp.linalg, xp.fft):
        for name in space.__all__:
            value = getattr(space, name)
            assert not inspect.isfunction(value) or value.__doc__, name


def test_methods_of_the_array_object() -> None:
    t = tracegrad.ones(2, 2)
    assert [n for n in METHODS if not hasattr(t, n)] == []
    assert t.__array_namespace__() is xp
    assert t.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="follows revisions"):
        t.__array_namespace__(api_version="2012.12")


def test_operators_that_pytorch_has_as_functions() -> None:
    t = tracegrad.tensor([3, 5])
    assert (t << 1).tolist() == [6, 10]
    assert (1 << t).tolist() == [8, 32]
    assert (t >> tracegrad.tensor([1, 2])).tolist() == [1, 1]
    assert (64 >> t).tolist() == [8, 2]
    same = t
    t <<= 2
    t //= 5
    t |= 1
    t ^= 6
    t &= 7
    t %= 4
    t >>= 1
    assert same is t
    assert t.tolist() == [0, 1]
    m = same = tracegrad.ones(2, 2)
    m @= m
    assert same is m
    assert m.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert complex(tracegrad.tensor(2.5)) == 2.5 + 0j
    assert t.to_device("cpu") is t
    assert t.to_device(t.device) is t
