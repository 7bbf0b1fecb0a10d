"""Algorithm 4: episodes that branch at a given step, to estimate the advantage of the action taken there."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from rampup import kernels, registers, streams
from rampup import policy as policies
from rampup.devices import Share
from rampup.features import Features, Polynomial
from rampup.lanes import Whole, in_single_precision, is_laned, over_lanes, settled, some_lanes, whole
from rampup.problems.base import Problem
from rampup.types import Flag, Key, LogProbs, Observation, PolicyFn, Real, Theta

Logits = Float[Array, " row"]


class Behaviour(NamedTuple):
    """Who rolls in to the branch: the learner itself, or a fixed sampler pi_s followed by a uniform action."""

    is_fixed: Flag
    theta: Theta
    """pi_s as a log-linear policy; zero is the naive sampler, uniform over the actions."""


def roll_in_log_probs(
    problem: Problem,
    features: Features,
    behaviour: Behaviour,
    sampler_fn: PolicyFn | None,
    observation: Observation,
    own: LogProbs,
) -> LogProbs:
    """ln of the probabilities by which the learner (its own are given) or the fixed sampler acts before the branch."""
    if sampler_fn is not None:
        other = sampler_fn(observation).astype(own.dtype)
    else:
        other = policies.log_probs(features, behaviour.theta, problem.variables(observation))
    return jnp.where(behaviour.is_fixed, other, own)


def branch_log_probs(problem: Problem, behaviour: Behaviour, own: LogProbs) -> LogProbs:
    """The same at the branch, where a fixed sampler acts uniformly (the grafted distribution)."""
    return jnp.where(behaviour.is_fixed, jnp.full_like(own, -jnp.log(float(problem.num_actions))), own)


class Branches(NamedTuple):
    """What each lane saw and did at its branch, and its estimate of the advantage of that."""

    variables: Float[Array, "lane row var"]
    action: Int[Array, " lane"]
    weight: Float[Array, " lane"]
    """How many branch steps the lane stands for; 0 where the episode was over before the branch."""
    advantage: Float[Array, " lane"]


class _Entropy(NamedTuple):
    """What is paid for entropy, and for how much of it at most."""

    price: Real
    clip: Real


class _Player(NamedTuple):
    """What is the same in all lanes: the problem, who plays it, and what is paid for entropy."""

    problem: Problem
    features: Features
    thetas: Float[Array, "who feat"]
    """The learner's, then that of the sampler, if there may be one."""
    is_fixed: Flag | None
    """Whether the sampler rolls in; None where it is known when compiling that it does not."""
    sampler_fn: PolicyFn | None
    entropy: _Entropy | None


class _Dice(NamedTuple):
    """All that chance decides about a lane."""

    instance: Any
    words: UInt32[Array, "2"]
    """The key of the numbers that decide its actions, one a step."""
    branch_uniform: Real
    coin: Real


class _Lane(NamedTuple):
    """What is fixed of a lane before it is played."""

    instance: Any
    words: Any
    branch_uniform: Any
    branch_step: Any
    is_override: Any
    """Whether it acts at its branch as after it."""


class _Side(NamedTuple):
    """A lane under way: whether it goes on, and what it has earned since its branch."""

    state: Any
    is_alive: Any
    earned: Any


class _Seen(NamedTuple):
    observation: Observation
    action: Int[Array, ""]
    is_alive: Flag


# Products of matrices of a problem's or of features' own would else be rougher than single precision on a GPU.
@jax.default_matmul_precision("highest")
def branches(
    problem: Problem,
    features: Features,
    theta: Theta,
    behaviour: Behaviour | None,
    key: Key,
    *,
    num_lanes: int,
    regularisation: Real | float | None,
    clip: Real | float,
    num_branches: int | None = None,
    is_paired: bool = False,
    sampler_fn: PolicyFn | None = None,
    share: Share | None = None,
) -> Branches:
    """Play `num_lanes` episodes for each branch step h = 0..H-1, in single precision.

    Args:
        regularisation: None where it is known when compiling that there is none.
        behaviour: None where it is known when compiling that the learner itself rolls in.
        num_branches: visit only so many steps, one at random in each of as many equal parts of the horizon.
        is_paired: play both sides of the coin on the same instance with the same random numbers, instead of one.
        sampler_fn: pi_s as any policy, in place of the log-linear one of `behaviour`.
        share: play only this share of the lanes of each step; some of no weight may fill it up.
    """
    problem, theta, behaviour = in_single_precision((problem, theta, behaviour))
    entropy = None
    if regularisation is not None:
        entropy = _Entropy(jnp.asarray(regularisation, theta.dtype), jnp.asarray(clip, theta.dtype))
    thetas = jnp.stack([theta] if behaviour is None else [theta, behaviour.theta])
    player = _Player(problem, features, thetas, behaviour and behaviour.is_fixed, sampler_fn, entropy)
    lane_key, step_key = jax.random.split(key)
    steps, stands_for = branch_steps(problem.horizon, num_branches or problem.horizon, step_key)

    def throw(key: Key) -> _Dice:
        instance_key, step_key, branch_key = jax.random.split(key, 3)
        words = streams.words_of(step_key)
        return _Dice(problem.draw(instance_key), words, *jax.random.uniform(branch_key, (2,), theta.dtype))

    own, is_real, numbers = _lanes_of(share, len(steps), num_lanes)
    total = len(numbers)
    play = _play_in_kernel if _fits_a_kernel(player) else _play_in_step
    filled = total if play is _play_in_step else registers.filled(total)
    keys = streams.children(lane_key, jnp.pad(numbers, (0, filled - total)))
    dice = over_lanes(throw, filled, Whole(keys))
    coin = whole(dice.coin, filled)[:total]

    def played(is_override: Bool[Array, " lane"]) -> tuple[_Seen, Float[Array, " lane"]]:
        """Play every lane to its end: what it met at its branch, and what it earned from there on."""
        return play(player, dice, steps, is_override, own)

    if is_paired:
        seen, for_action = played(jnp.zeros_like(coin, bool))
        advantage = for_action - played(jnp.ones_like(coin, bool))[1]
    else:
        # The coin of Algorithm 4 decides which side is played, with weight 2; a pair plays both, with weight 1.
        seen, earned = played(coin < 0.5)
        advantage = jnp.where(coin < 0.5, -2 * earned, 2 * earned)
    weight = jnp.where(seen.is_alive & is_real, jnp.repeat(stands_for, own), 0.0)
    observation = jnp.where(seen.is_alive, seen.observation, 0.0).astype(theta.dtype)
    return Branches(jax.vmap(problem.variables, in_axes=-1)(observation), seen.action, weight, advantage)


def _lanes_of(
    share: Share | None, num_steps: int, num_lanes: int
) -> tuple[int, Bool[Array, " lane"], Int[Array, " lane"]]:
    """How many lanes of each branch step are in a share, which are not there only to fill it, and their numbers."""
    if share is None:
        return num_lanes, jnp.ones(num_steps * num_lanes, bool), jnp.arange(num_steps * num_lanes)
    own = -(-num_lanes // share.num_shares)
    lane = share.place * own + jnp.arange(own)
    numbers = num_lanes * jnp.arange(num_steps)[:, None] + lane[None, :]
    return own, jnp.tile(lane < num_lanes, num_steps), numbers.ravel()


def _look(
    player: _Player, lane: _Lane, step: Int[Array, ""], observation: Observation, *, is_kernel: bool = False
) -> Logits:
    """The logits by which a lane acts next: before its branch perhaps the sampler's, from there on the learner's."""
    problem, thetas = player.problem, player.thetas
    # A problem of the user's own may think in double precision.
    variables = problem.variables(observation).astype(thetas.dtype)
    logits_of = lambda theta: policies.logits(player.features, theta, variables, problem.shared_variables)
    if player.is_fixed is None:
        return logits_of(thetas[0])
    is_sampler = player.is_fixed & (step < lane.branch_step)
    if is_kernel:
        # Both vectors of coefficients would not fit into registers.
        return logits_of(jax.lax.dynamic_index_in_dim(thetas, is_sampler.astype(jnp.int32), keepdims=False))
    if player.sampler_fn is None:
        return jnp.where(is_sampler, logits_of(thetas[1]), logits_of(thetas[0]))
    # A policy from elsewhere sees what it would see in any other episode.
    other = policies.logits_of_log_probs(player.sampler_fn(observation.astype(float)), len(variables))
    return jnp.where(is_sampler, other.astype(thetas.dtype), logits_of(thetas[0]))


def _act(
    player: _Player,
    lane: _Lane,
    step: Int[Array, ""],
    uniform: Real,
    side: _Side,
    observation: Observation,
    logits: Logits,
) -> tuple[_Side, _Seen]:
    """Take one lane one step further; and what it sees and would do if it branched here."""
    problem = player.problem
    shares = policies.shares(logits)
    at_branch, is_fixed = shares, player.is_fixed
    if is_fixed is not None:
        equal = policies.Shares(jnp.ones_like(shares.parts), jnp.full_like(shares.total, len(shares.parts)))
        at_branch = jax.tree.map(lambda one, other: jnp.where(is_fixed, one, other), equal, shares)
    candidate = policies.choose_by(at_branch, lane.branch_uniform)
    takes_candidate = (step == lane.branch_step) & ~lane.is_override
    action = jnp.where(takes_candidate, candidate, policies.choose_by(shares, uniform))
    state, reward, goes_on = problem.step(lane.instance, side.state, action)
    gain = reward.astype(player.thetas.dtype)
    if player.entropy is not None:
        log_probs = policies.log_shares(logits)
        surprise = jnp.minimum(-policies.of_action(log_probs, candidate), player.entropy.clip)
        mean = -jnp.sum(shares.probs * log_probs)
        gain = gain + player.entropy.price * jnp.where(takes_candidate, surprise, mean)
    earned = side.earned + jnp.where(side.is_alive & (step >= lane.branch_step), gain, 0.0)
    return _Side(state, side.is_alive & goes_on, earned), _Seen(observation, candidate, side.is_alive)


def _play_in_step(
    player: _Player, dice: _Dice, steps: Int[Array, " branch"], is_override: Bool[Array, " lane"], num_lanes: int
) -> tuple[_Seen, Float[Array, " lane"]]:
    """All lanes side by side, a step of all of them at a time."""
    problem, total = player.problem, len(is_override)
    lane_steps = jnp.repeat(steps, num_lanes)
    lane = _Lane(dice.instance, dice.words, dice.branch_uniform, Whole(lane_steps), Whole(is_override))

    def observe(lane: _Lane, side: _Side) -> Observation:
        return problem.observe(lane.instance, side.state)

    def look(lane: _Lane, step: Int[Array, ""], side: _Side) -> Logits:
        return _look(player, lane, step, observe(lane, side))

    def advance(lane: _Lane, step: Int[Array, ""], uniform: Real, side: _Side, logits: Logits):
        side, seen = _act(player, lane, step, uniform, side, observe(lane, side), logits)
        # What the next step acts on is computed here and handed on: compilers would repeat it wherever it is needed.
        return (side, look(lane, step + 1, side)), seen

    def take(carried, step: Int[Array, ""], uniform: Float[Array, " lane"]):
        return over_lanes(advance, total, lane, step, Whole(uniform), *carried)

    def decide(carry, at: tuple[Int[Array, ""], Int[Array, ""], Flag, Float[Array, " lane"]]):
        carried, recorded = carry
        step, block, is_branch, uniform = at
        carried, seen = take(carried, step, uniform)
        if jax.default_backend() == "cpu":
            return (carried, _recorded_block(recorded, seen, block * num_lanes, is_branch, num_lanes)), None
        return (carried, _recorded(recorded, seen, lane_steps == step)), None

    side = _Side(
        over_lanes(problem.init, total, dice.instance),
        Whole(jnp.ones(total, bool)),
        Whole(jnp.zeros(total, player.thetas.dtype)),
    )
    clock = jnp.arange(problem.horizon, dtype=steps.dtype)
    uniforms = streams.uniform_at(whole(dice.words, total)[:, None], clock[:, None].astype(jnp.uint32))
    first = clock[0], uniforms[0]
    opening = side, over_lanes(look, total, lane, clock[0], side)
    opening = settled(lambda carried: take(carried, *first)[0], opening, total)
    shapes = jax.eval_shape(lambda carried: _whole(take(carried, *first)[1], total), opening)
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    blocks = jnp.minimum(jnp.searchsorted(steps, clock), len(steps) - 1).astype(steps.dtype)
    at = clock, blocks, steps[blocks] == clock, uniforms
    (((side, _), seen), _) = jax.lax.scan(decide, (opening, blank), at, unroll=_unroll(player))
    return seen, whole(side.earned, total)


def _begin(player: _Player, lane: _Lane) -> tuple[_Side, _Seen]:
    side = _Side(player.problem.init(lane.instance), jnp.ones((), bool), jnp.zeros((), player.thetas.dtype))
    observation = player.problem.observe(lane.instance, side.state)
    return side, _Seen(jnp.zeros_like(observation), jnp.zeros((), jnp.int32), jnp.zeros((), bool))


def _advance(player: _Player, lane: _Lane, step: Int[Array, ""], carried: tuple[_Side, _Seen]) -> tuple[_Side, _Seen]:
    side, recorded = carried
    uniform = streams.uniform_at(lane.words, step.astype(jnp.uint32))
    observation = player.problem.observe(lane.instance, side.state)
    logits = _look(player, lane, step, observation, is_kernel=True)
    side, seen = _act(player, lane, step, uniform, side, observation, logits)
    is_now = step == lane.branch_step
    return side, jax.tree.map(lambda new, old: jnp.where(is_now, new, old), seen, recorded)


_LOOP = registers.Loop(_begin, _advance)
"""A lane from its beginning to its end, as a kernel plays it."""


def _fits_a_kernel(player: _Player) -> bool:
    """Whether episodes are played in registers: where that is faster, and there is a rule for all they do."""
    if not kernels.can_be_had() or not isinstance(player.features, Polynomial) or player.sampler_fn is not None:
        return False
    instance = jax.eval_shape(player.problem.draw, streams.key(0))
    number, flag = (jax.ShapeDtypeStruct((), dtype) for dtype in (player.thetas.dtype, jnp.bool_))
    words = jax.ShapeDtypeStruct((2,), jnp.uint32)
    return _LOOP.has_rules(player, _Lane(instance, words, number, jax.ShapeDtypeStruct((), jnp.int32), flag))


def _play_in_kernel(
    player: _Player, dice: _Dice, steps: Int[Array, " branch"], is_override: Bool[Array, " lane"], num_lanes: int
) -> tuple[_Seen, Float[Array, " lane"]]:
    """The same, a few lanes to their end at a time."""
    total = len(is_override)
    filled = registers.filled(total)
    extra = (0, filled - total)
    thrown = jax.tree.map(lambda leaf: whole(leaf, filled), dice, is_leaf=is_laned)
    branch_step = jnp.pad(jnp.repeat(steps, num_lanes), extra)
    lanes = _Lane(thrown.instance, thrown.words, thrown.branch_uniform, branch_step, jnp.pad(is_override, extra))
    side, seen = _LOOP.play(player.problem.horizon, player, lanes)
    cut = lambda leaf: leaf.array[..., :total]
    return jax.tree.map(cut, seen, is_leaf=is_laned), cut(side.earned)


def _unroll(player: _Player) -> int:
    """How many steps are one piece of program: on a GPU a piece costs a launch, and what is in it compile time."""
    if jax.default_backend() == "cpu":
        return 1
    # Best choice has 40 numbers a step, knapsack 486, AdWords 891: measured to take ten, three and one.
    return max(1, min(10, 1500 // (player.features.size * player.problem.num_actions)))


def _whole(seen: _Seen, total: int) -> _Seen:
    return jax.tree.map(lambda leaf: whole(leaf, total), seen, is_leaf=is_laned)


def _recorded(recorded: _Seen, seen: _Seen, is_now: Bool[Array, " lane"]) -> _Seen:
    """Keep what those lanes have seen that branch now."""
    total = len(is_now)

    def keep(new, old):
        return jnp.where(jnp.broadcast_to(is_now, old.shape), whole(new, total), old)

    return jax.tree.map(keep, seen, recorded, is_leaf=is_laned)


def _recorded_block(recorded: _Seen, seen: _Seen, start: Int[Array, ""], is_branch: Flag, num_lanes: int) -> _Seen:
    """The same where it pays to touch no others: they lie side by side. On a GPU this would be a launch of its own."""

    def keep(new, old):
        kept = jax.lax.dynamic_slice_in_dim(old, start, num_lanes, -1)
        part = jnp.where(is_branch, some_lanes(new, start, num_lanes), kept)
        return jax.lax.dynamic_update_slice_in_dim(old, part, start, -1)

    return jax.tree.map(keep, seen, recorded, is_leaf=is_laned)


def branch_steps(horizon: int, count: int, key: Key) -> tuple[Int[Array, " branch"], Float[Array, " branch"]]:
    """One step of each of `count` equal parts of the horizon, at random, and how many steps it stands for."""
    edges = jnp.arange(count + 1, dtype=jnp.int32) * horizon // count
    lengths = jnp.diff(edges)
    return edges[:-1] + jax.random.randint(key, (count,), 0, lengths, jnp.int32), lengths.astype(jnp.float32)
