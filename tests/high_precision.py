"""Kappa of the best choice problem in 200 decimal digits, from the definitions, sharing no code with the package."""

import mpmath as mp

DIGITS = 200


def features_of(kind, degree, i, x, n):
    """All features of state (i/n, x), as the paper lists them."""
    f = mp.mpf(i) / n
    if kind == "monomial":
        powers = [f**k for k in range(degree)]
        return powers + [x * power for power in powers]
    polynomials = [mp.legendre(k, 2 * f - 1) for k in range(degree)]
    return polynomials + [(2 * x - 1) * value for value in polynomials]


def reach(probs, accept):
    """The chance of reaching each arrival, accept[i][x] being the chance of accepting there."""
    chances = [mp.mpf(1)]
    for i in range(len(probs) - 1):
        stays = probs[i] * (1 - accept[i][1]) + (1 - probs[i]) * (1 - accept[i][0])
        chances.append(chances[-1] * stays)
    return chances


def fisher(kind, degree, probs, roll_in, behaviour, policy):
    """Sum over states of visitation times the mean of score score', the action drawn from `behaviour`."""
    n = len(probs)
    total = mp.zeros(2 * degree)
    for i, chance in enumerate(reach(probs, roll_in)):
        for x in (0, 1):
            weight = chance * (probs[i] if x else 1 - probs[i])
            p, q = policy[i][x], behaviour[i][x]
            weight *= q * (1 - p) ** 2 + (1 - q) * p**2
            if weight:
                phi = mp.matrix(features_of(kind, degree, i + 1, x, n))
                total += weight * phi * phi.T
    return total


def ln_kappa(kind, degree, series, target, sampler, policy, is_grafted):
    """ln of the largest generalised eigenvalue; the sampler's matrix must be regular."""
    with mp.workdps(DIGITS):
        probs = [mp.mpf(p) for p in series]
        tables = [[[mp.mpf(entry) for entry in row] for row in table] for table in (target, sampler, policy)]
        target, sampler, policy = tables
        half = [[mp.mpf(1) / 2] * 2] * len(probs)
        wanted = fisher(kind, degree, probs, target, target, policy)
        sampled = fisher(kind, degree, probs, sampler, half if is_grafted else sampler, policy)
        inverse = mp.cholesky(sampled) ** -1
        return float(mp.log(max(mp.eigsy(inverse * wanted * inverse.T, eigvals_only=True))))
