// Conclusions, each with what it rests on and whether that still holds.

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
    return el("details", { on: { toggle: open } }, el("summary", {}, "What it rests on"), chip(`depth ${one.reflection_depth}`), inside);
  };
  fill(
    place,
    heading("Reflections", "Conclusions that were drawn from memories. When what they rest on falls, they are told."),
    memories.length ? memories.map((one) => card(one, { after: rests(one) })) : empty("No conclusion was drawn yet.", "`holdfast reflect`, or an agent, draws one from memories."),
    pager({ offset, size: PAGE, count: memories.length, href: (to) => address("reflections", { offset: to }) }),
  );
}
