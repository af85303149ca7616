"""A toy ray tracer: spheres over a chequered floor, one lamp, shadows and reflections."""

import numpy as np

FARAWAY = 1.0e39


def normalize(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


class Sphere:
    def __init__(self, center, radius, color, mirror=0.3):
        self.center = center
        self.radius = radius
        self.color = color
        self.mirror = mirror

    def intersect(self, O, D):
        """The distance along each ray, FARAWAY where it misses."""
        b = 2 * np.sum(D * (O - self.center), axis=1)
        c = np.sum(self.center**2) + np.sum(O**2, axis=1) - 2 * O @ self.center - self.radius**2
        disc = b**2 - 4 * c
        sq = np.sqrt(np.maximum(0, disc))
        h0 = (-b - sq) / 2
        h1 = (-b + sq) / 2
        h = np.where((h0 > 0) & (h0 < h1), h0, h1)
        return np.where((disc > 0) & (h > 0), h, FARAWAY)

    def normal(self, M):
        return (M - self.center) / self.radius

    def diffuse(self, M):
        return self.color


class Floor:
    mirror = 0.1

    def __init__(self, height):
        self.height = height

    def intersect(self, O, D):
        with np.errstate(divide="ignore"):
            t = (self.height - O[:, 1]) / D[:, 1]
        return np.where((D[:, 1] < 0) & (t > 0), t, FARAWAY)

    def normal(self, M):
        N = np.zeros_like(M)
        N[:, 1] = 1.0
        return N

    def diffuse(self, M):
        checker = ((M[:, 0] * 2).astype(int) % 2) == ((M[:, 2] * 2).astype(int) % 2)
        return np.where(checker[:, np.newaxis], 0.9, 0.2)


def trace(O, D, scene, light, depth=0):
    """The colours of rays from O in the directions D."""
    distances = [s.intersect(O, D) for s in scene]
    nearest = np.min(distances, axis=0)
    color = np.zeros((len(D), 3))
    for s, d in zip(scene, distances):
        hit = (nearest != FARAWAY) & (d == nearest)
        if not np.any(hit):
            continue
        color[hit] += shade(s, O[hit], D[hit], d[hit], scene, light, depth)
    return color


def shade(obj, O, D, d, scene, light, depth):
    M = O + D * d[:, np.newaxis]
    N = obj.normal(M)
    toL = normalize(light - M)
    toO = normalize(-D)
    nudged = M + N * 0.0001
    light_distances = [s.intersect(nudged, toL) for s in scene]
    seelight = light_distances[scene.index(obj)] == np.min(light_distances, axis=0)
    color = 0.05 * np.ones((len(D), 3))
    lv = np.maximum(np.sum(N * toL, axis=1), 0)
    color += obj.diffuse(M) * lv[:, None] * seelight[:, None]
    if depth < 1:
        rayD = normalize(D - N * 2 * np.sum(D * N, axis=1)[:, None])
        color += trace(nudged, rayD, scene, light, depth + 1) * obj.mirror
    phong = np.sum(N * normalize(toL + toO), axis=1)
    color += (np.clip(phong, 0, 1) ** 50 * seelight)[:, None]
    return color


def render(positions, radii, colors, light, width, height):
    scene = [Sphere(p, r, c) for p, r, c in zip(positions, radii, colors)] + [Floor(-0.5)]
    ratio = width / height
    x = np.tile(np.linspace(-1, 1, width), height)
    y = np.repeat(np.linspace(1 / ratio, -1 / ratio, height), width)
    eye = np.array([0.0, 0.35, -1.0])
    Q = np.stack([x, y, np.zeros_like(x)], axis=1)
    D = normalize(Q - eye)
    O = np.repeat(eye[np.newaxis], len(D), axis=0)
    return np.clip(trace(O, D, scene, light), 0, 1).reshape(height, width, 3)


def loss(positions, radii, colors, light, photo):
    """How unlike a photograph the picture is."""
    height, width, _ = photo.shape
    return np.mean((render(positions, radii, colors, light, width, height) - photo) ** 2)


def scene():
    positions = np.array([[0.75, 0.1, 1.0], [-0.75, 0.1, 2.25], [-2.75, 0.1, 3.5]])
    radii = np.array([0.6, 0.6, 0.6])
    colors = np.array([[0.0, 0.0, 1.0], [0.5, 0.223, 0.5], [1.0, 0.572, 0.184]])
    return positions, radii, colors, np.array([5.0, 5.0, -10.0])
