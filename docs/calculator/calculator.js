"use strict";
// The answer without runs, as cptlaw/answering/studies.py computes it, from the same numbers (numbers.js beside this file).

const DECADES = [5, 6, 7, 8, 9, 10, 11];
const TYPICAL = 0.3;
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
function walk(n) {
  const at = Math.min(Math.max(Math.log10(n), 5), 11);
  return DECADES.filter((decade) => decade !== 9).map((decade) => Math.max(0, 1 - Math.abs(at - decade)));
}

function expected(outcome, question) {
  const law = NUMBERS[outcome];
  const { n, tokens, ptpp, replay } = question;
  const pretrain = question.pretrain || typicalPeak(n);
  const peak = question.peak || TYPICAL * pretrain;
  const relative = Math.log(peak / pretrain / TYPICAL);
  const newer = question.novelty == null ? 0 : question.novelty - NEW;
  const budget = -Math.log1p(200 / ptpp);
  const kinds = ["language", "domain", "code", "near"].map((kind) => (kind === question.shift ? 1 : 0));
  const amplitude = [1, ...kinds, ...walk(n), budget, relative, newer];
  const reach = [1, Math.log(tokens / n / 10), Math.log(n / 1e9), relative, Math.log(pretrain / 3e-4), budget];
  const split = amplitude.length;
  const dot = (columns, start) => columns.reduce((sum, value, i) => sum + value * law.mean[start + i], 0);
  const a = Math.exp(dot(amplitude, 0));
  const x = Math.exp(dot(reach, split));
  let won = 0;
  let log;
  let rise;
  if (outcome === "forgetting") {
    won = (replay * x) / (1 + replay * x);
    log = Math.log1p(((1 - replay) * x) / (1 + replay * x));
    rise = x / (1 + x) - won;
  } else {
    log = Math.log1p((1 - replay) * x);
    rise = ((1 - replay) * x) / (1 + (1 - replay) * x);
  }
  const slope = log > 1e-12 ? rise / log : 1;
  const gradient = [...amplitude, ...reach.map((value) => slope * value)];
  let variance = law.noise ** 2 + law.between_amplitude ** 2 + (slope * law.between_reach) ** 2;
  gradient.forEach((one, i) => gradient.forEach((two, j) => (variance += one * law.covariance[i][j] * two)));
  if (question.novelty == null) variance += (law.mean[split - 1] * NEW_SPREAD) ** 2;
  if (!question.pretrain) {
    const ofRelative = slope * law.mean[split + 3] + law.mean[split - 2];
    variance += ((slope * law.mean[split + 4] - ofRelative) * PEAK_SPREAD) ** 2;
  }
  const tiny = Math.min(Math.max(7 - Math.log10(n), 0), 1);
  let rest = -a * (law.back + law.back_tiny * tiny) * won;
  if (outcome === "forgetting") {
    rest -= law.own_gain * Math.pow(ptpp / 100, -LEFT) * (1 - Math.pow(1 + (replay * tokens) / n / ptpp, -LEFT));
  }
  let taught = { part: 0, spread: 0 };
  if (outcome === "forgetting" && question.unread && replay > 0) {
    const read = { shift: "near", novelty: null, tokens: Math.max(replay * tokens, 1), replay: 0 };
    taught = expected("gain", { ...question, ...read });
  }
  const wide = Math.hypot(law.between_back * a * won, FLOOR * Math.min(1, log));
  return { part: a * log, spread: Math.sqrt(variance), rest, wide, taught };
}

function quantile(said, z) {
  const learned = said.taught.part * Math.expm1(-z * said.taught.spread);
  const away = Math.hypot(said.part * Math.expm1(z * said.spread), z * said.wide, learned);
  return said.part + said.rest - said.taught.part + Math.sign(z) * away;
}

// Forgetting and the fall of the target loss: low end, median and high end of 90 % intervals.
function answer(question) {
  const ends = [-Z90, 0, Z90];
  const lost = expected("forgetting", question);
  const won = expected("gain", question);
  return { forgetting: ends.map((z) => quantile(lost, z)), gain: ends.map((z) => -Math.expm1(-quantile(won, z))) };
}

function asked() {
  const value = (name) => document.getElementById(name).value;
  const power = (name) => Math.pow(10, Number(value(name)));
  const n = power("size");
  return {
    n,
    ptpp: power("ptpp"),
    tokens: power("tokens"),
    replay: Number(value("replay")) / 100,
    shift: value("shift"),
    unread: value("replay-of") === "other text",
    pretrain: 0,
    novelty: value("source") && value("target") ? Math.log(value("target") / value("source")) : null,
    peak: power("rate") * typicalPeak(n),
  };
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function short(number) {
  if (number < 1e4) return Number(number.toPrecision(3)).toLocaleString("en");
  const units = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
  const [size, unit] = units.find(([least]) => number >= least) || [1, ""];
  return `${(number / size).toPrecision(3)}${unit}`;
}

function draw(question) {
  const points = Array.from({ length: 101 }, (_, i) => answer({ ...question, replay: i / 200 }).forgetting);
  const top = Math.max(...points.map((ends) => ends[2]), 0.02);
  const low = Math.min(...points.map((ends) => ends[0]), 0);
  const place = (i, y) => `${60 + 5.2 * i},${(280 - (260 * (y - low)) / (top - low)).toFixed(1)}`;
  const upper = points.map((ends, i) => place(i, ends[2]));
  const lower = points.map((ends, i) => place(i, ends[0])).reverse();
  document.getElementById("band").setAttribute("points", [...upper, ...lower].join(" "));
  document.getElementById("middle").setAttribute("points", points.map((ends, i) => place(i, ends[1])).join(" "));
  const [x, y] = place(200 * question.replay, answer(question).forgetting[1]).split(",");
  document.getElementById("here").setAttribute("cx", x);
  document.getElementById("here").setAttribute("cy", y);
  document.getElementById("top").textContent = percent(top);
  document.getElementById("bottom").textContent = percent(low);
}

function show() {
  const question = asked();
  const { forgetting, gain } = answer(question);
  const span = (ends) => `${percent(ends[1])} (${percent(ends[0])} to ${percent(ends[2])})`;
  const said = {
    "size-said": short(question.n),
    "ptpp-said": short(question.ptpp),
    "tokens-said": short(question.tokens),
    "replay-said": percent(question.replay),
    "rate-said": question.peak.toExponential(1),
    forgetting: span(forgetting),
    gain: span(gain),
    flops: (6 * question.n * question.tokens).toExponential(1),
  };
  Object.entries(said).forEach(([name, text]) => (document.getElementById(name).textContent = text));
  draw(question);
}

document.querySelectorAll("input, select").forEach((control) => control.addEventListener("input", show));
show();
