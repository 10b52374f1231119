// What needs no library: typed values, the address, the cursor on the map, a press on it, and the clipboard.
(function () {
  "use strict";
  var LOGARITHMIC = { n_params: true, ptpp: true, tokens: true };
  var UNITS = { K: 1e3, M: 1e6, B: 1e9, T: 1e12, "%": 1e-2 };

  function quantity(text) {
    var found = /^\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([KMBT%]?)\s*$/i.exec(text.replace(/,/g, ""));
    if (!found) { return NaN; }
    return parseFloat(found[1]) * (found[2] ? UNITS[found[2].toUpperCase()] : 1);
  }
  function place(name, value) { return LOGARITHMIC[name] ? Math.log10(value) : value; }
  function set(name, props) { window.dash_clientside.set_props(name, props); }
  function slide(name, value) {
    var slider = document.getElementById(name);
    var at = place(name, value);
    if (!slider || !isFinite(at)) { return; }
    set(name, { value: at, min: Math.min(at, parseFloat(slider.min)), max: Math.max(at, parseFloat(slider.max)) });
  }
  function own(name) {  // what is moved by hand is no longer left to the app
    if (name === "tokens" || name === "replay") { set("auto-" + name, { value: [] }); }
    if (name === "max_forgetting" || name === "max_target_loss") { set("use-" + name, { value: ["on"] }); }
  }

  document.addEventListener("change", function (event) {
    var id = event.target.id || "";
    // The fewest tokens are those that reach a target loss: without that limit there would be no answer.
    if (event.target.closest("#auto-tokens") && event.target.checked) { set("use-max_target_loss", { value: ["on"] }); }
    if (id.indexOf("exact-") !== 0) { return; }
    var name = id.slice(6), value = quantity(event.target.value);
    event.target.setAttribute("aria-invalid", String(!isFinite(value)));
    if (!isFinite(value)) { return; }
    if (name === "flops") {
      var size = document.getElementById("n_params");
      value = value / (6 * Math.pow(10, parseFloat(size.value)));
      name = "tokens";
    }
    slide(name, value);
    own(name);
  });
  document.addEventListener("input", function (event) {
    if (event.target.type === "range") { own(event.target.id); }
  });

  function short(value) {
    var units = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
    for (var i = 0; i < units.length; i++) {
      if (value >= units[i][0]) { return (value / units[i][0]).toPrecision(3) + units[i][1]; }
    }
    return value.toPrecision(3);
  }
  function line(at) {
    var box = document.querySelector("#curves .js-plotly-plot");
    if (!box || !box.layout || !box.layout.shapes || !window.Plotly) { return; }
    var change = at === null ? { "shapes[0].visible": false }
      : { "shapes[0].visible": true, "shapes[0].x0": at, "shapes[0].x1": at };
    window.Plotly.relayout(box, change);
  }
  function under(data) {
    var point = data && data.points && data.points.filter(function (each) { return each.customdata || each.z !== undefined; })[0];
    return point || null;
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.cptlaw = {
    address: function (asked, pins, table) {
      if (typeof asked !== "string") { return null; }
      var text = "?" + (table ? "table=" + encodeURIComponent(table) + "&" : "") + asked;
      (pins || []).forEach(function (pin) { text += "&pin=" + encodeURIComponent(pin); });
      window.history.replaceState(window.history.state, "", text);
      return null;
    },
    limits: function (least, fall, base, ids, known) {  // of scores: all that was typed, by eval
      var found = {};
      (ids || []).forEach(function (id, at) {
        found[id.on] = [least, fall, base].map(function (each) { return each[at] || ""; });
      });
      return JSON.stringify(found) === JSON.stringify(known) ? window.dash_clientside.no_update : found;
    },
    cursor: function (data) {
      var point = under(data);
      if (!point) { line(null); return "Point at the map to see what a mix does; press to take it."; }
      line(point.x);
      var more = point.customdata ? ", target loss " + point.customdata[0].toFixed(3) + ", source loss " + point.customdata[1].toFixed(3) : "";
      var lost = point.z !== undefined ? ", forgetting " + (100 * point.z).toFixed(1) + "%" : "";
      return "Under the cursor: " + short(point.x) + " tokens, " + (100 * point.y).toFixed(0) + "% replay" + more + lost + ".";
    },
    follow: function (state, tokens, tokensFree, replay, replayFree) {  // the slider of what is left to the app
      [["tokens", tokens, tokensFree], ["replay", replay, replayFree]].forEach(function (each) {
        var slider = document.getElementById(each[0]), value = quantity(String(each[1]));
        if (!slider || !isFinite(value) || !(each[2] || []).length) { return; }
        if (Math.abs(place(each[0], value) - parseFloat(slider.value)) > 1e-4) { slide(each[0], value); }
      });
      return null;
    },
    click: function (data) {
      var point = under(data);
      if (point) { slide("tokens", point.x); slide("replay", point.y); own("tokens"); own("replay"); }
      return null;
    },
    copy: function (presses) {
      if (!presses) { return ""; }
      if (!navigator.clipboard) { return "The link is what stands in the address bar."; }
      return navigator.clipboard.writeText(window.location.href).then(
        function () { return "Copied: it opens this answer on this machine while the app runs."; },
        function () { return "The link is what stands in the address bar."; });
    },
  };
})();
