"""Loopy belief propagation on a pairwise Markov random field: marginals and Bethe's free energy, in log space.

Messages run along the directed edges of a graph.  Sparse matrices sum them at nodes and send them back to edges.
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp


class Field:
    """A graph of *n* nodes with undirected *edges*, pairs of nodes; each node has one of *states* states."""

    def __init__(self, n, edges, states):
        edges = np.asarray(edges)
        self.n, self.states = n, states
        self.source = np.concatenate([edges[:, 0], edges[:, 1]])
        self.target = np.concatenate([edges[:, 1], edges[:, 0]])
        count = len(self.source)
        self.reverse = np.concatenate([np.arange(count // 2) + count // 2, np.arange(count // 2)])
        ones, each = np.ones(count), np.arange(count)
        self.arriving = sp.csr_matrix((ones, (self.target, each)), shape=(n, count))
        self.leaving = sp.csr_matrix((ones, (each, self.source)), shape=(count, n))
        self.degree = np.asarray(self.arriving.sum(axis=1)).ravel()


def grid(rows, columns, states=3):
    """A grid of nodes, each tied to those beside it."""
    number = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return Field(rows * columns, np.concatenate([across, down]), states)


def propagate(field, unary, coupling, sweeps=20, damping=0.4):
    """Messages along the directed edges, (edges, states), as logarithms; *unary*: (n, states) log potentials, and
    *coupling*: (states, states) those of a pair."""
    messages = np.zeros((len(field.source), field.states))
    for _ in range(sweeps):
        collected = unary + field.arriving @ messages
        sent = field.leaving @ collected - messages[field.reverse]
        new = logsumexp(sent[:, :, None] + coupling, axis=1)
        new = new - logsumexp(new, axis=1, keepdims=True)
        messages = damping * messages + (1.0 - damping) * new
    return messages


def marginals(field, unary, messages):
    beliefs = unary + field.arriving @ messages
    return beliefs - logsumexp(beliefs, axis=1, keepdims=True)


def negative_log_likelihood(theta, field, features, labels):
    """Of *labels* under the marginals of a field whose potentials are linear in *features*, (n, d)."""
    d = features.shape[1]
    weights = theta[: d * field.states].reshape(d, field.states)
    coupling = theta[-1] * np.eye(field.states)
    unary = features @ weights
    logs = marginals(field, unary, propagate(field, unary, coupling))
    return -np.mean(logs[np.arange(field.n), labels])


def bethe_free_energy(theta, field, features):
    """Bethe's approximation of -log Z at the messages' fixed point."""
    d = features.shape[1]
    unary = features @ theta[: d * field.states].reshape(d, field.states)
    coupling = theta[-1] * np.eye(field.states)
    messages = propagate(field, unary, coupling)
    logs = marginals(field, unary, messages)
    nodes = np.exp(logs)
    collected = unary + field.arriving @ messages
    half = len(field.source) // 2
    forward = (field.leaving @ collected - messages[field.reverse])[:half]
    backward = (field.leaving @ collected - messages[field.reverse])[half:]
    pairs = forward[:, :, None] + backward[:, None, :] + coupling
    pairs = pairs - logsumexp(pairs, axis=(1, 2), keepdims=True)
    energy = -np.sum(nodes * unary) - np.sum(np.exp(pairs) * coupling)
    entropy = -np.sum(np.exp(pairs) * pairs) + np.sum((field.degree - 1.0) * np.sum(nodes * logs, axis=1))
    return energy - entropy
