"""The methods of compiled functions that make something for one kind of call: each takes arrays and numbers, or a
``ShapeDtypeStruct`` in the place of an array.  What they do stands in ``ahead/``, which is imported when one is called.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from .disk.location import existing_folder
from .mode import VALUE, VALUE_AND_GRAD

lowering: Any = None  # ``ahead/lowering.py``, which stands above this: the package of the layer puts it here


class AheadOfTime:
    """A function with ``value_and_grad`` that can be compiled without being called."""

    __slots__ = ()

    def lower(self, *specs: Any, **kwargs: Any) -> Any:
        """The function for one kind of call: ``f.lower(*specs).compile()`` has ``grad``, ``value_and_grad`` and
        ``export``, and runs no Python of yours.

        :raises UnsupportedError: where it changes something outside, or Python has to run in each call.
        """
        return lowering.lower(self, specs, kwargs)

    def export(self, path: str | os.PathLike[str], *specs: Any, **kwargs: Any) -> None:
        """Write a ``.tgz`` that ``tracegrad.load`` reads, without the function's source."""
        self.lower(*specs, **kwargs).compile().export(path)

    def export_c(
        self, directory: str | os.PathLike[str], *specs: Any, name: str | None = None, mode: str = VALUE_AND_GRAD,
        cpu: str = "native", sizes: Mapping[str, Iterable[int]] | None = None,
    ) -> Any:  # fmt: skip
        """Write ``name.h`` and ``name.o`` for C, which need no Python.

        :param mode: ``"value"``, ``"grad"`` or ``"value_and_grad"``.
        :param cpu: the processor that runs it: ``"native"``, as this one, with the bits of Python here, or
            ``"x86-64"``, ``"x86-64-v2"``, ``"x86-64-v3"`` or ``"x86-64-v4"``, for all of that level.
        :param sizes: the sizes that names in the shapes of *specs* stand for; the C function takes them behind the
            arguments.
        :returns: the paths ``header`` and ``object``, and ``link``, arguments for the linker.
        :raises FileNotFoundError, NotADirectoryError: where there is no such folder.
        :raises UnsupportedError: where it needs code of NumPy's or SciPy's.
        """
        existing_folder(directory, "export_c")  # before anything is compiled
        if sizes is not None:
            return lowering.sized_for(self, mode, specs, sizes).export_c(directory, name, cpu)
        return lowering.compiled_for(self, mode, specs).export_c(directory, name, mode, cpu)

    def as_native(
        self, *specs: Any, mode: str = VALUE_AND_GRAD, sizes: Mapping[str, Iterable[int]] | None = None
    ) -> Any:
        """A C function in this process, with ``address``, ``declaration`` and ``pointer_type`` for cffi, and
        ``as_ctypes()``; *sizes* as for ``export_c``."""
        if sizes is not None:
            return lowering.sized_for(self, mode, specs, sizes).as_native()
        return lowering.compiled_for(self, mode, specs).as_native(mode)

    def as_numba(
        self, *specs: Any, mode: str = VALUE_AND_GRAD, sizes: Mapping[str, Iterable[int]] | None = None
    ) -> Any:
        """A function for numba's ``@njit`` code: it takes the arguments, then an array for each result that is one, and
        returns the results that are numbers.

        :param sizes: the sizes that names in the shapes of *specs* stand for: ``ShapeDtypeStruct(("n", 3), float)``
            with ``sizes={"n": (10, 100)}``.
        """
        if sizes is not None:
            return lowering.sized_for(self, mode, specs, sizes).as_numba()
        return lowering.compiled_for(self, mode, specs).as_numba(mode)

    def as_low_level_callable(
        self, *specs: Any, signature: str | None = None, mode: str = VALUE, user_data: Any = None
    ) -> Any:
        """``scipy.LowLevelCallable`` for scipy.integrate and scipy.ndimage.

        :param signature: in C: ``double (double)``, ``double (int, double *)``, with ``void *`` at the end for
            *user_data*, or ``int (double *, npy_intp, double *, void *)``.  Default: by the arguments.
        :param user_data: the array that is the last argument.
        """
        made = lowering.compiled_for(self, mode, specs)
        return made.as_low_level_callable(signature, mode=mode, user_data=user_data)
