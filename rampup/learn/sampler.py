"""Algorithm 4: episodes that branch at a given step, to estimate the advantage of the action taken there."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rampup import policy as policies
from rampup import registers, streams
from rampup.features import Features, Polynomial
from rampup.lanes import Whole, in_single_precision, is_laned, over_lanes, settled, some_lanes, whole
from rampup.problems.base import Problem
from rampup.types import Flag, Key, LogProbs, Observation, PolicyFn, Real, Theta


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
    theta: Theta
    behaviour: Behaviour | None
    entropy: _Entropy | None


class _Dice(NamedTuple):
    """All that chance decides about a lane."""

    instance: Any
    uniforms: Float[Array, " time"]
    branch_uniform: Real
    coin: Real


class _Lane(NamedTuple):
    """What is fixed of a lane before it is played."""

    instance: Any
    branch_uniform: Any
    branch_step: Any
    is_override: Any
    """Whether it acts at its branch as after it."""


class _Side(NamedTuple):
    """A lane under way: whether it goes on, and what it has earned since its branch."""

    state: Any
    is_alive: Any
    earned: Any


class _Look(NamedTuple):
    """The logits by which the learner and the sampler would act now."""

    own: Float[Array, " row"]
    sampler: Float[Array, " row"]


class _Seen(NamedTuple):
    observation: Observation
    action: Int[Array, ""]
    is_alive: Flag


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
) -> Branches:
    """Play `num_lanes` episodes for each branch step h = 0..H-1, in single precision.

    Args:
        regularisation: None where it is known when compiling that there is none.
        behaviour: None where it is known when compiling that the learner itself rolls in.
        num_branches: visit only so many steps, one at random in each of as many equal parts of the horizon.
        is_paired: play both sides of the coin on the same instance with the same random numbers, instead of one.
        sampler_fn: pi_s as any policy, in place of the log-linear one of `behaviour`.
    """
    problem, theta, behaviour = in_single_precision((problem, theta, behaviour))
    entropy = None
    if regularisation is not None:
        entropy = _Entropy(jnp.asarray(regularisation, theta.dtype), jnp.asarray(clip, theta.dtype))
    player = _Player(problem, theta, behaviour, entropy)
    lane_key, step_key = jax.random.split(key)
    steps, stands_for = branch_steps(problem.horizon, num_branches or problem.horizon, step_key)

    def throw(key: Key) -> _Dice:
        instance_key, step_key, branch_key = jax.random.split(key, 3)
        uniforms = jax.random.uniform(step_key, (problem.horizon,), theta.dtype)
        return _Dice(problem.draw(instance_key), uniforms, *jax.random.uniform(branch_key, (2,), theta.dtype))

    total = len(steps) * num_lanes
    play = _play_in_kernel if _fits_a_kernel(player, features, sampler_fn) else _play_in_step
    filled = total if play is _play_in_step else registers.filled(total)
    dice = over_lanes(throw, filled, Whole(jax.random.split(lane_key, filled)))
    coin = whole(dice.coin, filled)[:total]

    def played(is_override: Bool[Array, " lane"]) -> tuple[_Seen, Float[Array, " lane"]]:
        """Play every lane to its end: what it met at its branch, and what it earned from there on."""
        return play(player, features, sampler_fn, dice, steps, is_override, num_lanes)

    if is_paired:
        seen, for_action = played(jnp.zeros_like(coin, bool))
        advantage = for_action - played(jnp.ones_like(coin, bool))[1]
    else:
        # The coin of Algorithm 4 decides which side is played, with weight 2; a pair plays both, with weight 1.
        seen, earned = played(coin < 0.5)
        advantage = jnp.where(coin < 0.5, -2 * earned, 2 * earned)
    weight = jnp.where(seen.is_alive, jnp.repeat(stands_for, num_lanes), 0.0)
    observation = jnp.where(seen.is_alive, seen.observation, 0.0)
    return Branches(jax.vmap(problem.variables, in_axes=-1)(observation), seen.action, weight, advantage)


def _look(player: _Player, features: Features, sampler_fn: PolicyFn | None, instance: Any, state: Any) -> _Look:
    """What a lane is about to act on."""
    problem, theta, behaviour = player.problem, player.theta, player.behaviour
    observation = problem.observe(instance, state)
    variables = problem.variables(observation)
    logits_of = lambda theta: policies.logits(features, theta, variables, problem.shared_variables)
    own = logits_of(theta)
    if behaviour is None:
        return _Look(own, own)
    if sampler_fn is not None:
        # A policy from elsewhere sees what it would see in any other episode.
        return _Look(own, sampler_fn(observation.astype(float)).astype(theta.dtype))
    return _Look(own, logits_of(behaviour.theta))


def _advance(
    player: _Player,
    features: Features,
    sampler_fn: PolicyFn | None,
    lane: _Lane,
    step: Int[Array, ""],
    uniform: Real,
    side: _Side,
    looked: _Look,
) -> tuple[tuple[_Side, _Look], _Seen]:
    """Take one lane one step further; and what it sees and would do if it branched here."""
    problem, behaviour = player.problem, player.behaviour
    own = policies.shares(looked.own)
    before, at = own, own
    if behaviour is not None:
        before = _either(behaviour.is_fixed, policies.shares(looked.sampler), own)
        at = _either(behaviour.is_fixed, _equal_shares(own), own)
    candidate = policies.choose_by(at, lane.branch_uniform)
    is_before, takes_candidate = step < lane.branch_step, (step == lane.branch_step) & ~lane.is_override
    action = policies.choose_by(_either(is_before, before, own), uniform)
    state, reward, goes_on = problem.step(lane.instance, side.state, jnp.where(takes_candidate, candidate, action))
    gain = reward.astype(player.theta.dtype)
    if player.entropy is not None:
        log_probs = policies.log_shares(looked.own)
        surprise = jnp.minimum(-policies.of_action(log_probs, candidate), player.entropy.clip)
        mean = -jnp.sum(own.probs * log_probs)
        gain = gain + player.entropy.price * jnp.where(takes_candidate, surprise, mean)
    earned = side.earned + jnp.where(side.is_alive & ~is_before, gain, 0.0)
    seen = _Seen(problem.observe(lane.instance, side.state), candidate, side.is_alive)
    # What the next step acts on is computed here and handed on: compilers would repeat it wherever it is needed.
    looked = _look(player, features, sampler_fn, lane.instance, state)
    return (_Side(state, side.is_alive & goes_on, earned), looked), seen


def _play_in_step(
    player: _Player,
    features: Features,
    sampler_fn: PolicyFn | None,
    dice: _Dice,
    steps: Int[Array, " branch"],
    is_override: Bool[Array, " lane"],
    num_lanes: int,
) -> tuple[_Seen, Float[Array, " lane"]]:
    """All lanes side by side, a step of all of them at a time."""
    problem, total = player.problem, len(is_override)
    uniforms = whole(dice.uniforms, total)
    lane_steps = jnp.repeat(steps, num_lanes)
    lane = _Lane(dice.instance, dice.branch_uniform, Whole(lane_steps), Whole(is_override))

    def take(carried, step: Int[Array, ""], uniform: Float[Array, " lane"]) -> tuple[tuple[_Side, _Look], _Seen]:
        advance = partial(_advance, player, features, sampler_fn)
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
        Whole(jnp.zeros(total, player.theta.dtype)),
    )
    first = steps[0], uniforms[0]
    looks = partial(_look, player, features, sampler_fn)
    opening = side, over_lanes(looks, total, dice.instance, side.state)
    opening = settled(lambda carried: take(carried, *first)[0], opening, total)
    shapes = jax.eval_shape(lambda carried: _whole(take(carried, *first)[1], total), opening)
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    clock = jnp.arange(problem.horizon, dtype=steps.dtype)
    blocks = jnp.minimum(jnp.searchsorted(steps, clock), len(steps) - 1).astype(steps.dtype)
    at = clock, blocks, steps[blocks] == clock, uniforms
    (((side, _), seen), _) = jax.lax.scan(decide, (opening, blank), at, unroll=_unroll(problem, features))
    return seen, whole(side.earned, total)


def _fits_a_kernel(player: _Player, features: Features, sampler_fn: PolicyFn | None) -> bool:
    """Whether episodes are played in registers: where that is faster, and there is a rule for all they do."""
    if jax.default_backend() == "cpu" or not isinstance(features, Polynomial) or sampler_fn is not None:
        return False
    instance = jax.eval_shape(player.problem.draw, streams.key(0))
    number, flag = (jax.ShapeDtypeStruct((), dtype) for dtype in (player.theta.dtype, jnp.bool_))
    uniforms = jax.ShapeDtypeStruct((player.problem.horizon,), player.theta.dtype)
    lane = _Lane(instance, number, jax.ShapeDtypeStruct((), jnp.int32), flag)
    return _loop(features).has_rules(player, (lane, uniforms))


def _loop(features: Features) -> registers.Loop:
    """A lane from its beginning to its end."""

    def begin(player: _Player, given: tuple[_Lane, Float[Array, " time"]]):
        lane, uniforms = given
        side = _Side(player.problem.init(lane.instance), jnp.ones((), bool), jnp.zeros((), uniforms.dtype))
        observation = player.problem.observe(lane.instance, side.state)
        seen = _Seen(jnp.zeros_like(observation), jnp.zeros((), jnp.int32), jnp.zeros((), bool))
        return side, _look(player, features, None, lane.instance, side.state), seen

    def advance(player: _Player, given: tuple[_Lane, Float[Array, " time"]], step: Int[Array, ""], carried):
        lane, uniforms = given
        side, looked, recorded = carried
        (side, looked), seen = _advance(player, features, None, lane, step, uniforms[step], side, looked)
        is_now = step == lane.branch_step
        return side, looked, jax.tree.map(lambda new, old: jnp.where(is_now, new, old), seen, recorded)

    return registers.Loop(begin, advance)


def _play_in_kernel(
    player: _Player,
    features: Features,
    sampler_fn: PolicyFn | None,
    dice: _Dice,
    steps: Int[Array, " branch"],
    is_override: Bool[Array, " lane"],
    num_lanes: int,
) -> tuple[_Seen, Float[Array, " lane"]]:
    """The same, a few lanes to their end at a time."""
    total = len(is_override)
    filled = registers.filled(total)
    extra = (0, filled - total)
    thrown = jax.tree.map(lambda leaf: whole(leaf, filled), dice, is_leaf=is_laned)
    branch_step = jnp.pad(jnp.repeat(steps, num_lanes), extra)
    lanes = _Lane(thrown.instance, thrown.branch_uniform, branch_step, jnp.pad(is_override, extra))
    side, _, seen = _loop(features).play(player.problem.horizon, player, (lanes, thrown.uniforms))
    cut = lambda leaf: leaf.array[..., :total]
    return jax.tree.map(cut, seen, is_leaf=is_laned), cut(side.earned)


def _unroll(problem: Problem, features: Features) -> int:
    """How many steps are one piece of program: on a GPU a piece costs a launch, and what is in it compile time."""
    if jax.default_backend() == "cpu":
        return 1
    # Best choice has 40 numbers a step, knapsack 486, AdWords 891: measured to take ten, three and one.
    return max(1, min(10, 1500 // (features.size * problem.num_actions)))


def _either(condition: Flag, one: policies.Shares, other: policies.Shares) -> policies.Shares:
    return jax.tree.map(lambda first, second: jnp.where(condition, first, second), one, other)


def _equal_shares(like: policies.Shares) -> policies.Shares:
    return policies.Shares(jnp.ones_like(like.parts), jnp.full_like(like.total, len(like.parts)))


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
