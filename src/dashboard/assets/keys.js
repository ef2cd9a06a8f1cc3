// Confirmation dialogs, single submission of forms, and keyboard shortcuts.
(function () {
  "use strict";
  // Opens a dialog before a form that costs money or loses data. Without JavaScript, such forms lead to a confirmation page.
  document.addEventListener("submit", function (event) {
    var form = event.target, question = form.dataset.confirm;
    if (question && !window.confirm(question)) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    // Without this field the server shows its confirmation page.
    if (question && !form.querySelector("input[name=sure]")) {
      var sure = document.createElement("input");
      sure.type = "hidden"; sure.name = "sure"; sure.value = "1";
      form.appendChild(sure);
    }
    if (form.dataset.once !== undefined) {
      var button = form.querySelector("button:not([type=button])");
      if (button) { setTimeout(function () { button.disabled = true; }, 0); }
    }
  }, true);
  // A page restored from the history gets its buttons back.
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) { document.querySelectorAll("form[data-once] button:disabled").forEach(function (button) { button.disabled = false; }); }
  });

  // Id of the selected row. An id because a reload replaces the row's element.
  var chosen = null;
  function rows() { return Array.from(document.querySelectorAll("tr[data-open]")); }
  function mark() { rows().forEach(function (row) { row.classList.toggle("current", row.id === chosen); }); }
  document.addEventListener("htmx:after:swap", mark);
  function step(by) {
    var all = rows(), at = all.findIndex(function (row) { return row.id === chosen; });
    var next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (!next) { return; }
    chosen = next.id;
    mark();
    var link = next.querySelector("a");
    if (link) { link.focus({ preventScroll: true }); }
    next.scrollIntoView({ block: "nearest" });
  }
  // On pages with rows, one must be selected, so that the key doesn't start paid work for an arbitrary row.
  function score(current) {
    if (!current && rows().length) {
      document.dispatchEvent(new CustomEvent("gavel:say", { detail: "Choose a row with j or k first; then s scores its session." }));
      return;
    }
    var button = (current || document).querySelector("form[data-score] button:not(:disabled)");
    if (button) { button.click(); }
  }
  // Character keys can be disabled, for dictation and accidental key presses. Stored in this browser.
  var switched = document.getElementById("keys-switch");
  function off() {
    try { return localStorage.getItem("gavel-keys") === "off"; } catch (_) { return false; }
  }
  function showSwitch() {
    document.getElementById("keys-say").textContent = off() ? "Keys are off in this browser, but for Enter." : "Keys are on in this browser.";
    switched.querySelector("button").textContent = off() ? "Turn keys on" : "Turn keys off";
    switched.hidden = false;
  }
  if (switched) {
    showSwitch();
    switched.querySelector("button").addEventListener("click", function () {
      try { localStorage.setItem("gavel-keys", off() ? "on" : "off"); } catch (_) { /* Storage may be disabled: then the setting is unchanged. */ }
      showSwitch();
    });
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (event.target.closest("input,textarea,select,[contenteditable]")) { return; }
    if (event.key.length === 1 && off()) { return; }
    var current = document.querySelector("tr.current");
    switch (event.key) {
      case "/": { var search = document.querySelector("input[type=search]"); if (search) { event.preventDefault(); search.focus(); search.select(); } break; }
      case "j": step(1); break;
      case "k": step(-1); break;
      case "Enter": if (current && (event.target === document.body || event.target.closest("[data-open]") === current) && !event.target.closest("a,button,summary")) { window.location.href = current.dataset.open; } break;
      case "s": score(current); break;
      case "?": window.location.href = "/help"; break;
      default: {
        var control = /^[1-9n]$/.test(event.key) && document.querySelector('[data-key="' + event.key + '"]');
        if (control) { event.preventDefault(); control.click(); }
      }
    }
  });
})();
