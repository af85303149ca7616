"""numpy.fft and scipy.fft."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.fft as sf
from scipy import fftpack

from .case import Case

_RNG = np.random.default_rng(11)
X, Y = _RNG.normal(size=(2, 7))
A, B = _RNG.normal(size=(2, 3, 4))
NAMES = {
    1: ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
    2: ("fft2", "ifft2", "rfft2", "irfft2"),
    3: ("fftn", "ifftn", "rfftn", "irfftn"),
}
REAL = ("dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn")


def _forms(library: str, module: Any) -> list[Case]:
    """Each transform of real numbers and of complex ones (where it takes those), in the forms that change what is
    computed."""
    cases = []

    def add(name: str, label: str, *args: Any, **given: Any) -> None:
        function: Callable[..., Any] = getattr(module, name)
        real = name.startswith(("rfft", "ihfft"))

        def call(*parts: Any) -> Any:
            return function(parts[0] if real or label.startswith("real") else parts[0] + 1j * parts[1], **given)

        cases.append(Case(f"{library}.{name}", call, args, label=label))

    for name in NAMES[1]:
        add(name, "odd", X, Y)
        add(name, "padded-axis", A, B, n=5, axis=0, norm="forward")
        if module is np.fft:
            add(name, "even-ortho", X[:6], Y[:6], norm="ortho")
            add(name, "cut", X, Y, n=4)
            add(name, "real", X)
    for name in (*NAMES[2], *NAMES[3]):
        add(name, "s-norm", A, B, s=(4, 3), axes=(1, 0), norm="ortho")
        add(name, "real", A)
        if module is np.fft:
            add(name, "batch", np.stack([A, B]), np.stack([B, A]), axes=(-2, -1))
    return cases


def _real_forms(name: str) -> list[Case]:
    """The cosine and sine transforms, which of complex numbers are those of both parts."""
    function = getattr(sf, name)
    cases = []
    if name.endswith("n"):
        for kind in (1, 2):
            forms = {"type": kind, "axes": (0, 1), "norm": "ortho"}
            cases.append(Case(f"scipy.fft.{name}", partial(function, **forms), [A], label=f"{kind}-ortho"))
        return [*cases, Case(f"scipy.fft.{name}", partial(function, s=(2, 6)), [A], label="s")]
    for kind in (1, 2, 3, 4):
        cases += [
            Case(f"scipy.fft.{name}", partial(function, type=kind), [X], label=f"{kind}"),
            Case(f"scipy.fft.{name}", partial(function, type=kind, norm="ortho", axis=1), [A], label=f"{kind}-ortho"),
            Case(f"scipy.fft.{name}", partial(function, type=kind, n=5, norm="forward"), [X], label=f"{kind}-cut"),
        ]
    forms = {"norm": "ortho", "orthogonalize": False}
    cases.append(Case(f"scipy.fft.{name}", partial(function, **forms), [X], label="not-orthogonal"))
    return [*cases, Case(f"scipy.fft.{name}", lambda x, y: function(x + 1j * y), [X, Y], label="complex")]


CASES = [
    *_forms("scipy.fft", sf),
    *[case for name in REAL for case in _real_forms(name)],
    *[
        Case(f"scipy.fft.{name}", lambda x, y, name=name: getattr(sf, name)((x + 1j * y)[:, :3], s=(3, 4)), [A, B])
        for name in ("hfft2", "hfftn")
    ],
    *[Case(f"scipy.fft.{name}", partial(getattr(sf, name), norm="ortho"), [A]) for name in ("ihfft2", "ihfftn")],
    Case("scipy.fft.fht", lambda x: sf.fht(x, 0.3, 0.5, offset=0.1, bias=0.2), [X]),
    Case("scipy.fft.ifht", lambda x: sf.ifht(x, 0.3, 0.5), [X]),
    Case("scipy.fft.fftshift", lambda z: sf.fftshift(z) * X, [X]),
    Case("scipy.fft.ifftshift", lambda z: sf.ifftshift(z) * X, [X]),
    Case("scipy.fft.next_fast_len", lambda z: np.abs(sf.rfft(z, sf.next_fast_len(z.size, real=True))) ** 2, [X]),
    Case("scipy.fftpack.fft", lambda z: np.abs(fftpack.fft(z)) ** 2, [X]),
    Case("scipy.fftpack.ifft2", lambda z: np.abs(fftpack.ifft2(z)) ** 2, [A]),
    Case("scipy.fftpack.dct", lambda z: fftpack.idct(z * fftpack.dct(z, norm="ortho")), [X]),
    *_forms("numpy.fft", np.fft),
    Case("numpy.fft.fft", lambda z: np.fft.fft(z, n=1), [X], label="one"),
    Case("numpy.fft.rfft", lambda z: np.fft.rfft(z[:1]), [X], label="one"),
    Case("numpy.fft.fft2", lambda z: np.fft.fft2(z, s=(5, 2), axes=(0, 0)), [A], label="repeated"),
    Case("numpy.fft.rfftn", lambda z: np.fft.rfftn(z)[(0, 1, 0), (2, 2, 1)], [A], label="subset"),
    Case("numpy.fft.irfft", lambda z: np.fft.irfft(z[:2], n=1), [X], label="one"),
    Case("numpy.fft.fftshift", lambda z: np.fft.fftshift(z) * X, [X]),
    Case("numpy.fft.fftshift", lambda z: np.fft.fftshift(z, axes=0) * A, [A], label="axes"),
    Case("numpy.fft.ifftshift", lambda z: np.fft.ifftshift(z) * X, [X]),
    Case("numpy.fft.fftfreq", lambda z: np.abs(np.fft.fft(z)) ** 2 * np.fft.fftfreq(7, 0.5), [X]),
    Case("numpy.fft.rfftfreq", lambda z: np.abs(np.fft.rfft(z)) ** 2 * np.fft.rfftfreq(z.size), [X]),
]
