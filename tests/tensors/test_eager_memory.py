"""What the tape holds: arrays that a derivative reads, and no others."""

import tracemalloc

import numpy as np

import tracegrad as torch

N = 200_000  # elements, 1.6 MB


def held(build):
    """Megabytes that NumPy holds for the graph that *build* makes, its result aside."""
    x = torch.zeros(N, requires_grad=True)
    build(x).sum().backward()
    tracemalloc.start()
    try:
        y = build(x)
        megabytes = tracemalloc.get_traced_memory()[0] / 1e6
        y.sum().backward()
    finally:
        tracemalloc.stop()
    return megabytes - y.numel() * 8 / 1e6


def repeated(operation):
    def build(x):
        for _ in range(20):
            x = operation(x)
        return x

    return build


def test_operations_that_read_nothing_hold_nothing():
    assert held(repeated(lambda x: x + 1.0)) < 0.1
    assert held(repeated(lambda x: -x)) < 0.1
    assert held(repeated(lambda x: x * 1.01)) < 0.1
    assert held(repeated(lambda x: (x - 1.0).view(2, -1).view(-1))) < 0.1


def test_operations_hold_what_they_read_once():
    assert 19 * 1.5 < held(repeated(lambda x: x.tanh())) < 20 * 1.7  # the results
    assert 19 * 1.5 < held(repeated(lambda x: x * x * 0.5)) < 20 * 1.7  # the operand


def test_large_graphs_have_right_gradients():
    x = torch.linspace(-1.0, 1.0, N, requires_grad=True)
    for _ in range(3):
        x.grad = None
        y = (x.exp() + x * 2.0).tanh()
        (y * y + 1.0).sum().backward()
        inner = np.exp(x.detach().numpy()) + 2.0 * x.detach().numpy()
        t = np.tanh(inner)
        expected = 2.0 * t * (1.0 - t * t) * (np.exp(x.detach().numpy()) + 2.0)
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-10)
