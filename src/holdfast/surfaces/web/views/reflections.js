// Reflections with their sources.

import { get } from "../api.js";
import { el, fill } from "../dom.js";
import { card } from "../memories.js";
import { address, chip, empty, heading, pager, section } from "../ui.js";
import { ground } from "./memory.js";

const PAGE = 20;

export async function show(place, { query, signal }) {
  const offset = Number(query.get("offset")) || 0;
  const { memories } = await get("/memories", { kinds: "reflection", limit: PAGE, offset }, signal);
  const rests = (one) => {
    const inside = el("div", {});
    const open = () => inside.childElementCount || fill(inside, section(null, () => ground(one.id, signal)));
    return el("details", { on: { toggle: open } }, el("summary", {}, "Sources"), chip(`depth ${one.reflection_depth}`), inside);
  };
  fill(
    place,
    heading("Reflections", "Insights derived from memories. You are alerted when a source changes."),
    memories.length ? memories.map((one) => card(one, { after: rests(one) })) : empty("No reflections.", "Create one with `holdfast reflect`, or let an agent do it."),
    pager({ offset, size: PAGE, count: memories.length, href: (to) => address("reflections", { offset: to }) }),
  );
}
