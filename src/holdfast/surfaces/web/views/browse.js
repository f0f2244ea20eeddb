// All memories, a page at a time, with what can be done to many at once; and what was archived.

import { get, given, post, remove } from "../api.js";
import { el, fill } from "../dom.js";
import { KINDS, Selection, TIERS, card } from "../memories.js";
import { address, asked, attempt, button, choice, empty, field, heading, link, namespaceField, number, pager, say, tabs } from "../ui.js";

const PAGE = 25;
const FILTERS = ["namespace", "tier", "kinds", "tags", "min_priority"];

export async function show(place, { query, signal, again }) {
  const archived = query.get("state") === "archived";
  const offset = Number(query.get("offset")) || 0;
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const wanted = archived ? { namespace: filters.namespace } : filters;
  const href = (more) => address("memories", { ...filters, state: archived ? "archived" : "", ...more });
  const answer = await get(archived ? "/archive" : "/memories", { ...wanted, limit: PAGE, offset }, signal);
  const memories = answer.memories ?? answer.archived;
  const selection = new Selection(again);
  fill(
    place,
    heading("Memories", "The most important first.", button("Forget by filter …", () => forget(filters, again)), archived && button("Purge the archive …", () => purge(again), { class: "danger" })),
    tabs("Which memories", [["", "Live"], ["archived", "Archived"]], archived ? "archived" : "", (state) => address("memories", { namespace: filters.namespace, state })),
    form(filters, archived),
    selection.bar,
    memories.length > 0 && !archived && selection.everything(),
    memories.map((one) => card(one, { before: archived ? null : selection.box(one) })),
    memories.length === 0 && (archived ? empty("Nothing is archived.") : empty("No memory is like this.", link("Keep one", "#/new"), " or ask for others.")),
    pager({ offset, size: PAGE, count: memories.length, href: (to) => href({ offset: to }) }),
  );
}

function form(filters, archived) {
  const namespace = namespaceField(filters.namespace, { name: "namespace" });
  const text = (name, more = {}) => el("input", { type: "text", name, value: filters[name], placeholder: "any", ...more });
  const submit = (event) => {
    event.preventDefault();
    const chosen = Object.fromEntries(new FormData(event.target));
    location.hash = address("memories", { ...given(chosen), state: archived ? "archived" : "" });
  };
  return el(
    "form",
    { class: "filters row", on: { submit } },
    field("Namespace", namespace.input),
    namespace.parts[1],
    !archived && [
      field("Lives", choice(["", ...Object.keys(TIERS)], filters.tier, { name: "tier" })),
      field("Kind", choice(["", ...KINDS], filters.kinds, { name: "kinds" })),
      field("Tags", text("tags")),
      field("Priority from", text("min_priority", { inputmode: "numeric", pattern: "([1-9]|10)?" })),
    ],
    el("button", {}, "Show"),
  );
}

/** Archive all that a filter names, after it was told how many these are. */
async function forget(filters, again) {
  const controls = [
    field("Namespace", el("input", { type: "text", name: "namespace", value: filters.namespace })),
    field("Any of these words", el("input", { type: "text", name: "pattern" })),
    field("Lives", choice(["", ...Object.keys(TIERS)], filters.tier, { name: "tier" })),
  ];
  const form = await asked({ title: "Forget by filter", text: "Everything that fits is archived; it can be restored.", action: "Count them", controls });
  if (!form) return;
  const which = given(Object.fromEntries(form));
  const dry = await attempt(() => post("/forget", { ...which, dry_run: true }));
  if (!dry) return;
  const count = dry.would_delete ?? dry.ids.length;
  if (!count) return say("No memory fits.");
  const sure = await asked({ title: `Archive ${number(count)} ${count === 1 ? "memory" : "memories"}?`, action: "Archive them", danger: true });
  if (!sure) return;
  const done = await attempt(() => post("/forget", which));
  if (done) again(), say(`${number(done.archived)} archived.`);
}

/** The one thing here that nothing brings back. */
async function purge(again) {
  const word = el("input", { type: "text", name: "word", required: true, pattern: "erase", autocomplete: "off" });
  const sure = await asked({
    title: "Erase the archive for good?",
    text: "Everything archived is erased, out of its history too. Nothing brings it back.",
    action: "Erase",
    danger: true,
    controls: [field("Write erase to go on", word)],
  });
  if (!sure) return;
  const done = await attempt(() => remove("/archive", { older_than_days: 0 }));
  if (done) again(), say(`${number(done.purged)} erased.`);
}
