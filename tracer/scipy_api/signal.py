"""scipy.signal: SciPy's own Python, down to its functions in C, for which those below stand."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..ir.graph import Atom
from ..ir.site import at_site
from ..numpy_api.from_source import compiled, source_of
from ..numpy_api.hooks import hook_class, hook_to_source, over_traced, when_loaded
from ..numpy_api.shape import as_traced
from ..ops.complex import by_lane
from ..ops.elementwise import F, like
from ..ops.filters import all_pole, correlate
from ..ops.shape import reshape
from ..record.array import to_atom, wrap
from ..record.made_arrays import assign_all
from ..record.recorder import require_recorder

_MODULES = (
    "_arraytools", "_czt", "_fir_filter_design", "_filter_design", "_lti_conversion", "_ltisys", "_savitzky_golay",
    "_signaltools", "_spectral_py", "_upfirdn", "_waveforms", "windows._windows",
)  # fmt: skip


def _array(x: Any) -> Any:
    return as_traced(x)


# ---- correlations --------------------------------------------------------------------------------------------------


def correlated(x: Any, w: Any) -> Any:
    """The sums of *x* times *w* at each place where *w* lies within *x*: over the last two axes as a whole, over the
    others element by element."""
    dtype = np.result_type(x, w)
    x, w = _array(x), _array(w)
    if dtype.kind == "c":
        total: Any = 0
        for unit, part in ((1, x.real), (1j, x.imag)) if np.iscomplexobj(x) else ((1, x),):
            for other, weights in ((1, w.real), (1j, w.imag)) if np.iscomplexobj(w) else ((1, w),):
                total = total + unit * other * correlated(part, weights)
        return total.astype(dtype)
    if w.ndim == 1:
        return correlated(x[None], w[None])[0]
    x, w = (v.astype(dtype if dtype.kind == "f" else float) for v in (x, w))
    batch = [n - k + 1 for n, k in zip(x.shape[:-2], w.shape[:-2], strict=True)]
    total = 0
    for place in np.ndindex(w.shape[:-2]):
        part = x[tuple([slice(k, k + n) for k, n in zip(place, batch, strict=True)])]
        weights = np.broadcast_to(w[place], (*part.shape[:-2], *w.shape[-2:]))
        total = total + wrap(correlate(to_atom(part), to_atom(weights)))
    return total.astype(dtype)


def _slide(x: Any, w: Any) -> Any:
    """``correlated`` of the rows of *x* with the one row *w*."""
    if x.ndim == 1:
        return correlated(x, w)
    rows = x.reshape(-1, x.shape[-1])
    return correlated(rows, w[None]).reshape(*x.shape[:-1], -1)


def _correlate_nd(a: Any, b: Any, out: Any, mode: int) -> Any:
    """``a`` is continued by zeros at its end, but for mode 0, "valid"."""
    b = np.conj(_array(b))
    if mode == 0:
        return correlated(a, b)
    taps = [k - 1 for k in b.shape]
    own = _inner(_array(a), [0] * len(taps), tuple([n - k for n, k in zip(np.shape(a), taps, strict=True)]))
    found = correlated(np.pad(own, [(k, k) for k in taps]), b)
    return found if mode == 2 else _inner(found, [k // 2 for k in taps], own.shape)


def _inner(x: Any, first: list[int], shape: tuple[int, ...]) -> Any:
    return x[tuple([slice(k, k + n) for k, n in zip(first, shape, strict=True)])]


_BOUNDARIES: dict[int, Any] = {0: "constant", 4: "symmetric", 8: "wrap"}


def _convolve2d(x: Any, w: Any, flip: int, mode: int, boundary: int, fillvalue: Any) -> Any:
    x, w = _array(x), _array(w)
    w = w[::-1, ::-1] if flip else w
    taps = [k - 1 for k in w.shape]
    fill = {"constant_values": fillvalue} if boundary == 0 else {}
    wide = x if mode == 0 else np.pad(x, [(k, k) for k in taps], mode=_BOUNDARIES[boundary & 12], **fill)
    found = correlated(wide, w)
    return _inner(found, [k // 2 if flip else k - k // 2 for k in taps], x.shape) if mode == 1 else found


def _apply_upfirdn(x: Any, filters: Any, out: Any, up: int, down: int, axis: int, mode: Any, cval: Any) -> None:
    """The signal with zeros between its samples, filtered; every *down*-th sample of that is written to *out*."""
    if mode != 0 or cval:
        raise UnsupportedError.here("scipy.signal.upfirdn of traced arrays continues signals by zeros only")
    h = filters.reshape(up, -1)[:, ::-1].T.ravel()
    x = np.moveaxis(_array(x), axis, -1)
    spread = np.pad(x[..., None], [(0, 0)] * x.ndim + [(0, up - 1)])
    count = out.shape[axis]
    ends = [(0, 0)] * (x.ndim - 1) + [(h.size - 1, max(0, (count - 1) * down + 1 - x.shape[-1] * up))]
    found = _slide(np.pad(spread.reshape(*x.shape[:-1], -1), ends), h[::-1])
    assign_all(out, np.moveaxis(found[..., : (count - 1) * down + 1 : down], -1, axis))


# ---- filters -------------------------------------------------------------------------------------------------------


def _delayed(b: Any, x: Any) -> Any:
    """The sums of b[k] * x[..., t - k], from a signal that was zero before."""
    before = [(0, 0)] * (x.ndim - 1) + [(b.size - 1, 0)]
    return _slide(np.pad(x, before), b[::-1])


def _left(b: Any, x: Any, order: int) -> Any:
    """The same sums for t after the end, as far as they are of samples before it: *order* of them."""
    last = x[..., max(x.shape[-1] - order, 0) :]
    ends = [(0, 0)] * (x.ndim - 1) + [(order - last.shape[-1], order - 1)]
    return _slide(np.pad(last, ends), b[:0:-1])


def _recursive(a: Any, x: Any) -> Any:
    """y[t] = x[t] - a[0] y[t - 1] - a[1] y[t - 2] - ..."""
    factors = to_atom(np.broadcast_to(a, (*x.shape[:-1], 1, a.size)))

    def filtered(lane: Atom) -> Atom:
        row = reshape(lane, (*lane.aval.shape[:-1], 1, lane.aval.shape[-1]))
        return reshape(all_pole(factors, row), lane.aval.shape)

    return wrap(by_lane(filtered, to_atom(x)))


def _no_filter() -> Exception:
    return ValueError(at_site("BUG: filter coefficient a[0] == 0 not supported yet"))


def _linear_filter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """The output of the filter b / a of *x* along *axis*; with *zi* (its state before), also its state after."""
    b, a, x = _array(b), _array(a), _array(x)
    dtype = np.result_type(b, a, x, *([] if zi is None else [zi]))
    dtype = dtype if dtype.kind in "fc" else np.dtype(float)
    if np.iscomplexobj(a):  # 1 / A = A' / (A A')
        if zi is not None:
            raise UnsupportedError.here("scipy.signal.lfilter with complex coefficients a takes no traced state zi")
        b, a = np.convolve(b, a.conj()), np.convolve(a, a.conj()).real
    first = to_atom(a[0])
    require_recorder("scipy.signal.lfilter").rely(F.ne(first, like(0, first)), _no_filter)
    order = max(a.size, b.size) - 1
    weights = a.dtype.type(1) / a[0]
    b, a = [np.pad(v * weights, (0, order + 1 - v.size)).astype(np.result_type(v, dtype.char.lower())) for v in (b, a)]
    x = np.moveaxis(x, axis, -1).astype(dtype)
    driven = _delayed(b, x)
    state = None
    if zi is not None:
        state = np.broadcast_to(np.moveaxis(_array(zi), axis, -1), (*x.shape[:-1], order)).astype(dtype)
        now = state[..., : x.shape[-1]]
        driven = driven + np.pad(now, [(0, 0)] * (x.ndim - 1) + [(0, x.shape[-1] - now.shape[-1])])
    found = _recursive(a[1:], driven) if order else driven
    y = np.moveaxis(found, -1, axis)
    if state is None:
        return y
    after = _left(b, x, order) - _left(a, found, order)
    later = state[..., x.shape[-1] :]
    after = after + np.pad(later, [(0, 0)] * (x.ndim - 1) + [(0, order - later.shape[-1])])
    return y, np.moveaxis(after, -1, axis)


def _sosfilt(sos: Any, x: Any, zi: Any) -> None:
    """The filters of second order one after the other, in place of the signals *x* and their states *zi*."""
    for k in range(sos.shape[0]):
        x[...], zi[:, k] = _linear_filter(sos[k, :3], sos[k, 3:], x, -1, zi[:, k])


# ---- short-time transforms -----------------------------------------------------------------------------------------

_PADDINGS: dict[str, Any] = {
    "zeros": {}, "edge": {"mode": "edge"}, "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
}  # fmt: skip


def _at_once(by_slices: Any, detrend: Any) -> Any:
    """``ShortTimeFFT.stft_detrend`` of all slices at once, but where a function of the user's looks at each of them, or
    where it raises."""

    def stft_detrend(
        self: Any, x: Any, detr: Any, p0: Any = None, p1: Any = None, *, k_offset: int = 0, padding: str = "zeros",
        axis: int = -1,
    ) -> Any:  # fmt: skip
        n, short = x.shape[axis], self.m_num - self.m_num_mid
        wrong = n < short or padding not in _PADDINGS or (self.onesided_fft and np.iscomplexobj(x))
        if wrong or not (detr is None or isinstance(detr, str)):
            return by_slices(self, x, detr, p0, p1, k_offset=k_offset, padding=padding, axis=axis)
        p0, p1 = self.p_range(n, p0, p1)
        first = p0 * self.hop - self.m_num_mid + k_offset
        last = first + (p1 - p0 - 1) * self.hop + self.m_num
        x = np.moveaxis(_array(x), axis, -1)
        sides = [(0, 0)] * (x.ndim - 1) + [(max(-first, 0), max(last - n, 0))]
        cut = np.pad(x[..., max(first, 0) : min(last, n)], sides, **_PADDINGS[padding])
        slices = np.lib.stride_tricks.sliding_window_view(cut, self.m_num, axis=-1)[..., :: self.hop, :]
        if detr is not None:
            slices = detrend(slices, type=detr)
        found = np.swapaxes(self._fft_func(slices * self.win.conj()), -1, -2).astype(complex)
        return found if x.ndim == 1 else np.moveaxis(found, -2, axis if axis >= 0 else axis - 1)

    return stft_detrend


# ---- hooks ---------------------------------------------------------------------------------------------------------


@when_loaded("scipy.signal", "test")
def _install(signal: Any) -> None:
    tools = signal._signaltools
    for module, name, ours in (
        (tools._sigtools, "_correlateND", _correlate_nd), (tools._sigtools, "_convolve2d", _convolve2d),
        (tools._sigtools, "_linear_filter", _linear_filter), (tools, "_sosfilt", _sosfilt),
        (signal._upfirdn, "_apply", _apply_upfirdn),
    ):  # fmt: skip
        compiled(module, name)(ours)
    for path in _MODULES:
        module = signal
        for name in path.split("."):
            module = getattr(module, name)
        for name, function in list(vars(module).items()):
            public = isinstance(function, FunctionType) and not name.startswith("_")
            if public and function.__module__ == module.__name__:
                hook_to_source(inspect.unwrap(function), over_traced)
    by_slices = source_of(vars(signal.ShortTimeFFT)["stft_detrend"])
    hook_class(signal.ShortTimeFFT, stft_detrend=_at_once(by_slices, signal.detrend))
    for cls in (signal.CZT, signal.ZoomFFT, signal._upfirdn._UpFIRDn):
        hook_class(cls)
