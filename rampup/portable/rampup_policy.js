/* A learned policy in use, for browsers: reads what `rampup export` wrote and answers arrivals one by one.
 *
 *   const policy = RampupPolicy.load(await (await fetch("policy.json")).text());
 *   const episode = policy.begin();
 *   episode.decide({record: true});   // {number: 1, decision: "reject", probability: 1, state: {...}}
 */
"use strict";
const RampupPolicy = (() => {
  const FORMAT = "rampup-policy", VERSION = 1;

  function load(text) {
    let file;
    try { file = JSON.parse(text); } catch { throw new Error("this is not a policy file, or it was cut short."); }
    if (!file || file.format !== FORMAT) throw new Error("this is not a policy file of Rampup.");
    if (!(Number.isInteger(file.version) && file.version >= 1 && file.version <= VERSION)) {
      throw new Error(`the policy file has version ${file.version}, this reader knows up to ${VERSION}.`);
    }
    if (file.sha256 !== sha256(canonical(text))) {
      throw new Error("the policy file was changed after it was written: its checksum does not fit.");
    }
    if (!file.rules) throw new Error("the policy file was not exported: make one with `rampup export`.");
    if (!Object.hasOwn(PROBLEMS, file.problem)) throw new Error(`this reader does not know the problem ${file.problem}.`);
    const problem = PROBLEMS[file.problem](file.rules);
    const dot = dotOf(file.features, problem.degrees, file.rules.horizon);

    function probabilities(variables) {
      let logits = variables.map((row) => dot(file.theta, row));
      // Accept or reject: reject's logit is zero.
      if (logits.length === 1) logits = [0, ...logits];
      const top = Math.max(...logits), parts = logits.map((one) => Math.exp(one - top));
      const total = parts.reduce((a, b) => a + b);
      return parts.map((one) => one / total);
    }

    function begin() {
      let number = 0, state = problem.begin();
      const isOver = () => problem.isOver(number, state);
      function decide(arrival, uniform) {
        if (isOver()) throw new Error("the episode is over: nothing more can be decided.");
        const seen = problem.seen(arrival, state);
        const probs = probabilities(problem.variables(number + 1, seen, state)), possible = problem.possible(seen, state);
        // What cannot be done comes to doing nothing.
        const shares = probs.map((one, i) => (possible[i] ? one : 0));
        probs.forEach((one, i) => { if (!possible[i]) shares[0] += one; });
        let action = shares.indexOf(Math.max(...shares));
        if (uniform !== undefined) {
          let edge = 0;
          action = 0;
          for (const share of shares.slice(0, -1)) { edge += share; if (uniform >= edge) action++; }
        }
        state = problem.step(seen, state, action);
        number++;
        return {
          number, decision: problem.nameOf(action), probability: shares[action],
          state: { ...problem.told(number, state), is_over: isOver() },
        };
      }
      return { decide, get isOver() { return isOver(); } };
    }
    return { probabilities, begin, document: file };
  }

  // The file in the one spelling that its checksum is of: keys in order, no blanks, numbers and texts as they are written.
  function canonical(text) {
    const token = /\s*([{}[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}[\],:"]+)/y;
    const next = () => token.exec(text)[1];
    function value(first, isWhole) {
      if (first !== "{" && first !== "[") return first;
      const entries = [], end = first === "{" ? "}" : "]";
      for (let mark = next(); mark !== end; mark = next()) {
        if (mark === ",") continue;
        if (first === "[") { entries.push(["", value(mark)]); continue; }
        next();
        entries.push([JSON.parse(mark), mark + ":" + value(next())]);
      }
      const kept = entries.filter(([key]) => !(isWhole && key === "sha256"));
      if (first === "{") kept.sort(([one], [other]) => (one < other ? -1 : 1));
      return first + kept.map(([, entry]) => entry).join(",") + end;
    }
    return value(next(), true);
  }

  // FIPS 180-4. Browsers have one of their own, but not on pages that come from a disk, and not at once.
  function sha256(text) {
    const bytes = new TextEncoder().encode(text), primes = [];
    for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime)) primes.push(n);
    const fraction = (number) => ((number - Math.floor(number)) * 2 ** 32) >>> 0;
    const constants = primes.map((prime) => fraction(Math.cbrt(prime)));
    const hash = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
    const padded = new DataView(new ArrayBuffer((((bytes.length + 8) >> 6) + 1) << 6));
    bytes.forEach((byte, i) => padded.setUint8(i, byte));
    padded.setUint8(bytes.length, 0x80);
    padded.setUint32(padded.byteLength - 8, Math.floor(bytes.length / 2 ** 29));
    padded.setUint32(padded.byteLength - 4, (bytes.length << 3) >>> 0);
    const turned = (word, count) => (word >>> count) | (word << (32 - count)), words = [];
    for (let start = 0; start < padded.byteLength; start += 64) {
      let [a, b, c, d, e, f, g, h] = hash;
      for (let t = 0; t < 64; t++) {
        if (t < 16) words[t] = padded.getUint32(start + 4 * t);
        else {
          const early = words[t - 15], late = words[t - 2];
          words[t] = (words[t - 16] + (turned(early, 7) ^ turned(early, 18) ^ (early >>> 3)) + words[t - 7]
            + (turned(late, 17) ^ turned(late, 19) ^ (late >>> 10))) | 0;
        }
        const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + constants[t] + words[t]) | 0;
        const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
      }
      [a, b, c, d, e, f, g, h].forEach((word, i) => { hash[i] = (hash[i] + word) >>> 0; });
    }
    return hash.map((word) => word.toString(16).padStart(8, "0")).join("");
  }

  function numberOf(value, name, low, high) {
    if (typeof value !== "number" || !Number.isFinite(value)) throw new Error(`\`${name}\` must be a finite number.`);
    if (!(low <= value && value <= high)) throw new Error(`\`${name}\` must be between ${low} and ${high}, got ${value}.`);
    return value;
  }

  // Without a target nothing is ever reached, and nothing is seen of the way to it.
  const isReached = (collected, target) => target !== undefined && collected >= target;
  const partOf = (collected, target) => (target === undefined ? [] : [collected / target]);

  const PROBLEMS = {
    bcp: ({ horizon }) => ({
      degrees: [null, 2],
      begin: () => ({ best: null, accepted: false }),
      isOver: (number, state) => number >= horizon || state.accepted,
      seen(arrival, state) {
        if (typeof arrival.record === "boolean") return { isRecord: arrival.record, value: null };
        const value = numberOf(arrival.value, "value", -Infinity, Infinity);
        return { isRecord: state.best === null || value > state.best, value };
      },
      variables: (number, seen) => [[number / horizon, Number(seen.isRecord)]],
      possible: () => [true, true],
      step: (seen, state, action) => ({
        best: seen.isRecord && seen.value !== null ? seen.value : state.best, accepted: action === 1,
      }),
      nameOf: (action) => ["reject", "accept"][action],
      told: (number, state) => ({ arrivals_left: horizon - number, best_so_far: state.best }),
    }),
    // Arrivals come in the user's units; the policy was learned in others.
    okd: ({ horizon, budget, target, largest_size, largest_value, units = { size: 1, value: 1 } }) => ({
      degrees: Array(target === undefined ? 4 : 5).fill(null),
      begin: () => ({ used: 0, value: 0 }),
      isOver: (number, state) => number >= horizon || isReached(state.value, target),
      seen: (arrival) => ({
        size: numberOf(arrival.size, "size", 0, largest_size), value: numberOf(arrival.value, "value", 0, largest_value),
      }),
      variables: (number, seen, state) =>
        [[number / horizon, seen.size / units.size, seen.value / units.value, state.used / (budget || 1), ...partOf(state.value, target)]],
      possible: (seen, state) => [true, state.used + seen.size <= budget],
      step: (seen, state, action) =>
        action === 0 ? state : { used: state.used + seen.size, value: state.value + seen.value },
      nameOf: (action) => ["leave", "take"][action],
      told: (number, state) => ({
        arrivals_left: horizon - number, room_left: budget - state.used, value: state.value,
        is_reached: isReached(state.value, target),
      }),
    }),
    adw: ({ horizon, target, advertisers, highest_bids, budgets: full = Array(advertisers).fill(1), units = { bid: 1 } }) => ({
      degrees: Array(target === undefined ? 3 : 4).fill(null),
      begin: () => ({ budgets: [...full], revenue: 0 }),
      isOver: (number, state) => number >= horizon || isReached(state.revenue, target),
      seen(arrival) {
        if (!Array.isArray(arrival.bids) || arrival.bids.length !== advertisers) {
          throw new Error(`\`bids\` must be a list of ${advertisers} numbers.`);
        }
        return arrival.bids.map((bid, i) => numberOf(bid, `bids[${i}]`, 0, highest_bids[i]));
      },
      variables: (number, seen, state) => [0, ...seen].map((bid, i) =>
        [number / horizon, bid / units.bid, i === 0 ? 0 : state.budgets[i - 1] / units.bid, ...partOf(state.revenue, target)]),
      possible: (seen, state) => [true, ...seen.map((bid, i) => state.budgets[i] >= bid)],
      step(seen, state, action) {
        if (action === 0) return state;
        const budgets = state.budgets.map((one, i) => (i === action - 1 ? one - seen[i] : one));
        return { budgets, revenue: state.revenue + seen[action - 1] };
      },
      nameOf: (action) => (action === 0 ? null : action - 1),
      told: (number, state) => ({
        arrivals_left: horizon - number, budgets: state.budgets, revenue: state.revenue,
        is_reached: isReached(state.revenue, target),
      }),
    }),
    choice: ({ horizon, picks, largest_value }) => ({
      degrees: [null, null, picks > 1 ? null : 1],
      begin: () => ({ values: [], left: picks }),
      isOver: (number, state) => number >= horizon || state.left === 0,
      seen: (arrival) => (largest_value === undefined
        ? numberOf(arrival.value, "value", -Infinity, Infinity) : numberOf(arrival.value, "value", 0, largest_value)),
      variables(number, seen, state) {
        // Ranks are seen as 1, 1/2, 1/3, ..; of two that are equal the earlier is better.
        const rank = 1 + state.values.filter((value) => value >= seen).length;
        return [[number / horizon, largest_value === undefined ? 1 / rank : seen, state.left / picks]];
      },
      possible: () => [true, true],
      step: (seen, state, action) => ({ values: [...state.values, seen], left: state.left - action }),
      nameOf: (action) => ["reject", "accept"][action],
      told: (number, state) => ({
        arrivals_left: horizon - number, picks_left: state.left,
        best_so_far: state.values.length === 0 ? null : Math.max(...state.values),
      }),
    }),
  };
  PROBLEMS.okd_value = PROBLEMS.okd;
  PROBLEMS.adw_value = PROBLEMS.adw;

  const BASES = {
    monomial: (value, count) => Array.from({ length: count }, (_, power) => value ** power),
    legendre(value, count) {
      const z = 2 * value - 1, found = [1, z];
      for (let k = 1; k < count - 1; k++) found.push(((2 * k + 1) * z * found[k] - k * found[k - 1]) / (k + 1));
      return found.slice(0, count);
    },
  };

  function dotOf(features, known, horizon) {
    const [name, degree] = features.split(":");
    if (name === "one_hot") return (theta, row) => theta[2 * Math.round(row[0] * horizon - 1) + Math.round(row[1])];
    const degrees = known.map((one) => one || Number(degree));
    return (theta, row) => {
      // The first variable's degree runs fastest: contract it first.
      let rest = theta;
      row.forEach((value, i) => {
        const count = degrees[i], powers = BASES[name](value, count), next = [];
        for (let start = 0; start < rest.length; start += count) {
          let sum = 0;
          for (let k = 0; k < count; k++) sum += rest[start + k] * powers[k];
          next.push(sum);
        }
        rest = next;
      });
      return rest[0];
    };
  }

  return { load, sha256 };
})();
if (typeof module !== "undefined") module.exports = RampupPolicy;
