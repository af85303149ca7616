"""scipy.signal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.signal as sg

from .case import Case

_RNG = np.random.default_rng(17)
X, Y, IMAGE, KERNEL = (_RNG.normal(size=shape) for shape in (24, 5, (6, 5), (3, 2)))
LONG, POLES = _RNG.normal(size=64), np.array([0.2, -0.1])
_OF_FRAMES = sg.ShortTimeFFT(np.hanning(8) + 0.1, 4, 1.0)
SOS = sg.butter(4, 0.3, output="sos")


def _case(name: str, call: Callable[..., Any], *args: Any, label: str = "", **given: Any) -> Case:
    return Case(f"scipy.signal.{name}", call, args, label=label, **given)


def _by(a: Any) -> Any:
    """The denominator 1 + a[0] / z + ..."""
    return np.concatenate([[1.0], a])


def _convolutions() -> list[Case]:
    cases = []
    for name in ("convolve", "correlate", "fftconvolve", "oaconvolve"):
        function = getattr(sg, name)
        for mode in ("full", "same", "valid"):
            cases.append(_case(name, partial(function, mode=mode), X, Y, label=mode))
        cases.append(_case(name, partial(function, mode="same"), IMAGE, KERNEL, label="image"))
        cases.append(_case(name, lambda x, y, f=function: f(x + 1j * x[::-1], y * 1j), X, Y, label="complex"))
    for name in ("convolve", "correlate"):
        function = partial(getattr(sg, name), method="direct")
        cases.append(_case(name, partial(function, mode="valid"), KERNEL, IMAGE, label="direct-exchanged"))
        cases.append(_case(name, partial(function, mode="same"), IMAGE, KERNEL, label="direct"))
        cases.append(_case(name, function, _RNG.normal(size=(2, 4, 3)), _RNG.normal(size=(2, 1, 3)), label="direct-3d"))
    for name in ("convolve2d", "correlate2d"):
        for mode, boundary in (("full", "fill"), ("same", "symm"), ("same", "wrap"), ("valid", "fill")):
            call = partial(getattr(sg, name), mode=mode, boundary=boundary)
            cases.append(_case(name, call, IMAGE, KERNEL, label=f"{mode}-{boundary}"))
    parts = lambda x, y: sg.correlate2d(x[:3] + 1j * x[3:], y[:, :1] + 1j * y[:, 1:])  # noqa: E731
    return [*cases, _case("correlate2d", parts, IMAGE, KERNEL, label="complex")]


FILTERS = [
    _case("lfilter", lambda b, x: sg.lfilter(b, 1.0, x), Y, X, label="no-poles"),
    _case("lfilter", lambda b, a, x: sg.lfilter(b, _by(a), x), Y, POLES, X),
    _case(
        "lfilter", lambda b, a, x: sg.lfilter(b, a, x, axis=0), Y[:1], np.array([2.0, 0.3, 0.1]), IMAGE, label="axis"
    ),
    _case("lfilter", lambda b, a, x, z: sg.lfilter(b, _by(a), x, zi=z), Y, POLES, X, Y[:4], label="state"),
    _case("lfilter", lambda b, a, x, z: sg.lfilter(b, _by(a), x, zi=z), Y[:1], POLES, X[:1], Y[:2], label="short"),
    _case("lfilter", lambda a, x: sg.lfilter([1.0, 0.2], _by(a), x + 1j * x**2), POLES, X, label="complex"),
    _case("lfilter", lambda a, x: sg.lfilter([1.0, 0.2j], _by(a * 1j), x), POLES, X, label="complex-poles"),
    _case("lfilter_zi", lambda b, a: sg.lfilter_zi(b, _by(a)), Y[:3], POLES),
    _case("lfiltic", lambda b, y: sg.lfiltic(b, [1.0, 0.2, 0.3], y), Y, X[:2]),
    _case("filtfilt", lambda b, a, x: sg.filtfilt(b, _by(a), x), Y[:3], POLES, X),
    _case("filtfilt", partial(sg.filtfilt, [0.2, 0.3], [1, -0.4], axis=0, padlen=3), IMAGE, label="axis"),
    _case("filtfilt", partial(sg.filtfilt, [0.2, 0.3], [1, -0.4], method="gust"), X, label="gust"),
    _case("sosfilt", partial(sg.sosfilt, SOS), X),
    _case("sosfilt", lambda x: sg.sosfilt(SOS, x, zi=x[0] * sg.sosfilt_zi(SOS)), X, label="state"),
    _case("sosfilt", lambda s: sg.sosfilt(np.stack([np.append(s[:3], _by(s[3:]))] * 2), X), np.append(Y[:3], POLES)),
    _case("sosfiltfilt", partial(sg.sosfiltfilt, SOS, axis=0, padlen=2), IMAGE),
    _case("deconvolve", lambda x: sg.deconvolve(x, [1.0, 0.5]), X),
    _case("upfirdn", lambda h, x: sg.upfirdn(h, x, 2, 3), Y, X),
    _case("resample", lambda x: sg.resample(x, 17), X),
    _case("resample_poly", partial(sg.resample_poly, up=5, down=3, padtype="mean"), X),
    _case("decimate", lambda x: sg.decimate(x, 2), LONG),
    _case("decimate", lambda x: sg.decimate(x, 2, ftype="fir"), LONG, label="fir"),
    _case("savgol_filter", lambda x: sg.savgol_filter(x, 5, 2, deriv=1, delta=0.5), X),
    _case("savgol_filter", lambda x: sg.savgol_filter(x, 5, 2, mode="nearest", axis=0), IMAGE, label="nearest"),
    _case("detrend", sg.detrend, X),
    _case("detrend", lambda x: sg.detrend(x, type="constant", axis=0), IMAGE, label="constant"),
    _case("detrend", lambda x: sg.detrend(x, bp=[10]), X, label="pieces"),
    _case("wiener", lambda x: sg.wiener(x, 3, noise=0.1), X),
    _case("hilbert", sg.hilbert, X),
    _case("hilbert", lambda x: sg.hilbert(x, N=9, axis=0), IMAGE, label="longer"),
    _case("hilbert2", sg.hilbert2, IMAGE),
]

SPECTRA = [
    _case("periodogram", lambda x: sg.periodogram(x, fs=2.0, window="hann"), X),
    _case("welch", lambda x: sg.welch(x, nperseg=16), LONG),
    _case("welch", lambda x: sg.welch(x.reshape(32, 2), nperseg=8, axis=0, detrend="linear"), LONG, label="axis"),
    _case("csd", lambda x: sg.csd(x, x[::-1] * 2, nperseg=8), X),
    _case("coherence", lambda x: sg.coherence(x, x[::-1] * 2, nperseg=8), X),
    _case("stft", lambda x: sg.stft(x, nperseg=8), X),
    _case("istft", lambda x: sg.istft(sg.stft(x, nperseg=8)[2] * 2.0, nperseg=8), X),
    _case("spectrogram", lambda x: sg.spectrogram(x, nperseg=8), X),
    _case("ShortTimeFFT", lambda x: sg.ShortTimeFFT(np.hanning(7), 3, 1.0).stft(x, padding="odd"), X),
    _case("ShortTimeFFT", lambda x: _OF_FRAMES.stft_detrend(x, "linear", p0=1, p1=4, k_offset=3), X, label="detrend"),
    _case("ShortTimeFFT", lambda x: _OF_FRAMES.stft_detrend(x, lambda u: u - u[0]), X, label="function"),
    _case("ShortTimeFFT", lambda x: _OF_FRAMES.spectrogram(x.reshape(12, 2), axis=0), X, label="axis"),
    _case("ShortTimeFFT", lambda x: _OF_FRAMES.istft(_OF_FRAMES.stft(x) * 2), X, label="inverse"),
    _case("lombscargle", lambda x: sg.lombscargle(np.linspace(0, 1, 24), x, np.array([1.0, 2.0])), X),
    _case("czt", lambda x: sg.czt(x, m=5), X),
    _case("zoom_fft", lambda x: sg.zoom_fft(x, [0.1, 0.4], m=5), X),
    _case("freqz", lambda b, a: sg.freqz(b, _by(a), worN=8), Y, POLES),
]

DESIGNS = [
    _case("butter", lambda w: sg.butter(2, w), 0.3),
    _case("firwin", lambda w: sg.firwin(9, w), 0.3),
    _case("bilinear", sg.bilinear, Y[:2], np.array([1.0, 0.5, 0.2])),
    _case("zpk2tf", lambda z: sg.zpk2tf(z, [-0.1, -0.4], 2.0)[0], Y[:2]),
    _case("get_window", lambda s: sg.get_window(("gaussian", s), 9), 2.0),
    _case("windows.gaussian", lambda s: sg.windows.gaussian(9, s), 2.0),
    _case("windows.tukey", lambda s: sg.windows.tukey(9, s), 0.6),
    _case("windows.general_hamming", lambda s: sg.windows.general_hamming(9, s), 0.5),
    _case("windows.general_cosine", lambda a: sg.windows.general_cosine(9, a), np.array([0.5, 0.3, 0.2])),
    _case("gausspulse", lambda t: sg.gausspulse(t, fc=2.0), X / 10),
    _case("chirp", lambda f: sg.chirp(np.linspace(0, 1, 9), f0=f, f1=4.0, t1=1.0), 2.0),
]

SYSTEMS = [
    _case("lsim", lambda d, u: sg.lsim(([1.0], [1.0, d, 0.5]), u, np.linspace(0, 2, 5)), 0.7, Y),
    _case("dlsim", lambda d, u: sg.dlsim(([1.0], [1.0, d], 0.1), u)[1], 0.4, Y),
    _case("step", lambda d: sg.step(([1.0], [1.0, d, 0.5]), T=np.linspace(0, 2, 5)), 0.7),
    _case("impulse", lambda d: sg.impulse(([1.0], [1.0, d, 0.5]), T=np.linspace(0, 2, 5)), 0.7),
    _case("bode", lambda d: sg.bode(([1.0], [1.0, d, 0.5]), w=[0.1, 1.0]), 0.7),
    _case("freqresp", lambda d: sg.freqresp(sg.TransferFunction([1.0], [1.0, d]), w=[0.1, 1.0]), 0.7),
    _case("freqs", lambda d: sg.freqs([1.0], [1.0, d, 2.0], worN=[0.1, 1.0]), 0.7),
    _case("cont2discrete", lambda d: sg.cont2discrete(([1.0], [1.0, d, 0.5]), 0.1)[:2], 0.7),
    _case("tf2ss", lambda b: sg.tf2ss(b, [1.0, 0.2, 0.1]), Y[:2]),
    _case("ss2tf", lambda a: sg.ss2tf(a, np.ones((2, 1)), np.ones((1, 2)), np.zeros((1, 1))), KERNEL[:2]),
]

CASES = [*_convolutions(), *FILTERS, *SPECTRA, *DESIGNS, *SYSTEMS]
