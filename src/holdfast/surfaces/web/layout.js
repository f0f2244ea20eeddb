// Force-directed layout of a graph.

const ROUNDS = 260;
// Beyond FAR ideal distances nodes do not repel each other; PULL draws all nodes to the centre.
const FAR = 4;
const PULL = 0.08;

/** Place nodes within a width and a height; deterministic. */
export function layout(ids, edges, width, height) {
  const places = new Map(ids.map((id, at) => [id, begin(at, ids.length, width, height)]));
  const ideal = Math.sqrt((width * height) / Math.max(1, ids.length)) * 0.75;
  for (let round = 0; round < ROUNDS; round += 1) {
    const heat = (1 - round / ROUNDS) * (width / 14);
    step(places, edges, ideal, heat);
  }
  return fitted(places, width, height);
}

/** Start on a spiral, the first node in the middle. */
function begin(at, count, width, height) {
  const turn = at * 2.399963;
  const share = Math.sqrt(at / Math.max(1, count)) * 0.45;
  return { x: width / 2 + Math.cos(turn) * share * width, y: height / 2 + Math.sin(turn) * share * height };
}

/** Scale to the available room, with a margin for names. */
function fitted(places, width, height) {
  const all = [...places.values()];
  const within = (name, room, margin) => {
    const values = all.map((one) => one[name]);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const by = most > least ? Math.min(2.5, (room - 2 * margin) / (most - least)) : 1;
    const rest = (room - (most - least) * by) / 2;
    for (const one of all) one[name] = rest + (one[name] - least) * by;
  };
  if (all.length) within("x", width, 100), within("y", height, 44);
  return places;
}

const mean = (all, name) => all.reduce((sum, one) => sum + one[name], 0) / Math.max(1, all.length);

function step(places, edges, ideal, heat) {
  const all = [...places.values()];
  const middle = { x: mean(all, "x"), y: mean(all, "y") };
  const moves = new Map(all.map((one) => [one, { x: 0, y: 0 }]));
  const push = (one, other, force) => {
    const [dx, dy] = [one.x - other.x, one.y - other.y];
    const apart = Math.max(1, Math.hypot(dx, dy));
    const by = force(apart) / apart;
    moves.get(one).x += dx * by;
    moves.get(one).y += dy * by;
    moves.get(other).x -= dx * by;
    moves.get(other).y -= dy * by;
  };
  for (let i = 0; i < all.length; i += 1) for (let j = i + 1; j < all.length; j += 1) push(all[i], all[j], (apart) => (apart < FAR * ideal ? (ideal * ideal) / apart : 0));
  for (const [source, target] of edges) if (source !== target) push(places.get(source), places.get(target), (apart) => -(apart * apart) / ideal);
  for (const one of all) {
    const move = moves.get(one);
    move.x += (middle.x - one.x) * PULL;
    move.y += (middle.y - one.y) * PULL;
    const far = Math.max(1, Math.hypot(move.x, move.y));
    const by = Math.min(far, heat) / far;
    one.x += move.x * by;
    one.y += move.y * by;
  }
}
