// Create or edit a memory.

import { get, given, part, post, put } from "../api.js";
import { el, fill } from "../dom.js";
import { KINDS, TIERS, labels, undoable } from "../memories.js";
import { choice, exactly, field, heading, link, memoryHref, momentField, namespaceField, problem, say } from "../ui.js";

const LIVES = Object.entries(TIERS).map(([tier, lives]) => [tier, `${tier}: ${lives}`]);

export async function show(place, { name, about: id, signal, query, again }) {
  const memory = name === "edit" ? await get(`/memories/${part(id)}`, {}, signal) : null;
  const form = new Form(memory ?? { namespace: query.get("namespace") ?? "" });
  const refused = el("div", { "aria-live": "assertive" });
  const submit = async (event) => {
    event.preventDefault();
    fill(refused);
    try {
      if (memory) await change(memory, form, again);
      else await keep(form);
    } catch (error) {
      fill(refused, problem(error), error.code === "VERSION_CONFLICT" && link("See the current version", memoryHref(id)));
    }
  };
  fill(
    place,
    heading(memory ? "Edit" : "New memory", memory ? memory.title : "Searchable at once by every agent with access."),
    el("form", { class: "editing", on: { submit } }, form.fields(), refused, el("p", { class: "actions" }, el("button", { class: "primary" }, "Save"), link("Cancel", memory ? memoryHref(id) : "#/search", { class: "button quiet" }))),
  );
  form.controls.title.focus();
}

class Form {
  constructor(memory) {
    this.memory = memory;
    this.namespace = namespaceField(memory.namespace, { placeholder: "global", maxlength: "512" });
    const text = (value, more) => el("input", { type: "text", value: value ?? "", ...more });
    this.controls = {
      title: text(memory.title, { required: true, maxlength: "512" }),
      content: el("textarea", { required: true, maxlength: "65536", value: memory.content ?? "" }),
      tags: text(memory.tags?.join(", ")),
      tier: choice([...(memory.tier ? [] : [["", "default: setting default_tier (long)"]]), ...LIVES], memory.tier),
      kind: choice(KINDS, memory.memory_kind ?? "observation"),
      priority: el("input", { type: "number", min: "1", max: "10", value: memory.priority ?? 5 }),
      confidence: el("input", { type: "number", min: "0", max: "1", step: "any", value: memory.confidence ?? 1 }),
      valid_from: momentField(memory.valid_from),
      valid_until: momentField(memory.valid_until),
    };
  }

  fields() {
    const { controls } = this;
    const wide = (node) => (node.classList.add("wide"), node);
    return el(
      "div",
      { class: "fields" },
      wide(field("Title", controls.title, "Unique within its namespace.")),
      wide(field("Content", controls.content)),
      field("Namespace", this.namespace.input),
      this.namespace.parts[1],
      field("Tags, comma-separated", controls.tags),
      field("Tier", controls.tier),
      field("Kind", controls.kind),
      field("Priority, 1 to 10", controls.priority),
      field("Confidence, 0 to 1", controls.confidence),
      field("Valid from", controls.valid_from),
      field("Valid until", controls.valid_until),
    );
  }

  values() {
    const { controls } = this;
    return {
      title: controls.title.value,
      content: controls.content.value,
      namespace: this.namespace.input.value.trim(),
      tags: labels(controls.tags.value),
      tier: controls.tier.value,
      kind: controls.kind.value,
      priority: Number(controls.priority.value),
      confidence: Number(controls.confidence.value),
      valid_from: exactly(controls.valid_from),
      valid_until: exactly(controls.valid_until),
    };
  }

  /** Only the changed fields; an emptied list is a change too. */
  changed() {
    const before = new Form(this.memory).values();
    return Object.entries(this.values()).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
  }
}

async function keep(form) {
  const kept = await post("/memories", { ...given(form.values()), on_conflict: "error" });
  location.hash = memoryHref(kept.id);
  say(kept.outcome === "created" ? "Saved." : `Not saved: this memory already exists (${kept.outcome}).`);
}

async function change(memory, form, again) {
  const changed = form.changed().filter(([name, value]) => value !== "" || name === "content");
  if (changed.length) {
    const body = { ...Object.fromEntries(changed), expected_version: memory.version };
    await put(`/memories/${part(memory.id)}`, body);
    undoable("Saved.", memory.id, again);
  }
  location.hash = memoryHref(memory.id);
}
