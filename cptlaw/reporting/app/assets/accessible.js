// Mends what Dash's own components leave out for screen readers and keyboards; runs again whenever the page changes.
(function () {
  "use strict";
  var NAMES = { limits: "limits in force", risk: "probability with which limits hold" };
  function mend() {
    document.querySelectorAll(".dash-dropdown-focus-target").forEach(function (element) {
      // Hidden from screen readers, so it must not take part in the order of the Tab key either.
      if (element.tabIndex !== -1) { element.tabIndex = -1; }
    });
    document.querySelectorAll(".dash-checklist, .dash-radioitems").forEach(function (element) {
      if (element.getAttribute("role") !== "listbox") { return; }
      element.setAttribute("role", "group");
      element.setAttribute("aria-label", NAMES[element.id] || "choices");
      element.querySelectorAll("[role=option]").forEach(function (option) {
        option.removeAttribute("role");
        option.removeAttribute("aria-selected");
      });
    });
    document.querySelectorAll("[role=option] > input, .dash-checklist [role=option], .dash-radioitems [role=option]").forEach(function (element) {
      var option = element.closest(".dash-checklist [role=option], .dash-radioitems [role=option]");
      if (option) { option.removeAttribute("role"); option.removeAttribute("aria-selected"); }
    });
    document.querySelectorAll(".upload input[type=file]").forEach(function (element) {
      if (!element.hasAttribute("aria-label")) { element.setAttribute("aria-label", "runs table"); }
    });
    document.querySelectorAll(".dash-dropdown").forEach(function (element) {
      var label = element.closest(".field") && element.closest(".field").querySelector("label");
      if (label && label.id && element.getAttribute("aria-labelledby") !== label.id) {
        element.setAttribute("aria-labelledby", label.id);
      }
    });
  }
  new MutationObserver(mend).observe(document.documentElement, { childList: true, subtree: true });
  mend();
})();
