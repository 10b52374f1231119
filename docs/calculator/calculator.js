"use strict";
// The page: reads the question from its fields and its address, and shows the answer.

const field = (id) => document.getElementById(id);
const optional = (read) => (text) => (text.trim() === "" ? null : read(text));
const within = (low, high) => (value) => value === null || (value >= low && value <= high);

// Typed numbers: how each is read, which values make sense, and what to say of others.
const TYPED = {
  size: [readQuantity, within(1e4, 1e13), "A number of parameters such as 8B, 517M or 8,030,000,000."],
  ptpp: [readQuantity, within(0.1, 1e6), "Pre-training tokens over parameters, such as 1,875."],
  "source-loss": [optional(readQuantity), within(0.01, 30), "A loss such as 2.05, or nothing."],
  "target-loss": [optional(readQuantity), within(0.01, 30), "A loss such as 2.9, or nothing."],
  spend: [readQuantity, within(1e3, 1e30), "A number such as 20B, 1.5T or 1e21."],
  limit: [optional(readPercent), within(-0.5, 10), "A percentage such as 5, or nothing."],
  risk: [readPercent, within(0.01, 0.99), "A probability from 1 to 99%."],
  pretrain: [optional(readQuantity), within(1e-9, 1), "A rate such as 3e-4, or nothing."],
  rate: [optional(readQuantity), within(1e-9, 1), "A rate such as 1e-4, or nothing."],
  count: [readQuantity, within(1, 1e6), "A number of GPUs, such as 8."],
  mfu: [readPercent, within(0.001, 1), "A share such as 40%."],
  price: [optional(readQuantity), within(0, 1e6), "A price such as 2.50, or nothing."],
  "max-target": [optional(readQuantity), within(0.01, 30), "A loss such as 1.8, or nothing."],
};
const CHOSEN = ["shift", "replay-of", "base", "spend-kind", "device"];
const SLIDERS = { size: 1, ptpp: 1, spend: 1 };

let lookedAt = null; // share of replay that was chosen by hand; null: the plan's

// The numbers of all fields, or null where one of them cannot be read: its problem is shown below it.
function readFields() {
  const values = {};
  let sound = true;
  Object.entries(TYPED).forEach(([id, [read, sensible, expected]]) => {
    const value = read(field(id).value);
    const bad = Number.isNaN(value) || !sensible(value);
    field(`${id}-problem`).textContent = bad ? expected : "";
    if (bad) field(id).setAttribute("aria-invalid", "true");
    else field(id).removeAttribute("aria-invalid");
    sound = sound && !bad;
    values[id] = value;
  });
  CHOSEN.forEach((id) => (values[id] = field(id).value));
  return sound ? values : null;
}

// The base model that was chosen, while size and budget are still its own.
function baseOf(values) {
  return BASES.find((one) => one.name === values.base && one.n === values.size && sevenDigits(one.ptpp) === values.ptpp);
}

function problemOf(values) {
  const n = values.size;
  const pretrain = values.pretrain || 0;
  const losses = [values["source-loss"], values["target-loss"]];
  const model = {
    n,
    active: (baseOf(values) || { active: n }).active,
    ptpp: values.ptpp,
    shift: values.shift,
    unread: values["replay-of"] === "other",
    pretrain,
    peak: values.rate || TYPICAL * (pretrain || typicalPeak(n)),
    novelty: losses[0] && losses[1] ? Math.log(losses[1] / losses[0]) : null,
  };
  const limits = {
    forgetting: values.limit,
    targetLoss: values["max-target"],
    baseTargetLoss: losses[1],
    risk: values.risk,
  };
  return { model, spend: { kind: values["spend-kind"], amount: values.spend }, limits };
}

// -- the answer in words ----------------------------------------------------------------------------------------------

const span = (ends) => `${formatPercent(ends[0])} to ${formatPercent(ends[2])}`;

function shownList(list, pairs) {
  list.replaceChildren();
  pairs.forEach(([name, value, aside]) => {
    const [group, term, what] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    term.textContent = name;
    what.textContent = value;
    if (aside) {
      const small = document.createElement("span");
      small.textContent = aside;
      what.append(small);
    }
    group.append(term, what);
    list.append(group);
  });
}

function showHeadline(result, values) {
  const { at } = result;
  const mix = `${formatQuantity(at.tokens)} tokens, ${formatShare(at.replay)} of them replay`;
  if (at.tokens < NUMBERS.fewestTokens) {
    field("sentence").textContent = "No run is so short";
    field("reason").textContent = `${formatQuantity(at.tokens)} tokens are no ten steps of one row. If billions were meant, type them as in 20B.`;
  } else if (result.feasible) {
    field("sentence").textContent = `Train on ${mix}`;
    const kept = [];
    if (at.probability != null) kept.push(`forgetting stays within ${formatPercent(values.limit)} with ${formatPercent(at.probability)} probability`);
    if (at.targetProbability != null) kept.push(`the new text's loss with ${formatPercent(at.targetProbability)}`);
    field("reason").textContent = `The best loss on the new text that keeps the limit: ${kept.join(", ")}.`;
  } else if (result.limited) {
    const forgotten = `The least forgetting in reach is ${formatPercent(result.least)} with that probability.`;
    field("sentence").textContent = "No mix keeps these limits";
    field("reason").textContent =
      result.blocking === "forgetting"
        ? `${forgotten} Raise the limit, ask for a lower probability, or take fewer tokens. Shown: ${mix}.`
        : `The limit on the new text's loss is out of reach within the other. Shown: ${mix}.`;
  } else {
    field("sentence").textContent = `${formatShare(at.replay)} replay is the knee: beyond it, more replay buys less`;
    field("reason").textContent = `No limit was given. Shown: ${mix}.`;
  }
  field("sentence").className = (result.limited && !result.feasible) || at.tokens < NUMBERS.fewestTokens ? "none" : "";
}

function showPlan(result, values, mix) {
  const hardware = { device: values.device, count: values.count, mfu: values.mfu, price: values.price };
  const cost = costOf(mix.flops, hardware);
  const batch = advisedBatch(problemOf(values).model, mix.tokens);
  const price = cost.price == null ? "" : `, costs ${Math.round(cost.price).toLocaleString("en-US")}`;
  const low = PLANNING.rates.map((factor) => formatRate(factor * (values.pretrain || typicalPeak(values.size))));
  shownList(field("plan"), [
    ["Replay", formatShare(mix.replay), `${formatQuantity(mix.replay * mix.tokens)} tokens of old text`],
    ["Tokens", formatQuantity(mix.tokens), `${formatQuantity(mix.tokens * (1 - mix.replay))} of new text`],
    ["Peak rate", formatRate(result.peak), `published: ${low[0]} to ${low[1]}`],
    ["Batch", `${formatQuantity(batch)} tokens`, `${Math.max(1, Math.round(mix.tokens / batch)).toLocaleString("en-US")} steps`],
    [
      `${values.device} hours`,
      formatHours(cost.hours),
      `${formatDays(cost.days)} on ${values.count} at ${formatPercent(values.mfu)}${price}`,
    ],
  ]);
}

function showOutcome(mix, values) {
  const [source, target] = [values["source-loss"], values["target-loss"]];
  const loss = (base, changes) => `${(base * changes[1]).toFixed(2)} (${(base * changes[0]).toFixed(2)} to ${(base * changes[2]).toFixed(2)})`;
  const risen = mix.forgetting.map((share) => 1 + share);
  const fallen = [...mix.gain].reverse().map((share) => 1 - share);
  field("forgetting").textContent = formatPercent(mix.forgetting[1]);
  field("forgetting-more").textContent =
    `${span(mix.forgetting)}, of the base model's loss on old text` + (source ? `; a loss of ${loss(source, risen)}` : "");
  field("gain").textContent = `${formatPercent(mix.gain[1])} lower`;
  field("gain-more").textContent =
    `${span(mix.gain)}, than the base model's` + (target ? `; a loss of ${loss(target, fallen)}` : "");
}

function showEvidence(values) {
  const { size, ptpp, shift } = values;
  const count = (test) => STUDIES.filter(test).length;
  const kind = field("shift").selectedOptions[0].textContent.split(",")[0];
  const half = STUDIES.filter((study) => study.n >= size / 2).map((study) => study.name);
  field("evidence").textContent =
    `From ${STUDIES.length} studies: ${count((study) => study.shift === shift)} of ${kind}, ` +
    `${count((study) => study.n > 1e9)} above 1B parameters, ${count((study) => study.n < 1e6)} below 1M.`;
  const warnings = [];
  const largest = { n: Math.max(...STUDIES.map((study) => study.n)), ptpp: Math.max(...STUDIES.map((study) => study.ptpp)) };
  if (size > 1.5 * largest.n) warnings.push(`Your model has ${formatQuantity(size / largest.n, 2)} times the parameters of the largest in these studies (${formatQuantity(largest.n)}). Take the interval as wide as it is.`);
  else if (half.length <= 2) warnings.push(`${half.length} of these studies ${half.length === 1 ? "has" : "have"} a model of at least half your size${half.length ? `: ${half.join(", ")}` : ""}. Size is extrapolated from the others.`);
  if (ptpp > 1.5 * largest.ptpp) warnings.push(`Your base model has ${formatQuantity(ptpp / largest.ptpp, 2)} times the pre-training tokens per parameter of any study (${formatQuantity(largest.ptpp)}).`);
  const relative = values.rate ? values.rate / (values.pretrain || typicalPeak(size)) : TYPICAL;
  if (relative < PLANNING.seenRates[0] || relative > PLANNING.seenRates[1]) warnings.push(`This peak rate is ${formatQuantity(relative, 2)} times that of pre-training; studies have ${PLANNING.seenRates.join(" to ")}. Above it runs collapse at some rate.`);
  if (values["max-target"] && !values["target-loss"]) warnings.push("The limit on the new text's loss is not judged: say the base model's loss on it.");
  const base = baseOf(values);
  if (base && !base.publicText && values["replay-of"] === "own") warnings.push("The text that this base model was pre-trained on is not public. If you replay other text, say so above: the loss on it rises less, and what it had read is forgotten all the same.");
  const list = field("warnings");
  list.replaceChildren();
  warnings.forEach((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    list.append(item);
  });
}

function showBeside(result, values) {
  const hardware = { device: values.device, count: values.count, mfu: values.mfu, price: null };
  const names = {
    cheaper: `Cheaper: ${formatPercent(PLANNING.nearly)} of the gain`,
    "without replay": "Without replay",
  };
  const named = (one) => names[one.name] || `${one.name === "safer" ? "Safer: w" : "W"}ith ${formatPercent(one.risk)} probability`;
  const rows = result.feasible
    ? [["This plan", result.at], ...result.alternatives.map((one) => [named(one), one])]
    : result.options.map((one) => [`${formatShare(one.replay)} replay`, one]);
  field("beside-title").textContent = result.feasible ? "Beside the plan" : "What each share of replay costs and brings";
  const cells = (tag, texts) => {
    const row = document.createElement("tr");
    texts.forEach((text, place) => {
      const cell = document.createElement(place === 0 ? "th" : tag);
      cell.textContent = text;
      cell.scope = tag === "th" ? "col" : "row";
      if (tag === "td" && place) cell.removeAttribute("scope");
      row.append(cell);
    });
    return row;
  };
  const heads = ["", "Replay", "Tokens", `${values.device} hours`, "Forgetting", "Loss on new text"];
  const body = rows.map(([name, mix]) =>
    cells("td", [
      name,
      formatShare(mix.replay),
      formatQuantity(mix.tokens),
      formatHours(costOf(mix.flops, hardware).hours),
      `${formatPercent(mix.forgetting[1])} (${span(mix.forgetting)})`,
      `${formatPercent(mix.gain[1])} lower`,
    ]),
  );
  const head = cells("th", heads);
  const corner = document.createElement("td");
  head.firstChild.replaceWith(corner);
  field("beside").replaceChildren(head, ...body);
}

function showCurves(problem, result, mix) {
  const right = Math.min(Math.max(0.5, Math.ceil(10 * mix.replay + 1) / 10), PLANNING.mostReplay);
  const shareOf = result.at.tokens / tokensAt(problem, result.at.replay); // a plan may spend less than there is
  const points = Array.from({ length: 61 }, (_, i) => {
    const replay = (right * i) / 60;
    return { replay, ...forecast({ ...problem.model, replay, tokens: shareOf * tokensAt(problem, replay) }) };
  });
  const text = lookedAt == null ? (result.feasible ? "plan" : "shown") : "looked at";
  [["forgetting", problem.limits.forgetting], ["gain", null]].forEach(([name, limit]) => {
    drawCurve(field(`${name}-curve`), {
      points: points.map((one) => ({ replay: one.replay, ends: one[name] })),
      mark: { replay: mix.replay, ends: mix[name], text: `${text}: ${formatShare(mix.replay)}` },
      limit,
      label: `${name} over the share of replay, with its 90% band: ${formatPercent(mix[name][1])} at ${formatShare(mix.replay)}`,
    });
  });
  const amount = formatQuantity(problem.spend.amount * shareOf);
  const along = { target: `${amount} tokens of new text`, tokens: `${amount} tokens in all`, flops: `${amount} FLOPs` };
  const more = problem.spend.kind === "target" ? "; more replay means more tokens in all" : "";
  field("along").textContent = `Along them: ${along[problem.spend.kind]}${more}.`;
}

// -- command, link, fields --------------------------------------------------------------------------------------------

// As many as its field shows.
function sevenDigits(number) {
  return Number(number.toPrecision(7));
}

function plain(id) {
  return field(id).value.replace(/[,_\s%]/g, "");
}

function commandOf(values) {
  const base = baseOf(values);
  const words = ["cptlaw answer"];
  words.push(base ? `--base ${base.name}` : `--n-params ${plain("size")} --ptpp ${plain("ptpp")}`);
  words.push(`--${{ target: "target-tokens", tokens: "tokens", flops: "budget" }[values["spend-kind"]]} ${plain("spend")}`);
  words.push(`--shift ${values.shift}`);
  if (values["replay-of"] === "other") words.push("--replay-of other");
  if (values["source-loss"]) words.push(`--base-source-loss ${plain("source-loss")}`);
  if (values["target-loss"]) words.push(`--base-target-loss ${plain("target-loss")}`);
  if (values.limit != null) words.push(`--max-forgetting ${plain("limit")}%`);
  if (values["max-target"]) words.push(`--max-target-loss ${plain("max-target")}`);
  if (values.risk !== PLANNING.risk && (values.limit != null || values["max-target"])) words.push(`--risk ${plain("risk")}%`);
  if (values.rate) words.push(`--lr-peak ${plain("rate")}`);
  if (values.pretrain && !(base && base.pretrain === values.pretrain)) words.push(`--lr-pretrain ${plain("pretrain")}`);
  words.push(`--gpus ${plain("count")}x${values.device}`);
  if (values.mfu !== 0.4) words.push(`--mfu ${plain("mfu")}%`);
  if (values.price != null) words.push(`--gpu-hour ${plain("price")}`);
  return `${words.join(" ")} --pilots pilots`;
}

function addressOf() {
  const words = new URLSearchParams();
  [...CHOSEN, ...Object.keys(TYPED)].forEach((id) => {
    if (field(id).value.trim() !== "") words.set(id, field(id).value.trim());
  });
  if (field("limit").value.trim() === "") words.set("limit", "");
  return `#${words}`;
}

function fillFromAddress() {
  const words = new URLSearchParams(window.location.hash.slice(1));
  if (![...words.keys()].length) return;
  Object.keys(TYPED).forEach((id) => {
    if (words.has(id)) field(id).value = words.get(id).slice(0, 40);
  });
  CHOSEN.forEach((id) => {
    const known = [...field(id).options].some((option) => option.value === words.get(id));
    if (known) field(id).value = words.get(id);
  });
}

function fillFromBase() {
  const base = BASES.find((one) => one.name === field("base").value);
  if (!base) return;
  field("size").value = String(formatQuantity(base.n, 6));
  field("ptpp").value = String(sevenDigits(base.ptpp));
  field("pretrain").value = base.pretrain ? String(base.pretrain) : "";
}

function moveSliders(values) {
  Object.keys(SLIDERS).forEach((id) => {
    const slider = field(`${id}-slider`);
    if (id === "spend") {
      const flops = values["spend-kind"] === "flops";
      slider.min = flops ? 17 : 7;
      slider.max = flops ? 26 : 13;
    }
    slider.value = String(Math.log10(values[id]));
    slider.setAttribute("aria-valuetext", formatQuantity(values[id]));
  });
}

function show() {
  const values = readFields();
  if (!values) return;
  const problem = problemOf(values);
  const result = answerOf(problem);
  const mix = lookedAt == null ? result.at : mixAt(problem, lookedAt);
  showHeadline(result, values);
  showPlan(result, values, mix);
  showOutcome(mix, values);
  showEvidence(values);
  showBeside(result, values);
  showCurves(problem, result, mix);
  moveSliders(values);
  if (lookedAt == null) field("replay").value = String(100 * result.at.replay);
  field("replay-said").textContent = formatShare(mix.replay);
  field("back").hidden = lookedAt == null;
  field("command").textContent = commandOf(values);
  field("short").textContent = `${formatShare(mix.replay)} replay, ${formatQuantity(mix.tokens)} tokens`;
}

function copy(text, what) {
  const said = (words) => (field("copied").textContent = words);
  const failed = () => {
    // A page that was opened from a folder may have no clipboard: the text is selected for the reader instead.
    const range = document.createRange();
    range.selectNodeContents(field("command"));
    window.getSelection().removeAllRanges();
    window.getSelection().addRange(range);
    said(`The browser did not let this page copy: take ${what} from where it stands.`);
  };
  if (!navigator.clipboard) failed();
  else navigator.clipboard.writeText(text).then(() => said(`Copied ${what}.`), failed);
}

function start() {
  BASES.forEach((one) => field("base").append(new Option(one.name, one.name)));
  Object.keys(DEVICES).forEach((name) => field("device").append(new Option(name, name, name === "H100", name === "H100")));
  fillFromAddress();
  field("question").addEventListener("input", (event) => {
    const { id } = event.target;
    lookedAt = null;
    if (id === "base") fillFromBase();
    if (["size", "size-slider", "ptpp", "ptpp-slider"].includes(id)) field("base").value = "";
    if (id.endsWith("-slider")) {
      const name = id.replace("-slider", "");
      const moved = Math.pow(10, Number(event.target.value));
      field(name).value = name === "ptpp" ? String(Number(moved.toPrecision(3))) : formatQuantity(moved);
    }
    if (id === "spend-kind") field("spend").value = event.target.value === "flops" ? "1e21" : "20B";
    show();
    window.history.replaceState(null, "", addressOf());
  });
  field("question").addEventListener("submit", (event) => event.preventDefault());
  field("replay").addEventListener("input", () => {
    lookedAt = Number(field("replay").value) / 100;
    show();
  });
  field("back").addEventListener("click", () => {
    lookedAt = null;
    show();
  });
  field("copy-command").addEventListener("click", () => copy(field("command").textContent, "the command"));
  field("copy-link").addEventListener("click", () => {
    window.history.replaceState(null, "", addressOf());
    copy(window.location.href, "the link");
  });
  field("to-answer").addEventListener("click", () => field("answer").scrollIntoView());
  window.addEventListener("hashchange", () => {
    fillFromAddress();
    show();
  });
  window.addEventListener("resize", show);
  show();
}

start();
