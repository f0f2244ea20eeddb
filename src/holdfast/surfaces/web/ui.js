// Shared components of all views.

import { get } from "./api.js";
import { coded, el, fill } from "./dom.js";

export function heading(title, lede, ...actions) {
  return el(
    "header",
    { class: "head" },
    el("div", {}, el("h1", { tabindex: "-1" }, title), lede && el("p", { class: "lede" }, typeof lede === "string" ? coded(lede) : lede)),
    actions.length > 0 && el("div", { class: "actions" }, actions),
  );
}

export const busy = () => el("p", { class: "busy faint", role: "status" }, "Loading …");

export const problem = (error) => el("p", { class: "problem", role: "alert" }, coded(told(error)));

/** The text of an error, with a hint. */
export function told(error) {
  if (error.status === 403) return `${error.message} Use another key to see this.`;
  return error.message || String(error);
}

export const empty = (title, ...more) => el("div", { class: "empty" }, el("h2", {}, title), el("p", {}, more.map((one) => (typeof one === "string" ? coded(one) : one))));

export const chip = (text, kind = "") => el("span", { class: `chip ${kind}` }, text);

export const link = (label, href, attributes = {}) => el("a", { href, ...attributes }, label);

export const times = (count) => (count === 1 ? "once" : `${number(count)} times`);

export const memoryHref = (id, query = "") => `#/memory/${encodeURIComponent(id)}${query}`;

export const button = (label, click, attributes = {}) => el("button", { type: "button", on: { click }, ...attributes }, label);

/** A relative time, with the exact one as tooltip. */
export function moment(at) {
  if (!at) return el("span", { class: "faint" }, "–");
  const exact = new Date(at);
  return el("time", { datetime: at, title: exact.toLocaleString() }, ago(exact));
}

const STEPS = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

function ago(exact) {
  const seconds = (exact - Date.now()) / 1000;
  for (const [unit, length] of STEPS) if (Math.abs(seconds) >= length) return relative.format(Math.round(seconds / length), unit);
  return "just now";
}

/** Convert the value of a local date field to UTC. */
export const universal = (local) => (local ? new Date(local).toISOString() : "");

/** Convert a UTC time to the value of a local date field. */
export function local(at) {
  if (!at) return "";
  const exact = new Date(at);
  return new Date(exact - exact.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** A date field. An unchanged value keeps its microseconds. */
export function momentField(at, attributes = {}) {
  return el("input", { type: "datetime-local", step: "1", value: local(at), "data-exact": at ?? "", ...attributes });
}

/** The time in a date field as UTC. */
export function exactly({ value, dataset: { exact } }) {
  return exact && value === local(exact) ? exact : universal(value);
}

let fields = 0;

/** A control with its label. */
export function field(label, control, hint) {
  control.id ||= `field-${(fields += 1)}`;
  const described = hint ? `${control.id}-hint` : null;
  if (described) control.setAttribute("aria-describedby", described);
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control, hint && el("small", { id: described, class: "faint" }, hint));
}

/** A select; options are `[value, label]` or a value used as label. */
export function choice(options, chosen, attributes = {}) {
  const option = (one) => {
    const [value, label] = Array.isArray(one) ? one : [one, one || "any"];
    return el("option", { value, selected: value === (chosen ?? "") }, label);
  };
  return el("select", attributes, options.map(option));
}

/** A namespace field; suggestions are loaded on focus. */
export function namespaceField(value, attributes = {}) {
  const offered = el("datalist", { id: `field-${(fields += 1)}` });
  const input = el("input", { type: "text", value: value ?? "", list: offered.id, placeholder: "any", spellcheck: "false", ...attributes });
  const offer = async () => {
    const { namespaces } = await get("/namespaces").catch(() => ({ namespaces: [] }));
    fill(offered, namespaces.slice(0, 500).map((one) => el("option", { value: one.namespace }, `${one.count}`)));
  };
  input.addEventListener("focus", offer, { once: true });
  return { input, parts: [input, offered] };
}

/** A bar for a share from 0 to 1. */
export function bar(share, label) {
  const width = `${Math.max(0, Math.min(1, Math.abs(share))) * 100}%`;
  return el("span", { class: share < 0 ? "bar less" : "bar", role: "img", "aria-label": label }, el("i", { set: { width } }));
}

/** A table; a column is `[name, function from row to cell]`. */
export function table(rows, columns, attributes = {}) {
  const cell = (row) => ([name, of]) => el("td", { "data-name": name }, of(row));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": attributes["aria-label"] ?? "Table" },
    el(
      "table",
      attributes,
      el("thead", {}, el("tr", {}, columns.map(([name]) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, columns.map(cell(row))))),
    ),
  );
}

/** A list of names and values; empty values are omitted. */
export function pairs(entries) {
  const shown = entries.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: "pairs" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** Tabs: links to the same view with another setting. */
export function tabs(label, options, chosen, href) {
  const one = ([value, name]) => el("li", {}, el("a", { href: href(value), "aria-current": value === chosen ? "true" : null }, name));
  return el("nav", { class: "tabs", "aria-label": label }, el("ul", {}, options.map(one)));
}

/** Links to the previous and next page. */
export function pager({ offset, size, count, total, href }) {
  if (!offset && count < size) return null;
  const last = offset + count;
  return el(
    "nav",
    { class: "pager", "aria-label": "Pages" },
    offset > 0 ? link("← Previous", href(Math.max(0, offset - size)), { rel: "prev" }) : el("span"),
    el("span", { class: "faint" }, count ? `${offset + 1} to ${last}${total === undefined ? "" : ` of ${total}`}` : "No more results"),
    count >= size && (total === undefined || last < total) ? link("Next →", href(last), { rel: "next" }) : el("span"),
  );
}

/** The address of a view; empty settings are omitted. */
export function address(view, settings) {
  const pairs = Object.entries(settings).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== 0);
  return pairs.length ? `#/${view}?${new URLSearchParams(pairs)}` : `#/${view}`;
}

/** Show a message for a while, with an optional action. */
export function say(text, label, act) {
  const place = document.getElementById("said");
  const told = el("div", { class: "toast" }, el("span", {}, text));
  const gone = () => told.remove();
  if (label) told.append(button(label, () => (gone(), act())));
  told.append(button("×", gone, { class: "quiet", "aria-label": "Close" }));
  fill(place, told);
  setTimeout(gone, 12_000);
}

/** Run an action and show its error, if any. Returns its answer, or null on error. */
export async function attempt(act, done) {
  try {
    const answer = await act();
    if (done) say(typeof done === "function" ? done(answer) : done);
    return answer ?? true;
  } catch (error) {
    if (error.status !== 401) say(told(error));
    return null;
  }
}

/** Open a confirmation dialog; returns its form data, or null if cancelled. */
export function asked({ title, text, action = "Yes", danger = false, controls = [] }) {
  return new Promise((settle) => {
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", { id: "dialog-title" }, title),
      text && el("p", {}, text),
      controls,
      el(
        "div",
        { class: "actions" },
        button("Cancel", () => dialog.close("no")),
        el("button", { class: danger ? "danger" : "primary", value: "yes" }, action),
      ),
    );
    const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
    const ended = () => {
      dialog.remove();
      settle(dialog.returnValue === "yes" ? new FormData(form) : null);
    };
    dialog.addEventListener("close", ended);
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Debounce a function. */
export function settled(wait, act) {
  let waiting;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => act(...given), wait);
  };
}

/** A section that loads separately; its error does not affect the others. */
export function section(title, load, attributes = {}) {
  const inside = el("div", {}, busy());
  load().then(
    (shown) => fill(inside, shown),
    (error) => error.name !== "AbortError" && fill(inside, problem(error)),
  );
  return el("section", { class: "part", ...attributes }, title && el("h2", {}, title), inside);
}

/** Download a value as a JSON file. */
export function save(name, value) {
  const file = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }));
  const way = el("a", { href: file, download: name });
  document.body.append(way);
  way.click();
  way.remove();
  setTimeout(() => URL.revokeObjectURL(file), 60_000);
}

export const number = (value) => (value ?? 0).toLocaleString("en");
export const list = (items, attributes = {}) => el("ul", attributes, items.map((item) => el("li", {}, item)));
