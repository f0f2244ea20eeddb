// Health of the store: doctor report, counts, and journal verification.

import { get } from "../api.js";
import { coded, el, fill } from "../dom.js";
import { attempt, button, chip, heading, link, number, pairs, section, table } from "../ui.js";

const COLOURS = { ok: "good", warn: "warn", critical: "bad" };

export async function show(place, { signal }) {
  const verdict = el("span", { "aria-live": "polite" });
  const verify = async () => {
    const told = await attempt(() => get("/verify", {}, signal));
    if (told) fill(verdict, chip(told.intact ? "The journal is intact." : "The journal is damaged or was tampered with.", told.intact ? "good" : "bad"));
  };
  fill(
    place,
    heading("Health", "The report of `holdfast doctor`; read-only.", button("Verify the journal", verify), verdict),
    section(null, () => counts(signal)),
    section("Report", () => examined(signal)),
    section("Namespaces", () => namespaces(signal)),
  );
}

async function counts(signal) {
  const told = await get("/stats", {}, signal);
  const one = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  return el(
    "dl",
    { class: "figures" },
    one("Memories", number(told.total)),
    one("Archived", number(told.archived_total)),
    one("Links", number(told.links_count)),
    one("Changes", number(told.changes)),
    one("Expire soon", number(told.expiring_soon)),
    one("Megabytes", (told.db_size_bytes / 1e6).toFixed(1)),
  );
}

async function examined(signal) {
  const { status, sections } = await get("/doctor", {}, signal);
  const facts = (part) => pairs(Object.entries(part.facts).map(([name, value]) => [name.replaceAll("_", " "), value === null ? null : typeof value === "object" ? JSON.stringify(value) : value]));
  const row = (part) =>
    el(
      "details",
      { class: "card", open: part.severity !== "ok" },
      el("summary", {}, part.name.replaceAll("_", " "), " ", chip(part.severity, COLOURS[part.severity])),
      part.findings.map((one) => el("p", {}, chip(one.severity, COLOURS[one.severity]), " ", coded(one.what))),
      facts(part),
    );
  return [el("p", {}, "Status: ", chip(status, COLOURS[status])), el("div", { class: "examined" }, sections.map(row))];
}

async function namespaces(signal) {
  const { namespaces: found } = await get("/namespaces", {}, signal);
  const shown = found.slice(0, 200);
  return [
    table(shown, [["Namespace", (one) => link(one.namespace, `#/memories?namespace=${encodeURIComponent(one.namespace)}`)], ["Memories", (one) => number(one.count)]], { "aria-label": "Namespaces" }),
    found.length > shown.length && el("p", { class: "faint" }, `and ${number(found.length - shown.length)} more`),
  ];
}
