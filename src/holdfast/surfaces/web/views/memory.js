// One memory: what it says, where it comes from, what it hangs together with, and everything that became of it.

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
    heading(memory.title, null, past ? link("As it is now", memoryHref(id), { class: "button" }) : actionsFor(memory, again, gone)),
    past && el("p", { class: "notice" }, `As it was ${[then.as_of && `true at ${stated(then.as_of)}`, then.known_at && `known at ${stated(then.known_at)}`].filter(Boolean).join(" and ")}.`),
    byline(memory),
    el("p", { class: "signs" }, signs(memory)),
    el("div", { class: "content card" }, linked(memory.content)),
    details(memory),
    !past && [
      section("Links", () => links(memory, signal, again)),
      memory.memory_kind === "reflection" && section("What it rests on", () => ground(id, signal)),
      section("What stands on it", () => dependents(id, signal)),
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
      ["Kept", moment(memory.created_at)],
      ["Changed", moment(memory.updated_at)],
      ["Happened", memory.occurred_at && moment(memory.occurred_at)],
      ["True from", memory.valid_from && moment(memory.valid_from)],
      ["True until", memory.valid_until && moment(memory.valid_until)],
      ["Expires", memory.expires_at && moment(memory.expires_at)],
      ["Who may see it", memory.scope],
      ["Restated", memory.restated || null],
      ["Also", memory.also?.length ? memory.also.map((id) => link(id, memoryHref(id))) : null],
      ["Id", el("code", {}, memory.id)],
    ]),
    memory.citations.length > 0 && el("details", {}, el("summary", {}, `${memory.citations.length} citations`), list(memory.citations.map((one) => el("code", {}, JSON.stringify(one))))),
    Object.keys(memory.metadata).length > 0 && el("details", {}, el("summary", {}, "Metadata"), el("pre", {}, JSON.stringify(memory.metadata, null, 2))),
  ];
}

/** Its links both ways, ended ones too, with the titles of what they lead to. */
async function links(memory, signal, again) {
  const { nodes, links: found } = await get("/graph", { id: memory.id, max_depth: 1, include_invalidated: true, limit: 100 }, signal);
  const titles = new Map(nodes.map((one) => [one.id, one.title]));
  const row = (one) => {
    const out = one.source_id === memory.id;
    const other = out ? one.target_id : one.source_id;
    const over = one.valid_until && new Date(one.valid_until) <= new Date();
    const end = () => attempt(() => post("/kg/invalidate", { source_id: one.source_id, target_id: one.target_id, relation: one.relation }), "The link holds no more.").then((ok) => ok && again());
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
    el("p", { class: "actions" }, button("Link it to another", () => join(memory, again)), mine.length > 0 && link("See the graph", `#/graph?id=${encodeURIComponent(memory.id)}`, { class: "button" })),
  ];
}

async function join(memory, again) {
  const form = await asked({
    title: "Link it to another memory",
    action: "Link",
    controls: [
      field("How it relates", choice(RELATIONS.map((one) => [one, one.replaceAll("_", " ")]), "related_to", { name: "relation" })),
      field("Id of the other one", el("input", { type: "text", name: "target", required: true, maxlength: "128" })),
    ],
  });
  if (!form) return;
  const made = await attempt(() => post("/links", { source_id: memory.id, target_id: form.get("target").trim(), relation: form.get("relation") }), "Linked.");
  if (made) again();
}

/** What a reflection was drawn from, and whether it still holds. */
export async function ground(id, signal) {
  const { nodes, links: found } = await get("/graph", { id, max_depth: 1, relations: ["reflects_on", "derived_from", "derives_from"], include_invalidated: true }, signal);
  const mine = found.filter((one) => one.source_id === id);
  const titles = new Map(nodes.map((one) => [one.id, one.title]));
  if (!mine.length) return el("p", { class: "faint" }, "Nothing that you may see.");
  return list(mine.map((one) => [link(titles.get(one.target_id) ?? one.target_id, memoryHref(one.target_id)), one.valid_until && [" ", chip("no more", "warn")]]));
}

async function dependents(id, signal) {
  const { dependents: found, total } = await get(`/memories/${part(id)}/dependents`, { limit: PAGE }, signal);
  if (!found.length) return el("p", { class: "faint" }, "Nothing.");
  const row = (one) => [link(one.title, memoryHref(one.id)), " ", chip(one.hop === 1 ? "directly" : `${one.hop} steps away`), one.stale && [" ", chip("stale", "warn")]];
  return [list(found.map(row)), total > found.length && el("p", { class: "faint" }, `and ${total - found.length} more`)];
}

/** Every change, the first one first, each with what it changed and the way back. */
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
    folded_before && el("p", { class: "faint" }, `What happened before ${stated(folded_before)} was folded.`),
    shown.length ? shown : empty("Nothing happened yet."),
    found.length === PAGE && (put_more(more, go), more),
  ];
}

const put_more = (place, go) => fill(place, button("More", go));

export function change(one, differences, again) {
  const undo = async () => {
    const done = await attempt(() => post("/undo", { change: one.seq }));
    if (!done) return;
    again();
    say(`Change ${one.seq} is taken back.`, "Have it again", () => attempt(() => post("/undo", { change: done.change }), "As before.").then(again));
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
      link("As it was then", memoryHref(one.record, `?known_at=${encodeURIComponent(one.at)}`)),
      again && button("Undo", undo, { class: "quiet", "aria-label": `Undo change ${one.seq}` }),
    ),
    differences.length > 0 && el("dl", {}, differences.map(([name, before, now]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, said(before, now))])),
  );
}
