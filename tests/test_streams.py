"""The random streams: what keys promise, and whether their numbers can be told from chance."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from rampup import streams

# How often one of these tests would fail on true chance; a test of many statistics shares it among them.
LEVEL = 1e-6


def assert_likely(p_values):
    """None of the p-values is smaller than chance allows, given how many they are."""
    p_values = np.ravel(p_values)
    assert np.isfinite(p_values).all()
    assert p_values.min() > LEVEL / p_values.size, (p_values.min(), np.argmin(p_values))


def two_sided(distribution, statistic):
    """How likely a statistic is to lie as far out, on either side: a fit can be too good as well."""
    return np.minimum(1.0, 2 * np.minimum(distribution.cdf(statistic), distribution.sf(statistic)))


def p_of_counts(counts, probs):
    """Chi-square of counts against the probabilities of their cells."""
    expected = counts.sum() * np.broadcast_to(probs, counts.shape)
    # Below this the chi-square distribution is no approximation.
    assert expected.min() >= 10
    return two_sided(scipy.stats.chi2(counts.size - 1), ((counts - expected) ** 2 / expected).sum())


def p_of_correlation(one, other):
    """Of the sum of products of independent uniform numbers, centred; each product has variance 1/144."""
    total = np.sum((one - 0.5) * (other - 0.5))
    return two_sided(scipy.stats.norm, total * 12 / np.sqrt(one.size))


def p_of_agreement(one, other):
    """Of how many bits two lists of words have in common."""
    return two_sided(scipy.stats.binom(32 * one.size, 0.5), np.bitwise_count(one ^ other).sum(dtype=np.int64))


def as_uniforms(words):
    return (words + 0.5) / 2.0**32


def words_of(key, count):
    return np.asarray(jax.random.bits(key, (count,), jnp.uint32))


def as_key(words):
    return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl=streams.STREAM)


def test_one_number_of_a_stream_is_the_one_that_is_drawn_with_its_neighbours():
    key = streams.key(7)
    counters = jnp.arange(1000, dtype=jnp.uint32)
    drawn = jax.random.uniform(key, (1000,), jnp.float32)
    np.testing.assert_array_equal(streams.uniform_at(streams.words_of(key), counters), drawn)


def test_keys_of_other_kinds_have_two_words_of_their_own():
    words = [np.asarray(streams.words_of(jax.random.key(seed))) for seed in range(3)]
    assert all(one.shape == (2,) and one.dtype == np.uint32 for one in words)
    assert len({tuple(one) for one in words}) == 3


AXES = ("seed", "iteration", "lane", "purpose", "counter")


def numbers_of_a_sampler(num_seeds, num_iterations, num_lanes, count):
    """Words with an axis for everything that tells two numbers of the learner's apart, derived as it derives them."""

    def of_lane(key):
        return jax.vmap(lambda one: jax.random.bits(one, (count,), jnp.uint32))(jax.random.split(key, 3))

    def of_iteration(key, iteration):
        lane_key, _ = jax.random.split(jax.random.fold_in(key, iteration))
        return jax.vmap(of_lane)(jax.random.split(lane_key, num_lanes))

    def of_seed(seed):
        key = jax.random.fold_in(jax.random.fold_in(streams.key(seed), 0), 0)
        return jax.vmap(lambda iteration: of_iteration(key, iteration))(jnp.arange(num_iterations))

    return np.asarray(jax.jit(jax.vmap(of_seed))(jnp.arange(num_seeds)))


@pytest.fixture(scope="module")
def numbers():
    return numbers_of_a_sampler(8, 8, 256, 64)


# What keys promise.


def plain_hash(key, counter):
    """The number of a key at a counter, in Python's whole numbers."""
    word = counter
    for part in key:
        word = (word + part) % 2**32
        for shift, factor in ((16, 0x21F0AAAD), (15, 0xD35A2D97)):
            word = (word ^ (word >> shift)) * factor % 2**32
        word ^= word >> 15
    return word


@pytest.mark.parametrize("words", [(0, 1), (123456789, 987654321), (2**32 - 1, 2**31)])
def test_numbers_are_those_of_whole_number_arithmetic(words):
    key = as_key(words)
    plain = [plain_hash(words, counter) for counter in range(12)]
    assert jax.random.bits(key, (3, 4), jnp.uint32).ravel().tolist() == plain
    assert jax.random.bits(key, (12,), jnp.uint16).tolist() == [word % 2**16 for word in plain]
    assert jax.random.bits(key, (12,), jnp.uint8).tolist() == [word % 2**8 for word in plain]
    pairs = [high * 2**32 + low for high, low in zip(plain[::2], plain[1::2], strict=True)]
    assert jax.random.bits(key, (6,), jnp.uint64).tolist() == pairs


def test_the_same_seed_gives_the_same_numbers_and_another_others():
    once, again, other = (words_of(streams.key(seed), 1000) for seed in (7, 7, 8))
    assert np.array_equal(once, again)
    # Two lists of independent words meet in a place once in 2^32.
    assert not (once == other).any()


def test_keys_are_the_same_with_and_without_double_precision():
    seeds = [0, 1, 7, 2**31 - 1, 2**32 - 1]
    double = [jax.random.key_data(streams.key(seed)).tolist() for seed in seeds]
    with jax.enable_x64(False):
        single = [jax.random.key_data(streams.key(seed)).tolist() for seed in seeds]
        word = jax.random.bits(streams.key(3), (), jnp.uint32)
    assert single == double
    assert word == jax.random.bits(streams.key(3), (), jnp.uint32)


def test_both_halves_of_a_large_seed_count():
    seeds = [5, 2**32 + 5, 2**33 + 5, 2**62 + 5, 5 * 2**32]
    assert len({tuple(jax.random.key_data(streams.key(seed)).tolist()) for seed in seeds}) == len(seeds)


def test_the_kind_of_a_key_is_known():
    assert streams.is_stream(streams.key(0))
    assert streams.is_stream(jax.random.split(streams.key(0), 3))
    assert not streams.is_stream(jax.random.key(0))


def test_children_differ_from_each_other_and_from_their_parent():
    key = streams.key(1)
    parents = [jax.random.key_data(key)[None]]
    split = jax.random.key_data(jax.random.split(key, 2**12))
    folded = jax.random.key_data(jax.vmap(lambda data: jax.random.fold_in(key, data))(jnp.arange(2**12)))
    grandchildren = jax.random.key_data(jax.random.split(jax.random.split(key)[0], 2**12))
    family = np.concatenate([*parents, split, folded, grandchildren])
    assert len(np.unique(family, axis=0)) == len(family)


def test_children_share_no_words_with_the_numbers_of_their_parent():
    key, count = streams.key(1), 2**16
    own = words_of(key, count)
    split = jax.random.split(key, count)
    folded = jax.vmap(lambda data: jax.random.fold_in(key, data))(jnp.arange(count))
    for children in (split, folded):
        words = np.asarray(jax.random.key_data(children))
        for position in range(2):
            # Independent words meet by chance, in about one of 2^32 pairs.
            common = len(np.intersect1d(own, words[:, position]))
            assert_likely(scipy.stats.poisson(count**2 / 2**32).sf(common - 1))
        # Nor are a child's numbers those of its parent, moved on.
        numbers = np.asarray(jax.vmap(lambda child: jax.random.bits(child, (8,), jnp.uint32))(children[:1000]))
        common = np.isin(numbers, own).sum()
        assert_likely(scipy.stats.poisson(numbers.size * count / 2**32).sf(common - 1))


def test_a_child_depends_on_its_name_alone():
    key = streams.key(2)
    many = jax.random.key_data(jax.random.split(key, 12))
    assert np.array_equal(many[:5], jax.random.key_data(jax.random.split(key, 5)))
    assert np.array_equal(many.reshape(3, 4, 2), jax.random.key_data(jax.random.split(key, (3, 4))))
    longer = words_of(key, 100)
    assert np.array_equal(longer[:30], words_of(key, 30))


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("bit_width", [8, 16, 32, 64])
def test_bits_of_lanes_are_those_of_vmap_with_the_lanes_last(bit_width, shape):
    dtype = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32, 64: jnp.uint64}[bit_width]
    keys = jax.random.split(streams.key(3), 7)
    found = streams.bits_of_lanes(keys, bit_width, shape)
    one_by_one = jnp.stack([jax.random.bits(key, shape, dtype) for key in keys], axis=-1)
    by_vmap = jax.vmap(lambda key: jax.random.bits(key, shape, dtype), out_axes=-1)(keys)
    assert found.dtype == dtype
    assert np.array_equal(found, one_by_one)
    assert np.array_equal(found, by_vmap)
    assert len(np.unique(found)) > 1


DRAWS = {
    "bits": lambda key: jax.random.bits(key, (50,), jnp.uint32),
    "uniform": lambda key: jax.random.uniform(key, (50,), float),
    "uniform in single precision": lambda key: jax.random.uniform(key, (50,), jnp.float32),
    "integers": lambda key: jax.random.randint(key, (50,), 0, 1000, jnp.int32),
    "permutation": lambda key: jax.random.permutation(key, 50),
    "split": lambda key: jax.random.key_data(jax.random.split(key, 50)),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 50)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_or_not_in_a_batch_or_alone_numbers_are_the_same(name):
    keys = jax.random.split(streams.key(4), 6)
    alone = np.stack([DRAWS[name](key) for key in keys])
    assert np.array_equal(jax.vmap(DRAWS[name])(keys), alone)
    assert np.array_equal(jax.jit(jax.vmap(DRAWS[name]))(keys), alone)
    assert len(np.unique(alone, axis=0)) == 6


# Whether the numbers can be told from chance.


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_uniform_numbers_are_uniform(dtype):
    count = 2**20
    uniforms = np.asarray(jax.random.uniform(streams.key(5), (count,), dtype), float)
    assert uniforms.min() >= 0
    assert uniforms.max() < 1
    # A kolmogorov test is for a continuous distribution: steps of 2^-23 are 1/8000 of its resolution here.
    assert_likely([p_of_counts(np.histogram(uniforms, 1024, (0, 1))[0], 1 / 1024), p_of_kolmogorov(uniforms)])


def p_of_kolmogorov(uniforms):
    return scipy.stats.kstest(uniforms, "uniform", method="asymp").pvalue


def test_first_numbers_of_neighbouring_seeds_are_uniform():
    keys = jax.vmap(streams.key)(jnp.arange(2**18))
    first = np.asarray(jax.vmap(lambda key: jax.random.bits(key, (2,), jnp.uint32))(keys))
    top, low = first >> 22, first % 1024
    assert_likely([p_of_counts(np.bincount(part[:, i]), 1 / 1024) for part in (top, low) for i in range(2)])


def test_every_eight_bits_of_a_word_are_uniform(numbers):
    # The words of a stream in its own order, and all lanes at their first number, where the key alone decides.
    for words in (words_of(streams.key(6), 2**20), numbers[..., 0]):
        cells = [np.bincount((words.ravel() >> shift) % 256, minlength=256) for shift in range(0, 32, 8)]
        assert_likely([p_of_counts(counts, 1 / 256) for counts in cells])


@pytest.mark.parametrize("axis", AXES)
def test_neighbours_along_every_axis_are_independent(numbers, axis):
    along = np.moveaxis(numbers, AXES.index(axis), 0)
    p_values = []
    for lag in range(1, min(len(along), 5)):
        one, other = along[lag:], along[:-lag]
        # The top bits, the bits from below up, and how many bits agree.
        p_values.append(p_of_correlation(as_uniforms(one), as_uniforms(other)))
        p_values.append(p_of_correlation(as_uniforms(reversed_bits(one)), as_uniforms(reversed_bits(other))))
        p_values.append(p_of_correlation(as_uniforms(one), as_uniforms(reversed_bits(other))))
        p_values.append(p_of_agreement(one, other))
    assert_likely(p_values)


def reversed_bits(words):
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        words = ((words >> shift) & np.uint32(mask)) | ((words & np.uint32(mask)) << shift)
    return words


@pytest.mark.parametrize("axis", AXES)
def test_no_bit_of_a_number_sways_a_bit_of_its_neighbour(numbers, axis):
    along = np.moveaxis(numbers, AXES.index(axis), 0)
    one, other = (part.reshape(-1)[: 2**17] for part in (along[1:], along[:-1]))
    signs = [2.0 * ((part[:, None] >> np.arange(32, dtype=np.uint32)) & 1) - 1 for part in (one, other)]
    sums = signs[0].T @ signs[1]
    assert_likely(two_sided(scipy.stats.binom(len(one), 0.5), (sums + len(one)) / 2))


@pytest.mark.parametrize("axis", AXES)
def test_pairs_of_neighbours_fill_a_grid_evenly(numbers, axis):
    along = np.moveaxis(numbers, AXES.index(axis), -1)
    even = 2 * (along.shape[-1] // 2)
    pairs = along[..., :even].reshape(-1, 2)
    top, low = pairs >> 26, pairs % 64
    cells = [np.bincount(part[:, 0] * 64 + part[:, 1], minlength=4096) for part in (top, low)]
    assert_likely([p_of_counts(counts, 1 / 4096) for counts in cells])


def flips(one, other):
    """How often each of the 32 bits differs between two lists of words."""
    differ = one ^ other
    return np.stack([np.sum((differ >> bit) & 1, axis=-1, dtype=np.int64) for bit in np.arange(32, dtype=np.uint32)])


def assert_half_flips(one, others):
    """Each bit of a word differs from that of each of the others half of the time, and so many differ as of any two."""
    counts = np.stack([flips(one, other) for other in others])
    assert_likely(two_sided(scipy.stats.binom(one.size, 0.5), counts))
    exact = scipy.stats.binom(32, 0.5).pmf(np.arange(33))
    # Of few and of many flips there are too few: they are counted together.
    weights = np.array([exact[:9].sum(), *exact[9:24], exact[24:].sum()])
    for other in others:
        number = np.clip(np.bitwise_count(one ^ other), 8, 24) - 8
        assert_likely(p_of_counts(np.bincount(number.ravel(), minlength=17), weights) * len(others))


SAMPLE = 2**16


def flipped(keys, position):
    """Keys with each bit of one of their words flipped in turn."""
    masks = (np.uint32(1) << np.arange(32, dtype=np.uint32))[:, None] * np.eye(2, dtype=np.uint32)[position]
    return [as_key(keys ^ mask) for mask in masks]


def random_keys(seed):
    return np.random.default_rng(seed).integers(2**32, size=(SAMPLE, 2), dtype=np.uint32)


@pytest.mark.parametrize("counter", [0, 1, 99])
def test_a_flipped_bit_of_a_key_flips_half_of_a_number(counter):
    number = jax.jit(jax.vmap(lambda key: jax.random.bits(key, (counter + 1,), jnp.uint32)[-1]))
    keys = random_keys(0)
    one = np.asarray(number(as_key(keys)))
    first, second = ([np.asarray(number(key)) for key in flipped(keys, position)] for position in range(2))
    assert_half_flips(one, first)
    assert_about_half_flips(one, second)


def assert_about_half_flips(one, others):
    """The same for what is mixed once only, which leaves a bias of up to a hundredth; keys never differ in one bit."""
    counts = np.stack([flips(one, other) for other in others])
    distance = np.maximum(np.abs(counts - one.size / 2) - 0.01 * one.size, 0)
    assert_likely(2 * scipy.stats.binom(one.size, 0.5).sf(one.size / 2 + distance - 1))


def test_a_flipped_bit_of_a_counter_flips_half_of_a_number():
    count = 2**20
    words = words_of(streams.key(8), count)
    places = np.random.default_rng(1).integers(count, size=SAMPLE)
    assert_half_flips(words[places], [words[places ^ (1 << bit)] for bit in range(20)])


CHILDREN = {
    "split": lambda key: jax.random.key_data(jax.random.split(key)[1]),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 1)),
}


@pytest.mark.parametrize("name", CHILDREN)
def test_a_flipped_bit_of_a_key_flips_half_of_both_words_of_its_child(name):
    child = jax.jit(jax.vmap(CHILDREN[name]))
    keys = random_keys(2)
    one = np.asarray(child(as_key(keys)))
    for position in range(2):
        others = np.stack([child(key) for key in flipped(keys, position)])
        # Each word of a key is mixed twice into one word of its children, and once into the other.
        assert_half_flips(one[:, position], others[..., position])
        assert_about_half_flips(one[:, 1 - position], others[..., 1 - position])


def test_a_flipped_bit_of_a_seed_flips_half_of_a_number_of_a_run():
    # A run's numbers come from the stage's key, which is folded into the seed's.
    number = jax.jit(jax.vmap(lambda seed: jax.random.bits(jax.random.fold_in(streams.key(seed), 0), (), jnp.uint32)))
    seeds = np.random.default_rng(3).integers(2**32, size=SAMPLE)
    others = [np.asarray(number(jnp.asarray(seeds ^ (1 << bit)))) for bit in range(32)]
    assert_half_flips(np.asarray(number(jnp.asarray(seeds))), others)


def test_a_million_keys_and_their_children_are_all_different():
    # Of 3 x 2^20 random keys of 64 bits, two are the same with probability 2^-22.
    lanes = jax.random.split(streams.key(9), 2**20)
    children = jax.jit(jax.vmap(lambda key: jax.random.key_data(jax.random.split(key, 3))))(lanes)
    for words in (jax.random.key_data(lanes), children):
        pairs = np.asarray(words).reshape(-1, 2).astype(np.uint64)
        assert len(np.unique(pairs[:, 0] << np.uint64(32) | pairs[:, 1])) == len(pairs)


def test_numbers_of_different_lanes_coincide_as_often_as_by_chance():
    lanes = jax.random.split(streams.key(10), 2**21)
    first = np.asarray(jax.jit(jax.vmap(lambda key: jax.random.bits(key, (), jnp.uint32)))(lanes))
    coincidences = len(first) - len(np.unique(first))
    # All but the coincidences of three, of which there are none to speak of.
    assert_likely(two_sided(scipy.stats.poisson(len(first) ** 2 / 2**33), coincidences))


@pytest.mark.parametrize("axis", ["iteration", "lane", "counter"])
def test_spacings_of_birthdays_repeat_as_often_as_by_chance(axis):
    # Marsaglia: of the spacings of m birthdays in a year of n days, about Poisson(m^3 / 4n) repeat.
    birthdays, years = 2**12, 300
    sizes = {"num_iterations": years, "num_lanes": 1, "count": birthdays // 3 + 1}
    if axis == "iteration":
        sizes = {"num_iterations": birthdays, "num_lanes": 1, "count": years // 3}
    if axis == "lane":
        sizes = {"num_iterations": 1, "num_lanes": birthdays, "count": years // 3}
    words = numbers_of_a_sampler(1, **sizes)
    last = np.moveaxis(words, AXES.index(axis), -1).reshape(-1, words.shape[AXES.index(axis)])
    if axis == "counter":
        last = words.reshape(years, -1)[:, :birthdays]
    spacings = np.sort(np.diff(np.sort(last, axis=1), axis=1), axis=1)
    repeats = np.sum(spacings[:, 1:] == spacings[:, :-1])
    assert last.shape == (years, birthdays)
    assert_likely(two_sided(scipy.stats.poisson(years * birthdays**3 / 2**34), repeats))


@pytest.mark.parametrize("axis", ["lane", "counter"])
def test_gaps_and_runs_are_as_long_as_by_chance(numbers, axis):
    uniforms = as_uniforms(np.moveaxis(numbers, AXES.index(axis), -1)).ravel()
    p_values = []
    for low in (0.0, 0.45, 0.9):
        # How long it takes from one visit to a tenth of the interval to the next.
        visits = np.flatnonzero((uniforms >= low) & (uniforms < low + 0.1))
        gaps = np.bincount(np.minimum(np.diff(visits) - 1, 60))
        p_values.append(p_of_counts(gaps, np.append(0.1 * 0.9 ** np.arange(60), 0.9**60)))
    # Lengths of runs upwards are independent if the number that ends one is skipped (Knuth, section 3.3.2).
    ends = np.flatnonzero(np.diff(uniforms) < 0)
    lengths, start = [], 0
    for end in ends:
        if end >= start:
            lengths.append(end - start + 1)
            start = end + 2
    probs = np.array([1 / math.factorial(r) - 1 / math.factorial(r + 1) for r in range(1, 7)])
    runs = np.bincount(np.minimum(lengths, 7), minlength=8)[1:]
    p_values.append(p_of_counts(runs, np.append(probs, 1 - probs.sum())))
    assert_likely(p_values)


@pytest.mark.long
@pytest.mark.slow
def test_two_billion_numbers_of_a_sampler_look_like_chance():
    num_calls, num_batches, num_lanes, count = 2**6, 2**9, 2**9, 2**7
    total = num_calls * num_batches * num_lanes * count
    assert total == 2**31

    def sums(totals, iteration):
        """Ones at each bit, bits in which neighbours differ, and moments of numbers and of neighbours' products."""
        keys = jax.random.split(jax.random.split(jax.random.fold_in(streams.key(11), iteration))[0], num_lanes)
        words = jax.vmap(lambda key: jax.random.bits(key, (count,), jnp.uint32), out_axes=-1)(keys)
        pairs = (words[::2], words[1::2]), (words[:, ::2], words[:, 1::2])
        changes = [jnp.sum(jax.lax.population_count(one ^ other)) for one, other in pairs]
        centred, *twos = ([one.astype(jnp.float32) / 2**32 - 0.5 for one in given] for given in ((words,), *pairs))
        products = [centred[0], centred[0] ** 2, centred[0] ** 3, *(one * other for one, other in twos)]
        # A batch of 2^16 single-precision numbers is summed to about 1e-5; its standard deviation is above 10.
        moments = jnp.stack([jnp.sum(one) for one in products]).astype(float)
        found = ones_of_each_bit(words), jnp.stack(changes).astype(int), moments
        return jax.tree.map(jnp.add, totals, found), words[0]

    totals = jnp.zeros(32, int), jnp.zeros(2, int), jnp.zeros(5)
    cells = np.zeros(2**12, np.int64)
    call = jax.jit(lambda totals, iterations: jax.lax.scan(sums, totals, iterations))
    for first in range(0, num_calls * num_batches, num_batches):
        totals, part = call(totals, jnp.arange(first, first + num_batches))
        top = np.asarray(part).ravel() >> 26
        cells += np.bincount(top[::2] * 64 + top[1::2], minlength=2**12)
    ones, changes, moments = map(np.asarray, totals)
    assert_likely(two_sided(scipy.stats.binom(total, 0.5), ones))
    assert_likely(two_sided(scipy.stats.binom(16 * total, 0.5), changes))
    size = total * np.array([1, 1, 1, 0.5, 0.5])
    means, variances = np.array([0, 1 / 12, 0, 0, 0]), np.array([1 / 12, 1 / 180, 1 / 448, 1 / 144, 1 / 144])
    assert_likely(two_sided(scipy.stats.norm, (moments - size * means) / np.sqrt(size * variances)))
    assert_likely(p_of_counts(cells, 1 / 2**12))


def ones_of_each_bit(words):
    """How many words have each bit, from the lowest up; up to 255 at a time are counted in the bytes of a word."""
    counts = [jnp.sum((words >> shift) & 0x01010101, axis=0, dtype=jnp.uint32) for shift in range(8)]
    return jnp.stack([jnp.sum((counts[bit % 8] >> (bit - bit % 8)) & 255, dtype=int) for bit in range(32)])
