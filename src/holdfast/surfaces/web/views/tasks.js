// Tasks by state, with their attempts.

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
    heading("Tasks", "Scheduled work; a worker claims a task with a lease."),
    tabs("State", Object.entries(WHICH).map(([name, [label]]) => [name, label]), which, (to) => address("tasks", { which: to })),
    tasks.length ? [el("p", { class: "faint" }, `${number(total)} in total.`), tasks.map((one) => task(one, signal, again))] : empty(which === "due" ? "No tasks are due." : "None.", "Add one with `holdfast task add`."),
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
    el("p", { class: "byline" }, chip(one.state, COLOURS[one.state]), el("span", {}, "due ", moment(one.due_at)), one.repeat && el("span", {}, one.repeat, " in ", one.zone), el("span", {}, one.kind), el("span", {}, "for ", one.principal), el("span", {}, `attempt ${one.attempts} of ${one.most_attempts}`), one.owner && el("span", {}, "claimed by ", one.owner, " until ", moment(one.lease_until))),
    one.last_error && el("p", { class: "problem" }, one.last_error),
    el("details", { on: { toggle: open } }, el("summary", {}, "Attempts"), runs),
    el("p", { class: "actions" }, one.state === "failed" && button("Retry", () => retry(one, again), { class: "primary" }), (one.state === "pending" || one.state === "running") && button("Cancel task", () => cancel(one, again), { class: "danger" })),
  );
}

async function retry(one, again) {
  if (await attempt(() => post(`/tasks/${part(one.id)}/retry`), "Task queued again.")) again();
}

async function cancel(one, again) {
  const sure = await asked({ title: "Cancel this task?", text: one.title, action: "Cancel task", danger: true });
  if (sure && (await attempt(() => post(`/tasks/${part(one.id)}/cancel`), "Cancelled."))) again();
}

async function tries(id, signal) {
  const { runs } = await get(`/tasks/${part(id)}/runs`, {}, signal);
  if (!runs.length) return el("p", { class: "faint" }, "No attempts yet.");
  return table(runs, [
    ["Attempt", (one) => one.attempt],
    ["Worker", (one) => one.owner],
    ["Ended", (one) => moment(one.finished_at)],
    ["Status", (one) => chip(one.status, { completed: "good", failed: "bad", lost: "warn" }[one.status])],
    ["Result", (one) => one.error ?? one.result ?? ""],
  ]);
}
