// Browse memories and the archive page by page, with bulk actions.

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
    heading("Memories", "Most important first.", button("Archive by filter …", () => forget(filters, again)), archived && button("Purge the archive …", () => purge(again), { class: "danger" })),
    tabs("State", [["", "Live"], ["archived", "Archived"]], archived ? "archived" : "", (state) => address("memories", { namespace: filters.namespace, state })),
    form(filters, archived),
    selection.bar,
    memories.length > 0 && !archived && selection.everything(),
    memories.map((one) => card(one, { before: archived ? null : selection.box(one) })),
    memories.length === 0 && (archived ? empty("The archive is empty.") : empty("No matching memories.", link("Create one", "#/new"), " or change the filters.")),
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
      field("Tier", choice(["", ...Object.keys(TIERS)], filters.tier, { name: "tier" })),
      field("Kind", choice(["", ...KINDS], filters.kinds, { name: "kinds" })),
      field("Tags", text("tags")),
      field("Minimum priority", text("min_priority", { inputmode: "numeric", pattern: "([1-9]|10)?" })),
    ],
    el("button", {}, "Show"),
  );
}

/** Archive every memory matching a filter, after showing their number. */
async function forget(filters, again) {
  const controls = [
    field("Namespace", el("input", { type: "text", name: "namespace", value: filters.namespace })),
    field("Any of these words", el("input", { type: "text", name: "pattern" })),
    field("Tier", choice(["", ...Object.keys(TIERS)], filters.tier, { name: "tier" })),
  ];
  const form = await asked({ title: "Archive by filter", text: "Every matching memory is archived; it can be restored.", action: "Count", controls });
  if (!form) return;
  const which = given(Object.fromEntries(form));
  const dry = await attempt(() => post("/forget", { ...which, dry_run: true }));
  if (!dry) return;
  const count = dry.would_delete ?? dry.ids.length;
  if (!count) return say("No matching memories.");
  const sure = await asked({ title: `Archive ${number(count)} ${count === 1 ? "memory" : "memories"}?`, action: "Archive", danger: true });
  if (!sure) return;
  const done = await attempt(() => post("/forget", which));
  if (done) again(), say(`${number(done.archived)} archived.`);
}

/** Erase the archive. Cannot be undone. */
async function purge(again) {
  const word = el("input", { type: "text", name: "word", required: true, pattern: "erase", autocomplete: "off" });
  const sure = await asked({
    title: "Erase the archive permanently?",
    text: "All archived memories are erased, including their history. This cannot be undone.",
    action: "Erase",
    danger: true,
    controls: [field("Type erase to confirm", word)],
  });
  if (!sure) return;
  const done = await attempt(() => remove("/archive", { older_than_days: 0 }));
  if (done) again(), say(`${number(done.purged)} erased.`);
}
