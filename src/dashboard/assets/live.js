// Live updates: shares one event stream between all tabs of a browser, and reloads the elements that an event affects. Without a
// stream, elements are reloaded every ten seconds. If a reload fails, the old content stays and the page shows the error. A hidden
// tab only reloads the elements that affect its title.
(function () {
  "use strict";
  var POLL_MS = 10000, BEAT_MS = 10000, GATHER_MS = 250, OPENING_MS = 1500, ANSWER_MS = 15000, RETRY_MS = 2000, MAX_RETRY_MS = 30000, MESSAGE_MS = 8000;
  var channel = "BroadcastChannel" in window ? new BroadcastChannel("gavel") : null, fields = "input,textarea,select";
  var leader = false, streamed = false, opened = false, source = null, lastId = loadLastId();
  // By element id: elements to reload; those changed by events since their last reload; times of the last requests; failures;
  // active requests with the elements they reload.
  var due = new Set(), changed = new Set(), requestedAt = new Map(), failed = new Map(), busy = new Map(), timer = null, timerAt = 0;

  // The stream resumes after the last event of the tab's previous page, so that no event is lost in between. A page restored from
  // the history may be older than that event.
  function loadLastId() {
    var entry = performance.getEntriesByType("navigation")[0];
    if (entry && entry.type === "back_forward") { return null; }
    try { return sessionStorage.getItem("gavel-last-event"); } catch (_) { return null; }
  }
  function saveLastId(id) {
    if (!id) { return; }
    lastId = id;
    try { sessionStorage.setItem("gavel-last-event", id); } catch (_) { /* Storage may be disabled: then the page reloads. */ }
  }

  // data-live lists an element's subjects, separated by blanks: "any", "session:ID", "job:ID", "batch:ID". data-on limits the event
  // types that affect it.
  function concerns(element, event) {
    if (event === null) { return true; }
    if (element.dataset.on && element.dataset.on.split(" ").indexOf(event.type) < 0) { return false; }
    return element.dataset.live.split(" ").some(function (name) {
      var at = name.indexOf(":"), kind = name.slice(0, at), id = name.slice(at + 1);
      return name === "any" || event[kind + "_id"] === id;
    });
  }
  // A table requests all its rows at once.
  function requester(element) { return element.closest("[data-rows]") || element; }
  function hasInput(element) {
    return Array.from(element.querySelectorAll(fields)).some(function (field) {
      if (field.type === "hidden") { return false; }
      if (field.tagName === "SELECT") {
        var set = Array.from(field.options).findIndex(function (option) { return option.defaultSelected; });
        return field.selectedIndex !== Math.max(set, 0);
      }
      return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    });
  }
  // Returns the delay until an element may reload, in milliseconds: unlimited while the user fills it in, at least data-least-ms
  // for elements that are expensive to render, and with backoff after failures.
  function delayOf(element, now) {
    var by = requester(element), field = document.activeElement && document.activeElement.closest(fields), refused = failed.get(by.id);
    if (busy.has(by.id) || (field && by.contains(field))) { return Infinity; }
    if (document.hidden && element.dataset.title === undefined && !element.querySelector("[data-title]")) { return Infinity; }
    if (by.dataset.untyped !== undefined && hasInput(by)) {
      // Only after an event, because a periodic reload may have no changes.
      if (changed.has(by.id)) { showNewer(by); }
      return Infinity;
    }
    return Math.max((requestedAt.get(by.id) || 0) + Number(by.dataset.leastMs || 0), refused ? refused.again : 0, now) - now;
  }
  function showNewer(element) {
    if (element.querySelector(".news")) { return; }
    var note = document.createElement("p");
    note.className = "note warn news";
    note.textContent = "A newer score exists. It appears here after you send or clear the form.";
    element.prepend(note);
  }
  function scheduleRefresh(ms) {
    var at = Date.now() + ms;
    if (!due.size || (timer !== null && timerAt <= at)) { return; }
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(refresh, ms);
  }
  function refresh() {
    timer = null;
    var now = Date.now(), next = Infinity, ready = new Map();
    due.forEach(function (id) {
      var element = document.getElementById(id);
      if (!element || element.dataset.live === undefined) { due.delete(id); return; }
      var wait = delayOf(element, now), by = requester(element);
      if (wait > 0) { next = Math.min(next, wait); return; }
      ready.set(by, (ready.get(by) || []).concat(id));
    });
    ready.forEach(function (ids, by) {
      ids.forEach(function (id) { due.delete(id); });
      requestedAt.set(by.id, now);
      busy.set(by.id, ids);
      by.dispatchEvent(new CustomEvent("gavel:refresh"));
    });
    if (next < Infinity) { scheduleRefresh(Math.max(next, GATHER_MS)); }
  }
  function reload(elements) {
    elements.forEach(function (element) { due.add(element.id); });
    scheduleRefresh(GATHER_MS);
  }
  function queryAll(css) { return Array.from(document.querySelectorAll(css)); }
  function handleEvent(event) {
    var concerned = queryAll("[data-live]").filter(function (element) { return concerns(element, event); });
    if (event) { concerned.forEach(function (element) { changed.add(requester(element).id); }); }
    reload(concerned);
  }
  // The server is available: retries failed elements at once.
  function retryFailed() {
    failed.forEach(function (refused) { refused.again = 0; });
    scheduleRefresh(GATHER_MS);
  }
  function reloadAll() {
    opened = true;
    retryFailed();
    handleEvent(null);
  }

  // Only a fragment of this server may replace an element, not an error or a proxy's page.
  function isForeign(detail) {
    var main = detail.tasks[0], raw = detail.ctx.response.raw;
    if (raw.redirected || !raw.headers.has("gavel-page")) { return true; }
    return detail.ctx.select ? !(main && main.fragment.childElementCount) : /<html[\s>]/i.test(detail.ctx.text);
  }
  function isLive(ctx) { return ctx && ctx.sourceElement && busy.has(ctx.sourceElement.id); }
  function recordFailure(ctx, why) {
    var id = ctx.sourceElement.id, before = failed.get(id), tries = before ? before.tries + 1 : 1;
    var again = Math.min(RETRY_MS * Math.pow(2, tries - 1), MAX_RETRY_MS);
    failed.set(id, { since: before ? before.since : new Date(), why: why, tries: tries, again: Date.now() + again });
    busy.get(id).forEach(function (element) { due.add(element); });
    ctx.sourceElement.dataset.old = "";
    showTrouble();
  }
  function errorNote(ctx) {
    return new DOMParser().parseFromString(ctx.text || "", "text/html").querySelector("body > .note.alarm");
  }
  function failureText(ctx) {
    if (!ctx.response) { return "The server can't be reached"; }
    if (ctx.response.status === 401) { return "You are signed out"; }
    if (ctx.error) { return "The server's answer broke off"; }
    if (ctx.response.status < 400) { return "A proxy replied instead of the server; you may have to sign in there"; }
    var note = errorNote(ctx), title = note && note.querySelector("strong");
    return title ? title.textContent : "The server returned status " + ctx.response.status;
  }
  function signIn() {
    var link = document.createElement("a");
    link.href = "/sign-in?next=" + encodeURIComponent(location.pathname + location.search);
    link.target = "_blank";
    link.textContent = "Sign in, in a new tab";
    return link;
  }
  function showTrouble() {
    var place = document.getElementById("trouble"), first = failed.values().next().value;
    if (!place) { return; }
    if (!first) {
      if (place.firstChild) { place.replaceChildren(); notify("The page is up to date again."); }
      return;
    }
    var line = document.createElement("p"), strong = document.createElement("strong");
    line.className = "banner alarm";
    strong.textContent = first.why + ", since " + first.since.toISOString().slice(11, 19) + " UTC.";
    line.append(strong, " Framed parts of this page are outdated. They reload automatically. ");
    if (first.why === failureText({ response: { status: 401 } })) { line.append(signIn()); }
    if (!place.firstChild || place.textContent !== line.textContent) { place.replaceChildren(line); }
  }
  // Shows a failed action next to its control until the next attempt, or until its subject has finished.
  function showActionError(ctx) {
    var form = ctx.sourceElement, home = form.closest("[data-live]") || form.parentElement, place = home.querySelector(".refusal"), note = errorNote(ctx);
    var out = ctx.response && ctx.response.status === 401;
    if (!place) { return; }
    if (!note || out) {
      note = document.createElement("div");
      note.className = "note alarm";
      note.setAttribute("role", "alert");
      note.textContent = failureText(ctx) + (out ? ": no change was made. " : ": the result is unknown. Try again.");
      if (out) { note.append(signIn()); }
    }
    place.replaceChildren(document.importNode(note, true));
    if (home.id) { reload([home]); }
  }
  function recordSuccess(ctx) {
    var id = ctx.sourceElement.id;
    failed.delete(id);
    changed.delete(id);
    delete ctx.sourceElement.dataset.old;
    if (document.getElementById(id)) { delete document.getElementById(id).dataset.old; }
    showTrouble();
  }
  function isForm(ctx) { return ctx && ctx.sourceElement && ctx.sourceElement.tagName === "FORM"; }
  function handleError(event) {
    var ctx = event.detail && event.detail.ctx;
    if (ctx && event.type === "htmx:error") { ctx.error = event.detail.error; }
    if (isLive(ctx)) { recordFailure(ctx, failureText(ctx)); } else if (isForm(ctx)) { showActionError(ctx); }
  }
  document.addEventListener("htmx:response:error", handleError);
  document.addEventListener("htmx:error", handleError);
  document.addEventListener("htmx:config:request", function (event) {
    var ctx = event.detail.ctx, by = ctx.sourceElement;
    if (!isLive(ctx)) { return; }
    ctx.request.timeout = ANSWER_MS;
    if (by.dataset.rows !== undefined) {
      var ids = busy.get(by.id);
      ctx.request.body.set("ids", Array.from(by.rows).filter(function (row) { return ids.indexOf(row.id) >= 0; }).map(function (row) { return row.dataset.row; }).join(","));
    }
  });
  document.addEventListener("htmx:finally:request", function (event) {
    var ctx = event.detail.ctx;
    if (isForm(ctx)) { ctx.sourceElement.querySelectorAll("button:disabled").forEach(function (button) { button.disabled = false; }); }
    if (ctx && ctx.sourceElement && busy.delete(ctx.sourceElement.id)) { scheduleRefresh(GATHER_MS); }
  });
  document.addEventListener("submit", function (event) {
    var home = event.target.closest("[data-live]"), place = home && home.querySelector(".refusal");
    if (place) { place.replaceChildren(); }
  });

  // Restores the focus after a swap, and reports subjects that have finished.
  var beforeSwaps = new WeakMap();
  function parents(element) {
    var found = [];
    for (; element && element !== document.body; element = element.parentElement) { found.push(element); }
    return found;
  }
  document.addEventListener("htmx:before:swap", function (event) {
    var ctx = event.detail.ctx;
    if (ctx.response.status >= 400) { event.preventDefault(); return; }
    if (isForeign(event.detail)) { event.preventDefault(); handleError(event); return; }
    beforeSwaps.set(ctx, {
      focus: parents(isForm(ctx) ? ctx.sourceElement : document.activeElement),
      moving: queryAll("[data-live][data-moving]").map(function (element) { return element.id; })
    });
  });
  document.addEventListener("htmx:after:swap", function (event) {
    var ctx = event.detail.ctx, before = beforeSwaps.get(ctx);
    if (!before) { return; }
    if (isLive(ctx)) { recordSuccess(ctx); }
    if (before.focus.length && (!document.activeElement || document.activeElement === document.body)) {
      var near = before.focus.find(function (element) { return element.isConnected; });
      var target = near && (near.matches("a,button,summary") ? near : near.querySelector("a[href],button:not(:disabled),summary"));
      if (target) { target.focus({ preventScroll: true }); }
    }
    before.moving.forEach(function (id) {
      var element = document.getElementById(id);
      if (!element || element.dataset.moving !== undefined) { return; }
      var place = element.querySelector(".refusal");
      if (place) { place.replaceChildren(); }
      if (element.dataset.said) { notify(element.dataset.said); }
    });
    var title = document.querySelector("main [data-title]");
    if (title) { document.title = title.dataset.title; }
  });

  // Shows the newest three messages for a while, in a corner that screen readers announce.
  var messages = [], hideTimer = null;
  function notify(text) {
    var place = document.getElementById("said");
    if (!place) { return; }
    messages = messages.concat(text).slice(-3);
    place.replaceChildren.apply(place, messages.map(function (text) {
      var line = document.createElement("p");
      line.textContent = text;
      return line;
    }));
    clearTimeout(hideTimer);
    hideTimer = setTimeout(function () { messages = []; place.replaceChildren(); }, MESSAGE_MS);
  }
  document.addEventListener("gavel:say", function (event) { notify(event.detail); });

  function broadcast(message) {
    if (channel) { channel.postMessage(message); }
  }
  function setStreamed(on) {
    var place = document.getElementById("stream");
    streamed = on;
    document.documentElement.dataset.stream = on ? "live" : "polling";
    if (place) { place.textContent = on ? "Live" : "Not live: reloads every ten seconds"; }
    // The status bar may show the cause.
    if (!on) { reload(queryAll('[data-live="any"]')); }
  }
  function open() {
    if (source) { return; }
    source = new EventSource("/api/v1/events" + (lastId ? "?last_event_id=" + encodeURIComponent(lastId) : ""));
    var types = ["hello", "reset", "interrupted", "restored", "bye", "job.queued", "job.started", "job.waiting", "job.succeeded", "job.failed", "job.cancelled", "job.retried",
      "batch.created", "batch.paused", "batch.resumed", "batch.completed", "batch.cancelled",
      "judge.closed", "judge.opened", "queue.paused", "queue.resumed"];
    function onMessage(message) {
      var event = null;
      try { event = JSON.parse(message.data); } catch (_) { return; }
      saveLastId(message.lastEventId);
      // A stopping server; the next stream replays missed events.
      if (message.type === "bye") { return; }
      if (message.type === "hello") {
        setStreamed(true);
        // A stream that doesn't resume has missed earlier events. Even after a resume, events can be missing between the rendering of this
        // page and its start, because the tab's previous page may have received them.
        if (event.resumed && opened) { retryFailed(); } else { reloadAll(); }
        broadcast({ live: true, all: !event.resumed, id: lastId });
        return;
      }
      // The stream stays open without events.
      if (message.type === "interrupted") { setStreamed(false); broadcast({ live: false }); return; }
      if (message.type === "restored") { setStreamed(true); reloadAll(); broadcast({ live: true, all: true, id: lastId }); return; }
      if (message.type === "reset") { event = null; }
      handleEvent(event);
      broadcast({ event: event, id: lastId });
    }
    types.forEach(function (type) { source.addEventListener(type, onMessage); });
    source.onmessage = onMessage;
    source.onerror = function () {
      if (streamed || !opened) { setStreamed(false); broadcast({ live: false }); }
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(open, POLL_MS);
      }
    };
  }
  function close() {
    if (source) { source.close(); source = null; setStreamed(false); }
  }
  if (channel) {
    channel.onmessage = function (message) {
      var data = message.data || {};
      if (data.ask) {
        if (leader && streamed) { broadcast({ live: true, all: false, id: lastId }); }
        return;
      }
      saveLastId(data.id);
      if ("live" in data) {
        if (data.live !== streamed) { setStreamed(data.live); }
        if (data.live) { retryFailed(); }
        if (data.live && (data.all || !opened)) { reloadAll(); }
      }
      if ("event" in data) { handleEvent(data.event); }
    };
  }
  if (navigator.locks && channel) {
    broadcast({ ask: true });
    navigator.locks.request("gavel-stream", function () {
      leader = true;
      open();
      return new Promise(function () {});
    });
  } else {
    // Without locks tabs can't coordinate, so only the visible one has a stream.
    var seen = function () { if (document.hidden) { close(); } else { open(); } };
    document.addEventListener("visibilitychange", seen);
    seen();
  }
  // Catches up with events between the rendering of this page and its first connection.
  setTimeout(function () { if (!opened) { reloadAll(); } }, OPENING_MS);
  setInterval(function () { if (!streamed && !document.hidden) { handleEvent(null); } }, POLL_MS);
  // Dead workers, retried judge calls and new sessions cause no event, so the status bar and moving elements reload periodically.
  setInterval(function () { if (streamed && !document.hidden) { reload(queryAll('[data-live="any"],[data-live][data-moving]')); } }, BEAT_MS);
  document.addEventListener("visibilitychange", function () { if (!document.hidden) { reload(queryAll('[data-live="any"]')); } });
  document.addEventListener("focusout", function () { scheduleRefresh(GATHER_MS); });
  document.addEventListener("input", function () { scheduleRefresh(GATHER_MS); });
  window.addEventListener("pageshow", function (event) { if (event.persisted) { reloadAll(); } });
})();
