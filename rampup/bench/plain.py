"""Algorithms 3 and 4 in plain NumPy, one episode at a time, sharing no code with the package."""

import math

import numpy as np
import scipy.optimize


class PlainBCP:
    def __init__(self, probs, degree):
        self.probs, self.degree = probs, degree
        self.horizon, self.num_actions = len(probs), 2

    def reset(self, rng):
        self.flags = [rng.random() < p for p in self.probs]
        self.i = 0

    def phi(self):
        """Feature rows of reject and accept."""
        f, x = (self.i + 1) / self.horizon, float(self.flags[self.i])
        powers = np.array([f**k for k in range(self.degree)])
        return np.array([np.zeros(2 * self.degree), np.concatenate([powers, x * powers])])

    def execute(self, action):
        """Return the reward and whether the episode goes on."""
        won = action == 1 and self.flags[self.i] and not any(self.flags[self.i + 1 :])
        self.i += 1
        return float(won), action == 0 and self.i < self.horizon


class PlainOKD:
    def __init__(self, n, budget, target, degree):
        self.horizon, self.budget, self.target, self.degree, self.num_actions = n, budget, target, degree, 2

    def reset(self, rng):
        self.sizes, self.values = rng.random(self.horizon), rng.random(self.horizon)
        self.i, self.used, self.value = 0, 0.0, 0.0

    def phi(self):
        numbers = [
            (self.i + 1) / self.horizon,
            self.sizes[self.i],
            self.values[self.i],
            self.used / self.budget,
            self.value / self.target,
        ]
        row = np.array([1.0])
        for number in numbers:
            row = np.outer(np.array([number**k for k in range(self.degree)]), row).ravel()
        return np.array([np.zeros_like(row), row])

    def execute(self, action):
        if action == 1 and self.used + self.sizes[self.i] <= self.budget:
            self.used += self.sizes[self.i]
            self.value += self.values[self.i]
        self.i += 1
        reached = self.value >= self.target
        return float(reached), not reached and self.i < self.horizon


class PlainADW:
    def __init__(self, n, m, target, degree):
        self.n, self.horizon, self.target, self.degree, self.num_actions = n, m, target, degree, n + 1

    def reset(self, rng):
        self.bids = rng.random((self.horizon, self.n))
        self.j, self.budgets, self.revenue = 0, np.ones(self.n), 0.0

    def phi(self):
        rows = []
        for action in range(self.n + 1):
            bid, budget = (self.bids[self.j, action - 1], self.budgets[action - 1]) if action else (0.0, 0.0)
            row = np.array([1.0])
            for number in [(self.j + 1) / self.horizon, bid, budget, self.revenue / self.target]:
                row = np.outer(np.array([number**k for k in range(self.degree)]), row).ravel()
            rows.append(row)
        return np.array(rows)

    def execute(self, action):
        if action and self.budgets[action - 1] >= self.bids[self.j, action - 1]:
            self.budgets[action - 1] -= self.bids[self.j, action - 1]
            self.revenue += self.bids[self.j, action - 1]
        self.j += 1
        reached = self.revenue >= self.target
        return float(reached), not reached and self.j < self.horizon


def probabilities(theta, phi):
    weights = [math.exp(theta @ row) for row in phi]
    return np.array(weights) / sum(weights)


def entropy(probs):
    return -sum(p * math.log(p) for p in probs)


def sample(env, theta, sampler_theta, h, weight, clip, rng):
    """Algorithm 4, on-policy where `sampler_theta` is None: score and estimate, or None if it ended before h."""
    env.reset(rng)
    for _ in range(h):
        probs = probabilities(theta if sampler_theta is None else sampler_theta, env.phi())
        _, goes_on = env.execute(rng.choice(env.num_actions, p=probs))
        if not goes_on:
            return None
    phi = env.phi()
    probs = probabilities(theta, phi)
    action = rng.choice(env.num_actions, p=probs) if sampler_theta is None else rng.integers(env.num_actions)
    score = phi[action] - probs @ phi
    if rng.random() < 0.5:
        factor, taken = -2.0, rng.choice(env.num_actions, p=probs)
        total = weight * entropy(probs)
    else:
        factor, taken = 2.0, action
        total = weight * min(-math.log(probs[action]), clip)
    reward, goes_on = env.execute(taken)
    total += reward
    while goes_on:
        probs = probabilities(theta, env.phi())
        reward, goes_on = env.execute(rng.choice(env.num_actions, p=probs))
        total += reward + weight * entropy(probs)
    return score, factor * total


def update(env, theta, sampler_theta, num_lanes, weight, clip, radius, rng):
    """One iteration of Algorithm 3: F, the gradient, and the step in the ball."""
    fisher, gradient = np.zeros((len(theta), len(theta))), np.zeros(len(theta))
    for _ in range(num_lanes):
        for h in range(env.horizon):
            found = sample(env, theta, sampler_theta, h, weight, clip, rng)
            if found is not None:
                score, advantage = found
                fisher += np.outer(score, score) / num_lanes
                gradient += advantage * score / num_lanes
    return fisher, gradient, step_in_ball(fisher, gradient, radius)


def step_in_ball(fisher, gradient, radius):
    values, basis = np.linalg.eigh(fisher)
    slope = basis.T @ gradient
    length = lambda multiplier: np.linalg.norm(slope / (np.maximum(values, 0) + multiplier))
    small, large = 1e-13 * values[-1], np.linalg.norm(gradient) / radius + 1e-12
    multiplier = small
    if length(small) > radius:
        too_long = lambda log: length(math.exp(log)) - radius
        root = scipy.optimize.brentq(too_long, math.log(small), math.log(large))
        multiplier = math.exp(root)  # pyright: ignore[reportArgumentType]
    return basis @ (slope / (np.maximum(values, 0) + multiplier))
