"""Machine learning as courses and papers write it: parameters in dicts and lists, caches, lists of tokens, strides."""

import numpy as np
from scipy.spatial.distance import cdist


def unflatten(theta, shapes):
    params, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        params[name] = theta[at : at + size].reshape(shape)
        at += size
    return params


def vector(shapes, seed=0):
    return 0.4 * np.random.default_rng(seed).normal(size=sum(int(np.prod(s)) for s in shapes.values()))


# ---- a recurrent network on characters -------------------------------------------------------------------------------

RECURRENT = {"Wxh": (5, 7), "Whh": (5, 5), "Why": (7, 5), "bh": (5, 1), "by": (7, 1)}


def characters(theta, inputs, targets, hprev):
    p = unflatten(theta, RECURRENT)
    xs, hs, ys, ps = {}, {}, {}, {}
    hs[-1] = np.copy(hprev)
    loss = 0
    for t in range(len(inputs)):
        xs[t] = np.zeros((7, 1))
        xs[t][inputs[t]] = 1
        hs[t] = np.tanh(np.dot(p["Wxh"], xs[t]) + np.dot(p["Whh"], hs[t - 1]) + p["bh"])
        ys[t] = np.dot(p["Why"], hs[t]) + p["by"]
        ps[t] = np.exp(ys[t]) / np.sum(np.exp(ys[t]))
        loss += -np.log(ps[t][targets[t], 0])
    return loss


# ---- a transformer of nested dicts -----------------------------------------------------------------------------------

BLOCK = {
    "fc.w": (4, 8), "fc.b": (8,), "proj.w": (8, 4), "proj.b": (4,), "qkv.w": (4, 12), "qkv.b": (12,), "out.w": (4, 4),
    "out.b": (4,), "g": (4,), "b": (4,),
}  # fmt: skip
TRANSFORMER = {"wte": (6, 4), "wpe": (8, 4), **BLOCK}


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mean, variance = np.mean(x, axis=-1, keepdims=True), np.var(x, axis=-1, keepdims=True)
    return (1 + g) * (x - mean) / np.sqrt(variance + eps) + b


def linear(x, w, b):
    return x @ w + b


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def multi_head(x, qkv, out, heads):
    heads_of = [np.split(part, heads, axis=-1) for part in np.split(linear(x, **qkv), 3, axis=-1)]
    mask = (1 - np.tri(x.shape[0], dtype=x.dtype)) * -1e10
    return linear(np.hstack([attention(q, k, v, mask) for q, k, v in zip(*heads_of)]), **out)


def block(x, mlp, attn, norm, heads):
    x = x + multi_head(layer_norm(x, **norm), **attn, heads=heads)
    return x + linear(gelu(linear(layer_norm(x, **norm), **mlp["fc"])), **mlp["proj"])


def language_model(theta, tokens, heads=2):
    p = unflatten(theta, TRANSFORMER)
    part = {n: {"w": p[f"{n}.w"], "b": p[f"{n}.b"]} for n in ("fc", "proj", "qkv", "out")}
    blocks = [{"mlp": part, "attn": {"qkv": part["qkv"], "out": part["out"]}, "norm": {"g": p["g"], "b": p["b"]}}]
    inputs, targets = tokens[:-1], tokens[1:]
    x = p["wte"][inputs] + p["wpe"][range(len(inputs))]
    for b in blocks:
        x = block(x, **b, heads=heads)
    found = softmax(x @ p["wte"].T)
    return np.mean(-np.log(found[np.arange(len(found)), targets]))


# ---- a convolution by strides, in place ------------------------------------------------------------------------------

CONVOLUTION = {"w": (2, 2, 3, 3), "b": (2,), "W": (8, 3)}


def convolve(x, w, b, stride=1, pad=1):
    N, C, H, W = x.shape
    F, _, HH, WW = w.shape
    x_padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="constant")
    H += 2 * pad
    W += 2 * pad
    out_h, out_w = (H - HH) // stride + 1, (W - WW) // stride + 1
    shape = (C, HH, WW, N, out_h, out_w)
    strides = x.itemsize * np.array((H * W, W, 1, C * H * W, stride * W, stride))
    x_cols = np.ascontiguousarray(np.lib.stride_tricks.as_strided(x_padded, shape=shape, strides=strides))
    x_cols.shape = (C * HH * WW, N * out_h * out_w)
    res = w.reshape(F, -1).dot(x_cols) + b.reshape(-1, 1)
    res.shape = (F, N, out_h, out_w)
    return np.ascontiguousarray(res.transpose(1, 0, 2, 3))


def images(theta, x, y):
    p = unflatten(theta, CONVOLUTION)
    out = np.maximum(convolve(x, p["w"], p["b"]), 0)
    N, C, H, W = out.shape
    pooled = out.reshape(N, C, H // 2, 2, W // 2, 2).max(axis=3).max(axis=4)
    scores = pooled.reshape(N, -1) @ p["W"]
    scores -= scores.max(axis=1, keepdims=True)
    margins = np.maximum(0, scores - scores[range(N), y][:, np.newaxis] + 1)
    margins[range(N), y] = 0
    return np.sum(margins) / N


# ---- a network that keeps what its backward pass needs, and averages of its batches ----------------------------------

DENSE = {"W1": (3, 4), "b1": (4,), "W2": (4, 1), "b2": (1,)}


def batches(theta, x, y, cache, running):
    p = unflatten(theta, DENSE)
    cache["A0"] = x
    for k in (1, 2):
        cache[f"Z{k}"] = cache[f"A{k - 1}"] @ p[f"W{k}"] + p[f"b{k}"]
        if k == 1:
            mean, var = cache["Z1"].mean(axis=0), cache["Z1"].var(axis=0)
            running["mean"] = 0.9 * running["mean"] + 0.1 * mean
            running["steps"] += 1
            cache["Z1"] = (cache["Z1"] - mean) / np.sqrt(var + 1e-5)
        cache[f"A{k}"] = np.tanh(cache[f"Z{k}"])
    return np.mean((cache["A2"][:, 0] - y) ** 2)


# ---- seasons, and kernels of distances -------------------------------------------------------------------------------


def seasons(theta, series, m):
    """Holt and Winters: the sum of the squares of one step's errors."""
    alpha, beta, gamma = 1 / (1 + np.exp(-theta[:3]))
    level, trend, season = theta[3], theta[4], list(theta[5 : 5 + m])
    sse = 0.0
    for i in range(len(series)):
        s = season[i % m]
        error = series[i] - (level + trend + s)
        sse += error * error
        last = level
        level = alpha * (series[i] - s) + (1 - alpha) * (level + trend)
        trend = beta * (level - last) + (1 - beta) * trend
        season[i % m] = gamma * (series[i] - level) + (1 - gamma) * s
    return sse / len(series)


def likelihood_of_distances(theta, x, y):
    scale, noise = np.exp(theta[:2]), np.exp(theta[2])
    d = cdist(x / scale, x / scale)
    k = (1 + np.sqrt(3) * d) * np.exp(-np.sqrt(3) * d) + np.exp(-0.5 * cdist(x / scale, x / scale, "sqeuclidean"))
    k = k + noise * np.eye(len(x))
    return 0.5 * y @ np.linalg.solve(k, y) + 0.5 * np.linalg.slogdet(k)[1]
