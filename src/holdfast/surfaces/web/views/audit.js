// Quality audit: a score, its findings and examples.

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
    heading("Audit", "Finds duplicates, contradictions, secrets, prompt injections, recall loops, and stale or unread memories. Read-only."),
    el("form", { class: "filters row", on: { submit: run } }, field("Namespace", namespace.input), namespace.parts[1], el("button", { class: "primary" }, "Run audit")),
    report,
  );
}

function findings(told) {
  const some = told.findings.filter((one) => one.count === undefined || one.count > 0);
  return [
    el("p", {}, el("span", { class: "big" }, told.score), el("span", { class: "faint" }, ` of 100, over ${number(told.total)} memories${told.complete ? "" : " (a sample)"}`)),
    told.problems.map((one) => el("p", { class: "problem" }, one.error ?? one.what ?? JSON.stringify(one))),
    some.length === 0 && el("p", {}, chip("No findings.", "good")),
    some.map(finding),
  ];
}

const finding = (one) =>
  el(
    "article",
    { class: "card" },
    el("h3", {}, one.trouble.replaceAll("_", " ")),
    el("p", {}, one.count === undefined ? "Not available on this store." : [bar(one.share ?? 0, "Share"), ` ${number(one.count)} memories, ${Math.round((one.share ?? 0) * 1000) / 10} % · takes ${one.points} points`]),
    one.examples.length > 0 &&
      el(
        "details",
        {},
        el("summary", {}, `${one.examples.length} examples`),
        el("ul", {}, one.examples.map((example) => el("li", {}, example.what, " ", example.ids.map((id, at) => [at > 0 && ", ", link(id.slice(0, 13), memoryHref(id))])))),
      ),
  );
