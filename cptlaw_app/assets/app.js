// Sends the question, shows the answer, and draws its figures. Without it the page still takes a table.
(function () {
  "use strict";
  var form = document.getElementById("question"), place = document.getElementById("answer");
  var state = document.getElementById("state"), problem = document.getElementById("problem");
  var reading = document.getElementById("reading"), drawing = null, asked = 0;
  var OPEN = "Say first what is open above.";

  function query() {
    var found = new URLSearchParams();
    new FormData(form).forEach(function (value, name) { if (typeof value === "string" && value.trim()) { found.append(name, value.trim()); } });
    return found;
  }
  function plotly() {  // loaded once there is something to draw
    drawing = drawing || new Promise(function (done) {
      var script = document.createElement("script");
      script.src = "/plotly.js";
      script.onload = done;
      document.head.appendChild(script);
    });
    return drawing;
  }
  function draw() {
    var boxes = Array.from(place.querySelectorAll("figure"));
    if (!boxes.length) { return Promise.resolve(); }
    return plotly().then(function () {
      return Promise.all(boxes.map(function (box) {
        var figure = JSON.parse(box.querySelector("script").textContent);
        return window.Plotly.newPlot(box.querySelector(".drawing"), figure.data, figure.layout, { responsive: true, displayModeBar: false });
      }));
    });
  }
  function clear() {
    problem.textContent = "";
    form.querySelectorAll(".field .problem").forEach(function (each) { each.textContent = ""; });
    form.querySelectorAll("[aria-invalid]").forEach(function (each) { each.removeAttribute("aria-invalid"); });
  }
  function complain(text) {
    var told = new DOMParser().parseFromString(text, "text/html").querySelector("[data-field]");
    var words = told ? told.textContent : "That could not be done. Is the app still running?";
    var field = told && told.dataset.field ? document.getElementById(told.dataset.field) : null;
    if (!field) { problem.textContent = words; return; }
    document.getElementById(field.id + "-problem").textContent = words;
    field.setAttribute("aria-invalid", "true");
    if (field.closest("details")) { field.closest("details").open = true; }
    field.focus();
  }
  function ask() {
    var mine = ++asked, found = query();
    clear();
    if (!found.get("n_params") && !found.get("base")) { state.textContent = "Say the size of the model, or its base model, and press Answer."; return; }
    state.textContent = "Fitting laws and looking for the plan ..";
    window.history.replaceState(null, "", "?" + found);
    fetch("/answer?" + found).then(function (response) {
      return response.text().then(function (text) {
        if (mine !== asked) { return null; }
        state.textContent = "";
        place.innerHTML = response.ok ? text : "";
        if (!response.ok) { complain(text); return null; }
        return draw().then(function () { state.textContent = "Answered."; });
      });
    }).catch(function () { if (mine === asked) { state.textContent = ""; complain(""); } });
  }
  // How the table was read: shown anew after each change of it; an answer waits until nothing is open.
  function read(then) {
    fetch("/reading?" + query()).then(function (response) { return response.text(); }).then(function (text) {
      reading.innerHTML = text;
      if (unread()) { place.innerHTML = ""; state.textContent = OPEN; } else if (then) { then(); }
    });
  }
  function unread() { return reading.querySelector("[data-unread]"); }
  reading.addEventListener("click", function (event) {
    var choice = event.target.dataset.choice, columns = document.getElementById("columns");
    if (!choice) { return; }
    columns.value = [columns.value.trim(), choice].filter(Boolean).join(",");
    read(null);
    state.textContent = "Press Answer once it is read as it should be.";
  });
  place.addEventListener("click", function (event) {
    if (!event.target.dataset.copies) { return; }
    window.navigator.clipboard.writeText(document.getElementById(event.target.dataset.copies).textContent).then(function () {
      document.getElementById("copied").textContent = "Copied.";
    });
  });
  form.addEventListener("submit", function (event) {
    if (form.method === "post") { return; }
    event.preventDefault();
    ask();
  });
  document.getElementById("file").addEventListener("change", function (event) {
    if (!event.target.files.length) { return; }
    form.method = "post";
    form.enctype = "multipart/form-data";
    form.action = "/table";
    state.textContent = "Reading the table ..";
    form.submit();
  });
  // A door opens with a question of its own, where the form still holds that of the door before.
  function questionOf(door) { return door ? JSON.parse(door.dataset.question) : {}; }
  var before = questionOf(form.querySelector("[name=table]:checked"));
  function enter(door) {
    var fields = Array.from(form.querySelectorAll(".field input, .field select")), next = questionOf(door);
    var untouched = fields.every(function (each) { return each.value.trim() === (before[each.name] || ""); });
    before = next;
    if (!untouched) { return; }
    fields.forEach(function (each) {
      each.value = next[each.name] || "";
      if (each.value && each.closest("details")) { each.closest("details").open = true; }
    });
  }
  form.addEventListener("change", function (event) {
    if (event.target.name === "table") { enter(event.target); read(ask); }
    else if (reading.contains(event.target)) { read(null); }
    else if (event.target.type !== "file" && place.textContent && !unread()) { ask(); }
  });
  if (unread()) { state.textContent = OPEN; }
  else if (form.hasAttribute("data-first")) { state.textContent = "Look at how the table was read, then press Answer."; }
  else if (!problem.textContent) { ask(); }
})();
