"""Programs as scientists write them, none of them with a tracer in mind: value and gradient in several calls, with
branches that go other ways from call to call."""

from __future__ import annotations

from dataclasses import replace

import belief_propagation
import bundle_adjustment
import deconvolution
import gaussian_process
import hand_tracking
import hmc
import inverse_kinematics
import kalman
import learning
import nbody
import neural_ode
import numpy as np
import pytest
import renderer
import sabr
import simulations
import survival
from agreement import numerical_gradient
from selection import some

from tracegrad import autograd, compile_grad

PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__.replace("_", " ")] = f
    return f


@program
def gaussian_process_by_cholesky():
    gp = gaussian_process.example(12)
    thetas = [0.1, 0.3, 0.2, -1.0], [0.6, 0.2, -0.1, -0.5]
    return gp.nlml, [(np.array(theta),) for theta in thetas]


@program
def gaussian_process_by_determinant():
    gp = gaussian_process.example(12, gaussian_process.Periodic)
    return gp.nlml_by_determinant, [(np.array(theta),) for theta in ([0.1, 0.2, -1.0], [0.5, 0.1, 0.0])]


@program
def gaussian_process_prediction():
    gp, new = gaussian_process.example(12), np.array([[0.3, -0.2], [1.0, 2.0]])

    def spread(theta):
        mean, variance = gp.predict(theta, new)
        return np.sum(mean**2) + np.sum(np.log(variance))

    return spread, [(np.array([0.1, 0.3, 0.2, -1.0]),), (np.array([0.4, 0.3, 0.0, -0.5]),)]


@program
def kalman_likelihood():
    zs, _ = kalman.measurements(40)
    return kalman.negative_log_likelihood, [(np.array([-1.0, -0.5]), zs), (np.array([0.3, 0.1]), 1.1 * zs)]


@program
def kalman_tuning():
    return kalman.rmse, [(np.array(theta), *kalman.measurements(40)) for theta in ([-1.0, -0.5], [0.3, 0.1])]


@program
def n_body():
    mass, pos, vel = nbody.cluster(3)
    seen, _ = nbody.simulate(pos, vel, mass, 20, 0.05)
    return nbody.misfit, [(1.1 * mass, pos, vel, seen), (0.8 * mass, pos + 0.1, vel, seen)]


@program
def sabr_smile():
    """The second forward is no strike, so none of the branches at the money is taken."""
    quotes = sabr.smile()
    xs = [np.array([-3.0, 0.0, -1.0]), np.array([-2.5, -0.3, -0.7])]
    return sabr.objective, [(xs[0], *quotes), (xs[1], *quotes), (xs[1], *quotes, 0.031), (xs[0], *quotes, 0.035)]


@program
def sabr_through_the_money():
    """Newton's method takes another number of steps; rho meets its bound."""
    quotes = sabr.smile()
    xs = [np.array([-0.3, 0.5]), np.array([0.2, -0.7]), np.array([1.2, 0.4])]
    return sabr.atm_objective, [(x, *quotes, 0.322) for x in xs] + [(xs[0], *quotes, 0.9)]


THETAS = [0.4, -0.2, 0.1, 0.0, 0.2, 0.5, -0.5, -2.0], [0.1, 0.3, -0.1, 0.2, -0.1, 0.2, 0.3, -1.0]


@program
def median_survival():
    model = survival.Model(survival.trial(16, 2))
    return survival.median_survival, [(np.array(theta), model, model.data.x[:3]) for theta in THETAS]


def survival_of_patients():
    """Frozen distributions of scipy.stats, in attributes and made in the function."""
    return survival.Model(survival.trial(16, 2)).log_posterior, [(np.array(theta),) for theta in THETAS]


@program
def hamiltonian_monte_carlo():
    """It draws random numbers, so its Python runs in each call."""
    model, start = hmc.Banana(), np.zeros(2)
    return hmc.posterior_mean, [(tau, model, start, 8, step) for tau, step in ((0.5, 0.1), (2.0, 0.1), (0.5, 0.5))]


def regression():
    model, start = hmc.data(20), np.zeros(3)
    return hmc.posterior_mean, [(tau, model, start, 8, step) for tau, step in ((0.5, 0.1), (2.0, 0.1), (0.5, 0.25))]


@program
def metropolis():
    model, rng = hmc.data(20), np.random.default_rng(2)
    normals, uniforms = rng.normal(size=(12, 3)), np.log(rng.uniform(size=12))
    return hmc.random_walk, [(scale, model, 12, normals, uniforms) for scale in (0.2, 0.21, 0.6)]


@program
def bundle_adjustment_of_arrays():
    cameras, points, camera_indices, point_indices, seen = bundle_adjustment.scene(2, 3)
    params = [np.hstack([(cameras + shift).ravel(), points.ravel()]) for shift in (0.05, 0.1)]
    return bundle_adjustment.cost, [(p, 2, 3, camera_indices, point_indices, seen) for p in params]


@program
def bundle_adjustment_by_observations():
    """In the first call one camera is not rotated (a small angle), and some residuals are outliers."""
    cameras, points, camera_indices, point_indices, seen = bundle_adjustment.scene(2, 2)
    observations = [(int(i), int(j), *map(float, p)) for i, j, p in zip(camera_indices, point_indices, seen)]
    turned = cameras + 0.01
    return bundle_adjustment.robust_cost, [
        (c, points, observations, d) for c in (cameras, turned) for d in (0.05, 10.0)
    ]


@program
def pose_of_an_arm():
    """With joints within and outside of their limits."""
    arm = inverse_kinematics.six_axes()
    target = arm.forward(np.full(6, 0.3))
    angles = [np.array([0.1, 0.2, -0.3, 0.4, 0.5, last]) for last in (0.6, 2.9, -3.0)]
    return inverse_kinematics.pose_cost, [(q, arm, target) for q in angles]


@program
def manipulability_of_an_arm():
    arm = inverse_kinematics.six_axes()
    return inverse_kinematics.manipulability, [(np.array([0.1, 0.2, -0.3, s, 0.5, 2.0]), arm) for s in (0.4, -0.7)]


@program
def inverse_kinematics_of_an_arm():
    """The iterations end when the pose is reached, after another number of steps."""
    arm = inverse_kinematics.six_axes()
    target, start = arm.forward(np.full(6, 0.3)), np.full(6, 0.1)
    shifts = [np.array([0.01, 0.02, -0.03]), np.array([0.0, -0.1, 0.1])]
    return inverse_kinematics.reached, [(shift, arm, target, start) for shift in shifts]


@program
def deconvolution_by_wiener():
    """With negative pixels, and without."""
    truth, blurred = deconvolution.stars()
    thetas = [0.2, 0.1, -4.0, 0.3], [0.9, 0.3, 3.0, 0.0]
    return deconvolution.restoration_error, [(np.array(theta), truth, blurred + k) for k, theta in enumerate(thetas)]


@program
def deconvolution_by_tikhonov():
    _, blurred = deconvolution.stars()
    return deconvolution.generalised_cross_validation, [(np.array(t), blurred) for t in ([0.1, -5.0], [0.3, -3.0])]


@program
def deconvolution_by_richardson_and_lucy():
    _, blurred = deconvolution.stars(6)
    psf = deconvolution.gaussian_psf((5, 5), 1.1)
    return deconvolution.richardson_lucy, [(np.full(blurred.shape, k), blurred, psf, 2) for k in (0.2, 0.3)]


@program
def ray_tracer():
    """From the sides the spheres hide one another otherwise."""
    positions, radii, colors, light = renderer.scene()
    photo = np.full((4, 6, 3), 0.4)
    moved = positions + np.array([0.3, 0.05, 0.1])
    return renderer.loss, [(p, radii, colors, light, photo) for p in (positions, moved)]


RNG = np.random.default_rng(4)


@program
def recurrent_network_on_characters():
    theta, text, h = learning.vector(learning.RECURRENT), RNG.integers(0, 7, 13).tolist(), np.zeros((5, 1))
    return learning.characters, [(theta, text[k : k + 4], text[k + 1 : k + 5], h + k) for k in range(0, 9, 2)]


@program
def transformer_of_nested_dicts():
    theta = learning.vector(learning.TRANSFORMER)
    return learning.language_model, [(theta, RNG.integers(0, 6, n).tolist()) for n in (6, 6, 4)]


@program
def convolution_by_strides():
    theta = learning.vector(learning.CONVOLUTION)
    return learning.images, [(theta, RNG.normal(size=(n, 2, 4, 4)), RNG.integers(0, 3, n)) for n in (2, 3)]


@program
def network_with_caches_and_running_averages():
    theta, cache, running = learning.vector(learning.DENSE), {}, {"mean": np.zeros(4), "steps": 0}
    return learning.batches, [(theta, RNG.normal(size=(5, 3)), RNG.normal(size=5), cache, running) for _ in range(2)]


@program
def exponential_smoothing_with_seasons():
    return learning.seasons, [(RNG.normal(size=9), RNG.normal(size=n), 4) for n in (40, 41)]


@program
def gaussian_process_of_distances():
    theta = np.array([0.1, 0.3, -0.5])
    return learning.likelihood_of_distances, [(theta, RNG.normal(size=(n, 2)), RNG.normal(size=n)) for n in (7, 8)]


@program
def neuron_with_a_stimulus():
    return simulations.neuron, [(120.0,), (110.0,)]


@program
def flow_around_a_cylinder():
    rng, inside = np.random.default_rng(0), np.zeros((6, 7), bool)
    inside[2:4, 2:4] = True
    F = [np.ones((6, 7, 9)) + 0.1 * rng.normal(size=(6, 7, 9)) for _ in range(2)]
    return simulations.lattice_boltzmann, [(0.6, F[0], inside, 6), (0.8, F[1], inside, 6)]


@program
def likelihood_of_a_tree():
    """In its frequencies, its rate and its lengths; here by one array of them all."""
    tree = simulations.Node(left=simulations.Node("human"), right=simulations.Node("chimp"))
    tree = simulations.Node(left=tree, right=simulations.Node("gorilla"))
    tree.number()
    seen = {"human": "AGC", "chimp": "AGT", "gorilla": "ACT"}

    def nll(x):
        return -simulations.log_likelihood({"frequencies": x[:4], "kappa": x[4], "lengths": x[5:]}, tree, seen)

    return nll, [(0.3 * np.random.default_rng(k).normal(size=10) - 0.5,) for k in range(2)]


@program
def lenses():
    return simulations.spot_size, [(np.array(c), 70.0) for c in ([0.02, -0.01], [0.03, -0.005], [0.03, 0.01])]


@program
def bootstrapped_yield_curve():
    flows = [(0.3, 5.0), (0.8, 5.0), (1.7, 105.0)]
    prices = [97.5, 94.9, 96.0, 101.6], [97.2, 94.5, 95.0, 101.0]
    return simulations.present_value, [(np.array(p), flows) for p in prices]


@program
def control_within_limits():
    return simulations.control_cost, [
        (np.array(g), sp, 60) for g, sp in (([4.0, 0.8, 0.3], 50.0), ([3.0, 0.6, 0.1], 45.0))
    ]


@program
def heat_in_a_rod():
    """The readings are a pandas frame; the temperatures come from tridiagonal equations in each step."""
    heat = pytest.importorskip("heat")  # which imports pandas
    frame = heat.readings()
    knots = np.array([-1.2, -0.9, -1.4, -1.1])
    return heat.misfit, [(knots + shift, heat.Rod(30), frame * scale) for shift, scale in ((0.0, 1.0), (0.3, 0.9))]


@program
def labels_by_belief_propagation():
    field, rng = belief_propagation.grid(4, 5), np.random.default_rng(1)
    features, labels = rng.normal(size=(field.n, 2)), rng.integers(0, 3, field.n)
    thetas = [0.4 * rng.normal(size=7) for _ in range(2)]
    return belief_propagation.negative_log_likelihood, [(theta, field, features, labels) for theta in thetas]


@program
def bethes_free_energy():
    field, rng = belief_propagation.grid(3, 4, states=2), np.random.default_rng(2)
    return belief_propagation.bethe_free_energy, [
        (0.4 * rng.normal(size=5), field, rng.normal(size=(field.n, 2))) for _ in range(2)
    ]


@program
def fit_of_an_epidemic():
    days = np.arange(0.0, 12.0)
    cases = np.array([2.0, 3, 4, 5, 8, 11, 15, 21, 28, 36, 45])
    return neural_ode.epidemic, [(np.array(p), days, cases) for p in ([0.6, 0.2, 3.0], [0.5, 0.15, 5.0])]


@program
def doses_and_concentrations():
    doses, observed = [10.0, 5.0], np.log(np.linspace(1.0, 3.0, 8))
    return neural_ode.dosing, [(np.array(t), doses, observed) for t in ([0.2, -1.0, 0.7], [0.5, -1.2, 0.6])]


@program
def wings_of_a_butterfly():
    return neural_ode.wings, [(np.array(s), 10.0, 28.0, 8 / 3) for s in ([1.0, 1.0, 1.05], [0.5, 1.2, 2.0])]


@pytest.mark.parametrize("name", some(PROGRAMS, quick=2))
def test_value_and_gradient(name):
    check(*PROGRAMS[name]())


def check(plain, calls):
    compiled = compile_grad(plain)
    expected = [(plain(*args), numerical_gradient(plain, args)) for args in calls]
    for args, (value, slope) in zip(calls * 3, expected * 3, strict=True):
        found, gradient = compiled.value_and_grad(*args)
        np.testing.assert_allclose(found, value, rtol=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=2e-5, atol=2e-6 * np.max(np.abs(slope)))


@pytest.mark.slow
def test_neural_ode():
    """Its values are those of another method than LSODA: both are held against tight tolerances."""
    problem = neural_ode.NeuralODE()
    compiled, plain = compile_grad(problem.loss), lambda w: problem.loss(w, 1e-12)
    for w in (problem.start(0), problem.start(1), problem.start(0)):
        value, gradient = compiled.value_and_grad(w)
        assert value == pytest.approx(plain(w), rel=1e-6)
        way = np.random.default_rng(0).normal(size=w.size)
        along = sum(c * plain(w + 1e-3 * k * way) for k, c in ((-2, 1), (-1, -8), (1, 8), (2, -1))) / 12e-3
        assert gradient @ way == pytest.approx(along, abs=1e-6 * np.linalg.norm(gradient))
    for _ in range(20):  # a descent
        value, gradient = compiled.value_and_grad(w)
        w = w - 0.02 * gradient
    assert compiled(w) < 0.9 * plain(problem.start(0))


@pytest.mark.slow
def test_hamiltonian_monte_carlo_of_a_regression():
    check(*regression())


@pytest.mark.slow
def test_survival_of_patients():
    check(*survival_of_patients())


@pytest.mark.slow
def test_gradient_in_the_parameters_of_an_arm():
    """An object of dataclasses is differentiated; the gradient is one of the same classes."""
    arm, rng = inverse_kinematics.six_axes(), np.random.default_rng(0)
    qs, measured = rng.normal(size=(3, 6)), rng.normal(size=(3, 3))
    f = compile_grad(inverse_kinematics.calibration)
    for _ in range(3):
        gradient = f.grad(arm, qs, measured)
    assert type(gradient) is inverse_kinematics.Arm
    assert type(gradient.links[0]) is inverse_kinematics.Link
    for k in range(6):
        for name in ("d", "a", "alpha"):
            values = []
            for step in (1e-6, -1e-6):
                links = list(arm.links)
                links[k] = replace(links[k], **{name: getattr(links[k], name) + step})
                values.append(inverse_kinematics.calibration(inverse_kinematics.Arm(links, arm.base), qs, measured))
            wanted = (values[0] - values[1]) / 2e-6
            np.testing.assert_allclose(getattr(gradient.links[k], name), wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("rows", hand_tracking.ROWS)
def test_jacobians_of_a_hand(rows):
    rng = np.random.default_rng(0)
    hand, rows = hand_tracking.Hand(rng), hand_tracking.ROWS[rows]
    points, matches = rng.normal(size=(6, 3)), rng.integers(0, 12, 6)
    triangles, theta = rng.integers(0, 12, (12, 3)), 0.1 * rng.normal(size=26)
    simple = lambda theta: hand.residuals(theta, points, matches, rows)  # noqa: E731
    complicated = lambda x: hand.residuals_on_triangles(x, points, matches, triangles, rows)  # noqa: E731
    for f, x in ((simple, theta), (complicated, np.concatenate([rng.random(12) / 3, theta]))):
        steps = 1e-6 * np.eye(len(x))
        slopes = np.stack([(f(x + e) - f(x - e)) / 2e-6 for e in steps], -1)
        for jacobian in (autograd.jacfwd(f), autograd.jacobian(f), lambda x, f=f: autograd.functional.jacobian(f, x)):
            np.testing.assert_allclose(jacobian(x), slopes, rtol=1e-5, atol=1e-6)
