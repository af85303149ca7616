"""Own rules of derivation: functions whose derivative the user writes, or whose derivative is that of an equation.

``custom_rules.py`` is the first file to read: ``custom_vjp`` and ``custom_jvp``.  A rule is Python of the user's that
is recorded as a program (``programs.py``), so it goes wherever a node does: into loops, other transforms, and any
order; one that asks what is zero is several programs (``symbolic_zeros.py``).  ``host_code.py`` has code that runs on
the host as it is, ``primitives.py`` such code with rules; ``roots.py`` solutions of ``equations.py``,
``checkpoints.py`` functions whose values are computed again.
"""

from .arguments import SymbolicZero
from .checkpoints import checkpoint, checkpoint_name, checkpoint_policies, remat
from .custom_rules import custom_jvp, custom_vjp
from .host_code import pure_callback
from .roots import custom_linear_solve, custom_root, fixed_point, implicit_root
from .symbolic_zeros import CustomVJPPrimal

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "checkpoint", "checkpoint_name", "checkpoint_policies", "custom_jvp",
    "custom_linear_solve", "custom_root", "custom_vjp", "fixed_point", "implicit_root", "pure_callback", "remat",
]  # fmt: skip
