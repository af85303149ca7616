"""Bundle adjustment: cameras and points from where the points are seen in the images.

Cameras have nine parameters, as in the data sets of Agarwal et al. (BAL): a rotation vector, a translation, a focal
distance and two coefficients of radial distortion.
"""

import numpy as np


def rotate(points, rot_vecs):
    """Rotate points by given rotation vectors, by Rodrigues' formula."""
    theta = np.linalg.norm(rot_vecs, axis=1)[:, np.newaxis]
    with np.errstate(invalid="ignore"):
        v = rot_vecs / theta
        v = np.nan_to_num(v)
    dot = np.sum(points * v, axis=1)[:, np.newaxis]
    cos_theta = np.cos(theta)
    sin_theta = np.sin(theta)
    return cos_theta * points + sin_theta * np.cross(v, points) + dot * (1 - cos_theta) * v


def project(points, camera_params):
    """Convert 3-D points to 2-D by projecting onto images."""
    points_proj = rotate(points, camera_params[:, :3])
    points_proj += camera_params[:, 3:6]
    points_proj = -points_proj[:, :2] / points_proj[:, 2, np.newaxis]
    f = camera_params[:, 6]
    k1 = camera_params[:, 7]
    k2 = camera_params[:, 8]
    n = np.sum(points_proj**2, axis=1)
    r = 1 + k1 * n + k2 * n**2
    points_proj *= (r * f)[:, np.newaxis]
    return points_proj


def cost(params, n_cameras, n_points, camera_indices, point_indices, points_2d):
    """Half the sum of squared residuals; params holds cameras and points."""
    camera_params = params[: n_cameras * 9].reshape((n_cameras, 9))
    points_3d = params[n_cameras * 9 :].reshape((n_points, 3))
    points_proj = project(points_3d[point_indices], camera_params[camera_indices])
    residuals = (points_proj - points_2d).ravel()
    return 0.5 * np.sum(residuals**2)


# ---- one observation after the other, robust, with matrices ----


def skew(v):
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def rodrigues(r):
    """The rotation matrix of a rotation vector."""
    theta = np.linalg.norm(r)
    if theta < 1e-8:
        return np.eye(3) + skew(r)
    K = skew(r / theta)
    return np.eye(3) + np.sin(theta) * K + (1 - np.cos(theta)) * K @ K


def reproject(camera, X):
    P = rodrigues(camera[:3]) @ X + camera[3:6]
    p = -P[:2] / P[2]
    f, k1, k2 = camera[6:]
    r2 = p @ p
    return f * (1.0 + k1 * r2 + k2 * r2**2) * p


def huber(r, delta):
    a = np.sqrt(r @ r)
    if a <= delta:
        return 0.5 * a**2
    return delta * (a - 0.5 * delta)


def robust_cost(cameras, points, observations, delta=1.0):
    """Observations are tuples: camera, point, x, y."""
    total = 0.0
    for i, j, x, y in observations:
        total += huber(reproject(cameras[i], points[j]) - np.array([x, y]), delta)
    return total


def scene(n_cameras=3, n_points=12, seed=3):
    """Cameras (the first one is not rotated), points, indices, and what is seen."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (n_points, 3))
    cameras = np.zeros((n_cameras, 9))
    cameras[1:, :3] = 0.2 * rng.normal(size=(n_cameras - 1, 3))
    cameras[:, 3:6] = [0.0, 0.0, -5.0] + 0.1 * rng.normal(size=(n_cameras, 3))
    cameras[:, 6:] = [10.0, -0.1, 0.01]
    camera_indices = np.repeat(np.arange(n_cameras), n_points)
    point_indices = np.tile(np.arange(n_points), n_cameras)
    seen = project(points[point_indices], cameras[camera_indices]) + 0.05 * rng.normal(size=(len(point_indices), 2))
    return cameras, points, camera_indices, point_indices, seen
