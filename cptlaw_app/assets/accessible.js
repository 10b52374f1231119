// Mends what Dash's own components leave out for screen readers and keyboards; runs again whenever the page changes.
(function () {
  "use strict";
  var NAMES = { "auto-tokens": "tokens", "auto-replay": "replay", "use-max_forgetting": "limit on forgetting", "use-max_target_loss": "limit on the target loss", lr_peak: "peak rate" };
  function mend() {
    document.querySelectorAll(".dash-dropdown-focus-target").forEach(function (element) {
      // Hidden from screen readers, so it must not take the Tab key either: the button beside it does.
      if (element.tabIndex !== -1) { element.tabIndex = -1; }
    });
    document.querySelectorAll(".dash-checklist, .dash-radioitems").forEach(function (element) {
      if (element.getAttribute("role") !== "listbox") { return; }
      element.setAttribute("role", "group");
      element.setAttribute("aria-label", NAMES[element.id] || "choices");
    });
    var options = ".dash-checklist label[role], .dash-radioitems label[role], .dash-checklist label[aria-selected], .dash-radioitems label[aria-selected]";
    document.querySelectorAll(options).forEach(function (option) {
      option.removeAttribute("role");
      option.removeAttribute("aria-selected");
    });
    document.querySelectorAll(".upload input[type=file]").forEach(function (element) {
      if (!element.hasAttribute("aria-label")) { element.setAttribute("aria-label", "runs table"); }
    });
    document.querySelectorAll(".dash-dropdown").forEach(function (element) {
      var label = element.closest(".field") && element.closest(".field").querySelector("label");
      var value = element.querySelector(".dash-dropdown-value");
      var names = (label && label.id ? label.id + " " : "") + (value && value.id ? value.id : "");
      if (names && element.getAttribute("aria-labelledby") !== names) { element.setAttribute("aria-labelledby", names); }
      if (element.tabIndex !== 0) { element.tabIndex = 0; }
    });
  }
  new MutationObserver(mend).observe(document.documentElement, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["role", "aria-selected", "tabindex"],
  });
  mend();
})();
