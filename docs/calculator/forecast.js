"use strict";
// The forecast without runs: forgetting and gain of one run, as cptlaw/fitting/learned/forgetting_and_gain.py computes them, from the same
// numbers (NUMBERS in numbers.js). Everything else on this page reads `outlook` and `quantile` alone.

const DECADES = [5, 6, 7, 8, 9, 10, 11];
const TYPICAL = 0.3;
const LOW = 0.02;
const PEAK_SPREAD = 0.5;
const NEW = 0.3;
const NEW_SPREAD = 0.3;
const LEFT = 0.35;
const FLOOR = 0.004;
const Z90 = 1.6448536269514722;

function typicalPeak(n) {
  return 3e-4 * Math.pow(n / 1e9, -0.2);
}

// Weights of the knots of the walk over log10 parameters; the knot at 9 has none.
function sizeKnots(n) {
  const at = Math.min(Math.max(Math.log10(n), 5), 11);
  return DECADES.filter((decade) => decade !== 9).map((decade) => Math.max(0, 1 - Math.abs(at - decade)));
}

// question: n, ptpp, tokens, replay, shift, unread, pretrain and peak (0: not known), novelty (null: not known).
function outlook(outcome, question) {
  const law = NUMBERS[outcome];
  const { n, tokens, ptpp, replay } = question;
  const pretrain = question.pretrain || typicalPeak(n);
  const peak = question.peak || TYPICAL * pretrain;
  const relative = Math.log(peak / pretrain / TYPICAL);
  const low = Math.log1p(LOW / TYPICAL) - Math.log1p((LOW * pretrain) / peak);
  const newer = question.novelty == null ? 0 : question.novelty - NEW;
  const budget = -Math.log1p(200 / ptpp);
  const kinds = ["language", "domain", "code", "near"].map((kind) => (kind === question.shift ? 1 : 0));
  const amplitude = [1, ...kinds, ...sizeKnots(n), budget, relative, low, newer];
  const reach = [1, Math.log(tokens / n / 10), Math.log(n / 1e9), relative, Math.log(pretrain / 3e-4), budget];
  const split = amplitude.length;
  const dot = (columns, start) => columns.reduce((sum, value, i) => sum + value * law.mean[start + i], 0);
  const a = Math.exp(dot(amplitude, 0));
  const x = Math.exp(dot(reach, split));
  const cutoff = law.mean[law.mean.length - 1];
  let recovered = 0;
  let log;
  let rise;
  let byCutoff = 0;
  if (outcome === "forgetting") {
    const grown = Math.pow(1 + x, cutoff);
    const held = (grown - 1) / cutoff;
    const share = replay / (1 + replay * held);
    recovered = share * held;
    log = Math.log1p(x) - Math.log1p(replay * held);
    rise = (x - share * x * grown) / (1 + x);
    byCutoff = (-share * (grown * Math.log1p(x) - held)) / cutoff;
  } else {
    log = Math.log1p((1 - replay) * x);
    rise = ((1 - replay) * x) / (1 + (1 - replay) * x);
  }
  const slope = log > 1e-12 ? rise / log : 1;
  const gradient = [...amplitude, ...reach.map((value) => slope * value), log > 1e-12 ? byCutoff / log : 0];
  let variance = law.noise ** 2 + law.between_amplitude ** 2 + (slope * law.between_reach) ** 2;
  gradient.forEach((one, i) => {
    const row = law.covariance[i];
    let sum = 0;
    for (let j = 0; j < gradient.length; j += 1) sum += row[j] * gradient[j];
    variance += one * sum;
  });
  if (question.novelty == null) variance += (law.mean[split - 1] * NEW_SPREAD) ** 2;
  if (!question.pretrain) {
    const ofLow = (law.mean[split - 2] * LOW) / (LOW + peak / pretrain);
    const ofRelative = slope * law.mean[split + 3] + law.mean[split - 3] + ofLow;
    variance += ((slope * law.mean[split + 4] - ofRelative) * PEAK_SPREAD) ** 2;
  }
  const tiny = Math.min(Math.max(7 - Math.log10(n), 0), 1);
  let rest = -a * (law.back + law.back_tiny * tiny) * recovered;
  let learned = { part: 0, spread: 0 };
  if (outcome === "forgetting") {
    const left = Math.pow(ptpp / 100, -LEFT) * (1 - Math.pow(1 + (replay * tokens) / n / ptpp, -LEFT));
    rest -= (law.own_gain * left * x) / (1 + x);
    if (question.unread && replay > 0) {
      const read = { shift: "near", novelty: null, tokens: Math.max(replay * tokens, 1), replay: 0 };
      learned = outlook("gain", { ...question, ...read });
    }
  }
  const wide = Math.hypot(law.between_back * a * recovered, Math.min(FLOOR, 0.25 * a * log));
  return { part: a * log, spread: Math.sqrt(variance), rest, wide, learned };
}

// The value of an outcome that is not exceeded with the probability of z standard deviations.
function quantile(said, z) {
  const learned = said.learned.part * Math.expm1(-z * said.learned.spread);
  const away = Math.hypot(said.part * Math.expm1(z * said.spread), z * said.wide, learned);
  return said.part + said.rest - said.learned.part + Math.sign(z) * away;
}

// The gain is the log of the base model's target loss over the target loss; people read the fall of that loss.
function fall(gain) {
  return -Math.expm1(-gain);
}

// Forgetting and the fall of the target loss: low end, median and high end of 90 % intervals.
function forecast(question) {
  const ends = [-Z90, 0, Z90];
  const lost = outlook("forgetting", question);
  const won = outlook("gain", question);
  return { forgetting: ends.map((z) => quantile(lost, z)), gain: ends.map((z) => fall(quantile(won, z))) };
}
