// Live feed of all changes.

import { follow, get } from "../api.js";
import { el, fill } from "../dom.js";
import { button, chip, heading, link, memoryHref, moment, problem } from "../ui.js";

const BEFORE = 30;
const MOST = 300;
const AGAIN = 3_000;
const LAST = Number.MAX_SAFE_INTEGER;

export async function show(place, { signal }) {
  const { next: head } = await get("/events", { after: LAST, limit: 1 }, signal);
  const { events } = await get("/events", { after: Math.max(0, head - BEFORE), limit: BEFORE }, signal);
  const feed = new Feed(signal, head);
  for (const one of events) feed.heard(one);
  fill(place, heading("Live", "Every change as it happens.", feed.state, feed.pause), feed.trouble, feed.list);
  feed.listen();
}

class Feed {
  constructor(signal, head) {
    this.signal = signal;
    this.after = head;
    this.paused = false;
    this.waiting = [];
    this.state = el("span", { role: "status" }, chip("connecting"));
    this.trouble = el("div", {});
    this.list = el("ol", { class: "stream", reversed: true, "aria-label": "Changes" });
    this.pause = button("Pause", () => this.toggle(), { "aria-pressed": "false" });
  }

  toggle() {
    this.paused = !this.paused;
    this.pause.setAttribute("aria-pressed", String(this.paused));
    if (!this.paused) for (const one of this.waiting.splice(0)) this.heard(one);
  }

  heard(one) {
    this.after = Math.max(this.after, one.seq);
    if (this.paused) return this.waiting.push(one);
    this.list.prepend(row(one));
    while (this.list.childElementCount > MOST) this.list.lastElementChild.remove();
    return undefined;
  }

  /** Follow changes until the view is left; reconnect after the last received change. */
  async listen() {
    while (!this.signal.aborted) {
      fill(this.state, chip("live", "good"));
      fill(this.trouble);
      try {
        await follow(this.after, this.signal, (one) => this.heard(one));
      } catch (error) {
        if (this.signal.aborted || error.status === 401) return;
        if (error.status >= 400) return void fill(this.trouble, problem(error));
      }
      fill(this.state, chip("disconnected, retrying", "warn"));
      await new Promise((go) => setTimeout(go, AGAIN));
    }
  }
}

function row(one) {
  const title = one.memory?.title ?? one.memory?.name ?? one.record;
  const isMemory = one.kind === "memory";
  return el(
    "li",
    {},
    el("span", { class: "n" }, one.seq),
    el("strong", {}, one.op),
    chip(one.kind),
    isMemory ? link(title, memoryHref(one.record)) : el("span", {}, title),
    el("span", { class: "faint" }, "by ", one.actor, " ", moment(one.at)),
  );
}
