"""Functional spellings: ``autograd.grad(f)``, ``autograd.value_and_grad(f)``."""

from .runtime.functional import grad, value_and_grad

__all__ = ["grad", "value_and_grad"]
