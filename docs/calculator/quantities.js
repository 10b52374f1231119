"use strict";
// Numbers as people type and read them: 8B, 1,875, 5%.

const POWERS = { "": 0, K: 3, M: 6, B: 9, G: 9, T: 12 };

// The number that a text says; NaN where it says none. "1,875", "1_875" and "1 875" are one.
function readQuantity(text) {
  const found = /^(-?[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?|[0-9]+\.)([KMBGT]?)$/i.exec(text.replace(/[,_\s]/g, ""));
  if (!found) return NaN;
  const [number, exponent = "0"] = found[1].toLowerCase().split("e");
  return Number(`${number}e${Number(exponent) + POWERS[found[2].toUpperCase()]}`); // 8.03B is 8.03e9 to the last bit
}

// The share that a text says in per cent, with or without its sign.
function readPercent(text) {
  return readQuantity(text.replace("%", "")) / 100;
}

function formatQuantity(number, digits = 3) {
  const rounded = Number(number.toPrecision(digits));
  const units = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
  const [size, unit] = units.find(([least]) => Math.abs(rounded) >= least && rounded < 1e15) || [1, ""];
  return rounded >= 1e15 ? rounded.toExponential(1) : `${Number((rounded / size).toPrecision(digits))}${unit}`;
}

// Whole per cents from ten on, else two digits; never -0.
function formatPercent(share) {
  const shown = Math.abs(share) >= 0.0995 ? Math.round(100 * share) : Number((100 * share).toFixed(1));
  return `${shown === 0 ? 0 : shown}%`;
}

// A share of a mix, to three digits, as the command line prints it.
function formatShare(share) {
  return `${Number((100 * share).toPrecision(3))}%`;
}

function formatRate(rate) {
  return rate.toExponential(1).replace("e-", "e-0").replace(/e-0(\d\d)/, "e-$1");
}

function formatHours(hours) {
  if (hours >= 100) return Math.round(hours).toLocaleString("en-US");
  return hours >= 1 ? String(Number(hours.toPrecision(2))) : "less than one";
}

function formatDays(days) {
  if (days >= 10) return `${Math.round(days)} days`;
  return days >= 1 ? `${Number(days.toPrecision(2))} days` : `${Number((24 * days).toPrecision(2))} hours`;
}
