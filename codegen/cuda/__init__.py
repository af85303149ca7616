"""The CUDA target: kernels as LLVM IR, made into PTX.  Needs numba-cuda; nothing here is imported before it is used."""
