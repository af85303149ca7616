"""Hints for unsupported functions: alternatives by name.  Others raise with a general hint."""

from __future__ import annotations

from ..record.array import HINTS

# hint -> the names that it is for
_SHARED = {
    "compute it outside and pass the result in, or write it with the supported products": (
        "solve inv pinv det slogdet lstsq cholesky eig eigh eigvals eigvalsh svd svdvals qr matrix_rank cond "
        "tensorsolve tensorinv"
    ),
    "Fourier transforms need complex numbers; multiply by cosine and sine matrices for small sizes": (
        "fft ifft rfft irfft fft2 ifft2 fftn ifftn"
    ),
    "use np.roll": "fftshift ifftshift",
    "the size of its result depends on data; compute it outside the compiled function and pass the result in": (
        "unique unique_values unique_counts unique_all unique_inverse intersect1d union1d setdiff1d setxor1d trim_zeros"
    ),
    "use np.digitize and np.bincount": "histogram2d histogramdd",
    "write it with array operations; a Python loop over rows with np.stack works too": (
        "vectorize apply_along_axis apply_over_axes frompyfunc"
    ),
    "complex numbers are not supported; carry real and imaginary parts as two arrays": (
        "angle imag real_if_close roots poly sort_complex"
    ),
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
        "piecewise": "use np.where, or np.select for several cases",
        "choose": "use np.select, or np.take_along_axis",
        "polyfit": "solve it outside, or minimise the squared residual of np.polyval",
        "unwrap": "use np.diff, np.where and np.cumsum",
        "corrcoef": "use np.cov and divide by the square roots of its diagonal",
        "nanmedian": "remove the NaNs before, then np.median",
        "nanvar": "use np.nanmean of the squared difference",
        "nanstd": "use np.nanmean of the squared difference, and np.sqrt",
        "nanquantile": "remove the NaNs before, then np.quantile",
        "nanpercentile": "remove the NaNs before, then np.percentile",
        "nanargmax": "use np.argmax of np.where(np.isnan(x), -np.inf, x)",
        "nanargmin": "use np.argmin of np.where(np.isnan(x), np.inf, x)",
        "nancumsum": "use np.cumsum of np.where(np.isnan(x), 0, x)",
        "nancumprod": "use np.cumprod of np.where(np.isnan(x), 1, x)",
        "lexsort": "use np.argsort of a combined key",
        "resize": "use np.tile or np.pad, which keep the number of elements plain",
        "place": "assign with a mask: x[mask] = values",
        "ix_": "index with x[rows[:, None], columns]",
        "frexp": "use np.floor(np.log2(np.abs(x)))",
        "nextafter": "add a small multiple of np.finfo(float).eps",
        "spacing": "use np.finfo(float).eps * np.abs(x)",
        "geomspace": "use np.exp(np.linspace(np.log(a), np.log(b), n))",
        "i0": "use scipy.special.ive or a series",
        "kaiser": "compute the window outside and pass it in",
        "ldexp": "write x * 2.0**n",
        "einsum_path": "call it on plain arrays of the same shapes",
        "resize_": "make a new array",
        "strides": "a traced array has no memory layout; use reshape and transpose",
        "flags": "a traced array has no memory layout; leave the test out",
        "as_strided": "use slices, np.stack or index arrays",
        "sliding_window_view": "use index arrays: x[np.arange(n - w + 1)[:, None] + np.arange(w)]",
        "tri": "use np.tril(np.ones((n, m)))",
        "mask_indices": "use np.tril or np.triu",
        "tril_indices_from": "use np.tril_indices(n)",
        "triu_indices_from": "use np.triu_indices(n)",
        "diag_indices_from": "use np.diag_indices(n)",
        "min_scalar_type": "use x.dtype",
    }
)
