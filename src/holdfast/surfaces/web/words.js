// Which words of a text an answer found, and where.

import { el } from "./dom.js";

const WORD = /[\p{L}\p{N}]+/gu;
const AROUND = 160;
const LONGEST = 420;

/** Whether a word has a stem: stems are cut and sometimes turned ("deploi"), so their last letter may differ. */
function holds(word, stem) {
  const low = word.toLowerCase();
  if (stem.length <= 3) return low === stem || low === `${stem}s`;
  const root = stem.slice(0, -1);
  return low.startsWith(root) && low.length <= stem.length + 5;
}

/** A text in which the words that were found are marked. */
export function marked(text, stems = []) {
  if (!stems.length) return [text];
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(WORD)) {
    if (!stems.some((stem) => holds(found[0], stem))) continue;
    parts.push(text.slice(last, found.index), el("mark", {}, found[0]));
    last = found.index + found[0].length;
  }
  return [...parts, text.slice(last)];
}

/** The part of a content that bears on the question: the matched span, marked as such, with a little around it. */
export function excerpt(content, matched, stems) {
  const letters = [...content];
  const text = (from, to) => letters.slice(Math.max(0, from), to).join("");
  if (!matched || matched.start < 0) return cut(letters, text, stems);
  const { start, end } = matched;
  const from = start > AROUND ? start - AROUND / 2 : 0;
  const to = Math.min(letters.length, Math.max(end + AROUND / 2, from + LONGEST));
  return [
    from > 0 && "… ",
    marked(text(from, start), stems),
    el("span", { class: "span", title: "The part that bears most on the question" }, marked(text(start, end), stems)),
    marked(text(end, to), stems),
    to < letters.length && " …",
  ];
}

function cut(letters, text, stems) {
  if (letters.length <= LONGEST) return marked(text(0, letters.length), stems);
  return [marked(text(0, LONGEST), stems), " …"];
}
