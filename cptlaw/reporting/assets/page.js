// Draws the figures of the page as they come into view, stacks panels on narrow screens, and sets drawings two to a row when printed.
(function () {
  "use strict";
  var NARROW = 640, PAPER = 560; // pixels; on paper a drawing of this width is shrunk to half a page
  var shown = [];
  function arrange(element, width) {
    var meta = element.layout && element.layout.meta;
    if (!meta || !meta.narrow) { return {}; }
    return Object.assign({}, width < NARROW && !element.printing ? meta.narrow : meta.wide);
  }
  function fit(element, width) {
    var height = arrange(element, width).height || element.own;
    element.style.height = height + "px";
    return Plotly.relayout(element, Object.assign(arrange(element, width), { width: width, height: height }));
  }
  function all(width, printing) {
    document.body.classList.toggle("printing", printing);
    shown.forEach(function (element) {
      element.printing = printing;
      fit(element, width || element.clientWidth);
    });
  }
  function draw(element) {
    if (element.own) { return; }
    var figure = JSON.parse(document.getElementById(element.dataset.figure).textContent);
    var width = element.clientWidth;
    element.own = Number(element.dataset.height);
    element.style.height = element.own + "px"; // by script: the page's policy allows no style attributes
    figure.layout.width = width;
    element.replaceChildren(); // the still picture, which stands there for those who run no script
    Plotly.newPlot(element, figure.data, figure.layout, { displaylogo: false, displayModeBar: width < NARROW ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d"] })
      .then(function () { return fit(element, width); });
    shown.push(element);
  }
  // A figure is drawn when it comes near the window; the room for it is kept, so that nothing jumps.
  var watch = new IntersectionObserver(function (seen) {
    seen.forEach(function (entry) { if (entry.isIntersecting) { watch.unobserve(entry.target); draw(entry.target); } });
  }, { rootMargin: "600px" });
  var places = document.querySelectorAll(".drawing");
  places.forEach(function (element) { element.style.height = element.dataset.height + "px"; watch.observe(element); });
  var waiting;
  window.addEventListener("resize", function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () { if (!document.body.classList.contains("printing")) { all(0, false); } }, 150);
  });
  window.addEventListener("beforeprint", function () { places.forEach(draw); all(PAPER, true); });
  window.addEventListener("afterprint", function () { all(0, false); });
})();
