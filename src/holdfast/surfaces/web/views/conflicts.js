// Conflicting changes of two stores, side by side, with a choice.

import { get, part, post } from "../api.js";
import { el, fill } from "../dom.js";
import { address, asked, attempt, button, chip, empty, field, heading, link, memoryHref, moment, number, pager, say } from "../ui.js";

const PAGE = 20;

export async function show(place, { query, signal, again }) {
  const offset = Number(query.get("offset")) || 0;
  const { conflicts, total } = await get("/conflicts", { limit: PAGE, offset }, signal);
  fill(
    place,
    heading("Conflicts", "Fields changed in two stores at once. One value is in effect, the other is kept until you choose."),
    conflicts.length ? [el("p", { class: "faint" }, `${number(total)} open.`), conflicts.map((one) => row(one, again))] : empty("No conflicts.", link("Sync status", "#/sync")),
    pager({ offset, size: PAGE, count: conflicts.length, total, href: (to) => address("conflicts", { offset: to }) }),
  );
}

function row(one, again) {
  const keep = async (way, value) => {
    const done = await attempt(() => post(`/conflicts/${part(one.id)}/resolve`, { keep: way, ...(value === undefined ? {} : { value }) }));
    if (done) again(), say(`Resolved: kept ${way}.`);
  };
  const edit = async () => {
    const text = el("textarea", { name: "value", required: true, value: shown(one.shown.value) });
    const form = await asked({ title: `${one.title}: ${one.field}`, text: "This replaces both values.", action: "Keep this", controls: [field("Text", text)] });
    if (form) await keep("edited", form.get("value"));
  };
  const texts = typeof one.shown.value === "string" && typeof one.other.value === "string";
  return el(
    "article",
    { class: "card", "aria-label": `Conflict over ${one.field} of ${one.title}` },
    el("h3", {}, link(one.title, memoryHref(one.memory_id)), " ", chip(one.field)),
    el("p", { class: "faint" }, one.namespace, " · found ", moment(one.found_at)),
    el("div", { class: "sides" }, side(one, "shown", "Current value", keep), side(one, "other", "Other value", keep)),
    el("p", { class: "actions" }, button("Keep both as separate memories", () => keep("both")), texts && button("Edit …", edit)),
  );
}

function side(one, name, label, keep) {
  const { value, origin, actor, at } = one[name];
  return el(
    "section",
    { class: "side", "aria-label": label },
    el("p", { class: "faint" }, label, one.mine === name && " · written here", " · ", actor ?? origin, " · ", moment(at)),
    el("p", { class: "content" }, shown(value)),
    button("Keep this", () => keep(name)),
  );
}

const shown = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "(nothing)" : JSON.stringify(value, null, 2));
