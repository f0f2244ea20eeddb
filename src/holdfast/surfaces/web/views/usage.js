// Model usage and cost by day and model, and remaining budgets.

import { get } from "../api.js";
import { el, fill } from "../dom.js";
import { bar, chip, empty, field, heading, number, section, table } from "../ui.js";

export async function show(place, { query, signal }) {
  const asked = { since: query.get("since") ?? "", until: query.get("until") ?? "" };
  const [days, models] = await Promise.all([get("/usage", { ...asked, by: "day" }, signal), get("/usage", { ...asked, by: "model" }, signal)]);
  fill(
    place,
    heading("Usage and cost", `${days.since} to ${days.until}`),
    form(days),
    days.usage.length ? [chart(days.usage), table(models.usage, columns, { "aria-label": "By model" })] : empty("No usage recorded.", "Programs that call models record it with `holdfast usage record`."),
    section("Budgets", () => budgets(signal)),
  );
}

function form({ since, until }) {
  const day = (name, value) => el("input", { type: "date", name, value: value.slice(0, 10) });
  const submit = (event) => (event.preventDefault(), (location.hash = `#/usage?${new URLSearchParams(new FormData(event.target))}`));
  return el("form", { class: "filters row", on: { submit } }, field("From", day("since", since)), field("To", day("until", until)), el("button", {}, "Show"));
}

function chart(days) {
  const sums = new Map();
  for (const one of days) sums.set(one.day, (sums.get(one.day) ?? 0) + one.total_tokens);
  const most = Math.max(...sums.values(), 1);
  const column = ([day, tokens]) => el("i", { set: { height: `${(tokens / most) * 100}%` }, title: `${day}: ${number(tokens)} tokens` });
  const shown = [...sums].sort();
  return el(
    "div",
    { class: "chart" },
    el("div", { class: "bars", role: "img", "aria-label": `Tokens by day, at most ${number(most)}` }, shown.map(column)),
    el("p", { class: "faint" }, el("span", {}, shown[0][0]), el("span", {}, `at most ${number(most)} tokens a day`), el("span", {}, shown.at(-1)[0])),
  );
}

const columns = [
  ["Model", (one) => el("strong", {}, one.model)],
  ["Calls", (one) => number(one.calls)],
  ["Input", (one) => number(one.input_tokens)],
  ["Output", (one) => number(one.output_tokens)],
  ["From cache", (one) => number(one.cache_read_tokens)],
  ["Cost", (one) => [`${one.cost} ${one.currency ?? ""}`, one.unpriced_calls > 0 && [" ", chip(`${one.unpriced_calls} calls without a price`, "warn")]]],
];

async function budgets(signal) {
  const { budgets: found } = await get("/budgets", {}, signal);
  if (!found.length) return el("p", { class: "faint" }, "No budgets.");
  const left = (one) => (one.tokens ? one.tokens_left / one.tokens : one.cost ? Number(one.cost_left) / Number(one.cost) : 1);
  return table(found, [
    ["Person", (one) => (one.principal === "*" ? "everyone" : one.principal)],
    ["Model", (one) => one.model],
    ["Period", (one) => one.period],
    ["Tokens left", (one) => (one.tokens === undefined ? "" : `${number(one.tokens_left)} of ${number(one.tokens)}`)],
    ["Cost left", (one) => (one.cost === undefined ? "" : `${one.cost_left} of ${one.cost} ${one.currency ?? ""}`)],
    ["", (one) => bar(left(one), `${Math.round(left(one) * 100)} % left`)],
  ]);
}
