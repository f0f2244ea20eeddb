// A memory as it is shown in lists, and what can be done with one or many.

import { get, part, post, put, remove } from "./api.js";
import { el, fill } from "./dom.js";
import { asked, attempt, button, chip, field, link, memoryHref, moment, save, say, told } from "./ui.js";
import { excerpt, marked } from "./words.js";

export const TIERS = { short: "6 hours", mid: "7 days", long: "forever" };
export const KINDS = "observation reflection persona concept entity claim relation event conversation decision fact lesson limitation summary".split(" ");

/** What should be known of a memory at a glance. */
export function signs(memory) {
  return [
    memory.state && memory.state !== "live" && chip(memory.state, "warn"),
    memory.stale && chip(`stale since ${new Date(memory.stale.since).toLocaleDateString()}: ${memory.stale.cause}`, "warn"),
    memory.superseded_by && link("superseded", memoryHref(memory.superseded_by), { class: "chip warn" }),
    memory.untrusted?.length > 0 && chip(`looks like an order: ${memory.untrusted.join(", ")}`, "bad"),
    memory.secrets?.length > 0 && chip(`holds a secret: ${memory.secrets.join(", ")}`, "bad"),
    memory.like?.length > 0 && chip(`${memory.like.length} more say the same`),
  ];
}

/** Where it belongs and whose it is, in one line. */
export function byline(memory) {
  return el(
    "p",
    { class: "byline" },
    link(memory.namespace, `#/memories?namespace=${encodeURIComponent(memory.namespace)}`),
    el("span", {}, memory.memory_kind),
    el("span", { title: memory.expires_at ? `Expires ${new Date(memory.expires_at).toLocaleString()}` : "Never expires" }, memory.tier),
    el("span", {}, `priority ${memory.priority}`),
    el("span", {}, "by ", memory.agent_id),
    moment(memory.updated_at),
    memory.tags.map((tag) => link(`#${tag}`, `#/memories?tags=${encodeURIComponent(tag)}`, { class: "tag" })),
  );
}

/** A memory in a list; `before` stands in front of it, `after` below. */
export function card(memory, { query = "", before, after, words } = {}) {
  return el(
    "article",
    { class: "memory card" },
    before,
    el(
      "div",
      { class: "body" },
      el("h3", {}, link(marked(memory.title, words), memoryHref(memory.id, query))),
      byline(memory),
      el("p", { class: "text" }, excerpt(memory.content, memory.matched, words)),
      el("p", { class: "signs" }, signs(memory)),
      after,
    ),
  );
}

/** Take the last change of a memory back. */
async function undoLast(id) {
  const { changes } = await get(`/memories/${part(id)}/history`, { limit: 1000 });
  return post("/undo", { change: changes.at(-1).seq });
}

/** Tell that something was done to a memory, with the way back. */
export function undoable(text, id, again) {
  say(text, "Undo", () => attempt(() => undoLast(id), "Taken back.").then(again));
}

/** What can be done with one memory; `again` shows it anew, `gone` is called once it is away. */
export function actionsFor(memory, again, gone) {
  const { id } = memory;
  const done = (text, then) => (then(), undoable(text, id, again));
  const promote = () => attempt(() => post(`/memories/${part(id)}/promote`)).then((ok) => ok && done("Lives for ever now.", again));
  const archive = () => attempt(() => post("/archive", { ids: [id] })).then((ok) => ok && done("Archived.", gone));
  const forget = async () => {
    const sure = await asked({
      title: "Delete this memory?",
      text: `“${memory.title}” is no longer found. Its history stays, and undo brings it back.`,
      action: "Delete",
      danger: true,
    });
    if (sure && (await attempt(() => remove(`/memories/${part(id)}`)))) done("Deleted.", gone);
  };
  const restore = () => attempt(() => post(`/archive/${part(id)}/restore`), "Live again.").then((ok) => ok && again());
  if (memory.state === "archived") return [button("Restore", restore, { class: "primary" })];
  if (memory.state === "deleted") return [button("Undo the deletion", () => attempt(() => undoLast(id), "Back again.").then(again))];
  return [
    link("Edit", `#/edit/${encodeURIComponent(id)}`, { class: "button primary" }),
    (memory.tier !== "long" || memory.expires_at) && button("Promote", promote, { title: "Let it live forever" }),
    button("Archive", archive),
    button("Delete", forget, { class: "danger" }),
  ];
}

/** A list in which memories can be chosen, with what can be done to all that are. */
export class Selection {
  constructor(again) {
    this.again = again;
    this.chosen = new Map();
    this.boxes = [];
    this.bar = el("div", { class: "bulk", role: "region", "aria-label": "What is chosen", hidden: true });
  }

  /** A box by which one memory is chosen. */
  box(memory) {
    const input = el("input", { type: "checkbox", "aria-label": `Choose ${memory.title}` });
    const change = () => {
      if (input.checked) this.chosen.set(memory.id, memory);
      else this.chosen.delete(memory.id);
      this.told();
    };
    input.addEventListener("change", change);
    this.boxes.push({ input, change });
    return el("label", { class: "choose" }, input);
  }

  everything() {
    const input = el("input", { type: "checkbox" });
    input.addEventListener("change", () => {
      for (const one of this.boxes) {
        one.input.checked = input.checked;
        one.change();
      }
    });
    return el("label", { class: "choose-all" }, input, " All on this page");
  }

  told() {
    this.bar.hidden = this.chosen.size === 0;
    fill(
      this.bar,
      el("strong", {}, `${this.chosen.size} chosen`),
      button("Tag", () => this.tag()),
      button("Promote", () => this.each("promoted", (id) => post(`/memories/${part(id)}/promote`))),
      button("Archive", () => this.archive()),
      button("Delete", () => this.forget(), { class: "danger" }),
      button("Export", () => this.export()),
    );
  }

  /** Do one thing to every chosen memory; what was refused is told, and the rest is done all the same. */
  async each(done, act) {
    const refused = [];
    for (const [id, memory] of this.chosen) {
      await act(id, memory).catch((error) => refused.push(`${memory.title}: ${told(error)}`));
    }
    const count = this.chosen.size - refused.length;
    this.again();
    say([`${count} ${done}.`, ...refused.slice(0, 3)].join(" "));
  }

  async tag() {
    const tags = el("input", { type: "text", name: "tags", required: true });
    const form = await asked({ title: "Add tags", action: "Add", controls: [field("Tags, with commas", tags)] });
    if (!form) return;
    const more = labels(form.get("tags"));
    await this.each("tagged", (id, memory) =>
      put(`/memories/${part(id)}`, { tags: [...new Set([...memory.tags, ...more])], expected_version: memory.version }),
    );
  }

  async archive() {
    const answer = await attempt(() => post("/archive", { ids: [...this.chosen.keys()] }));
    if (!answer) return;
    this.again();
    say(`${answer.count} archived.`);
  }

  async forget() {
    const count = this.chosen.size;
    const sure = await asked({
      title: `Delete ${count} ${count === 1 ? "memory" : "memories"}?`,
      text: "They are no longer found. Their history stays, and undo brings each one back.",
      action: "Delete",
      danger: true,
    });
    if (sure) await this.each("deleted", (id) => remove(`/memories/${part(id)}`));
  }

  /** As a file that `holdfast import` takes, with the links among what was chosen. */
  async export() {
    const memories = [];
    const links = new Map();
    for (const id of this.chosen.keys()) {
      const whole = await attempt(() => get(`/memories/${part(id)}`));
      if (!whole) return;
      memories.push(plain(whole));
      for (const one of whole.links) {
        if (this.chosen.has(one.source_id) && this.chosen.has(one.target_id)) links.set(JSON.stringify([one.source_id, one.target_id, one.relation]), one);
      }
    }
    save("memories.json", { memories, links: [...links.values()] });
    say(`${memories.length} exported.`);
  }
}

/** A memory without what is said of it here only. */
function plain(memory) {
  const { links, also, stale, restated, secrets, untrusted, score, confidence_tier, access_count, last_accessed_at, ...kept } = memory;
  return kept;
}

export const labels = (text) => [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))];
