// Search as you type, with an explanation for each hit and for missing memories.

import { get, given, post } from "../api.js";
import { el, fill } from "../dom.js";
import { card, labels } from "../memories.js";
import { address, bar, button, chip, empty, exactly, field, heading, link, memoryHref, momentField, namespaceField, number, pairs, problem, settled, table, times } from "../ui.js";

const PAUSE = 250;
const USUAL = 10;
const MOST = 50;

/** Groups of score parts with their labels. */
const CHANNELS = {
  words: ["Words", ["words"]],
  vector: ["Meaning", ["vector"]],
  speaker: ["Speaker", ["speaker"]],
  around: ["Neighbouring turns", ["before", "long_before", "after", "answers", "asks"]],
  thread: ["Thread", ["thread_words", "thread_vector"]],
  date: ["Date", ["date"]],
  linked: ["Links", ["linked"]],
};

export async function show(place, { query, signal }) {
  const found = el("div", { class: "found", "aria-live": "polite", "aria-busy": "false" });
  const asking = new Asking(query);
  const view = new View(found, asking, signal);
  fill(
    place,
    heading("Search", "Ask a question in plain words. Every hit is explained."),
    asking.form(() => view.ask()),
    found,
  );
  asking.words.focus({ preventScroll: true });
  await view.ask();
}

/** The question and its conditions. */
class Asking {
  constructor(query) {
    const input = (type, name, more = {}) => el("input", { type, value: query.get(name) ?? "", ...more });
    const then = (name) => momentField(query.get(name));
    this.words = input("search", "q", { "aria-label": "Question", placeholder: "What do we know about …", maxlength: "4096", autocomplete: "off" });
    this.namespace = namespaceField(query.get("namespace"));
    this.tags = input("text", "tags", { placeholder: "any" });
    this.then = { as_of: then("as_of"), known_at: then("known_at"), now: then("now") };
    this.factors = Object.fromEntries(Object.keys(CHANNELS).map((name) => [name, slider(query.get(`w_${name}`))]));
    this.open = ["namespace", "tags", "as_of", "known_at", "now"].some((name) => query.has(name)) || this.isWeighed();
  }

  isWeighed() {
    return Object.values(this.factors).some((one) => Number(one.value) !== 1);
  }

  /** The arguments of the operation; the weights are applied here. */
  question() {
    return given({
      context: this.words.value.trim(),
      namespace: this.namespace.input.value.trim(),
      tags: labels(this.tags.value),
      as_of: exactly(this.then.as_of),
      known_at: exactly(this.then.known_at),
      now: exactly(this.then.now),
    });
  }

  address() {
    const { context, tags = [], ...rest } = this.question();
    const weighed = Object.entries(this.factors).map(([name, one]) => [`w_${name}`, Number(one.value) === 1 ? "" : one.value]);
    return address("search", { q: context, tags: tags.join(","), ...rest, ...Object.fromEntries(weighed) });
  }

  form(changed) {
    const later = settled(PAUSE, changed);
    const reset = () => {
      for (const control of [this.namespace.input, this.tags, ...Object.values(this.then)]) control.value = "";
      for (const one of Object.values(this.factors)) (one.value = 1), one.dispatchEvent(new Event("input"));
      changed();
    };
    const weighing = Object.entries(this.factors).map(([name, one]) => weight(CHANNELS[name][0], one));
    return el(
      "form",
      { class: "asking", role: "search", on: { input: later, submit: (event) => (event.preventDefault(), changed()) } },
      this.words,
      el(
        "details",
        { open: this.open, class: "whatif" },
        el("summary", {}, "Advanced"),
        el(
          "div",
          { class: "fields" },
          el("div", { class: "field" }, field("Namespace and its parents", this.namespace.input), this.namespace.parts[1]),
          field("Tags, comma-separated", this.tags),
          field("Valid at", this.then.as_of),
          field("Known at", this.then.known_at),
          field("Current time", this.then.now, "For words such as yesterday."),
        ),
        el("fieldset", { class: "weights" }, el("legend", {}, "Weights: 0 ignores a reason, 1 is the default"), weighing),
        button("Reset", reset, { class: "quiet" }),
      ),
    );
  }
}

/** A weight slider that shows its value. */
function weight(label, control) {
  const value = el("output", {}, ` × ${control.value}`);
  control.addEventListener("input", () => fill(value, ` × ${control.value}`));
  const shown = field(label, control);
  shown.querySelector("label").append(value);
  return shown;
}

const slider = (value) => el("input", { type: "range", min: "0", max: "3", step: "0.25", value: value ?? "1" });

class View {
  constructor(place, asking, signal) {
    Object.assign(this, { place, asking, signal, turn: new AbortController() });
  }

  async ask() {
    this.turn.abort();
    this.turn = new AbortController();
    const signal = AbortSignal.any([this.signal, this.turn.signal]);
    if (location.hash.startsWith("#/search") || location.hash === "") history.replaceState(null, "", this.asking.address());
    this.place.setAttribute("aria-busy", "true");
    try {
      fill(this.place, await this.answer(signal));
    } catch (error) {
      if (error.name !== "AbortError" && error.status !== 401) fill(this.place, problem(error));
    } finally {
      if (!signal.aborted) this.place.setAttribute("aria-busy", "false");
    }
  }

  async answer(signal) {
    const question = this.asking.question();
    if (!question.context) return latest(signal);
    const weighed = this.asking.isWeighed();
    const answer = await post("/recall", { ...question, explain: true, note: false, limit: weighed ? MOST : USUAL }, signal);
    const hits = weighed ? reweighed(answer.memories, this.asking.factors).slice(0, USUAL) : answer.memories.map((hit, at) => ({ hit, was: at, score: hit.score }));
    return [
      summary(answer, weighed),
      hits.length ? el("ol", { class: "hits" }, hits.map((one, at) => el("li", {}, result(one, at, question)))) : nothing(),
      answer.standards?.length > 0 && el("section", { class: "part" }, el("h2", {}, "Standards of this namespace"), answer.standards.map((one) => card(one))),
      missing(question),
    ];
  }
}

/** Without a question: the most important memories. */
async function latest(signal) {
  const { memories } = await get("/memories", { limit: USUAL }, signal);
  if (!memories.length) return empty("No memories yet.", link("Create the first one", "#/new"), ", or let an agent do it.");
  return [el("h2", {}, "Most important"), memories.map((one) => card(one)), el("p", {}, link("All memories", "#/memories"))];
}

/** Rank the first fifty hits with other weights; keep their original places. */
function reweighed(hits, factors) {
  const factorOf = {};
  for (const [name, [, parts]] of Object.entries(CHANNELS)) for (const one of parts) factorOf[one] = Number(factors[name].value);
  const sum = (why) => Object.entries(why.parts).reduce((total, [name, one]) => total + one.adds * (factorOf[name] ?? 1), 0) * why.adjustment;
  const scored = hits.map((hit, was) => ({ hit, was, raw: sum(hit.why) })).sort((one, other) => other.raw - one.raw || one.was - other.was);
  const best = Math.max(scored[0]?.raw ?? 0, 1e-9);
  return scored.map((one) => ({ ...one, score: Math.max(0, one.raw / best) }));
}

function summary(answer, weighed) {
  const how = answer.mode === "hybrid" ? "keywords and meaning" : "keywords";
  return el(
    "p",
    { class: "faint summary" },
    `${number(answer.count)} ${answer.count === 1 ? "hit" : "hits"} of ${number(answer.meta.candidates)} candidates, by ${how}.`,
    answer.meta.degraded && [" ", chip(`Degraded: ${answer.meta.degraded}`, "warn")],
    weighed && [" ", chip("custom weights: the first fifty hits are reordered")],
    answer.known_at && [" ", chip(`known at ${new Date(answer.known_at).toLocaleString()}`, "then")],
    answer.as_of && [" ", chip(`valid at ${new Date(answer.as_of).toLocaleString()}`, "then")],
  );
}

function result({ hit, was, score }, at, question) {
  const then = new URLSearchParams(given({ as_of: question.as_of, known_at: question.known_at })).toString();
  const moved = was - at;
  return card(hit, {
    query: then && `?${then}`,
    words: hit.why.terms,
    before: el(
      "div",
      { class: "place" },
      el("b", {}, at + 1),
      bar(score, `Score ${score.toFixed(2)} of the best`),
      el("small", {}, score.toFixed(2)),
      moved !== 0 && el("small", { class: "moved" }, moved > 0 ? `↑ ${moved}` : `↓ ${-moved}`),
    ),
    after: el("details", { class: "why" }, el("summary", {}, "Why"), why(hit.why), provenance(hit)),
  });
}

/** The parts of a score. */
function why(reasons) {
  const label = (name) => Object.values(CHANNELS).find(([, parts]) => parts.includes(name))?.[0] ?? name;
  const rows = Object.entries(reasons.parts).sort(([, one], [, other]) => Math.abs(other.adds) - Math.abs(one.adds));
  return [
    table(
      rows,
      [
        ["Reason", ([name]) => [label(name), name !== label(name).toLowerCase() && el("small", { class: "faint" }, ` ${name.replaceAll("_", " ")}`)]],
        ["Strength", ([, one]) => one.value.toFixed(2)],
        ["Weight", ([, one]) => `× ${one.weight}`],
        ["Adds", ([, one]) => [bar(one.adds, one.adds.toFixed(3)), " ", one.adds.toFixed(3)]],
      ],
      { "aria-label": "Parts of the score" },
    ),
    el(
      "p",
      {},
      `Sum, multiplied by ${reasons.adjustment.toFixed(3)} for priority, confidence, age and use: `,
      el("strong", {}, reasons.score.toFixed(3)),
      reasons.cosine !== undefined && ` · cosine similarity ${reasons.cosine.toFixed(2)}`,
      reasons.cosine === undefined && reasons.parts.vector !== undefined && " · similarity estimated: no embedding yet",
    ),
    reasons.terms.length > 0 && el("p", {}, "Matched words: ", reasons.terms.map((term) => chip(term))),
  ];
}

/** The provenance of a memory. */
export function provenance(memory) {
  return pairs([
    ["Stored by", memory.agent_id],
    ["Via", memory.source],
    ["Speaker", memory.speaker],
    ["Source", memory.source_uri],
    ["Citations", memory.citations?.length ? memory.citations.length : null],
    ["Confidence", memory.confidence_tier ? `${memory.confidence} (${memory.confidence_tier})` : memory.confidence],
    ["Recalled", memory.access_count ? times(memory.access_count) : null],
    ["Stale", memory.stale && link(`${memory.stale.cause} (${memory.stale.status})`, memory.stale.invalidated_id ? memoryHref(memory.stale.invalidated_id) : "#/stale")],
    ["Version", memory.version],
  ]);
}

const nothing = () => empty("No hits.", "Try other words, a wider namespace or another time, or check below why a memory is missing.");

/** Explain why an expected memory is not among the hits. */
function missing(question) {
  const input = el("input", { type: "text", placeholder: "Words in it, or its id", required: true, maxlength: "512" });
  const answer = el("div", { "aria-live": "polite" });
  const tell = async (id) => {
    try {
      fill(answer, reasons(await post("/recall/why-not", { ...question, id, limit: USUAL })));
    } catch (error) {
      fill(answer, problem(error));
    }
  };
  const look = async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (/^[0-9a-f]{8}-?[0-9a-f-]*$/i.test(text)) return tell(text);
    try {
      const { results } = await get("/search", { query: text, limit: 8, include_archived: true });
      fill(answer, results.length ? el("ul", { class: "choices" }, results.map((one) => el("li", {}, button(one.title, () => tell(one.id)), " ", el("small", { class: "faint" }, one.namespace)))) : el("p", {}, "No memory contains all of these words."));
    } catch (error) {
      fill(answer, problem(error));
    }
    return undefined;
  };
  return el(
    "details",
    { class: "whynot part" },
    el("summary", {}, "Why is a memory missing?"),
    el("form", { class: "row", on: { submit: look } }, field("Memory", input), el("button", {}, "Check")),
    answer,
  );
}

function reasons(told) {
  return el(
    "div",
    { class: "card" },
    el("h3", {}, link(told.title, memoryHref(told.id))),
    el("p", {}, told.returned ? `It is hit number ${told.place}.` : `It is not among the first ${told.limit} hits.`),
    el("ul", {}, told.reasons.map((one) => el("li", {}, one.message, " ", el("code", { class: "faint" }, one.code)))),
    told.why && why(told.why),
  );
}
