// Current skills and their instructions.

import { get, part } from "../api.js";
import { el, fill } from "../dom.js";
import { written } from "../markdown.js";
import { address, chip, empty, field, heading, link, moment, number, pairs, section, table } from "../ui.js";

const MOST = 100;

export async function show(place, { about: id, query, signal }) {
  if (id) await one(place, id, signal);
  else await all(place, query.get("q") ?? "", signal);
}

async function all(place, words, signal) {
  const { skills, total } = await get("/skill/list", { query: words, limit: MOST }, signal);
  const input = el("input", { type: "search", value: words, placeholder: "Topic", maxlength: "4096" });
  const submit = (event) => (event.preventDefault(), (location.hash = address("skills", { q: input.value.trim() })));
  const row = (skill) =>
    el(
      "article",
      { class: "card" },
      el("h3", {}, link(skill.name, `#/skills/${encodeURIComponent(skill.id)}`)),
      el("p", { class: "byline" }, el("span", {}, skill.namespace), el("span", {}, "by ", skill.agent_id), moment(skill.created_at), skill.stale && chip("stale source", "warn")),
      el("p", {}, skill.description),
    );
  fill(
    place,
    heading("Skills", "Instructions for agents, versioned and signed."),
    el("form", { class: "filters row", on: { submit } }, field("Find", input), el("button", {}, "Show")),
    skills.length ? skills.map(row) : empty("No skills.", "Add one with `holdfast skill register FOLDER`."),
    total > skills.length && el("p", { class: "faint" }, `${number(skills.length)} of ${number(total)}.`),
  );
}

async function one(place, id, signal) {
  const skill = await get(`/skill/${part(id)}`, {}, signal);
  fill(
    place,
    heading(skill.name, skill.description, link("All skills", "#/skills", { class: "button" })),
    el("p", { class: "signs" }, skill.signed ? chip("signed here", "good") : chip("not signed here", "warn"), !skill.current && chip("not the current version", "warn"), skill.stale && chip("stale source", "warn")),
    el("article", { class: "card" }, written(skill.body)),
    skill.resources.length > 0 && el("section", { class: "part" }, el("h2", {}, "Files"), table(skill.resources, [["Path", (file) => el("code", {}, file.path)], ["Kind", (file) => file.kind], ["Bytes", (file) => number(file.size)]])),
    pairs([["Namespace", skill.namespace], ["Registered by", skill.agent_id], ["Registered", moment(skill.created_at)], ["Version", el("code", {}, skill.id)], ["Digest", el("code", {}, skill.digest)]]),
    el("details", {}, el("summary", {}, "SKILL.md frontmatter"), el("pre", {}, JSON.stringify(skill.frontmatter, null, 2))),
    section("Versions", () => versions(id, signal)),
  );
}

async function versions(id, signal) {
  const told = await get(`/skill/${part(id)}/history`, {}, signal);
  return el("ul", {}, (told.changes ?? []).map((one) => el("li", {}, el("strong", {}, one.op), " ", link(one.id.slice(0, 13), `#/skills/${encodeURIComponent(one.id)}`), el("span", { class: "faint" }, " ", moment(one.at), " by ", one.actor))));
}
