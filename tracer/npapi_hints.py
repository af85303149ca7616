"""What to use instead of what is not supported.  A name that is neither here nor supported raises with a general hint."""

from __future__ import annotations

from .array import HINTS

_LINALG = "compute it outside and pass the result in, or write it with the supported products; for small systems eliminate by hand"
_FFT = "Fourier transforms need complex numbers, which are not supported; multiply by cosine and sine matrices for small sizes"
_SET = "the size of its result depends on data; compute it outside the compiled function and pass the result in"
_COMPLEX = "complex numbers are not supported; carry real and imaginary parts as two arrays"
_PER_ELEMENT = "write it with array operations; a Python loop over rows with np.stack works too"
_INTEGER = "convert to plain integers before the compiled function, where they have no gradient to lose"
_FILE = "return the array from the function and write it outside"

HINTS.update(
    {
        "solve": _LINALG, "inv": _LINALG, "pinv": _LINALG, "det": _LINALG, "slogdet": _LINALG, "lstsq": _LINALG, "cholesky": _LINALG,
        "eig": _LINALG, "eigh": _LINALG, "eigvals": _LINALG, "eigvalsh": _LINALG, "svd": _LINALG, "svdvals": _LINALG, "qr": _LINALG,
        "matrix_rank": _LINALG, "cond": _LINALG, "tensorsolve": _LINALG, "tensorinv": _LINALG,
        "fft": _FFT, "ifft": _FFT, "rfft": _FFT, "irfft": _FFT, "fft2": _FFT, "ifft2": _FFT, "fftn": _FFT, "ifftn": _FFT,
        "fftshift": "use np.roll", "ifftshift": "use np.roll",
        "unique": _SET, "unique_values": _SET, "unique_counts": _SET, "unique_all": _SET, "unique_inverse": _SET, "intersect1d": _SET,
        "union1d": _SET, "setdiff1d": _SET, "setxor1d": _SET, "trim_zeros": _SET,
        "isin": "compare with broadcasting: (x[..., None] == values).any(axis=-1)", "in1d": "compare with broadcasting: (x[:, None] == values).any(axis=-1)",
        "histogram": "use np.searchsorted and np.bincount; the counts have no gradient", "histogram2d": "use np.digitize and np.bincount",
        "histogramdd": "use np.digitize and np.bincount", "histogram_bin_edges": "compute the edges outside and pass them in",
        "piecewise": "use np.where, or np.select for several cases", "choose": "use np.select, or np.take_along_axis",
        "vectorize": _PER_ELEMENT, "apply_along_axis": _PER_ELEMENT, "apply_over_axes": _PER_ELEMENT, "frompyfunc": _PER_ELEMENT,
        "angle": _COMPLEX, "imag": _COMPLEX, "real_if_close": _COMPLEX, "roots": _COMPLEX, "poly": _COMPLEX, "sort_complex": _COMPLEX,
        "polyfit": "solve it outside, or minimise the squared residual of np.polyval", "unwrap": "use np.diff, np.where and np.cumsum",
        "corrcoef": "use np.cov and divide by the square roots of its diagonal", "nanmedian": "remove the NaNs before, then np.median",
        "nanvar": "use np.nanmean of the squared difference", "nanstd": "use np.nanmean of the squared difference, and np.sqrt",
        "nanquantile": "remove the NaNs before, then np.quantile", "nanpercentile": "remove the NaNs before, then np.percentile",
        "nanargmax": "use np.argmax of np.where(np.isnan(x), -np.inf, x)", "nanargmin": "use np.argmin of np.where(np.isnan(x), np.inf, x)",
        "nancumsum": "use np.cumsum of np.where(np.isnan(x), 0, x)", "nancumprod": "use np.cumprod of np.where(np.isnan(x), 1, x)",
        "lexsort": "use np.argsort of a combined key", "resize": "use np.tile or np.pad, which keep the number of elements plain",
        "place": "assign with a mask: x[mask] = values", "packbits": _INTEGER, "unpackbits": _INTEGER, "ix_": "index with x[rows[:, None], columns]",
        "left_shift": "write x * 2**n", "right_shift": "write x // 2**n", "gcd": _INTEGER, "lcm": _INTEGER, "bitwise_count": _INTEGER,
        "frexp": "use np.floor(np.log2(np.abs(x)))", "nextafter": "add a small multiple of np.finfo(float).eps", "spacing": "use np.finfo(float).eps * np.abs(x)",
        "geomspace": "use np.exp(np.linspace(np.log(a), np.log(b), n))", "i0": "use scipy.special.ive or a series",
        "kaiser": "compute the window outside and pass it in", "ldexp": "write x * 2.0**n", "einsum_path": "call it on plain arrays of the same shapes",
        "save": _FILE, "savetxt": _FILE, "savez": _FILE, "tofile": _FILE, "tobytes": _FILE, "dump": _FILE, "dumps": _FILE,
        "resize_": "make a new array", "byteswap": _INTEGER, "strides": "a traced array has no memory layout; use reshape and transpose",
        "data": "a traced array has no memory", "ctypes": "a traced array has no memory", "base": "a traced array has no memory",
        "flags": "a traced array has no memory layout; leave the test out", "as_strided": "use slices, np.stack or index arrays",
        "sliding_window_view": "use index arrays: x[np.arange(n - w + 1)[:, None] + np.arange(w)]",
        "tri": "use np.tril(np.ones((n, m)))", "mask_indices": "use np.tril or np.triu", "tril_indices_from": "use np.tril_indices(n)",
        "triu_indices_from": "use np.triu_indices(n)", "diag_indices_from": "use np.diag_indices(n)", "min_scalar_type": "use x.dtype",
    }
)  # fmt: skip
