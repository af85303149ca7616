"""Linear algebra on tensors, under PyTorch's names."""

from .runtime.eager.methods import PUBLIC as _public

cross = _public["linalg_cross"]
matrix_norm = _public["linalg_matrix_norm"]
matrix_power = _public["linalg_matrix_power"]
multi_dot = _public["linalg_multi_dot"]
norm = _public["linalg_norm"]
vecdot = _public["linalg_vecdot"]
vector_norm = _public["linalg_vector_norm"]

__all__ = ["cross", "matrix_norm", "matrix_power", "multi_dot", "norm", "vecdot", "vector_norm"]
