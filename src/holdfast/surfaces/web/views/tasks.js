// What is to be done: due, waiting, running, failed; and what became of each try.

import { get, part, post } from "../api.js";
import { el, fill } from "../dom.js";
import { address, asked, attempt, button, chip, empty, heading, moment, number, pager, section, table, tabs } from "../ui.js";

const PAGE = 25;
const WHICH = {
  due: ["Due", { due: true }],
  pending: ["Waiting", { state: "pending" }],
  running: ["Running", { state: "running" }],
  failed: ["Failed", { state: "failed" }],
  done: ["Done", { state: ["done", "cancelled"] }],
};
const COLOURS = { failed: "bad", running: "then", done: "good" };

export async function show(place, { query, signal, again }) {
  const which = Object.hasOwn(WHICH, query.get("which")) ? query.get("which") : "due";
  const offset = Number(query.get("offset")) || 0;
  const { tasks, total } = await get("/tasks", { ...WHICH[which][1], limit: PAGE, offset }, signal);
  fill(
    place,
    heading("Tasks", "Plans with a time. Whoever does one holds it under a lease."),
    tabs("Which tasks", Object.entries(WHICH).map(([name, [label]]) => [name, label]), which, (to) => address("tasks", { which: to })),
    tasks.length ? [el("p", { class: "faint" }, `${number(total)} in all.`), tasks.map((one) => task(one, signal, again))] : empty(which === "due" ? "Nothing is due." : "None.", "`holdfast task add` plans something."),
    pager({ offset, size: PAGE, count: tasks.length, total, href: (to) => address("tasks", { which, offset: to }) }),
  );
}

function task(one, signal, again) {
  const runs = el("div", {});
  const open = () => runs.childElementCount || fill(runs, section(null, () => tries(one.id, signal)));
  return el(
    "article",
    { class: "card" },
    el("h3", {}, one.title),
    el("p", { class: "byline" }, chip(one.state, COLOURS[one.state]), el("span", {}, "due ", moment(one.due_at)), one.repeat && el("span", {}, one.repeat, " in ", one.zone), el("span", {}, one.kind), el("span", {}, "of ", one.principal), el("span", {}, `try ${one.attempts} of ${one.most_attempts}`), one.owner && el("span", {}, "held by ", one.owner, " until ", moment(one.lease_until))),
    one.last_error && el("p", { class: "problem" }, one.last_error),
    el("details", { on: { toggle: open } }, el("summary", {}, "Tries"), runs),
    el("p", { class: "actions" }, one.state === "failed" && button("Try again", () => retry(one, again), { class: "primary" }), (one.state === "pending" || one.state === "running") && button("Give it up", () => cancel(one, again), { class: "danger" })),
  );
}

async function retry(one, again) {
  if (await attempt(() => post(`/tasks/${part(one.id)}/retry`), "It is tried again.")) again();
}

async function cancel(one, again) {
  const sure = await asked({ title: "Give this task up?", text: one.title, action: "Give it up", danger: true });
  if (sure && (await attempt(() => post(`/tasks/${part(one.id)}/cancel`), "Given up."))) again();
}

async function tries(id, signal) {
  const { runs } = await get(`/tasks/${part(id)}/runs`, {}, signal);
  if (!runs.length) return el("p", { class: "faint" }, "Not tried yet.");
  return table(runs, [
    ["Try", (one) => one.attempt],
    ["By", (one) => one.owner],
    ["Ended", (one) => moment(one.finished_at)],
    ["How", (one) => chip(one.status, { completed: "good", failed: "bad", lost: "warn" }[one.status])],
    ["What came of it", (one) => one.error ?? one.result ?? ""],
  ]);
}
