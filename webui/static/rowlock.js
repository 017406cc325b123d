// Live parts, ticks and keys. Every page works without this file.
//
// A live part is <div data-live="name" data-every="5">: it is asked for again by the page's own address (or by
// data-url) with the header X-Live, and answered with the part alone, or 304. It holds while the tab is hidden, a
// dialog is open, a row is ticked, somebody types or selects in it, or it is held by hand.

// -- live parts

let held = false;
let failures = 0;

function reasonToHold(part) {
  if (held) return "held";
  if (document.hidden) return "hidden";
  if (document.querySelector("dialog[open]")) return "dialog";
  if (part.querySelector("input[type=checkbox]:checked")) return "selection";
  if (part.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), textarea, select"))
    return "typing";
  const selected = getSelection();
  if (!selected.isCollapsed && part.contains(selected.anchorNode)) return "text selected";
  return null;
}

function say(state, text) {
  for (const mark of document.querySelectorAll("[data-live-state]")) {
    mark.textContent = text;
    mark.dataset.liveState = state;
  }
}

// What has an id or a name can be found again after the swap.
function keyOf(element) {
  if (!element || element === document.body) return null;
  if (element.id) return `#${CSS.escape(element.id)}`;
  const href = element.getAttribute?.("href");
  if (href) return `a[href="${CSS.escape(href)}"]`;
  const name = element.getAttribute?.("name");
  return name ? `[name="${CSS.escape(name)}"][value="${CSS.escape(element.value ?? "")}"]` : null;
}

function swap(part, html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").body;
  const inside = part.contains(document.activeElement);
  const focus = inside ? keyOf(document.activeElement) : null;
  const row = part.querySelector("tr[data-at]")?.dataset.row;
  const open = new Set([...part.querySelectorAll("details[open][id]")].map((item) => item.id));
  const scrolls = [...part.querySelectorAll(".scroll, pre")].map((item) => [item.scrollLeft, item.scrollTop]);

  part.replaceChildren(...fresh.childNodes);

  for (const id of open) part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  part.querySelectorAll(".scroll, pre").forEach((item, i) => item.scrollTo(...(scrolls[i] ?? [0, 0])));
  if (row) part.querySelector(`tr[data-row="${CSS.escape(row)}"]`)?.setAttribute("data-at", "");
  if (focus) part.querySelector(focus)?.focus({ preventScroll: true });
}

async function refresh(part) {
  const headers = { "X-Live": part.dataset.live };
  if (part.dataset.etag) headers["If-None-Match"] = part.dataset.etag;
  const address = new URL(part.dataset.url ?? location.href, location.href);
  address.searchParams.delete("notice");
  const signal = AbortSignal.timeout(20000);
  const response = await fetch(address, { headers, cache: "no-store", redirect: "manual", signal });
  // The session has ended, the role is another, or what is shown is gone: the whole page says so.
  if (response.type === "opaqueredirect" || [401, 403, 404].includes(response.status)) {
    address.hash = "";
    location.replace(address); // not reload: where a form was refused, that would send it again
    return;
  }
  if (response.status === 304) return;
  if (!response.ok) throw new Error("refused", { cause: response.status });
  const html = await response.text();
  if (reasonToHold(part)) return; // somebody began meanwhile
  part.dataset.etag = response.headers.get("ETag") ?? "";
  swap(part, html);
}

function follow(part) {
  const every = Number(part.dataset.every) * 1000;
  let timer = 0;
  const next = () => (timer = setTimeout(look, Math.min(every * 2 ** Math.min(failures, 4), 60000)));
  async function look() {
    timer = 0;
    if (part.querySelector("[data-settled]")) {
      say("ended", "Ended: no longer followed");
      document.querySelector("[data-live-toggle]").remove();
      return;
    }
    const reason = reasonToHold(part);
    if (reason) {
      say("paused", `Paused: ${reason}`);
    } else {
      try {
        await refresh(part);
        failures = 0;
        say("live", `Live, every ${every / 1000} s`);
      } catch (error) {
        failures += 1;
        say("failing", `No answer${error.cause ? ` (${error.cause})` : ""}, trying again`);
      }
    }
    next();
  }
  // Who comes back to a tab after an hour is shown what is now, not what was.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !timer) return;
    clearTimeout(timer);
    countTimes();
    look();
  });
  if (part.querySelector("[data-settled]")) look();
  else next();
}

for (const part of document.querySelectorAll("[data-live]")) follow(part);

for (const page of document.querySelectorAll("[data-retry]")) {
  const address = page.querySelector("a").href; // not location's: that may take a form only
  setInterval(async () => {
    const answer = await fetch(address, { cache: "no-store" }).catch(() => null);
    if (answer && answer.status !== 503) location.replace(address);
  }, Number(page.dataset.retry) * 1000);
}

// -- how long ago: the browser's to count

function span(seconds) {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  for (const [size, name, lower, lowerName] of [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]]) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / lower);
    return `${Math.floor(whole / size)} ${name}${rest ? ` ${rest} ${lowerName}` : ""}`;
  }
  return `${whole} s`;
}

// Whole seconds up to a minute, whole minutes from then on: what ticks draws the eye.
function farAway(seconds) {
  const whole = Math.floor(Math.abs(seconds));
  if (!whole) return "now";
  const text = whole < 60 ? `${whole} s` : span(whole - (whole % 60));
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

function countTimes() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[datetime]:not([data-fixed])")) {
    const away = (Date.now() - skew - Date.parse(time.dateTime)) / 1000;
    const text = time.hasAttribute("data-since") ? span(Math.max(away, 0)) : farAway(away);
    if (time.textContent !== text) time.textContent = text;
  }
}

// How far this browser's clock is from the server's.
const skew = Date.now() - (Date.parse(document.body.dataset.now) || Date.now());
setInterval(countTimes, 1000);

// -- forms

// A form that goes on by itself, a step at a time, once somebody has sent the step before in this tab: whoever follows
// a link to it, goes back to it or reloads it is asked again. Leaving the page stops it.
const sentHere = sessionStorage.getItem("sent");
sessionStorage.removeItem("sent");
const goesOn = document.querySelector("form[data-goes-on]");
if (goesOn && sentHere === goesOn.getAttribute("action")) {
  goesOn.querySelector("[data-goes-on-state]").textContent = "Goes on by itself.";
  const timer = setTimeout(() => goesOn.requestSubmit(), 700);
  addEventListener("pagehide", () => clearTimeout(timer));
}

// A second click while the first is on its way would do it twice.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.id === "ticked" && !ticks().some((tick) => tick.checked)) {
    event.preventDefault();
    countTicks("Tick some jobs first.");
  } else if (form.method === "post") {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
    sessionStorage.setItem("sent", form.getAttribute("action")); // form.action may be a field of that name
  }
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// What was done is said once, also to who does not see it: a reload or a way back does not say it again.
const notice = document.querySelector(".notice");
if (notice) {
  const address = new URL(location.href);
  address.searchParams.delete("notice");
  history.replaceState(history.state, "", address);
  const text = notice.textContent;
  notice.textContent = "\u00a0";
  setTimeout(() => (notice.textContent = text), 100);
}

// -- clicks and ticks, wherever they happen

let lastTick = null;

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-live-toggle], [data-copy], [data-opens], [data-closes], [data-tick-all], input[data-tick]");
  for (const menu of document.querySelectorAll("details.menu[open]"))
    if (!menu.contains(event.target)) menu.open = false;
  if (!target) return;

  if (target.matches("[data-live-toggle]")) {
    held = !held;
    target.textContent = held ? "Resume" : "Hold";
    say(held ? "paused" : "live", held ? "Paused: held" : "Live");
  } else if (target.matches("[data-copy]")) {
    copy(target);
  } else if (target.matches("[data-opens]")) {
    target.focus(); // where the dialog gives it back to, also when a key opened it
    document.getElementById(target.dataset.opens)?.showModal();
  } else if (target.matches("[data-closes]")) {
    target.closest("dialog")?.close();
  } else if (target.matches("[data-tick-all]")) {
    for (const tick of ticks()) tick.checked = target.checked;
    countTicks();
  } else {
    if (event.shiftKey && lastTick) {
      const all = ticks();
      const [from, to] = [all.indexOf(lastTick), all.indexOf(target)].sort((a, b) => a - b);
      if (from >= 0) for (const tick of all.slice(from, to + 1)) tick.checked = target.checked;
    }
    lastTick = target;
    countTicks();
  }
});

// Without TLS a browser has no clipboard for scripts: then what is to be copied, before the button, is selected.
async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected: copy it";
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-submits]")) event.target.form.requestSubmit();
  if (event.target.matches("[data-keys-off]")) localStorage.setItem("keys", event.target.checked ? "off" : "on");
});

function ticks() {
  return [...document.querySelectorAll("input[data-tick]")];
}

function countTicks(none = "") {
  const ticked = ticks().filter((tick) => tick.checked).length;
  for (const place of document.querySelectorAll("[data-tick-count]"))
    place.textContent = ticked ? `${ticked} ticked` : none;
  for (const all of document.querySelectorAll("[data-tick-all]")) all.checked = ticked > 0 && ticked === ticks().length;
}

// -- keys

let pendingGo = false;

function rows() {
  return [...document.querySelectorAll("tr[data-row]")];
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.hasAttribute("data-at"));
  const to = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1);
  all[at]?.removeAttribute("data-at");
  all[to].setAttribute("data-at", "");
  all[to].scrollIntoView({ block: "nearest" });
  all[to].querySelector("a")?.focus({ preventScroll: true }); // which also reads it to who does not see the frame
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  }
  if (event.target.matches?.("input:not([type=checkbox]), textarea, select")) return;
  if (localStorage.getItem("keys") === "off" && event.key !== "?") return;
  if (document.querySelector("dialog[open]")) return;

  if (pendingGo) {
    pendingGo = false;
    document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  const row = document.querySelector("tr[data-at]");
  const act = (name) => {
    const button = document.querySelector(`[data-key="${name}"]:not(:disabled)`);
    const tick = row?.querySelector("input[data-tick]");
    if (button?.form?.id === "ticked" && tick && !ticks().some((each) => each.checked)) tick.checked = true;
    button?.click();
  };
  switch (event.key) {
    case "g": pendingGo = true; setTimeout(() => (pendingGo = false), 1500); break;
    case "/": document.querySelector("[data-search]")?.focus(); break;
    case "?": document.getElementById("keys")?.showModal(); break;
    case "j": move(1); break;
    case "k": move(-1); break;
    case "x": row?.querySelector("input[data-tick]")?.click(); break;
    case "Enter":
      if (!row || (event.target !== document.body && event.target.id !== "main")) return;
      row.querySelector("a")?.click();
      break;
    case "r": act("retry"); break;
    case "c": act("cancel"); break;
    case ".": document.querySelector("[data-live-toggle]")?.click(); break;
    case "t": {
      const theme = document.getElementById("theme");
      if (theme) {
        theme.selectedIndex = (theme.selectedIndex + 1) % theme.options.length;
        theme.form.requestSubmit();
      }
      break;
    }
    default: return;
  }
  event.preventDefault();
});

const keysOff = document.querySelector("[data-keys-off]");
if (keysOff) keysOff.checked = localStorage.getItem("keys") === "off";
