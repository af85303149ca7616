"""Derivatives of functions of tensors, under PyTorch's names."""

from ..runtime.eager.functional import hessian, hvp, jacobian, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
