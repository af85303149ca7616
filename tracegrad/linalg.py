"""Linear algebra on tensors, under PyTorch's names."""

from .tensors.methods import PUBLIC

cross = PUBLIC["linalg_cross"]
matrix_norm = PUBLIC["linalg_matrix_norm"]
matrix_power = PUBLIC["linalg_matrix_power"]
multi_dot = PUBLIC["linalg_multi_dot"]
norm = PUBLIC["linalg_norm"]
vecdot = PUBLIC["linalg_vecdot"]
vector_norm = PUBLIC["linalg_vector_norm"]

__all__ = ["cross", "matrix_norm", "matrix_power", "multi_dot", "norm", "vecdot", "vector_norm"]
