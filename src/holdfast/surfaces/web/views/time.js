// Time travel: a slider over all changes, the memories at that time, and the diff of each change.

import { get, post } from "../api.js";
import { difference } from "../diff.js";
import { el, fill } from "../dom.js";
import { card } from "../memories.js";
import { address, button, empty, field, heading, link, local, number, problem, settled, universal } from "../ui.js";
import { change } from "./memory.js";

const BACK = 60;
const SHOWN = 12;
const PAUSE = 150;
const LAST = Number.MAX_SAFE_INTEGER;

export async function show(place, { query, signal, again }) {
  const { next: head } = await get("/events", { after: LAST, limit: 1 }, signal);
  if (!head) {
    fill(place, heading("Time", "The store at any point in time."), empty("No changes yet.", link("Create the first memory", "#/new")));
    return;
  }
  const at = Math.min(head, Math.max(1, Number(query.get("change")) || head));
  const view = new Moment(head, at, query.get("q") ?? "", signal, again);
  fill(place, heading("Time", "The store at any point in time: move through its changes."), view.controls(), view.place);
  await view.look();
}

class Moment {
  constructor(head, at, words, signal, again) {
    Object.assign(this, { head, signal, again, turn: new AbortController() });
    const later = settled(PAUSE, () => this.look());
    this.slider = el("input", { type: "range", min: "1", max: String(head), step: "1", value: String(at), "aria-label": "Change", on: { input: later } });
    this.words = el("input", { type: "search", value: words, placeholder: "Everything, or search at this time", maxlength: "4096", on: { input: later } });
    this.date = el("input", { type: "datetime-local", step: "1", on: { change: () => this.go(universal(this.date.value)) } });
    this.when = el("output", { "aria-live": "polite" });
    this.place = el("div", { class: "found" });
  }

  controls() {
    const step = (label, name, by) => button(label, () => this.move(Number(this.slider.value) + by), { "aria-label": name });
    return el(
      "div",
      { class: "scrub" },
      this.when,
      this.slider,
      el("div", { class: "row" }, el("div", { class: "actions" }, step("←", "One change earlier", -1), step("→", "One change later", 1), button("Now", () => this.move(this.head))), field("At", this.date), field("About", this.words)),
    );
  }

  move(to) {
    this.slider.value = String(to);
    return this.look();
  }

  /** Go to the last change at or before a time, by binary search. */
  async go(moment) {
    let [low, high] = [1, this.head];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      const { events } = await get("/events", { after: middle - 1, limit: 1 }, this.signal);
      if (events.length && new Date(events[0].at) <= new Date(moment)) low = middle;
      else high = middle - 1;
    }
    await this.move(low);
  }

  async look() {
    this.turn.abort();
    this.turn = new AbortController();
    const signal = AbortSignal.any([this.signal, this.turn.signal]);
    const at = Number(this.slider.value);
    const words = this.words.value.trim();
    history.replaceState(null, "", address("time", { change: at === this.head ? "" : at, q: words }));
    try {
      const { events } = await get("/events", { after: Math.max(0, at - BACK), limit: BACK }, signal);
      const until = events.filter((one) => one.seq <= at);
      const last = until.at(-1);
      if (!last) return fill(this.place, empty("This part of the history was compacted, or you cannot see it."));
      this.told(last, at);
      fill(this.place, words ? await this.found(words, last.at, signal) : this.states(until, last));
    } catch (error) {
      if (error.name !== "AbortError" && error.status !== 401) fill(this.place, problem(error));
    }
    return undefined;
  }

  told(last, at) {
    this.when.value = `${new Date(last.at).toLocaleString()} · change ${number(at)} of ${number(this.head)}`;
    this.slider.setAttribute("aria-valuetext", this.when.value);
    this.date.value = local(last.at);
  }

  async found(context, known_at, signal) {
    const { memories } = await post("/recall", { context, known_at, explain: true, limit: SHOWN }, signal);
    const then = `?known_at=${encodeURIComponent(known_at)}`;
    return [el("h2", {}, `What was known about “${context}”`), memories.length ? memories.map((one) => card(one, { query: then, words: one.why.terms })) : empty("No hits at this time.")];
  }

  /** The current change, and the most recently changed memories at that time. */
  states(until, last) {
    const newest = new Map();
    for (const one of until) {
      newest.delete(one.record);
      if (one.memory && one.kind === "memory") newest.set(one.record, one);
    }
    const before = until.filter((one) => one.record === last.record && one.seq < last.seq && one.memory).at(-1);
    const then = `?known_at=${encodeURIComponent(last.at)}`;
    const shown = [...newest.values()].reverse().filter((one) => one.memory.state === "live").slice(0, SHOWN);
    return [
      el("h2", {}, "Change"),
      change(last, last.memory ? difference(before?.memory ?? {}, last.memory) : [], this.again),
      el("h2", {}, "Memories at this time, last changed first"),
      shown.length ? shown.map((one) => card(asMemory(one), { query: then })) : empty("No live memories."),
    ];
  }
}

/** Convert the record in a change to a memory. */
function asMemory({ memory }) {
  return { ...memory, memory_kind: memory.kind, agent_id: memory.agent };
}
