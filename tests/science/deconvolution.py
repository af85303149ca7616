"""Deconvolution in the Fourier domain: a blurred and noisy image of a few stars is restored by Wiener's filter and by
Tikhonov's.  Width of the blur, signal-to-noise ratio and regularisation are what one tunes, by the error or by
cross-validation."""

import numpy as np
from numpy.fft import fft2, fftfreq, ifft2, ifftshift, irfftn, rfftn
from scipy.signal import fftconvolve


def gaussian_psf(shape, sigma, elongation=1.0, angle=0.0):
    """A point spread function in the middle of an image; its sum is 1."""
    y, x = np.indices(shape, dtype=float)
    y -= shape[0] // 2
    x -= shape[1] // 2
    u = np.cos(angle) * x + np.sin(angle) * y
    v = -np.sin(angle) * x + np.cos(angle) * y
    psf = np.exp(-0.5 * ((u / sigma) ** 2 + (v / (sigma * elongation)) ** 2))
    psf /= psf.sum()
    return psf


def blur(image, psf):
    return np.real(ifft2(fft2(image) * fft2(ifftshift(psf))))


def wiener(blurred, psf, nsr):
    """nsr: the noise-to-signal ratio, a number or one for each frequency."""
    H = fft2(ifftshift(psf))
    G = fft2(blurred)
    F = np.conj(H) / (np.abs(H) ** 2 + nsr) * G
    return np.real(ifft2(F))


def tikhonov(blurred, psf, alpha):
    """Penalises the Laplacian; for real images half of the frequencies will do."""
    H = rfftn(ifftshift(psf))
    L = np.zeros(blurred.shape)
    L[0, 0] = -4.0
    for place in [(0, 1), (1, 0), (0, -1), (-1, 0)]:
        L[place] = 1.0
    P = np.abs(rfftn(L)) ** 2
    X = H.conj() * rfftn(blurred) / (H.real**2 + H.imag**2 + alpha * P)
    return irfftn(X, s=blurred.shape, axes=(0, 1))


def restoration_error(theta, truth, blurred):
    """theta: logarithms of width, elongation and noise-to-signal ratio, and an angle."""
    sigma, elongation, nsr = np.exp(theta[:3])
    psf = gaussian_psf(truth.shape, sigma, elongation, theta[3])
    kx, ky = fftfreq(truth.shape[1]), fftfreq(truth.shape[0])
    k2 = ky[:, None] ** 2 + kx[None, :] ** 2
    restored = wiener(blurred, psf, nsr * (1.0 + k2 / 0.01))
    if restored.min() < 0:
        restored = np.clip(restored, 0.0, None)
    return np.sum((restored - truth) ** 2) / np.sum(truth**2)


def generalised_cross_validation(theta, blurred):
    """GCV of Tikhonov's filter: theta are the logarithms of the width and of alpha."""
    sigma, alpha = np.exp(theta)
    psf = gaussian_psf(blurred.shape, sigma)
    residual = blur(tikhonov(blurred, psf, alpha), psf) - blurred
    H2 = np.abs(fft2(ifftshift(psf))) ** 2
    ky, kx = np.meshgrid(fftfreq(blurred.shape[0]), fftfreq(blurred.shape[1]), indexing="ij")
    P = (2 * np.cos(2 * np.pi * kx) + 2 * np.cos(2 * np.pi * ky) - 4) ** 2
    trace = np.sum(1 - H2 / (H2 + alpha * P + 1e-300))
    return blurred.size * np.sum(residual**2) / trace**2


def richardson_lucy(image0, blurred, psf, iterations):
    """Iterative, by convolutions of SciPy's; the logarithmic likelihood of what is found."""
    mirror = psf[::-1, ::-1]
    estimate = image0
    for _ in range(iterations):
        ratio = blurred / (fftconvolve(estimate, psf, mode="same") + 1e-12)
        estimate = estimate * fftconvolve(ratio, mirror, mode="same")
    expected = fftconvolve(estimate, psf, mode="same") + 1e-12
    return np.sum(expected - blurred * np.log(expected))


def stars(n=12, noise=0.01):
    """(truth, blurred)"""
    rng = np.random.default_rng(4)
    truth = np.zeros((n, n + 1))
    for _ in range(6):
        truth[rng.integers(n), rng.integers(n + 1)] += rng.uniform(0.5, 2.0)
    psf = gaussian_psf(truth.shape, 1.2, 1.3, 0.4)
    return truth, np.abs(blur(truth, psf) + noise * rng.normal(size=truth.shape)) + 1e-3
