"""``ShapeDtypeStruct``: what it holds, what it is equal to, what it refuses."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

import tracegrad
from tracegrad import ShapeDtypeStruct
from tracegrad.tracer.ir.shape_struct import shape_struct


def test_it_holds_a_shape_and_a_dtype() -> None:
    struct = ShapeDtypeStruct([2, np.int64(3)], "f4")
    assert (struct.shape, struct.dtype, struct.ndim, struct.size, struct.nbytes) == ((2, 3), np.float32, 2, 6, 24)
    assert len(struct) == 2
    assert repr(struct) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    assert ShapeDtypeStruct(4, int).shape == (4,)
    assert ShapeDtypeStruct((), ml_dtypes.bfloat16).nbytes == 2


def test_equality_hash_and_pickle() -> None:
    struct = ShapeDtypeStruct((2,), float)
    assert struct == ShapeDtypeStruct([2], np.float64)
    assert struct != ShapeDtypeStruct((2,), np.float32)
    assert struct != (2,)
    assert len({struct, ShapeDtypeStruct(2, float)}) == 1
    assert pickle.loads(pickle.dumps(struct)) == struct
    with pytest.raises(AttributeError, match="does not change"):
        struct.shape = (3,)  # type: ignore[misc]


def test_of_values() -> None:
    assert shape_struct(np.zeros((2, 3), np.int32)) == ShapeDtypeStruct((2, 3), np.int32)
    assert shape_struct(2.0) == ShapeDtypeStruct((), float)
    assert shape_struct(True) == ShapeDtypeStruct((), bool)
    assert shape_struct(1j) == ShapeDtypeStruct((), complex)
    with pytest.raises(TypeError, match="without axes"):
        len(shape_struct(2.0))


def test_what_is_refused() -> None:
    with pytest.raises(tracegrad.ShapeError, match="tuple of integers"):
        ShapeDtypeStruct((2.5,), float)  # type: ignore[arg-type]
    with pytest.raises(tracegrad.ShapeError, match="negative"):
        ShapeDtypeStruct((-1,), float)
    with pytest.raises(tracegrad.UnsupportedError, match="dtype"):
        ShapeDtypeStruct((2,), "U3")
