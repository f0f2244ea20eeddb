// Rules that were learned from how things went, the surest first.

import { get, given } from "../api.js";
import { el, fill } from "../dom.js";
import { address, bar, chip, empty, field, heading, link, memoryHref, moment, namespaceField, times } from "../ui.js";

const MOST = 100;

export async function show(place, { query, signal }) {
  const asked = Object.fromEntries(["namespace", "domain", "principal"].map((name) => [name, query.get(name) ?? ""]));
  const { lessons } = await get("/lessons", { ...asked, limit: MOST }, signal);
  fill(
    place,
    heading("Lessons", "How sure each is follows from outcomes: what went well after it, and what did not."),
    form(asked),
    lessons.length ? lessons.map(lesson) : empty("Nothing was learned yet.", "`holdfast lesson add` and `holdfast outcome record` teach."),
    lessons.length === MOST && el("p", { class: "faint" }, `These are the first ${MOST}; name a domain to see others.`),
  );
}

function form(asked) {
  const namespace = namespaceField(asked.namespace, { name: "namespace" });
  const text = (name) => el("input", { type: "text", name, value: asked[name], placeholder: "any" });
  const submit = (event) => (event.preventDefault(), (location.hash = address("lessons", given(Object.fromEntries(new FormData(event.target))))));
  return el("form", { class: "filters row", on: { submit } }, field("Namespace", namespace.input), namespace.parts[1], field("Domain", text("domain")), field("For whom", text("principal")), el("button", {}, "Show"));
}

const lesson = (one) =>
  el(
    "article",
    { class: "card" },
    el("h3", {}, link(one.rule, memoryHref(one.id))),
    el("p", { class: "byline" }, chip(one.domain), el("span", {}, one.namespace), el("span", {}, "for ", one.principal), moment(one.updated_at)),
    el("p", {}, bar(one.confidence, `Sure to ${Math.round(one.confidence * 100)} of 100`), ` ${Math.round(one.confidence * 100)} % sure · went well ${one.positive}, badly ${one.negative}, said ${times(one.occurrences)}`),
  );
