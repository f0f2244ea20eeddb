// The links around a memory or in a namespace, at any time, drawn and listed.

import { get, given } from "../api.js";
import { el, fill, svg } from "../dom.js";
import { layout } from "../layout.js";
import { address, chip, choice, empty, exactly, field, heading, link, memoryHref, moment, momentField, namespaceField, table } from "../ui.js";
import { RELATIONS } from "./memory.js";

const WIDTH = 1000;
const MOST = 60;
const CROWDED = 20;
const LONGEST = { few: 26, many: 15 };

export async function show(place, { query, signal }) {
  const asked = Object.fromEntries(["id", "namespace", "relations", "max_depth", "valid_at", "include_invalidated"].map((name) => [name, query.get(name) ?? ""]));
  const lede = "Typed, dated links between memories. Ended links are dashed.";
  if (!asked.id && !asked.namespace) {
    fill(place, heading("Graph", lede), form(asked), empty("Enter a namespace or a memory id.", "“Graph” on the page of a memory leads here."));
    return;
  }
  const found = await get("/graph", { ...asked, limit: MOST }, signal);
  const titles = new Map(found.nodes.map((one) => [one.id, one.title]));
  fill(
    place,
    heading("Graph", lede),
    form(asked),
    found.truncated && el("p", { class: "notice" }, `Only the first ${MOST} are shown. Choose a relation, a smaller depth or a narrower namespace to see others.`),
    found.nodes.length ? el("div", { class: "scroll" }, drawing(found, asked.id)) : empty("No links."),
    found.links.length > 0 && el("section", { class: "part" }, el("h2", {}, `${found.links.length} links`), listed(found.links, titles)),
  );
}

function form(asked) {
  const namespace = namespaceField(asked.namespace, { name: "namespace" });
  const ended = el("input", { type: "checkbox", name: "include_invalidated", value: "true", checked: asked.include_invalidated === "true" });
  const then = momentField(asked.valid_at);
  const submit = (event) => {
    event.preventDefault();
    const chosen = Object.fromEntries(new FormData(event.target));
    if (chosen.id) delete chosen.namespace;
    location.hash = address("graph", given({ ...chosen, valid_at: exactly(then) }));
  };
  return el(
    "form",
    { class: "filters", on: { submit } },
    el(
      "div",
      { class: "row" },
      field("Namespace", namespace.input),
      namespace.parts[1],
      field("or a memory", el("input", { type: "text", name: "id", value: asked.id, placeholder: "id" })),
      field("Depth", choice(["1", "2", "3", "4", "5"], asked.max_depth || "2", { name: "max_depth" })),
      field("Relation", choice(["", ...RELATIONS], asked.relations, { name: "relations" })),
      field("Valid at", then),
      el("label", { class: "check" }, ended, "Include ended links"),
      el("button", {}, "Show"),
    ),
  );
}

function drawing({ nodes, links }, middle) {
  const edges = links.filter((one) => nodes.some((node) => node.id === one.source_id) && nodes.some((node) => node.id === one.target_id));
  const height = Math.min(900, 240 + 22 * nodes.length);
  const crowd = nodes.length > CROWDED ? "many" : "few";
  const places = layout(nodes.map((one) => one.id), edges.map((one) => [one.source_id, one.target_id]), WIDTH, height);
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, class: "drawing", role: "group", "aria-label": `${nodes.length} memories and ${edges.length} links` },
    svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: "8", refY: "4", markerWidth: "8", markerHeight: "8", orient: "auto" }, svg("path", { d: "M0 0 8 4 0 8z" }))),
    edges.map((one) => edge(one, places, crowd)),
    nodes.map((one) => node(one, places.get(one.id), one.id.startsWith(middle || "-"), LONGEST[crowd])),
  );
}

function edge(one, places, crowd) {
  const [from, to] = [places.get(one.source_id), places.get(one.target_id)];
  const apart = Math.max(1, Math.hypot(to.x - from.x, to.y - from.y));
  const end = { x: to.x - ((to.x - from.x) / apart) * 11, y: to.y - ((to.y - from.y) / apart) * 11 };
  const name = one.relation.replaceAll("_", " ");
  return [
    svg("path", { class: `edge ${one.relation} ${one.valid_until ? "over" : ""}`, d: `M${from.x} ${from.y} L${end.x} ${end.y}`, "marker-end": "url(#tip)" }, svg("title", {}, name)),
    crowd === "few" && svg("text", { class: "name", x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 - 3, "text-anchor": "middle" }, name),
  ];
}

function node(one, { x, y }, isMiddle, longest) {
  const text = [...one.title];
  return svg(
    "a",
    { href: memoryHref(one.id), class: `${isMiddle ? "middle" : ""} ${one.kind}`, "aria-label": `${one.title}, ${one.kind} in ${one.namespace}` },
    svg("title", {}, `${one.title} · ${one.namespace}`),
    svg("circle", { cx: x, cy: y, r: isMiddle ? 10 : 8 }),
    svg("text", { x, y: y + 25, "text-anchor": "middle" }, text.length > longest ? `${text.slice(0, longest).join("")}…` : one.title),
  );
}

function listed(links, titles) {
  const name = (id) => link(titles.get(id) ?? id, memoryHref(id));
  return table(
    links,
    [
      ["From", (one) => name(one.source_id)],
      ["Relation", (one) => chip(one.relation.replaceAll("_", " "))],
      ["To", (one) => name(one.target_id)],
      ["Since", (one) => moment(one.valid_from)],
      ["Until", (one) => (one.valid_until ? moment(one.valid_until) : "current")],
      ["Observed by", (one) => one.observed_by],
    ],
    { "aria-label": "Links" },
  );
}
