// Peers of this store, and how far each is behind.

import { get } from "../api.js";
import { el, fill, svg } from "../dom.js";
import { chip, empty, heading, link, moment, number, table } from "../ui.js";

const WIDTH = 900;

export async function show(place, { signal }) {
  const status = await get("/sync/status", {}, signal);
  fill(
    place,
    heading("Sync", "This store and its peers, as of the last contact."),
    figures(status),
    status.peers.length ? [map(status), el("section", { class: "part" }, el("h2", {}, "Peers"), standings(status.peers))] : empty("No peers connected.", "Connect one with `holdfast sync peers add` or `holdfast sync`."),
  );
}

function figures(status) {
  const one = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  return el(
    "dl",
    { class: "figures" },
    one("Changes here", number(status.seq)),
    one("Conflicts", link(number(status.conflicts), "#/conflicts")),
    one("Quarantined", number(status.quarantined)),
    one("Pending replication", number(status.pending_replication)),
  );
}

/** How many changes of the other each side lacks. */
function lag({ behind_here: here, behind_there: there }) {
  if (here === undefined) return "";
  const lacking = [here > 0 && `this store lacks ${number(here)}`, there > 0 && `peer lacks ${number(there)}`].filter(Boolean);
  return lacking.join(", ") || "up to date";
}

function map(status) {
  const few = status.peers.length <= 2;
  const height = few ? 180 : 380;
  const middle = { x: WIDTH / 2, y: height / 2 };
  const around = (at) => {
    const turn = (at / status.peers.length) * 2 * Math.PI - (few ? 0 : Math.PI / 2);
    return { x: middle.x + Math.cos(turn) * WIDTH * 0.36, y: middle.y + Math.sin(turn) * height * 0.34 };
  };
  const peer = (one, at) => {
    const { x, y } = around(at);
    return [
      svg("path", { class: `edge ${one.state === "ok" ? "" : "over"}`, d: `M${middle.x} ${middle.y} L${x} ${y}` }),
      svg("text", { class: "name", x: middle.x + (x - middle.x) * 0.62, y: middle.y + (y - middle.y) * 0.62 - 22, "text-anchor": "middle" }, lag(one)),
      svg("g", { class: one.state }, svg("circle", { cx: x, cy: y, r: 13 }), svg("text", { x, y: y + 30, "text-anchor": "middle" }, one.peer)),
    ];
  };
  const drawn = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, class: "drawing", role: "img", "aria-label": `This store and ${status.peers.length} peers; see the table below` },
    status.peers.map(peer),
    svg("g", { class: "middle" }, svg("circle", { cx: middle.x, cy: middle.y, r: 18 }), svg("text", { x: middle.x, y: middle.y + 36, "text-anchor": "middle" }, "this store")),
  );
  return el("div", { class: "scroll" }, drawn);
}

function standings(peers) {
  return table(
    peers,
    [
      ["Peer", (one) => [el("strong", {}, one.peer), one.url && one.url !== one.peer && el("div", { class: "faint" }, one.url)]],
      ["State", (one) => [chip(one.state, { ok: "good", failing: "bad" }[one.state] ?? ""), one.last_error && el("div", {}, one.last_error)]],
      ["To pull", (one) => (one.behind_here === undefined ? "?" : number(one.behind_here))],
      ["To push", (one) => (one.behind_there === undefined ? "?" : number(one.behind_there))],
      ["Last contact", (one) => moment(one.last_heard)],
      ["Pulled, pushed", (one) => `${number(one.pulled)}, ${number(one.pushed)}`],
      ["Conflicts", (one) => number(one.conflicts)],
    ],
    { "aria-label": "Peers" },
  );
}
