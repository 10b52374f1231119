// Draws every figure of the page, stacks panels on narrow screens, and fits drawings to the paper when printed.
(function () {
  "use strict";
  var NARROW = 640, PAPER = 690;
  var shown = [];
  function arrange(element, width) {
    var meta = element.layout && element.layout.meta;
    if (!meta || !meta.narrow) { return {}; }
    return Object.assign({}, width < NARROW ? meta.narrow : meta.wide);
  }
  function fit(element, width) {
    var height = arrange(element, width).height;
    if (height) { element.style.height = height + "px"; }
    return Plotly.relayout(element, Object.assign(arrange(element, width), { width: width }));
  }
  document.querySelectorAll(".drawing").forEach(function (element) {
    var figure = JSON.parse(document.getElementById(element.dataset.figure).textContent);
    var width = element.clientWidth;
    figure.layout.width = width;
    Plotly.newPlot(element, figure.data, figure.layout, { displaylogo: false, displayModeBar: width < NARROW ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d"] })
      .then(function () { return fit(element, width); });
    shown.push(element);
  });
  var waiting;
  window.addEventListener("resize", function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () { shown.forEach(function (e) { fit(e, e.clientWidth); }); }, 150);
  });
  window.addEventListener("beforeprint", function () { shown.forEach(function (e) { fit(e, PAPER); }); });
  window.addEventListener("afterprint", function () { shown.forEach(function (e) { fit(e, e.clientWidth); }); });
})();
