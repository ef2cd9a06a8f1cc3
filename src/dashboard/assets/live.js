// Keeps open pages in step: one stream of events per browser, shared between its tabs, and the pieces that an event is about asked
// for again. Without a stream the pieces are asked for every ten seconds while the tab is seen. Keys, and questions before costly actions.
(function () {
  "use strict";
  var POLL_MS = 10000, GATHER_MS = 250, OPENING_MS = 1500, channel = "BroadcastChannel" in window ? new BroadcastChannel("gavel") : null;
  var leader = false, streamed = false, source = null, due = new Set(), asked = new Map(), timer = null, poll = null;

  // An element names what it shows in data-live: "any", "session:ID", "job:ID", "batch:ID", several with blanks between.
  function concerns(element, event) {
    return element.dataset.live.split(" ").some(function (name) {
      if (name === "any" || event === null) { return true; }
      var at = name.indexOf(":"), kind = name.slice(0, at), id = name.slice(at + 1);
      return event[kind + "_id"] === id;
    });
  }
  // What costs the server more to draw says how often at most it is asked for, in data-least-ms.
  function later(element) {
    var least = Number(element.dataset.leastMs || 0), key = element.id || element.getAttribute("hx-get"), now = Date.now();
    if (now - (asked.get(key) || 0) < least) { return true; }
    asked.set(key, now);
    return false;
  }
  function refresh() {
    timer = null;
    // What was drawn anew meanwhile has another element under its name.
    var elements = Array.from(due).map(function (element) {
      return element.isConnected || !element.id ? element : document.getElementById(element.id) || element;
    });
    due.clear();
    elements.filter(function (element) {
      if (!element.isConnected || !later(element)) { return true; }
      due.add(element);
      return false;
    }).forEach(function (element) {
      if (element.isConnected && !element.contains(document.activeElement && document.activeElement.closest("input,textarea,select"))) {
        element.dispatchEvent(new CustomEvent("gavel:refresh"));
      }
    });
    if (due.size) { timer = setTimeout(refresh, GATHER_MS); }
  }
  function heard(event) {
    document.querySelectorAll("[data-live]").forEach(function (element) {
      if (concerns(element, event)) { due.add(element); }
    });
    if (due.size && timer === null) { timer = setTimeout(refresh, GATHER_MS); }
  }
  function tell(message) {
    if (channel) { channel.postMessage(message); }
  }
  function status(on) {
    streamed = on;
    document.documentElement.dataset.stream = on ? "live" : "polling";
  }
  function open() {
    if (source) { return; }
    source = new EventSource("/api/v1/events");
    var types = ["hello", "reset", "bye", "job.queued", "job.started", "job.waiting", "job.succeeded", "job.failed", "job.cancelled", "job.retried",
      "batch.created", "batch.paused", "batch.resumed", "batch.completed", "batch.cancelled",
      "judge.closed", "judge.opened", "queue.paused", "queue.resumed"];
    function take(message) {
      var event = null;
      if (message.type === "hello") { status(true); tell({ hello: true }); return; }
      if (message.type !== "reset" && message.type !== "bye") {
        try { event = JSON.parse(message.data); } catch (_) { return; }
      }
      heard(event);
      tell({ event: event });
    }
    types.forEach(function (type) { source.addEventListener(type, take); });
    source.onmessage = take;
    source.onerror = function () {
      status(false);
      tell({ gone: true });
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(open, POLL_MS);
      }
    };
  }
  function close() {
    if (source) { source.close(); source = null; status(false); }
  }
  if (channel) {
    channel.onmessage = function (message) {
      var data = message.data || {};
      if (data.ask && leader && streamed) { tell({ hello: true }); return; }
      if (data.hello) { status(true); }
      if (data.gone) { status(false); }
      if ("event" in data) { heard(data.event); }
    };
  }
  if (navigator.locks && channel) {
    tell({ ask: true });
    navigator.locks.request("gavel-stream", function () {
      leader = true;
      open();
      return new Promise(function () {});
    });
  } else {
    // Without locks a tab can't know of the others: only the one that is seen listens.
    var seen = function () { if (document.hidden) { close(); } else { open(); heard(null); } };
    document.addEventListener("visibilitychange", seen);
    seen();
  }
  // What happened between the drawing of this page and its first listening was told to nobody here: what moves is asked for once.
  setTimeout(function () {
    document.querySelectorAll('[data-live="any"], [data-moving]').forEach(function (element) { due.add(element); });
    if (timer === null) { refresh(); }
  }, OPENING_MS);
  poll = setInterval(function () { if (!streamed && !document.hidden) { heard(null); } }, POLL_MS);
  window.addEventListener("pagehide", function () { clearInterval(poll); });

  // Questions before what costs money or loses data; without JavaScript such forms lead over a page that asks.
  document.addEventListener("submit", function (event) {
    var form = event.target, question = form.dataset.confirm;
    if (question && !window.confirm(question)) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    // The server asks those that come without a yes.
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

  function rows() { return Array.from(document.querySelectorAll("tr[data-open]")); }
  function step(by) {
    var all = rows(), at = all.findIndex(function (row) { return row.classList.contains("current"); });
    var next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (!next) { return; }
    all.forEach(function (row) { row.classList.remove("current"); });
    next.classList.add("current");
    var link = next.querySelector("a");
    if (link) { link.focus({ preventScroll: true }); }
    next.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (event.target.closest("input,textarea,select,[contenteditable]")) { return; }
    var current = document.querySelector("tr.current");
    switch (event.key) {
      case "/": { var search = document.querySelector("input[type=search]"); if (search) { event.preventDefault(); search.focus(); search.select(); } break; }
      case "j": step(1); break;
      case "k": step(-1); break;
      case "Enter": if (current && event.target.tagName !== "A" && event.target.tagName !== "BUTTON") { window.location.href = current.dataset.open; } break;
      case "s": { var form = (current || document).querySelector("form[data-score] button:not(:disabled)"); if (form) { form.click(); } break; }
      case "?": window.location.href = "/help"; break;
      default: break;
    }
  });
})();
