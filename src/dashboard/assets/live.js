// Keeps open pages in step: one stream of events per browser, shared between its tabs, and the pieces that an event is about asked
// for again. Without a stream the pieces are asked for every ten seconds. A piece that can't be had stays as it was, and the page
// says so. A tab that nobody sees asks for what its title says alone.
(function () {
  "use strict";
  var POLL_MS = 10000, BEAT_MS = 10000, GATHER_MS = 250, OPENING_MS = 1500, ANSWER_MS = 15000, RETRY_MS = 2000, RETRY_MOST_MS = 30000, SAID_MS = 8000;
  var channel = "BroadcastChannel" in window ? new BroadcastChannel("gavel") : null, fields = "input,textarea,select";
  var leader = false, streamed = false, opened = false, source = null, lastId = remembered();
  // What to ask for, by its element's id; what an event was about since its last answer; who asks, since when; who was refused; who
  // has an answer on its way, and about what.
  var due = new Set(), newer = new Set(), asked = new Map(), failed = new Map(), busy = new Map(), timer = null, timerAt = 0;

  // The stream resumes behind what the page before this one in its tab has heard, so that nothing between the two is lost. A page
  // that the browser kept may be older than that.
  function remembered() {
    var entry = performance.getEntriesByType("navigation")[0];
    if (entry && entry.type === "back_forward") { return null; }
    try { return sessionStorage.getItem("gavel-last-event"); } catch (_) { return null; }
  }
  function remember(id) {
    if (!id) { return; }
    lastId = id;
    try { sessionStorage.setItem("gavel-last-event", id); } catch (_) { /* A browser may forbid it: then the page is asked for anew. */ }
  }

  // An element names what it shows in data-live: "any", "session:ID", "job:ID", "batch:ID", several with blanks between; and in
  // data-on the only types of events that change it.
  function concerns(element, event) {
    if (event === null) { return true; }
    if (element.dataset.on && element.dataset.on.split(" ").indexOf(event.type) < 0) { return false; }
    return element.dataset.live.split(" ").some(function (name) {
      var at = name.indexOf(":"), kind = name.slice(0, at), id = name.slice(at + 1);
      return name === "any" || event[kind + "_id"] === id;
    });
  }
  // Rows are asked for together, by their table.
  function asker(element) { return element.closest("[data-rows]") || element; }
  function typed(element) {
    return Array.from(element.querySelectorAll(fields)).some(function (field) {
      if (field.type === "hidden") { return false; }
      if (field.tagName === "SELECT") {
        var set = Array.from(field.options).findIndex(function (option) { return option.defaultSelected; });
        return field.selectedIndex !== Math.max(set, 0);
      }
      return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    });
  }
  // How long an element must wait: what is being filled in waits until it is left, what costs the server more to draw as long as
  // its data-least-ms says, what was refused longer each time.
  function waits(element, now) {
    var by = asker(element), field = document.activeElement && document.activeElement.closest(fields), refused = failed.get(by.id);
    if (busy.has(by.id) || (field && by.contains(field))) { return Infinity; }
    if (document.hidden && element.dataset.title === undefined && !element.querySelector("[data-title]")) { return Infinity; }
    if (by.dataset.untyped !== undefined && typed(by)) {
      // Asked for on suspicion alone, it may be the same.
      if (newer.has(by.id)) { news(by); }
      return Infinity;
    }
    return Math.max((asked.get(by.id) || 0) + Number(by.dataset.leastMs || 0), refused ? refused.again : 0, now) - now;
  }
  function news(element) {
    if (element.querySelector(".news")) { return; }
    var note = document.createElement("p");
    note.className = "note warn news";
    note.textContent = "There is a newer score. It shows here once what you have filled in is sent or cleared.";
    element.prepend(note);
  }
  function plan(ms) {
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
      var wait = waits(element, now), by = asker(element);
      if (wait > 0) { next = Math.min(next, wait); return; }
      ready.set(by, (ready.get(by) || []).concat(id));
    });
    ready.forEach(function (ids, by) {
      ids.forEach(function (id) { due.delete(id); });
      asked.set(by.id, now);
      busy.set(by.id, ids);
      by.dispatchEvent(new CustomEvent("gavel:refresh"));
    });
    if (next < Infinity) { plan(Math.max(next, GATHER_MS)); }
  }
  function want(elements) {
    elements.forEach(function (element) { due.add(element.id); });
    plan(GATHER_MS);
  }
  function every(css) { return Array.from(document.querySelectorAll(css)); }
  function heard(event) {
    var concerned = every("[data-live]").filter(function (element) { return concerns(element, event); });
    if (event) { concerned.forEach(function (element) { newer.add(asker(element).id); }); }
    want(concerned);
  }
  // The server is there (again): what was refused needn't wait any longer.
  function retry() {
    failed.forEach(function (refused) { refused.again = 0; });
    plan(GATHER_MS);
  }
  function all() {
    opened = true;
    retry();
    heard(null);
  }

  // The pieces' answers. Nothing but a piece of ours takes a piece's place: neither an error nor another's page.
  function foreign(detail) {
    var main = detail.tasks[0], raw = detail.ctx.response.raw;
    if (raw.redirected || !raw.headers.has("gavel-page")) { return true; }
    return detail.ctx.select ? !(main && main.fragment.childElementCount) : /<html[\s>]/i.test(detail.ctx.text);
  }
  function isLive(ctx) { return ctx && ctx.sourceElement && busy.has(ctx.sourceElement.id); }
  function refuse(ctx, why) {
    var id = ctx.sourceElement.id, before = failed.get(id), tries = before ? before.tries + 1 : 1;
    var again = Math.min(RETRY_MS * Math.pow(2, tries - 1), RETRY_MOST_MS);
    failed.set(id, { since: before ? before.since : new Date(), why: why, tries: tries, again: Date.now() + again });
    busy.get(id).forEach(function (asked) { due.add(asked); });
    ctx.sourceElement.dataset.old = "";
    showTrouble();
  }
  function ours(ctx) {
    return new DOMParser().parseFromString(ctx.text || "", "text/html").querySelector("body > .note.alarm");
  }
  function words(ctx) {
    if (!ctx.response) { return "The server can't be reached"; }
    if (ctx.response.status === 401) { return "You are signed out"; }
    if (ctx.error) { return "The server's answer broke off"; }
    if (ctx.response.status < 400) { return "Something on the way to the server answers in its place; you may have to sign in there"; }
    var note = ours(ctx), title = note && note.querySelector("strong");
    return title ? title.textContent : "The server answers with " + ctx.response.status;
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
      if (place.firstChild) { place.replaceChildren(); say("The page is up to date again."); }
      return;
    }
    var line = document.createElement("p"), strong = document.createElement("strong");
    line.className = "banner alarm";
    strong.textContent = first.why + ", since " + first.since.toISOString().slice(11, 19) + " UTC.";
    line.append(strong, " What has a frame here is from before. It is asked for again by itself. ");
    if (first.why === words({ response: { status: 401 } })) { line.append(signIn()); }
    if (!place.firstChild || place.textContent !== line.textContent) { place.replaceChildren(line); }
  }
  // A refused action is told beside its control, where it stays until the next try or until what it is about has ended.
  function tellRefusal(ctx) {
    var form = ctx.sourceElement, home = form.closest("[data-live]") || form.parentElement, place = home.querySelector(".refusal"), note = ours(ctx);
    var out = ctx.response && ctx.response.status === 401;
    if (!place) { return; }
    if (!note || out) {
      note = document.createElement("div");
      note.className = "note alarm";
      note.setAttribute("role", "alert");
      note.textContent = words(ctx) + (out ? ": nothing was done. " : ": nothing is known to have been done. Try again.");
      if (out) { note.append(signIn()); }
    }
    place.replaceChildren(document.importNode(note, true));
    if (home.id) { want([home]); }
  }
  function settled(ctx) {
    var id = ctx.sourceElement.id;
    failed.delete(id);
    newer.delete(id);
    delete ctx.sourceElement.dataset.old;
    if (document.getElementById(id)) { delete document.getElementById(id).dataset.old; }
    showTrouble();
  }
  function isForm(ctx) { return ctx && ctx.sourceElement && ctx.sourceElement.tagName === "FORM"; }
  function lost(event) {
    var ctx = event.detail && event.detail.ctx;
    if (ctx && event.type === "htmx:error") { ctx.error = event.detail.error; }
    if (isLive(ctx)) { refuse(ctx, words(ctx)); } else if (isForm(ctx)) { tellRefusal(ctx); }
  }
  document.addEventListener("htmx:response:error", lost);
  document.addEventListener("htmx:error", lost);
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
    if (ctx && ctx.sourceElement && busy.delete(ctx.sourceElement.id)) { plan(GATHER_MS); }
  });
  document.addEventListener("submit", function (event) {
    var home = event.target.closest("[data-live]"), place = home && home.querySelector(".refusal");
    if (place) { place.replaceChildren(); }
  });

  // What a swap must not lose: where the focus was. What it should tell: that something which moved has ended.
  var kept = new WeakMap();
  function parents(element) {
    var found = [];
    for (; element && element !== document.body; element = element.parentElement) { found.push(element); }
    return found;
  }
  document.addEventListener("htmx:before:swap", function (event) {
    var ctx = event.detail.ctx;
    if (ctx.response.status >= 400) { event.preventDefault(); return; }
    if (foreign(event.detail)) { event.preventDefault(); lost(event); return; }
    kept.set(ctx, {
      focus: parents(isForm(ctx) ? ctx.sourceElement : document.activeElement),
      moving: every("[data-live][data-moving]").map(function (element) { return element.id; })
    });
  });
  document.addEventListener("htmx:after:swap", function (event) {
    var ctx = event.detail.ctx, before = kept.get(ctx);
    if (!before) { return; }
    if (isLive(ctx)) { settled(ctx); }
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
      if (element.dataset.said) { say(element.dataset.said); }
    });
    var title = document.querySelector("main [data-title]");
    if (title) { document.title = title.dataset.title; }
  });

  // What is told in a corner for a while, and to those who listen: the newest three.
  var saying = [], silence = null;
  function say(text) {
    var place = document.getElementById("said");
    if (!place) { return; }
    saying = saying.concat(text).slice(-3);
    place.replaceChildren.apply(place, saying.map(function (text) {
      var line = document.createElement("p");
      line.textContent = text;
      return line;
    }));
    clearTimeout(silence);
    silence = setTimeout(function () { saying = []; place.replaceChildren(); }, SAID_MS);
  }
  document.addEventListener("gavel:say", function (event) { say(event.detail); });

  // The stream.
  function tell(message) {
    if (channel) { channel.postMessage(message); }
  }
  function status(on) {
    var place = document.getElementById("stream");
    streamed = on;
    document.documentElement.dataset.stream = on ? "live" : "polling";
    if (place) { place.textContent = on ? "Live" : "Not live: asks every ten seconds"; }
    // What the head says may be what ended the stream.
    if (!on) { want(every('[data-live="any"]')); }
  }
  function open() {
    if (source) { return; }
    source = new EventSource("/api/v1/events" + (lastId ? "?last_event_id=" + encodeURIComponent(lastId) : ""));
    var types = ["hello", "reset", "interrupted", "restored", "bye", "job.queued", "job.started", "job.waiting", "job.succeeded", "job.failed", "job.cancelled", "job.retried",
      "batch.created", "batch.paused", "batch.resumed", "batch.completed", "batch.cancelled",
      "judge.closed", "judge.opened", "queue.paused", "queue.resumed"];
    function take(message) {
      var event = null;
      try { event = JSON.parse(message.data); } catch (_) { return; }
      remember(message.lastEventId);
      // A server that stops says so, and the stream that follows says what was missed.
      if (message.type === "bye") { return; }
      if (message.type === "hello") {
        status(true);
        // A stream that doesn't resume has missed what happened before it.
        // Nor does one that does: the page before this one may have heard of what happened after this one was drawn.
        if (event.resumed && opened) { retry(); } else { all(); }
        tell({ live: true, all: !event.resumed, id: lastId });
        return;
      }
      // The stream stays, and hears nothing for a while.
      if (message.type === "interrupted") { status(false); tell({ live: false }); return; }
      if (message.type === "restored") { status(true); all(); tell({ live: true, all: true, id: lastId }); return; }
      if (message.type === "reset") { event = null; }
      heard(event);
      tell({ event: event, id: lastId });
    }
    types.forEach(function (type) { source.addEventListener(type, take); });
    source.onmessage = take;
    source.onerror = function () {
      if (streamed || !opened) { status(false); tell({ live: false }); }
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
      if (data.ask) {
        if (leader && streamed) { tell({ live: true, all: false, id: lastId }); }
        return;
      }
      remember(data.id);
      if ("live" in data) {
        if (data.live !== streamed) { status(data.live); }
        if (data.live) { retry(); }
        if (data.live && (data.all || !opened)) { all(); }
      }
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
    var seen = function () { if (document.hidden) { close(); } else { open(); } };
    document.addEventListener("visibilitychange", seen);
    seen();
  }
  // What happened between the drawing of this page and its first listening was told to nobody here.
  setTimeout(function () { if (!opened) { all(); } }, OPENING_MS);
  setInterval(function () { if (!streamed && !document.hidden) { heard(null); } }, POLL_MS);
  // A worker that dies tells nobody, nor does a judge's call that failed and is made again, nor a session that is stored: how
  // the service does, and what moves, is asked for now and then.
  setInterval(function () { if (streamed && !document.hidden) { want(every('[data-live="any"],[data-live][data-moving]')); } }, BEAT_MS);
  document.addEventListener("visibilitychange", function () { if (!document.hidden) { want(every('[data-live="any"]')); } });
  document.addEventListener("focusout", function () { plan(GATHER_MS); });
  document.addEventListener("input", function () { plan(GATHER_MS); });
  window.addEventListener("pageshow", function (event) { if (event.persisted) { all(); } });
})();
