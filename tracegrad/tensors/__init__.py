"""The eager layer: tensors that compute at once and remember how, in the manner of PyTorch, on the IR's own rules."""
