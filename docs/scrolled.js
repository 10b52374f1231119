// What is scrolled on a narrow screen can be reached by the keys: the theme wraps tables once a page has loaded.
"use strict";

function reachable() {
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
}

window.addEventListener("load", () => window.setTimeout(reachable, 0));
window.addEventListener("resize", reachable);
