"use strict";
// One curve over the share of replay, with its 90 % band, axes, the plan and a limit, as SVG.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { top: 14, right: 16, bottom: 46, left: 62 };

function drawn(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  if (text != null) element.textContent = text;
  parent.appendChild(element);
  return element;
}

// Round values from low to high, some `count` of them.
function ticksBetween(low, high, count) {
  const rough = (high - low) / count;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const result = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-12; i += 1) result.push(i * step);
  return result;
}

// curve: points [{replay, ends}], mark {replay, value, text}, label, and a limit or null.
function drawCurve(svg, curve) {
  const width = Math.max(svg.clientWidth, 280);
  const height = Math.round(Math.min(300, Math.max(220, 0.62 * width)));
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const limits = curve.limit == null ? [] : [curve.limit];
  const high = Math.max(...curve.points.map(({ ends }) => ends[2]), ...limits, 0.02) * 1.03;
  const low = Math.min(...curve.points.map(({ ends }) => ends[0]), 0) * 1.05;
  const right = curve.points[curve.points.length - 1].replay;
  const x = (replay) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * replay) / right;
  const y = (value) => height - MARGIN.bottom - ((height - MARGIN.top - MARGIN.bottom) * (value - low)) / (high - low);
  const place = (replay, value) => `${x(replay).toFixed(1)},${y(value).toFixed(1)}`;
  ticksBetween(low, high, 6).forEach((value) => {
    drawn(svg, "line", { class: "grid", x1: x(0), x2: x(right), y1: y(value), y2: y(value) });
    drawn(svg, "text", { class: "tick", x: x(0) - 8, y: y(value) + 4, "text-anchor": "end" }, formatPercent(value));
  });
  ticksBetween(0, right, width < 420 ? 4 : 6).forEach((replay) => {
    drawn(svg, "line", { class: "axis", x1: x(replay), x2: x(replay), y1: y(low), y2: y(low) + 5 });
    const text = `${Math.round(100 * replay)}%`;
    drawn(svg, "text", { class: "tick", x: x(replay), y: y(low) + 19, "text-anchor": "middle" }, text);
  });
  const upper = curve.points.map(({ replay, ends }) => place(replay, ends[2]));
  const lower = curve.points.map(({ replay, ends }) => place(replay, ends[0])).reverse();
  drawn(svg, "polygon", { class: "band", points: [...upper, ...lower].join(" ") });
  const middle = curve.points.map(({ replay, ends }) => place(replay, ends[1])).join(" ");
  drawn(svg, "polyline", { class: "middle", points: middle });
  drawn(svg, "line", { class: "axis", x1: x(0), x2: x(right), y1: y(low), y2: y(low) });
  const across = { class: "tick", x: (x(0) + x(right)) / 2, y: height - 8, "text-anchor": "middle" };
  drawn(svg, "text", across, "replay: share of old text in the mix");
  if (curve.limit != null) {
    drawn(svg, "line", { class: "limit", x1: x(0), x2: x(right), y1: y(curve.limit), y2: y(curve.limit) });
    const text = `limit ${formatPercent(curve.limit)}`;
    drawn(svg, "text", { class: "limit-text", x: x(right), y: y(curve.limit) - 6, "text-anchor": "end" }, text);
  }
  const { mark } = curve;
  drawn(svg, "line", { class: "mark", x1: x(mark.replay), x2: x(mark.replay), y1: y(low), y2: y(mark.ends[2]) });
  drawn(svg, "line", {
    class: "whisker", x1: x(mark.replay), x2: x(mark.replay), y1: y(mark.ends[0]), y2: y(mark.ends[2]),
  });
  drawn(svg, "circle", { class: "point", cx: x(mark.replay), cy: y(mark.ends[1]), r: 6 });
  const beyond = mark.replay > 0.6 * right;
  const label = { class: "mark-text", x: x(mark.replay) + (beyond ? -9 : 9), "text-anchor": beyond ? "end" : "start" };
  const at = Math.max(y(mark.ends[2]) - 6, MARGIN.top + 10);
  drawn(svg, "text", { ...label, y: at }, mark.text);
  svg.setAttribute("aria-label", curve.label);
}
