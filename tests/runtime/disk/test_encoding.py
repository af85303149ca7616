"""Plain values as bytes, and back."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad.runtime.disk.encoding import EncodingError, decode, encode
from tracegrad.runtime.disk.store import packed, unpacked

VALUES = [
    None,
    True,
    3,
    -(10**30),
    0.1,
    float("inf"),
    -0.0,
    1j,
    "text",
    "\udc80",
    b"",
    b"bytes",
    (),
    [1, (2.0,)],
    {"a": [None]},
    frozenset((1, "b")),
    np.dtype("f4"),
    np.float32(0.1),
    np.int64(-1),
]
ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.arange(5, dtype=np.int32)[::2],
    np.zeros((0, 3)),
    np.array(True),
    np.ones(3, ">f8"),
    np.arange(4, dtype=np.uint8),
    np.array([1 + 2j], np.complex64),
]


def test_what_is_read_is_what_was_written() -> None:
    for value in VALUES:
        found = decode(encode(value))
        assert type(found) is type(value) and encode(found) == encode(value)
        assert decode(memoryview(encode((value, value)))) == (value, value)


@pytest.mark.parametrize("text", [b"", b"x", b"text of odd length", bytes(15)])
def test_arrays_stand_where_they_can_be_used(text) -> None:
    """In the bytes of a file, whatever is in front of them; anywhere else they are copied."""
    _, _, payload = unpacked(packed("plan", text, encode(("before", ARRAYS, [ARRAYS]))))
    for data in (payload, memoryview(bytearray(b"x" + payload))[1:]):
        _, found, (again,) = decode(data)
        for arrays in (found, again):
            for a, b in zip(arrays, ARRAYS, strict=True):
                assert (a.dtype, a.shape, a.flags.writeable) == (b.dtype, b.shape, False)
                assert a.flags.aligned and a.flags.c_contiguous
                np.testing.assert_array_equal(a, b)
    assert encode(ARRAYS[0]) != encode(ARRAYS[0].T) and encode(np.zeros(2)) != encode(np.zeros(2, np.int64))


def test_bytes_of_no_value() -> None:
    whole = encode((ARRAYS, VALUES))
    for k in range(len(whole)):
        with pytest.raises(EncodingError):
            decode(whole[:k])
    for value in (object(), np.array([None]), {1, 2}, np.zeros(1, [("a", "f8")])):
        with pytest.raises(EncodingError):
            encode(value)
