"""What scripts ask about CUDA."""

from .runtime.eager.device import cuda_is_available as is_available

__all__ = ["is_available"]
