"use strict";
// The plan without runs, as cptlaw/answering/without_runs.py finds it: the best mix that keeps the limits, what stands
// beside it, batch and cost. `problem` is what is asked: `model` (a question of forecast.js without replay and tokens),
// `spend` {kind: target, tokens or flops, amount} and `limits` {forgetting, targetLoss, baseTargetLoss, risk}.

const LONGEST = 8; // standard deviations: beyond, a probability is 0 or 1

// The standard normal distribution, by Marsaglia's series.
function normalBelow(z) {
  if (Math.abs(z) >= LONGEST) return z > 0 ? 1 : 0;
  let term = z;
  let sum = z;
  for (let odd = 3; Math.abs(term) > 1e-18; odd += 2) {
    term *= (z * z) / odd;
    sum += term;
  }
  return 0.5 + sum * Math.exp(-0.5 * z * z) * 0.3989422804014327;
}

// Where an increasing function reaches a value, between two ends.
function bisected(increasing, value, low, high) {
  for (let i = 0; i < 60; i += 1) {
    const middle = 0.5 * (low + high);
    if (increasing(middle) <= value) low = middle;
    else high = middle;
  }
  return 0.5 * (low + high);
}

function normalQuantile(probability) {
  return bisected(normalBelow, probability, -LONGEST, LONGEST);
}

function probabilityBelow(said, limit) {
  return normalBelow(bisected((z) => quantile(said, z), limit, -LONGEST, LONGEST));
}

function tokensAt(problem, replay) {
  const { kind, amount } = problem.spend;
  if (kind === "target") return amount / (1 - replay);
  return kind === "tokens" ? amount : amount / (6 * problem.model.active);
}

function outcomesAt(problem, replay, tokens) {
  const question = { ...problem.model, replay, tokens };
  return { lost: outlook("forgetting", question), won: outlook("gain", question) };
}

// The gain that a limit on the target loss asks for; null where none is known.
function leastGain({ limits }) {
  return limits.targetLoss && limits.baseTargetLoss ? Math.log(limits.baseTargetLoss / limits.targetLoss) : null;
}

// What a mix costs and brings.
function mixAt(problem, replay, tokens = tokensAt(problem, replay)) {
  const { lost, won } = outcomesAt(problem, replay, tokens);
  const ends = [-Z90, 0, Z90];
  const least = leastGain(problem);
  return {
    replay,
    tokens,
    flops: 6 * problem.model.active * tokens,
    forgetting: ends.map((z) => quantile(lost, z)),
    gain: ends.map((z) => fall(quantile(won, z))),
    probability: problem.limits.forgetting == null ? null : probabilityBelow(lost, problem.limits.forgetting),
    targetProbability: least == null ? null : 1 - probabilityBelow(won, least),
  };
}

// The mix of the highest gain that keeps the limits, and the cheapest one that gains nearly as much; null where nothing
// keeps them. At each share of what may be spent, the least replay that keeps the limit is found by bisection.
function plansWithin(problem, risk = problem.limits.risk) {
  const { mostReplay, leastTokens, nearly } = PLANNING;
  const z = normalQuantile(risk);
  const limit = problem.limits.forgetting;
  const least = leastGain(problem);
  const found = [];
  for (let i = 0; i < 93; i += 1) {
    const spent = Math.pow(leastTokens, i / 92);
    const keeps = (replay) => {
      if (limit == null) return true;
      const question = { ...problem.model, replay, tokens: spent * tokensAt(problem, replay) };
      return quantile(outlook("forgetting", question), z) <= limit;
    };
    if (!keeps(mostReplay)) continue;
    let low = 0;
    let high = keeps(0) ? 0 : mostReplay;
    for (let step = 0; step < 24; step += 1) {
      const middle = 0.5 * (low + high);
      if (keeps(middle)) high = middle;
      else low = middle;
    }
    const tokens = spent * tokensAt(problem, high);
    const { won } = outcomesAt(problem, high, tokens);
    if (least != null && quantile(won, -z) < least) continue;
    found.push({ replay: high, tokens, gain: fall(quantile(won, 0)) });
  }
  if (!found.length) return null;
  const best = found.reduce((one, two) => (two.gain > one.gain ? two : one));
  const cheapest = found
    .filter((one) => one.gain >= nearly * best.gain)
    .reduce((one, two) => (two.tokens < one.tokens ? two : one));
  return { best: mixAt(problem, best.replay, best.tokens), cheapest: mixAt(problem, cheapest.replay, cheapest.tokens) };
}

// The least forgetting in reach with the probability that was asked for.
function leastForgetting(problem) {
  const z = normalQuantile(problem.limits.risk);
  const values = [];
  for (let i = 0; i <= Math.round(100 * PLANNING.mostReplay); i += 1) {
    const tokens = PLANNING.leastTokens * tokensAt(problem, i / 100);
    values.push(quantile(outcomesAt(problem, i / 100, tokens).lost, z));
  }
  return Math.min(...values);
}

// The place of the share furthest below the straight line from the first to the last.
function kneeOf(options) {
  const [first, last] = [options[0], options[options.length - 1]];
  const below = options.map((one) => {
    const along = (one.replay - first.replay) / (last.replay - first.replay);
    return first.forgetting[1] + (last.forgetting[1] - first.forgetting[1]) * along - one.forgetting[1];
  });
  return below.indexOf(Math.max(...below));
}

function bestBatch(n, tokens) {
  const law = NUMBERS.batch;
  return 1e6 * Math.exp(law.batch + law.batch_size * Math.log(n / 1e8) + law.batch_tokens * Math.log(tokens / 1e10));
}

// The middle, in logs, of the best batch for this run's tokens alone and for all that the model has read; less where it
// would leave a short run too few steps.
function advisedBatch({ n, active, ptpp }, tokens) {
  const low = bestBatch(active, tokens);
  const middle = Math.sqrt(low * bestBatch(active, tokens + n * ptpp));
  return Math.min(middle, Math.max(low, tokens / NUMBERS.leastSteps));
}

// hardware: device, count, mfu, price of an hour (null: not asked).
function costOf(flops, hardware) {
  const hours = flops / (DEVICES[hardware.device] * hardware.mfu) / 3600;
  return { hours, days: hours / hardware.count / 24, price: hardware.price == null ? null : hours * hardware.price };
}

// All that the page shows of a problem.
function answerOf(problem) {
  const { limits, model } = problem;
  const limited = limits.forgetting != null || leastGain(problem) != null;
  const options = PLANNING.shares.map((replay) => mixAt(problem, replay));
  const knee = options[kneeOf(options)];
  const plans = limited ? plansWithin(problem) : null;
  const result = { limited, feasible: limited ? plans != null : null, options, knee, plan: plans && plans.best };
  result.alternatives = [];
  if (plans) {
    const even = plansWithin(problem, 0.5);
    const safer = PLANNING.surer.filter((one) => one > limits.risk).map((one) => [one, plansWithin(problem, one)]);
    const able = safer.find(([, one]) => one != null);
    if (plans.cheapest.tokens < plans.best.tokens) result.alternatives.push({ name: "cheaper", ...plans.cheapest });
    if (able) result.alternatives.push({ name: "safer", risk: able[0], ...able[1].best });
    if (even && limits.risk > 0.5) result.alternatives.push({ name: "even odds", risk: 0.5, ...even.best });
    if (plans.best.replay > 0) result.alternatives.push({ name: "without replay", ...options[0] });
  } else if (limited) {
    result.blocking = plansWithin({ ...problem, limits: { ...limits, targetLoss: null } }) ? "target" : "forgetting";
    result.least = leastForgetting(problem);
  }
  const at = result.plan || knee;
  return { ...result, at, peak: model.peak, batch: advisedBatch(model, at.tokens) };
}
