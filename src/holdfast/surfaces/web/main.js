// The shell: routing, navigation, and the prompt for a key.

import { Refused, key } from "./api.js";
import { coded, el, fill } from "./dom.js";
import { busy, heading, problem } from "./ui.js";

const VIEWS = {
  search: ["Search", () => import("./views/search.js")],
  memories: ["Memories", () => import("./views/browse.js")],
  time: ["Time", () => import("./views/time.js")],
  graph: ["Graph", () => import("./views/graph.js")],
  reflections: ["Reflections", () => import("./views/reflections.js")],
  stale: ["Stale", () => import("./views/stale.js")],
  conflicts: ["Conflicts", () => import("./views/conflicts.js")],
  sync: ["Sync", () => import("./views/sync.js")],
  conversations: ["Conversations", () => import("./views/conversations.js")],
  facts: ["Facts", () => import("./views/facts.js")],
  lessons: ["Lessons", () => import("./views/lessons.js")],
  tasks: ["Tasks", () => import("./views/tasks.js")],
  skills: ["Skills", () => import("./views/skills.js")],
  usage: ["Usage", () => import("./views/usage.js")],
  audit: ["Audit", () => import("./views/audit.js")],
  health: ["Health", () => import("./views/health.js")],
  events: ["Live", () => import("./views/events.js")],
  memory: ["Memory", () => import("./views/memory.js")],
  new: ["New memory", () => import("./views/edit.js")],
  edit: ["Edit", () => import("./views/edit.js")],
};
const GROUPS = {
  Recall: ["search", "memories", "time", "graph"],
  Review: ["stale", "conflicts", "tasks"],
  Knowledge: ["reflections", "conversations", "facts", "lessons", "skills"],
  Store: ["sync", "usage", "audit", "health", "events"],
};
const FIRST = "search";

const place = document.getElementById("view");
const nav = document.getElementById("nav");
const menu = document.getElementById("menu");
let shown = new AbortController();
let asking = false;
let began = true;

/** Parse the hash of an address: view, subject and settings. Following a link never changes data. */
function named(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/").map(decoded);
  return { name: Object.hasOwn(VIEWS, name) ? name : FIRST, about: rest.join("/"), query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function show() {
  if (location.hash === "#view") return place.focus();
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { name, about, query } = named(location.hash);
  const [label, load] = VIEWS[name];
  document.title = `${label} · Holdfast`;
  mark(name);
  const inside = el("div", { class: `view view-${name}` }, heading(label), busy());
  fill(place, inside);
  try {
    const view = await load();
    if (!signal.aborted) await view.show(inside, { name, about, query, signal, again: show });
  } catch (error) {
    if (!signal.aborted) failed(inside, label, error);
  }
  if (!signal.aborted && !began && !inside.contains(document.activeElement)) inside.querySelector("h1")?.focus();
  began = false;
}

function failed(inside, label, error) {
  if (error instanceof Refused && error.status === 401) return;
  fill(inside, heading(label), problem(error));
}

function mark(name) {
  for (const link of nav.querySelectorAll("a")) {
    if (link.getAttribute("href") === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  unfold(false);
}

function unfold(open) {
  menu.setAttribute("aria-expanded", String(open));
  nav.classList.toggle("open", open);
}

function ways() {
  const link = (name) => el("li", {}, el("a", { href: `#/${name}` }, VIEWS[name][0]));
  const group = ([title, names], at) =>
    el("section", { "aria-labelledby": `group-${at}` }, el("h2", { id: `group-${at}` }, title), el("ul", {}, names.map(link)));
  fill(nav, el("a", { class: "button", href: "#/new" }, "New memory"), Object.entries(GROUPS).map(group));
  if (key.get()) nav.append(el("button", { type: "button", class: "quiet", on: { click: leave } }, "Forget the key"));
}

function leave() {
  key.forget();
  location.reload();
}

/** Show the prompt for a key instead of the view. */
function prompt(event) {
  if (asking) return;
  asking = true;
  shown.abort();
  const had = key.get() !== null;
  key.forget();
  const input = el("input", { type: "password", id: "key", required: true, autocomplete: "off", spellcheck: "false" });
  const enter = (submitted) => {
    submitted.preventDefault();
    key.set(input.value.trim());
    asking = false;
    ways();
    show();
  };
  fill(
    place,
    el(
      "form",
      { class: "key card", on: { submit: enter } },
      el("h1", { tabindex: "-1" }, "Key required"),
      el("p", {}, coded(had ? event.detail.message : "This store requires a key. Create one with `holdfast agents key create NAME`.")),
      el("label", { for: "key" }, "Key"),
      input,
      el("p", { class: "faint" }, "Stored in this tab only, until it is closed."),
      el("button", { class: "primary" }, "Open"),
    ),
  );
  document.title = "Key · Holdfast";
  input.focus();
}

function pressed(event) {
  const writing = event.target.closest?.("input, textarea, select, dialog");
  if (writing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    const field = document.querySelector(".view-search input[type=search]");
    if (field) field.focus();
    else location.hash = "#/search";
  }
  if (event.key === "n") location.hash = "#/new";
}

menu.addEventListener("click", () => unfold(menu.getAttribute("aria-expanded") !== "true"));
window.addEventListener("hashchange", show);
window.addEventListener("key-needed", prompt);
document.addEventListener("keydown", pressed);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  place.focus();
});
ways();
show();
