// Lessons learned from outcomes, most confident first.

import { get, given } from "../api.js";
import { el, fill } from "../dom.js";
import { address, bar, chip, empty, field, heading, link, memoryHref, moment, namespaceField, times } from "../ui.js";

const MOST = 100;

export async function show(place, { query, signal }) {
  const asked = Object.fromEntries(["namespace", "domain", "principal"].map((name) => [name, query.get(name) ?? ""]));
  const { lessons } = await get("/lessons", { ...asked, limit: MOST }, signal);
  fill(
    place,
    heading("Lessons", "Rules learned from outcomes; their confidence follows from successes and failures."),
    form(asked),
    lessons.length ? lessons.map(lesson) : empty("No lessons.", "Add them with `holdfast learn lesson add` and `holdfast learn outcome record`."),
    lessons.length === MOST && el("p", { class: "faint" }, `Only the first ${MOST} are shown; choose a domain to see others.`),
  );
}

function form(asked) {
  const namespace = namespaceField(asked.namespace, { name: "namespace" });
  const text = (name) => el("input", { type: "text", name, value: asked[name], placeholder: "any" });
  const submit = (event) => (event.preventDefault(), (location.hash = address("lessons", given(Object.fromEntries(new FormData(event.target))))));
  return el("form", { class: "filters row", on: { submit } }, field("Namespace", namespace.input), namespace.parts[1], field("Domain", text("domain")), field("Person", text("principal")), el("button", {}, "Show"));
}

const lesson = (one) =>
  el(
    "article",
    { class: "card" },
    el("h3", {}, link(one.rule, memoryHref(one.id))),
    el("p", { class: "byline" }, chip(one.domain), el("span", {}, one.namespace), el("span", {}, "for ", one.principal), moment(one.updated_at)),
    el("p", {}, bar(one.confidence, `Confidence ${Math.round(one.confidence * 100)} %`), ` ${Math.round(one.confidence * 100)} % confidence · ${one.positive} successes, ${one.negative} failures, stated ${times(one.occurrences)}`),
  );
