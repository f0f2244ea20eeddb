// Memory cards, and actions on one or many memories.

import { get, part, post, put, remove } from "./api.js";
import { el, fill } from "./dom.js";
import { asked, attempt, button, chip, field, link, memoryHref, moment, save, say, told } from "./ui.js";
import { excerpt, marked } from "./words.js";

export const TIERS = { short: "6 hours", mid: "7 days", long: "forever" };
export const KINDS = "observation reflection persona concept entity claim relation event conversation decision fact lesson limitation summary".split(" ");

/** Badges of a memory: state, staleness, warnings. */
export function signs(memory) {
  return [
    memory.state && memory.state !== "live" && chip(memory.state, "warn"),
    memory.stale && chip(`stale since ${new Date(memory.stale.since).toLocaleDateString()}: ${memory.stale.cause}`, "warn"),
    memory.superseded_by && link("superseded", memoryHref(memory.superseded_by), { class: "chip warn" }),
    memory.untrusted?.length > 0 && chip(`possible prompt injection: ${memory.untrusted.join(", ")}`, "bad"),
    memory.secrets?.length > 0 && chip(`contains a secret: ${memory.secrets.join(", ")}`, "bad"),
    memory.like?.length > 0 && chip(`${memory.like.length} near-duplicates`),
  ];
}

/** One line with namespace, kind, tier, priority, author, time and tags. */
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

/** A memory in a list; `before` is placed in front of it, `after` below. */
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

/** Undo the last change of a memory. */
async function undoLast(id) {
  const { changes } = await get(`/memories/${part(id)}/history`, { limit: 1000 });
  return post("/undo", { change: changes.at(-1).seq });
}

/** Show a message with an undo action. */
export function undoable(text, id, again) {
  say(text, "Undo", () => attempt(() => undoLast(id), "Undone.").then(again));
}

/** Actions on one memory; `again` reloads the view, `gone` is called after its removal. */
export function actionsFor(memory, again, gone) {
  const { id } = memory;
  const done = (text, then) => (then(), undoable(text, id, again));
  const promote = () => attempt(() => post(`/memories/${part(id)}/promote`)).then((ok) => ok && done("Promoted: it no longer expires.", again));
  const archive = () => attempt(() => post("/archive", { ids: [id] })).then((ok) => ok && done("Archived.", gone));
  const forget = async () => {
    const sure = await asked({
      title: "Delete this memory?",
      text: `“${memory.title}” will no longer be found. Its history is kept, and undo restores it.`,
      action: "Delete",
      danger: true,
    });
    if (sure && (await attempt(() => remove(`/memories/${part(id)}`)))) done("Deleted.", gone);
  };
  const restore = () => attempt(() => post(`/archive/${part(id)}/restore`), "Restored.").then((ok) => ok && again());
  if (memory.state === "archived") return [button("Restore", restore, { class: "primary" })];
  if (memory.state === "deleted") return [button("Undo deletion", () => attempt(() => undoLast(id), "Restored.").then(again))];
  return [
    link("Edit", `#/edit/${encodeURIComponent(id)}`, { class: "button primary" }),
    (memory.tier !== "long" || memory.expires_at) && button("Promote", promote, { title: "Keep it forever" }),
    button("Archive", archive),
    button("Delete", forget, { class: "danger" }),
  ];
}

/** A selection of memories with bulk actions. */
export class Selection {
  constructor(again) {
    this.again = again;
    this.chosen = new Map();
    this.boxes = [];
    this.bar = el("div", { class: "bulk", role: "region", "aria-label": "Selected memories", hidden: true });
  }

  /** A checkbox that selects a memory. */
  box(memory) {
    const input = el("input", { type: "checkbox", "aria-label": `Select ${memory.title}` });
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
      el("strong", {}, `${this.chosen.size} selected`),
      button("Tag", () => this.tag()),
      button("Promote", () => this.each("promoted", (id) => post(`/memories/${part(id)}/promote`))),
      button("Archive", () => this.archive()),
      button("Delete", () => this.forget(), { class: "danger" }),
      button("Export", () => this.export()),
    );
  }

  /** Apply an action to every selected memory; show the errors and continue. */
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
    const form = await asked({ title: "Add tags", action: "Add", controls: [field("Tags, comma-separated", tags)] });
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
      text: "They will no longer be found. Their history is kept, and undo restores each one.",
      action: "Delete",
      danger: true,
    });
    if (sure) await this.each("deleted", (id) => remove(`/memories/${part(id)}`));
  }

  /** Export the selection with the links among it, for `holdfast import`. */
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

/** A memory without computed fields. */
function plain(memory) {
  const { links, also, stale, restated, secrets, untrusted, score, confidence_tier, access_count, last_accessed_at, ...kept } = memory;
  return kept;
}

export const labels = (text) => [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))];
