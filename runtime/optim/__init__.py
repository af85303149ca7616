"""Optimizers and learning rate schedules over eager tensors; ``tracegrad.optim`` is their face."""
