"""The standard's extension of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors.ops_fourier import TRANSFORMS
from .rows import FFT, row, written


def _frequencies(name: str) -> None:
    def frequencies(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
        return TRANSFORMS[name](n, d, dtype=dtype, device=device)

    frequencies.__name__ = name
    frequencies.__doc__ = f"The frequencies of the results of ``{name[:-4]}``, in cycles for a sample spacing of *d*."
    written(frequencies, space=np.fft, table=FFT)


_frequencies("fftfreq")
_frequencies("rfftfreq")
_AXIS, _AXES = "(x, /, *, n=None, axis=-1, norm='backward')", "(x, /, *, s=None, axes=None, norm='backward')"
_TRANSFORMS = dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), _AXIS)
_TRANSFORMS |= dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn"), _AXES)
for _name, _rest in _TRANSFORMS.items():
    row(f"{_name}{_rest}", space=np.fft, table=FFT)
for _name in ("fftshift", "ifftshift"):
    row(f"{_name}(x, /, *, axes=None)", space=np.fft, table=FFT)
globals().update(FFT)
__all__ = [*FFT]
