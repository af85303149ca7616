"""Hints for unsupported functions: alternatives by name.  Others raise with a general hint."""

from __future__ import annotations

from ..record.array import HINTS

# hint -> the names that it is for
_SHARED = {
    "multiply by the matrix np.exp(-2j * np.pi * np.outer(k, k) / n), k = np.arange(n), for small sizes": (
        "fft ifft rfft irfft fft2 ifft2 fftn ifftn"
    ),
    "use np.roll": "fftshift ifftshift",
    "the size of its result depends on data; compute it outside the compiled function and pass the result in": (
        "unique unique_values unique_counts unique_all unique_inverse intersect1d union1d setdiff1d setxor1d trim_zeros"
    ),
    "use np.digitize and np.bincount": "histogram2d histogramdd",
    "write it with array operations; a Python loop over rows with np.stack works too": ("frompyfunc"),
    "it needs eigenvalues, which are not supported": "roots poly",
    "convert to plain integers before the compiled function, where they have no gradient to lose": (
        "packbits unpackbits gcd lcm bitwise_count byteswap"
    ),
    "return the array from the function and write it outside": "save savetxt savez tofile tobytes dump dumps",
    "a traced array has no memory": "data ctypes base",
}

HINTS.update({name: hint for hint, names in _SHARED.items() for name in names.split()})
HINTS.update(
    {
        "isin": "compare with broadcasting: (x[..., None] == values).any(axis=-1)",
        "in1d": "compare with broadcasting: (x[:, None] == values).any(axis=-1)",
        "histogram": "use np.searchsorted and np.bincount; the counts have no gradient",
        "histogram_bin_edges": "compute the edges outside and pass them in",
        "choose": "use np.select, or np.take_along_axis",
        "polyfit": "solve it outside, or minimise the squared residual of np.polyval",
        "lexsort": "use np.argsort of a combined key",
        "place": "assign with a mask: x[mask] = values",
        "frexp": "use np.floor(np.log2(np.abs(x)))",
        "nextafter": "add a small multiple of np.finfo(float).eps",
        "spacing": "use np.finfo(float).eps * np.abs(x)",
        "kaiser": "compute the window outside and pass it in",
        "ldexp": "write x * 2.0**n",
        "resize_": "make a new array",
        "strides": "a traced array has no memory layout; use reshape and transpose",
        "flags": "a traced array has no memory layout; leave the test out",
        "as_strided": "use slices, np.stack or index arrays",
        "tri": "use np.tril(np.ones((n, m)))",
        "mask_indices": "use np.tril or np.triu",
        "tril_indices_from": "use np.tril_indices(n)",
        "triu_indices_from": "use np.triu_indices(n)",
        "diag_indices_from": "use np.diag_indices(n)",
        "min_scalar_type": "use x.dtype",
    }
)
