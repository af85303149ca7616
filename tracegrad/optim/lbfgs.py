"""L-BFGS, and its strong Wolfe line search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tensors.modes import STATE, enable_grad, no_grad
from ..tensors.ops_join import cat
from ..tensors.tensor import Tensor
from ..tracer.ir.refusals import Refusal
from .optimizer import Optimizer, Params, check_learning_rate, options
from .state import zeros_like

_Evaluate = Callable[[float], tuple[float, Any]]  # step length -> (loss, flat gradient) there


class LBFGS(Optimizer):
    r"""Limited-memory BFGS: each step of the optimizer is up to *max_iter* quasi-Newton iterations.

    The direction is −H∇f, where H, the approximate inverse Hessian, is applied by the two-loop recursion over the last
    *history_size* changes of position and gradient (J. Nocedal, "Updating quasi-Newton matrices with limited storage",
    Math. Comp. 35, 1980), from the multiple (sᵀy / yᵀy) of the identity.  Its length is *lr*, or, with
    *line_search_fn* "strong_wolfe", found by a search as in M. Schmidt's minFunc, which PyTorch follows too.

    One group of parameters; ``step`` needs a closure, which is called several times.

    :param max_eval: most calls of the closure in a step (default: 1.25 times *max_iter*).
    :param tolerance_grad: stop where no element of the gradient is larger.
    :param tolerance_change: stop where neither the loss nor any parameter changes by more.
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_learning_rate(lr)
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, options(locals()))
        if any(p.is_complex() for p in self._params):
            raise NotImplementedError(
                "LBFGS does not take complex parameters: pass real ones, and make z = tracegrad.view_as_complex(p) of "
                "them in the closure"
            )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Any]:
        return self.param_groups[0]["params"]

    def _flat_grad(self) -> Any:
        grads: list[Any] = [zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return cat([grad.reshape(-1) for grad in grads], 0)

    def _move(self, length: float, direction: Any) -> None:
        offset = 0
        for p in self._params:
            count = p.numel()
            p.add_(direction[offset : offset + count].reshape(p.shape), alpha=float(length))
            offset += count

    def _evaluate_at(self, closure: Callable[[], Any], origin: list[Any], direction: Any) -> _Evaluate:
        def evaluate(length: float) -> tuple[float, Any]:
            self._move(length, direction)
            loss = float(closure())
            flat = self._flat_grad()
            for p, old in zip(self._params, origin, strict=True):
                p.copy_(old)
            return loss, flat

        return evaluate

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Iterate; *closure* clears the gradients, computes the loss, calls backward, and returns the loss."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that reevaluates the model and returns the loss")
        if STATE.capture is not None:
            STATE.capture.refuse(Refusal.STEP_LBFGS)
        with no_grad(), np.errstate(all="ignore"):
            return self._iterate(enable_grad()(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr, max_iter, max_eval = float(group["lr"]), group["max_iter"], group["max_eval"]
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state = self.state[self._params[0]]  # as PyTorch: the state of all is that of the first parameter
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss = float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        flat = self._flat_grad()
        if _largest(flat) <= tolerance_grad:
            return first_loss
        memory = _Memory.restored(state)
        iterations = 0
        while iterations < max_iter:
            iterations += 1
            state["n_iter"] += 1
            memory.turn(flat, state["n_iter"] == 1, group["history_size"])
            previous_loss = loss
            if state["n_iter"] == 1:
                memory.t = min(1.0, 1.0 / _number(flat.abs().sum())) * lr
            else:
                memory.t = lr
            slope = _number(flat.dot(memory.d))
            if slope > -tolerance_change:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                evaluate = self._evaluate_at(closure, [p.clone() for p in self._params], memory.d)
                loss, flat, memory.t, calls = _strong_wolfe(
                    evaluate, memory.t, memory.d, loss, flat, slope, most=max_eval - evaluations
                )
                self._move(memory.t, memory.d)
            else:
                self._move(memory.t, memory.d)
                if iterations != max_iter:
                    loss = float(closure())
                    flat = self._flat_grad()
                    calls = 1
            optimal = _largest(flat) <= tolerance_grad
            evaluations += calls
            state["func_evals"] += calls
            if iterations == max_iter or evaluations >= max_eval or optimal:
                break
            if _largest(memory.d * memory.t) <= tolerance_change or abs(loss - previous_loss) < tolerance_change:
                break
        memory.kept(state, previous_loss)
        return first_loss


@dataclass(slots=True)
class _Memory:
    """Memory of earlier iterations: direction, its length, and changes of gradient and position."""

    d: Any
    t: float
    old_dirs: list[Any]
    old_stps: list[Any]
    ro: list[float]
    H_diag: float
    prev_flat_grad: Any

    @classmethod
    def restored(cls, state: dict[str, Any]) -> _Memory:
        return cls(
            state.get("d"), float(state.get("t") or 0.0), state.get("old_dirs") or [], state.get("old_stps") or [],
            [float(r) for r in state.get("ro") or []], float(state.get("H_diag", 1.0)), state.get("prev_flat_grad"),
        )  # fmt: skip

    def kept(self, state: dict[str, Any], loss: float) -> None:
        state.update(
            d=self.d, t=float(self.t), old_dirs=self.old_dirs, old_stps=self.old_stps, ro=self.ro, H_diag=self.H_diag,
            prev_flat_grad=self.prev_flat_grad, prev_loss=loss,
        )  # fmt: skip

    def turn(self, flat: Any, first: bool, history_size: int) -> None:
        """The next direction, at gradient *flat*."""
        if first:
            self.d, self.old_dirs, self.old_stps, self.ro, self.H_diag = -flat, [], [], [], 1.0
        else:
            y = flat - self.prev_flat_grad
            s = self.d * float(self.t)
            ys = _number(y.dot(s))
            if ys > 1e-10:
                if len(self.old_dirs) == history_size:
                    for memory in (self.old_dirs, self.old_stps, self.ro):
                        memory.pop(0)  # type: ignore[attr-defined]
                self.old_dirs.append(y)
                self.old_stps.append(s)
                self.ro.append(float(1.0 / ys))
                self.H_diag = float(ys / _number(y.dot(y)))
            self.d = self._two_loops(-flat)
        if self.prev_flat_grad is None:
            self.prev_flat_grad = flat.clone()
        else:
            self.prev_flat_grad.copy_(flat)

    def _two_loops(self, q: Any) -> Any:
        """H times *q*."""
        weights = [0.0] * len(self.ro)
        for i in reversed(range(len(self.ro))):
            weights[i] = float(self.old_stps[i].dot(q)) * self.ro[i]
            q.add_(self.old_dirs[i], alpha=-weights[i])
        r = q * self.H_diag
        for i, ro in enumerate(self.ro):
            r.add_(self.old_stps[i], alpha=weights[i] - float(self.old_dirs[i].dot(r)) * ro)
        return r


def _number(t: Tensor) -> Any:
    """A 0-d tensor as a number that gives inf and nan where a tensor does."""
    return np.float64(t.item())


def _largest(t: Any) -> float:
    return float(t.abs().max())


# ---- the line search -----------------------------------------------------------------------------------------------


def _interpolate(x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: Any = None) -> Any:
    """The minimum of the cubic through two points with values f and slopes g, within *bounds*."""
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * np.float64(f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = np.sqrt(square)
    if x1 <= x2:
        lowest = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        lowest = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(lowest, low), high)


@dataclass(slots=True)
class _Point:
    """A step length with loss, gradient, and slope along the direction."""

    t: Any
    f: float
    g: Any
    slope: Any


def _strong_wolfe(
    evaluate: _Evaluate, t: Any, d: Any, f: float, g: Any, slope: Any, most: int, c1: float = 1e-4, c2: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[float, Any, Any, int]:  # fmt: skip
    """(loss, gradient, step length, calls): a point where f has fallen by ``c1`` and the slope to ``c2``.

    First the interval grows until it must contain such a point, then it shrinks around it.  J. Nocedal and S. Wright,
    "Numerical optimization", algorithms 3.5 and 3.6, in the variant of minFunc's ``WolfeLineSearch``.
    """

    def at(length: Any) -> _Point:
        loss, gradient = evaluate(length)
        return _Point(length, loss, gradient.clone(), _number(gradient.dot(d)))

    start = _Point(0, f, g.clone(), slope)
    previous, new = start, at(t)
    calls, rounds, done = 1, 0, False
    bracket: list[_Point] = []
    while rounds < most:
        if new.f > f + c1 * new.t * slope or (rounds > 1 and new.f >= previous.f):
            bracket = [previous, new]
            break
        if abs(new.slope) <= -c2 * slope:
            bracket, done = [new], True
            break
        if new.slope >= 0:
            bracket = [previous, new]
            break
        reach = (new.t + 0.01 * (new.t - previous.t), new.t * 10)
        t = _interpolate(previous.t, previous.f, previous.slope, new.t, new.f, new.slope, reach)
        previous, new = new, at(t)
        calls, rounds = calls + 1, rounds + 1
    if rounds == most:
        bracket = [start, new]
    stuck = False
    low, high = (0, 1) if bracket[0].f <= bracket[-1].f else (1, 0)
    length = _largest(d)
    while not done and rounds < most:
        if abs(bracket[1].t - bracket[0].t) * length < tolerance:
            break
        a, b = bracket
        t = _interpolate(a.t, a.f, a.slope, b.t, b.f, b.slope)
        first, last = min(a.t, b.t), max(a.t, b.t)
        margin = 0.1 * (last - first)
        if min(last - t, t - first) < margin:  # too near to a boundary, and that for the second time
            if stuck or t >= last or t <= first:
                t = last - margin if abs(t - last) < abs(t - first) else first + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = at(t)
        calls, rounds = calls + 1, rounds + 1
        if new.f > f + c1 * new.t * slope or new.f >= bracket[low].f:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].f <= bracket[1].f else (1, 0)
            continue
        if abs(new.slope) <= -c2 * slope:
            done = True
        elif new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    best = bracket[low]
    return best.f, best.g, best.t, calls
