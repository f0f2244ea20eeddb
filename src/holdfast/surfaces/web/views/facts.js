// Facts about a person, with their history.

import { get, part, post } from "../api.js";
import { el, fill } from "../dom.js";
import { address, asked, attempt, bar, button, chip, empty, field, heading, link, memoryHref, moment, section, table } from "../ui.js";

export async function show(place, { query, signal, again }) {
  const principal = query.get("principal") ?? "";
  const { facts } = await get("/facts", { principal }, signal);
  fill(
    place,
    heading("Facts", principal ? `Facts about ${principal}.` : "Facts about you. Choose a person to see theirs."),
    await form(principal, signal),
    facts.length ? table(facts, columns(principal, signal, again), { "aria-label": "Facts" }) : empty("No facts.", "Add one with `holdfast fact set KEY VALUE`."),
  );
}

/** A field for the person; admins get suggestions. */
async function form(principal, signal) {
  const { names } = await get("/principals", {}, signal).catch(() => ({ names: [] }));
  const offered = el("datalist", { id: "principals" }, names.slice(0, 500).map((one) => el("option", { value: one.name })));
  const input = el("input", { type: "text", name: "principal", value: principal, list: "principals", placeholder: "you", maxlength: "128" });
  const submit = (event) => (event.preventDefault(), (location.hash = address("facts", { principal: input.value.trim() })));
  return el("form", { class: "filters row", on: { submit } }, field("Person", input), offered, el("button", {}, "Show"));
}

function columns(principal, signal, again) {
  const forget = async (one) => {
    const sure = await asked({ title: `Delete ${one.key}?`, text: "It can be restored from its history.", action: "Delete", danger: true });
    if (sure && (await attempt(() => post("/facts/delete", principal ? { key: one.key, principal } : { key: one.key }), "Deleted."))) again();
  };
  const before = (one) => {
    const inside = el("div", {});
    const open = () => inside.childElementCount || fill(inside, section(null, () => history(one.key, principal, signal)));
    return el("details", { on: { toggle: open } }, el("summary", {}, "Show"), inside);
  };
  return [
    ["Key", (one) => el("strong", {}, one.key)],
    ["Value", (one) => [link(one.value, memoryHref(one.memory_id)), one.contradicted?.length > 0 && [" ", chip(`was ${one.contradicted.at(-1)}`, "warn")]]],
    ["Confidence", (one) => [bar(one.confidence, `${one.confidence}`), " ", one.confidence]],
    ["Since", (one) => moment(one.updated_at)],
    ["History", before],
    ["", (one) => button("Delete", () => forget(one), { class: "quiet", "aria-label": `Delete ${one.key}` })],
  ];
}

async function history(key, principal, signal) {
  const { past } = await get(`/facts/${part(key)}/history`, { principal }, signal);
  return el("ul", {}, past.map((one) => el("li", {}, one.value ?? el("em", {}, "deleted"), el("span", { class: "faint" }, " ", moment(one.at), " by ", one.agent_id))));
}
