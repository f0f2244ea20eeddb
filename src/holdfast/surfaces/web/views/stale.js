// Stale memories: an inbox to acknowledge, resolve or dismiss.

import { get, part, post } from "../api.js";
import { el, fill } from "../dom.js";
import { address, asked, attempt, button, chip, empty, field, heading, link, memoryHref, moment, number, pager, say, tabs } from "../ui.js";

const PAGE = 25;
const STATES = [["open", "Open"], ["acknowledged", "Acknowledged"], ["resolved", "Resolved"], ["dismissed", "Dismissed"]];
const WAYS = {
  acknowledge: ["Acknowledge", "Mark as seen; the memory stays stale."],
  resolve: ["Resolve", "Mark as resolved."],
  dismiss: ["Dismiss", "The memory is still valid."],
};

export async function show(place, { query, signal, again }) {
  const status = query.get("status") ?? "open";
  const offset = Number(query.get("offset")) || 0;
  const { invalidations, total } = await get("/invalidations", { status, limit: PAGE, offset }, signal);
  const titles = await named(invalidations, signal);
  fill(
    place,
    heading("Stale", "Memories whose sources changed, were superseded or were deleted."),
    tabs("State", STATES, status, (to) => address("stale", { status: to })),
    el("p", { class: "faint" }, `${number(total)} ${status}.`),
    invalidations.length ? invalidations.map((one) => row(one, titles, again)) : empty(status === "open" ? "No stale memories." : "None."),
    pager({ offset, size: PAGE, count: invalidations.length, total, href: (to) => address("stale", { status, offset: to }) }),
  );
}

/** Titles of the invalidated sources and their replacements, where visible. */
async function named(invalidations, signal) {
  const ids = [...new Set(invalidations.flatMap((one) => [one.invalidated_id, one.invalidating_id]).filter(Boolean))];
  const found = await Promise.all(ids.map((id) => get(`/memories/${part(id)}`, {}, signal).catch(() => ({}))));
  return new Map(ids.map((id, at) => [id, found[at].title]));
}

function row(one, titles, again) {
  const settled = one.status === "resolved" || one.status === "dismissed";
  const ways = Object.entries(WAYS).filter(([way]) => !(way === "acknowledge" && one.status === "acknowledged"));
  return el(
    "article",
    { class: "card" },
    el("h3", {}, link(one.title, memoryHref(one.dependent_id))),
    el(
      "p",
      {},
      chip(one.cause, "warn"),
      " ",
      one.invalidated_id ? link(titles.get(one.invalidated_id) ?? "source", memoryHref(one.invalidated_id)) : "a source you cannot see",
      one.invalidating_id && [" by ", link(titles.get(one.invalidating_id) ?? "replacement", memoryHref(one.invalidating_id))],
      el("span", { class: "faint" }, one.hop > 1 && `, ${one.hop} steps away`, " · ", one.namespace, " · by ", one.agent_id, " · ", moment(one.created_at)),
    ),
    one.reason && el("p", {}, `“${one.reason}”`, el("span", { class: "faint" }, ` ${one.resolver ?? ""}`)),
    !settled && el("p", { class: "actions" }, ways.map(([way, [label, hint]]) => button(label, () => settle(one, way, again), { title: hint, class: way === "resolve" ? "primary" : "" }))),
  );
}

async function settle(one, way, again) {
  const [label, hint] = WAYS[way];
  const reason = el("input", { type: "text", name: "reason", maxlength: "512" });
  const form = await asked({ title: `${label}: ${one.title}`, text: hint, action: label, controls: [field("Reason (optional)", reason)] });
  if (!form) return;
  const body = { ids: [one.id], ...(form.get("reason").trim() ? { reason: form.get("reason").trim() } : {}) };
  const done = await attempt(() => post(`/invalidations/${way}`, body));
  if (!done) return;
  const [outcome] = done.outcomes;
  again();
  if (outcome.error) say(outcome.error);
  else if (outcome.reflect_with?.length) say(`Done. A new reflection could use ${outcome.reflect_with.length} memories.`);
  else say("Done.");
}
