// Conversations with their turns and summaries.

import { get, part } from "../api.js";
import { el, fill, linked } from "../dom.js";
import { address, chip, empty, heading, link, memoryHref, moment, number, pager, tabs } from "../ui.js";

const PAGE = 25;
const TURNS = 50;
const STATES = [["", "All"], ["active", "Active"], ["closed", "Closed"]];

export async function show(place, { about: id, query, signal }) {
  if (id) await one(place, id, query, signal);
  else await all(place, query, signal);
}

async function all(place, query, signal) {
  const state = query.get("state") ?? "";
  const offset = Number(query.get("offset")) || 0;
  const { conversations } = await get("/conversations", { state, limit: PAGE, offset }, signal);
  const row = (told) =>
    el(
      "article",
      { class: "card" },
      el("h3", {}, link(`${told.principal}${told.channel ? ` on ${told.channel}` : ""}`, `#/conversations/${encodeURIComponent(told.id)}`)),
      el("p", { class: "byline" }, chip(told.state, told.state === "active" ? "good" : ""), `${number(told.turns)} turns`, el("span", {}, told.namespace), el("span", {}, "with ", told.agent_id), moment(told.last_at)),
      told.summary && el("p", { class: "text" }, told.summary),
    );
  fill(
    place,
    heading("Conversations", "Turns are memories, so search finds them."),
    tabs("State", STATES, state, (to) => address("conversations", { state: to })),
    conversations.length ? conversations.map(row) : empty("No conversations."),
    pager({ offset, size: PAGE, count: conversations.length, href: (to) => address("conversations", { state, offset: to }) }),
  );
}

async function one(place, id, query, signal) {
  const after = Number(query.get("after")) || 0;
  const { conversation, turns } = await get(`/conversations/${part(id)}`, { after, limit: TURNS }, signal);
  const turn = (said) =>
    el("article", { class: `turn ${said.role === "user" ? "user" : ""}` }, el("p", { class: "byline" }, el("strong", {}, said.role), moment(said.at), said.memory_id && link("memory", memoryHref(said.memory_id))), el("p", { class: "content" }, linked(said.content)));
  const href = (to) => `#/conversations/${encodeURIComponent(id)}${to ? `?after=${to}` : ""}`;
  fill(
    place,
    heading(`${conversation.principal}${conversation.channel ? ` on ${conversation.channel}` : ""}`, [chip(conversation.state), ` ${number(conversation.turns)} turns, last `, moment(conversation.last_at)], link("All conversations", "#/conversations", { class: "button" })),
    conversation.summary && el("section", { class: "card" }, el("h2", {}, "Summary"), el("p", { class: "content" }, conversation.summary), conversation.summary_id && link("Open as memory", memoryHref(conversation.summary_id))),
    turns.length ? turns.map(turn) : empty("Its turns have been pruned."),
    pager({ offset: after, size: TURNS, count: turns.length, total: conversation.turns, href }),
  );
}
