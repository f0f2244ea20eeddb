// Highlight matched words, and excerpt the matched part of a text.

import { el } from "./dom.js";

const AROUND = 160;
const LONGEST = 420;
/** Scripts without spaces, and emoji: words may be inside other words. */
const WITHIN = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}\p{sc=Tibt}\p{RI}\p{ExtPict}]/u;

function pattern(words) {
  const plain = (word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  const one = (word) => (WITHIN.test(word) ? plain(word) : `(?<![\\p{L}\\p{N}])${plain(word)}(?![\\p{L}\\p{N}])`);
  return new RegExp(words.map(one).join("|"), "giu");
}

/** Highlight the found words in a text. */
export function marked(text, words = []) {
  if (!words.length) return [text];
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(pattern(words))) {
    parts.push(text.slice(last, found.index), el("mark", {}, found[0]));
    last = found.index + found[0].length;
  }
  return [...parts, text.slice(last)];
}

/** Excerpt the matched span of a content with some context. */
export function excerpt(content, matched, words) {
  const letters = [...content];
  const text = (from, to) => letters.slice(Math.max(0, from), to).join("");
  if (!matched || matched.start < 0) return cut(letters, text, words);
  const { start, end } = matched;
  const from = start > AROUND ? start - AROUND / 2 : 0;
  const to = Math.min(letters.length, Math.max(end + AROUND / 2, from + LONGEST));
  return [
    from > 0 && "… ",
    marked(text(from, start), words),
    el("span", { class: "span", title: "Best matching part" }, marked(text(start, end), words)),
    marked(text(end, to), words),
    to < letters.length && " …",
  ];
}

function cut(letters, text, words) {
  if (letters.length <= LONGEST) return marked(text(0, letters.length), words);
  return [marked(text(0, LONGEST), words), " …"];
}
