"""Fourier transforms of tensors, under PyTorch's names."""

from .tensors.ops_fourier import TRANSFORMS
from .tracer.ir.tracebacks import shorten_all

fft, ifft, fft2, ifft2, fftn, ifftn = [TRANSFORMS[name] for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn")]
rfft, irfft, rfft2, irfft2 = [TRANSFORMS[name] for name in ("rfft", "irfft", "rfft2", "irfft2")]
rfftn, irfftn, hfft, ihfft = [TRANSFORMS[name] for name in ("rfftn", "irfftn", "hfft", "ihfft")]
fftfreq, rfftfreq = TRANSFORMS["fftfreq"], TRANSFORMS["rfftfreq"]
fftshift, ifftshift = TRANSFORMS["fftshift"], TRANSFORMS["ifftshift"]

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

shorten_all(globals(), __all__)
