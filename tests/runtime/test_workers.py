"""Compiled functions, transforms, modules and steps in other processes: through pickle, copy and cloudpickle, with the
executors of the standard library, joblib, scikit-learn, Dask and Ray, from modules and from scripts."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, compile_grad, nn, optim
from tracegrad.runtime.wrapper import Wrapper

ROOT = Path(__file__).resolve().parents[2]
X = np.array([0.5, 0.2, -0.1])
SCALE = 2.0


@compile_grad
def f(x):
    return np.sum(np.sin(x)) * SCALE


@compile_grad(argnums=(0, 1), has_aux=True)
def two(x, y):
    return np.sum(x * y), x


def plain(x):
    return np.sum(x**3)


@autograd.jacobian
def decorated(x):
    return np.sin(x) * x


@compile_grad
def countdown(x, n):
    return x if n == 0 else x * countdown(x, n - 1)


class Model:
    def __init__(self) -> None:
        self.w = np.array([3.0, 2.0, 1.0])

    @compile_grad
    def loss(self, x):
        return np.sum(self.w * x * x)

    @staticmethod
    @compile_grad
    def static(x):
        return np.sum(x)

    @compile_grad
    @classmethod
    def of_class(cls, x):
        return np.sum(x**2)

    @classmethod
    @compile_grad
    def inside(cls, x):
        return np.sum(x**3)


@tracegrad.compile
def step(net, opt, x):
    opt.zero_grad()
    loss = (net(x) ** 2).mean()
    loss.backward()
    opt.step()
    return loss


@dataclasses.dataclass
class Holder:
    fn: Any


model = Model()
BY_NAME = {
    "function": (f, f),
    "argnums": (two, two),
    "recursive": (countdown, countdown),
    "method of the class": (Model.loss, Model.loss),
    "static method": (Model.static, Model.static),
    "transform as decorator": (decorated, decorated),
    "step": (step, step),
    "kept transform": (autograd.hessian(f), autograd.hessian(f)),
}
BY_PARTS = {
    "gradient method": (f.grad, lambda o: o(X)),
    "both": (two.value_and_grad, lambda o: o(X, X)),
    "method": (model.loss, lambda o: (o(X), o.grad(X))),
    "gradient of a method": (model.loss.grad, lambda o: o(X)),
    "class method": (Model.of_class, lambda o: (o(X), o.grad(X))),
    "class method of a compiled function": (Model.inside, lambda o: o(X)),  # without grad since Python 3.13
    "grad": (autograd.grad(f), lambda o: o(X)),
    "grad of a plain function": (autograd.grad(plain), lambda o: o(X)),
    "grad of a method": (autograd.grad(model.loss), lambda o: o(X)),
    "grad of grad": (autograd.hvp(plain), lambda o: o(X, X)),
    "vmap": (autograd.vmap(plain, in_axes=1), lambda o: o(np.ones((2, 3)))),
    "jacobian": (autograd.jacobian(plain), lambda o: o(X)),
    "partial": (functools.partial(two.grad, X), lambda o: o(X)),
    "attribute": (Holder(f), lambda o: o.fn(X)),
    "not decorated": (compile_grad(plain), lambda o: o.grad(X)),
}
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b)


@pytest.mark.parametrize("name", BY_NAME)
def test_what_has_a_name_is_pickled_by_it(name):
    value, expected = BY_NAME[name]
    for protocol in PROTOCOLS:
        assert pickle.loads(pickle.dumps(value, protocol)) is expected
        assert pickle._loads(pickle._dumps(value, protocol)) is expected
    assert copy.copy(value) is value and copy.deepcopy(value) is value


@pytest.mark.parametrize("name", BY_PARTS)
def test_pickled_by_parts(name):
    value, use = BY_PARTS[name]
    expected = use(value)
    copies = [pickle.loads(pickle.dumps(value, protocol)) for protocol in PROTOCOLS]
    for found in [*copies, copy.copy(value), copy.deepcopy(value)]:
        assert type(found) is type(value) and same(use(found), expected)


def test_nothing_that_was_learned_is_pickled():
    fresh, used = (compile_grad(plain) for _ in range(2))
    before = pickle.dumps(fresh)
    for _ in range(3):
        used.value_and_grad(X)
        autograd.grad(plain)(X)
    assert pickle.dumps(used) == before
    assert pickle.loads(before).stats.calls == 0 and used.stats.calls == 3


def test_functions_without_a_name_are_refused_as_pickle_does():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(compile_grad(lambda x: x))


def test_linear_maps_say_that_they_stay():
    _, push = autograd.linearize(plain, X)
    with pytest.raises(pickle.PicklingError, match="call vjp or linearize there"):
        pickle.dumps(push)
    assert copy.deepcopy([push])[0](X) == push(X)


def test_copies_of_what_is_no_function():
    class Scaled:
        def __init__(self) -> None:
            self.w = X.copy()

        def __call__(self, x):
            return np.sum(self.w * x)

    scaled = Scaled()
    compiled = compile_grad(scaled)
    other = copy.deepcopy(compiled)
    other.__wrapped__.w[0] = 9.0
    assert compiled(X) == scaled(X) and other(X) == np.sum(X * [9.0, 0.2, -0.1])
    local = compile_grad(lambda x: x)
    assert copy.deepcopy(local) is local is copy.copy(local)
    assert copy.deepcopy({"a": autograd.grad(local)})["a"] is autograd.grad(local)


def test_names_that_have_gone_to_others():
    """What stands under its name now is another function: as with functions, it can't be pickled."""
    scope = {"__name__": __name__, "compile_grad": compile_grad}
    exec("@compile_grad\ndef f(x):\n    return x", scope)
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(scope["f"])


def test_stats_are_pickled_as_they_stand():
    g = compile_grad(lambda x: np.sum(x) if x[0] > 0 else np.sum(x * x))
    for _ in range(3):
        g(X)
        g(-X)
    for found in (copy.deepcopy(g.stats), *[pickle.loads(pickle.dumps(g.stats, p)) for p in PROTOCOLS]):
        assert str(found) == str(g.stats) and found.paths == g.stats.paths and found.calls == 6
    g(X)
    assert found.calls == 6


def training() -> tuple[Any, Any]:
    tracegrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    return net, optim.Adam(net.parameters(), lr=0.1)


def run(net: Any, opt: Any, times: int = 3) -> list[float]:
    return [float(step(net, opt, tracegrad.ones((2, 3)))) for _ in range(times)]


def test_training_goes_on_from_a_pickle():
    pair = training()
    run(*pair)
    for protocol in PROTOCOLS:
        again = pickle.loads(pickle.dumps(pair, protocol))
        assert again[0][0].weight is again[1].param_groups[0]["params"][0]
        np.testing.assert_allclose(run(*again), run(*copy.deepcopy(pair)), rtol=1e-12)


def test_compiled_modules_are_copied_with_their_parameters():
    net, _ = training()
    compiled = tracegrad.compile(net)
    x = tracegrad.ones((2, 3))
    compiled(x)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert np.allclose(other(x).detach().numpy(), net(x).detach().numpy())
        other.__wrapped__[0].weight.data.fill_(0.0)
        assert np.any(net[0].weight.detach().numpy())


def test_tensors_from_shared_memory_can_be_written(tmp_path):
    """joblib and Ray hand out arrays of other processes, which are read-only."""
    weight = nn.Parameter(tracegrad.ones(4))
    buffers: list[pickle.PickleBuffer] = []
    sent = pickle.dumps(weight, protocol=5, buffer_callback=buffers.append)
    arrived = pickle.loads(sent, buffers=[bytes(b) for b in buffers])
    optim.SGD([arrived], lr=1.0).step()
    arrived.data.fill_(3.0)
    assert type(arrived) is nn.Parameter and arrived.requires_grad and arrived.sum().item() == 12.0


def test_every_wrapper_says_what_it_is_made_of():
    kinds, todo = set(), [Wrapper]
    while todo:
        todo += (new := todo.pop().__subclasses__())
        kinds.update(new)
    assert {k.__name__ for k in kinds} >= {"CompiledFunction", "Transform", "RuleApplied", "Derivative", "CompiledStep"}
    for value in (f, autograd.hessian(f), autograd.hessian(f).__wrapped__, autograd.grad(f), step):
        again = value._tracegrad_rebuild(value.__wrapped__)
        assert type(again) is type(value) and again._tracegrad_settings() == value._tracegrad_settings()


# ---- scripts -------------------------------------------------------------------------------------------------------

needs = {
    name: pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")
    for name in ("cloudpickle", "joblib", "sklearn", "distributed", "ray")
}
#: What a script has: functions that read globals, call and refer to each other, and stand in classes and closures.
SCRIPT = """
import copy, dataclasses, functools, os, sys
import numpy as np
import tracegrad
from tracegrad import autograd, compile_grad

SCALE, W = 2.0, np.array([1.0, 2.0, 3.0])

@compile_grad
def f(x): return np.sum(np.sin(x) * W) * SCALE

@compile_grad
def even(x, n): return x if n == 0 else odd(x, n - 1) * 2.0

@compile_grad
def odd(x, n): return x if n == 0 else even(x, n - 1) * 3.0

def helper(x): return f(x) + 1.0

@compile_grad
def g(x): return helper(x) * f(x)

@compile_grad(static_argnames="power")
def static(x, power=3): return np.sum(x ** power)

def closure(k):
    @compile_grad
    def inner(x): return np.sum(x) * k + (inner(x[1:]) if len(x) > 1 else 0.0)
    return inner

class Base:
    @compile_grad
    def loss(self, x): return np.sum(x * self.w)

class Model(Base):
    def __init__(self): self.w = np.array([3.0, 2.0, 1.0])
    @compile_grad
    def loss(self, x): return super().loss(x) * 2.0
    @staticmethod
    @compile_grad
    def static(x): return np.sum(x ** 2)
    @classmethod
    @compile_grad
    def of_class(cls, x): return np.sum(x ** 3)

@tracegrad.custom_vjp
def own(x): return np.sin(x)
own.defvjp(lambda x: (np.sin(x), np.cos(x)), lambda r, g: (r * g,))

@compile_grad
def with_rule(x): return np.sum(own(x))

@autograd.jacobian
def jacobian(x): return np.sin(x) * W

@dataclasses.dataclass
class Holder:
    fn: object

X = np.array([0.5, 0.2, -0.1])
model = Model()
NAMED = {
    "f": (f, X), "f.grad": (f.grad, X), "g": (g.value_and_grad, X), "grad": (autograd.grad(g), X),
    "hessian": (autograd.hessian(f), X), "vmap": (autograd.vmap(f), np.stack([X, X])), "helper": (helper, X),
    "gradient of helper": (autograd.grad(helper), X), "even": (even, 2.0, 3), "odd": (odd.grad, 2.0, 4),
    "static": (functools.partial(static, power=2), X), "method": (model.loss, X), "gradient": (model.loss.grad, X),
    "of method": (autograd.grad(model.loss), X), "static method": (Model.static.grad, X),
    "class method": (Model.of_class, X), "holder": (Holder(f).fn, X), "rule": (with_rule.grad, X),
    "decorated": (jacobian, X),
}
LOCAL = {
    "lambda": (compile_grad(lambda x: np.sum(x * W)).grad, X), "closure": (closure(3.0).grad, X),
    "jacobian": (autograd.jacobian(lambda x: np.sin(x) * W), X),
}

def several(fn, args): return [fn(*args) for _ in range(3)][-1]

def flat(x): return np.concatenate([np.ravel(part) for part in (x if isinstance(x, tuple) else (x,))])

def check(results, jobs):
    for (name, (fn, *args)), found in zip(jobs.items(), results, strict=True):
        np.testing.assert_allclose(flat(found), flat(several(fn, args)), rtol=1e-12, err_msg=name)
"""


def script(tmp_path: Path, code: str, name: str = "script.py") -> str:
    """The output of a script that begins as ``SCRIPT``."""
    path = tmp_path / name
    path.write_text(SCRIPT + textwrap.dedent(code))
    env = dict(os.environ, PYTHONPATH=str(ROOT), TRACEGRAD_CACHE_DIR=str(tmp_path / "cache"), OPENBLAS_NUM_THREADS="1")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@needs["cloudpickle"]
@pytest.mark.slow
def test_a_script_through_cloudpickle(tmp_path):
    """To a process that has none of the script's names, and from there back."""
    code = """
    if __name__ == "__main__":
        import cloudpickle, pickle, subprocess
        f(X), f.grad(X), autograd.grad(helper)(X)  # what they have learned stays here
        jobs = NAMED | LOCAL
        sent = cloudpickle.dumps([several, [(fn, args) for fn, *args in jobs.values()]])
        worker = (
            "import pickle, sys, cloudpickle\\nseveral, jobs = pickle.load(sys.stdin.buffer)\\n"
            "found = [several(*job) for job in jobs]\\n"
            "sys.stdout.buffer.write(cloudpickle.dumps((found, [job[0] for job in jobs])))"
        )
        done = subprocess.run([sys.executable, "-c", worker], input=sent, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        found, functions = pickle.loads(done.stdout)
        check(found, jobs)
        check([several(fn, args) for fn, (_, *args) in zip(functions, jobs.values())], jobs)
        print("right")
    """
    assert script(tmp_path, code) == "right\n"


@needs["cloudpickle"]
@pytest.mark.slow
def test_modules_that_are_registered_go_by_value(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    code = """
    import cloudpickle, pickle, subprocess, sys, mine
    assert pickle.loads(cloudpickle.dumps(mine.f)) is mine.f
    cloudpickle.register_pickle_by_value(mine)
    sent = cloudpickle.dumps((mine.g, mine.X))
    assert pickle.loads(pickle.dumps(mine.g)) is mine.g
    worker = "import pickle, sys; g, x = pickle.load(sys.stdin.buffer); print(g(x)); assert 'mine' not in sys.modules"
    done = subprocess.run([sys.executable, "-P", "-c", worker], input=sent, capture_output=True)
    assert float(done.stdout) == mine.g(mine.X), done.stderr.decode()[-3000:]
    print("right")
    """
    assert script(tmp_path, code) == "right\n"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_script_with_the_executors_of_the_standard_library(tmp_path, method):
    code = f"""
    if __name__ == "__main__":
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        context = multiprocessing.get_context("{method}")
        if "{method}" == "fork":
            check([several(fn, args) for fn, *args in NAMED.values()], NAMED)
        jobs = [(fn, args) for fn, *args in NAMED.values()]
        with context.Pool(2) as pool:
            check(pool.starmap(several, jobs), NAMED)
        with ProcessPoolExecutor(2, context) as pool:
            check(pool.map(several, *zip(*jobs)), NAMED)
        print("right")
    """
    assert script(tmp_path, code) == "right\n"


@needs["joblib"]
@pytest.mark.slow
def test_a_script_with_joblib(tmp_path):
    code = """
    if __name__ == "__main__":
        from joblib import Parallel, delayed
        jobs = NAMED | LOCAL
        check(Parallel(2)(delayed(several)(fn, args) for fn, *args in jobs.values()), jobs)
        print("right")
    """
    assert script(tmp_path, code) == "right\n"


@needs["sklearn"]
@pytest.mark.slow
def test_grid_search_in_a_script(tmp_path):
    """An estimator of the script whose fit uses compiled functions of the script, one of them a parameter."""
    code = """
    if __name__ == "__main__":
        import scipy.optimize
        from sklearn.base import BaseEstimator, ClassifierMixin, clone
        from sklearn.datasets import make_classification
        from sklearn.model_selection import GridSearchCV

        @compile_grad
        def loss(w, X, y, l2): return np.mean(np.log1p(np.exp(-y * (X @ w)))) + penalty(w, l2)

        @compile_grad
        def penalty(w, l2): return l2 * np.sum(w * w)

        class Logistic(ClassifierMixin, BaseEstimator):
            def __init__(self, l2=1e-3, penalty=penalty): self.l2, self.penalty = l2, penalty
            def fit(self, X, y):
                self.classes_ = np.unique(y)
                signs = np.where(y == self.classes_[1], 1.0, -1.0)
                objective = compile_grad(lambda w: loss(w, X, signs, self.l2) + self.penalty(w, self.l2))
                self.w_ = scipy.optimize.minimize(objective.value_and_grad, np.zeros(X.shape[1]), jac=True).x
                return self
            def predict(self, X): return self.classes_[(X @ self.w_ > 0).astype(int)]

        X, y = make_classification(60, 4, random_state=0)
        assert clone(Logistic()).penalty is penalty
        alone, workers = (
            GridSearchCV(Logistic(), {"l2": [1e-3, 1.0]}, n_jobs=n, cv=2, error_score="raise").fit(X, y) for n in (1, 2)
        )
        assert np.array_equal(alone.cv_results_["mean_test_score"], workers.cv_results_["mean_test_score"])
        assert np.allclose(alone.best_estimator_.w_, workers.best_estimator_.w_)
        print("right")
    """
    assert script(tmp_path, code) == "right\n"


@needs["distributed"]
@pytest.mark.slow
def test_a_script_with_dask(tmp_path):
    code = """
    if __name__ == "__main__":
        from dask.distributed import Client, LocalCluster
        jobs = NAMED | LOCAL
        lists = zip(*[(fn, args) for fn, *args in jobs.values()])
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                check(client.gather(client.map(several, *lists, pure=False)), jobs)
        print("right")
    """
    assert script(tmp_path, code) == "right\n"


@needs["ray"]
@pytest.mark.slow
def test_a_script_with_ray(tmp_path):
    code = """
    if __name__ == "__main__":
        import ray
        ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)
        remote, jobs = ray.remote(several), NAMED | LOCAL
        check(ray.get([remote.remote(fn, args) for fn, *args in jobs.values()]), jobs)
        ray.shutdown()
        print("right")
    """
    assert script(tmp_path, code).endswith("right\n")
