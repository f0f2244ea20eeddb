// How clean the memory is: a score, what takes from it, and where to look.

import { post } from "../api.js";
import { el, fill } from "../dom.js";
import { bar, busy, chip, field, heading, link, memoryHref, namespaceField, number, problem } from "../ui.js";

export async function show(place, { query, signal }) {
  const namespace = namespaceField(query.get("namespace"));
  const report = el("div", { "aria-live": "polite" });
  const run = async (event) => {
    event.preventDefault();
    fill(report, busy());
    const chosen = namespace.input.value.trim();
    try {
      fill(report, findings(await post("/audit", chosen ? { namespace: chosen } : {}, signal)));
    } catch (error) {
      if (error.name !== "AbortError") fill(report, problem(error));
    }
  };
  fill(
    place,
    heading("Audit", "Looks for duplicates, contradictions, secrets, orders in disguise, recall loops, and what is stale or never read. It changes nothing."),
    el("form", { class: "filters row", on: { submit: run } }, field("Namespace", namespace.input), namespace.parts[1], el("button", { class: "primary" }, "Look through it")),
    report,
  );
}

function findings(told) {
  const some = told.findings.filter((one) => one.count === undefined || one.count > 0);
  return [
    el("p", {}, el("span", { class: "big" }, told.score), el("span", { class: "faint" }, ` of 100, over ${number(told.total)} memories${told.complete ? "" : "; of very many, so many were looked at"}`)),
    told.problems.map((one) => el("p", { class: "problem" }, one.error ?? one.what ?? JSON.stringify(one))),
    some.length === 0 && el("p", {}, chip("Nothing was found.", "good")),
    some.map(finding),
  ];
}

const finding = (one) =>
  el(
    "article",
    { class: "card" },
    el("h3", {}, one.trouble.replaceAll("_", " ")),
    el("p", {}, one.count === undefined ? "That cannot be known here." : [bar(one.share ?? 0, "Share"), ` ${number(one.count)} memories, ${Math.round((one.share ?? 0) * 1000) / 10} % · takes ${one.points} points`]),
    one.examples.length > 0 &&
      el(
        "details",
        {},
        el("summary", {}, `${one.examples.length} to look at`),
        el("ul", {}, one.examples.map((example) => el("li", {}, example.what, " ", example.ids.map((id, at) => [at > 0 && ", ", link(id.slice(0, 13), memoryHref(id))])))),
      ),
  );
