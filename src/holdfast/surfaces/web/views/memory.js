// One memory: content, provenance, links, sources, dependents and history.

import { get, part, post } from "../api.js";
import { difference, said } from "../diff.js";
import { el, fill, linked, outward } from "../dom.js";
import { actionsFor, byline, signs } from "../memories.js";
import { asked, attempt, button, chip, choice, empty, field, heading, link, list, memoryHref, moment, pairs, say, section } from "../ui.js";
import { provenance } from "./search.js";

const PAGE = 50;
export const RELATIONS = ["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"];

export async function show(place, { about: id, query, signal, again }) {
  const then = { as_of: query.get("as_of"), known_at: query.get("known_at") };
  const past = Boolean(then.as_of || then.known_at);
  const memory = await get(`/memories/${part(id)}`, then, signal);
  const gone = () => (location.hash = "#/memories");
  document.title = `${memory.title} · Holdfast`;
  fill(
    place,
    heading(memory.title, null, past ? link("Current version", memoryHref(id), { class: "button" }) : actionsFor(memory, again, gone)),
    past && el("p", { class: "notice" }, `Historic version: ${[then.as_of && `valid at ${stated(then.as_of)}`, then.known_at && `known at ${stated(then.known_at)}`].filter(Boolean).join(", ")}.`),
    byline(memory),
    el("p", { class: "signs" }, signs(memory)),
    el("div", { class: "content card" }, linked(memory.content)),
    details(memory),
    !past && [
      section("Links", () => links(memory, signal, again)),
      memory.memory_kind === "reflection" && section("Sources", () => ground(id, signal)),
      section("Derived from this", () => dependents(id, signal)),
      section("History", () => changes(id, 0, signal, again), { class: "part history" }),
    ],
  );
}

const stated = (at) => new Date(at).toLocaleString();

function details(memory) {
  const from = memory.source_uri?.replace(/^uri:/, "");
  return [
    provenance({ ...memory, source_uri: memory.source_uri && (/^https?:/.test(from) ? outward(from) : memory.source_uri) }),
    pairs([
      ["Created", moment(memory.created_at)],
      ["Updated", moment(memory.updated_at)],
      ["Happened", memory.occurred_at && moment(memory.occurred_at)],
      ["Valid from", memory.valid_from && moment(memory.valid_from)],
      ["Valid until", memory.valid_until && moment(memory.valid_until)],
      ["Expires", memory.expires_at && moment(memory.expires_at)],
      ["Scope", memory.scope],
      ["Stored again", memory.restated || null],
      ["Same title", memory.also?.length ? memory.also.map((id) => link(id, memoryHref(id))) : null],
      ["Id", el("code", {}, memory.id)],
    ]),
    memory.citations.length > 0 && el("details", {}, el("summary", {}, `${memory.citations.length} citations`), list(memory.citations.map((one) => el("code", {}, JSON.stringify(one))))),
    Object.keys(memory.metadata).length > 0 && el("details", {}, el("summary", {}, "Metadata"), el("pre", {}, JSON.stringify(memory.metadata, null, 2))),
  ];
}

/** Links in both directions, including ended ones. */
async function links(memory, signal, again) {
  const { nodes, links: found } = await get("/graph", { id: memory.id, max_depth: 1, include_invalidated: true, limit: 100 }, signal);
  const titles = new Map(nodes.map((one) => [one.id, one.title]));
  const row = (one) => {
    const out = one.source_id === memory.id;
    const other = out ? one.target_id : one.source_id;
    const over = one.valid_until && new Date(one.valid_until) <= new Date();
    const end = () => attempt(() => post("/kg/invalidate", { source_id: one.source_id, target_id: one.target_id, relation: one.relation }), "Link ended.").then((ok) => ok && again());
    return [
      el("span", { class: "faint" }, out ? "" : "← "),
      chip(one.relation.replaceAll("_", " "), over ? "" : "then"),
      el("span", { class: "faint" }, out ? " → " : " "),
      link(titles.get(other) ?? other, memoryHref(other)),
      el("small", { class: "faint" }, " since ", moment(one.valid_from), over && [", ended ", moment(one.valid_until)]),
      !over && [" ", button("End", end, { class: "quiet", "aria-label": `End the link to ${titles.get(other) ?? other}` })],
    ];
  };
  const mine = found.filter((one) => one.source_id === memory.id || one.target_id === memory.id);
  return [
    mine.length ? list(mine.map(row)) : el("p", { class: "faint" }, "None."),
    el("p", { class: "actions" }, button("Add link", () => join(memory, again)), mine.length > 0 && link("Graph", `#/graph?id=${encodeURIComponent(memory.id)}`, { class: "button" })),
  ];
}

async function join(memory, again) {
  const form = await asked({
    title: "Link to another memory",
    action: "Link",
    controls: [
      field("Relation", choice(RELATIONS.map((one) => [one, one.replaceAll("_", " ")]), "related_to", { name: "relation" })),
      field("Id of the other memory", el("input", { type: "text", name: "target", required: true, maxlength: "128" })),
    ],
  });
  if (!form) return;
  const made = await attempt(() => post("/links", { source_id: memory.id, target_id: form.get("target").trim(), relation: form.get("relation") }), "Linked.");
  if (made) again();
}

/** The sources of a reflection, and whether they still hold. */
export async function ground(id, signal) {
  const { nodes, links: found } = await get("/graph", { id, max_depth: 1, relations: ["reflects_on", "derived_from", "derives_from"], include_invalidated: true }, signal);
  const mine = found.filter((one) => one.source_id === id);
  const titles = new Map(nodes.map((one) => [one.id, one.title]));
  if (!mine.length) return el("p", { class: "faint" }, "None visible to you.");
  return list(mine.map((one) => [link(titles.get(one.target_id) ?? one.target_id, memoryHref(one.target_id)), one.valid_until && [" ", chip("ended", "warn")]]));
}

async function dependents(id, signal) {
  const { dependents: found, total } = await get(`/memories/${part(id)}/dependents`, { limit: PAGE }, signal);
  if (!found.length) return el("p", { class: "faint" }, "Nothing.");
  const row = (one) => [link(one.title, memoryHref(one.id)), " ", chip(one.hop === 1 ? "direct" : `${one.hop} steps away`), one.stale && [" ", chip("stale", "warn")]];
  return [list(found.map(row)), total > found.length && el("p", { class: "faint" }, `and ${total - found.length} more`)];
}

/** All changes, oldest first, each with its diff and an undo button. */
async function changes(id, after, signal, again, last = {}) {
  const { changes: found, folded_before } = await get(`/memories/${part(id)}/history`, { after, limit: PAGE }, signal);
  const shown = found.map((one) => {
    const before = last;
    if (one.memory) last = one.memory;
    return change(one, one.memory ? difference(before, one.memory) : [], again);
  });
  const more = el("div", {});
  const go = async () => fill(more, await changes(id, found.at(-1).seq, signal, again, last));
  return [
    folded_before && el("p", { class: "faint" }, `History before ${stated(folded_before)} was compacted.`),
    shown.length ? shown : empty("No changes."),
    found.length === PAGE && (put_more(more, go), more),
  ];
}

const put_more = (place, go) => fill(place, button("More", go));

export function change(one, differences, again) {
  const undo = async () => {
    const done = await attempt(() => post("/undo", { change: one.seq }));
    if (!done) return;
    again();
    say(`Undid change ${one.seq}.`, "Redo", () => attempt(() => post("/undo", { change: done.change }), "Redone.").then(again));
  };
  return el(
    "article",
    { class: "change", "aria-label": `Change ${one.seq}` },
    el(
      "header",
      {},
      el("strong", {}, one.op),
      one.kind !== "memory" && chip(one.kind),
      moment(one.at),
      el("span", { class: "faint" }, "by ", one.actor),
      link("View at this time", memoryHref(one.record, `?known_at=${encodeURIComponent(one.at)}`)),
      again && button("Undo", undo, { class: "quiet", "aria-label": `Undo change ${one.seq}` }),
    ),
    differences.length > 0 && el("dl", {}, differences.map(([name, before, now]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, said(before, now))])),
  );
}
