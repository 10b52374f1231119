// What is scrolled on a narrow screen can be reached by the keys (the theme wraps tables once a page has loaded), and what
// the theme leaves without a name has one.
"use strict";

function reachable() {
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
}

function named() {
  document.querySelectorAll(".md-code__nav").forEach((buttons) => buttons.setAttribute("role", "none"));
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-nav__container").forEach((head) => {
    const section = head.parentElement.querySelector(":scope > nav"); // its label holds no words where it has a page
    section?.removeAttribute("aria-labelledby");
    section?.setAttribute("aria-label", head.innerText.trim() || head.textContent.trim());
  });
}

window.addEventListener("load", () => window.setTimeout(reachable, 0));
window.addEventListener("load", () => window.setTimeout(named, 0));
window.addEventListener("resize", reachable);
