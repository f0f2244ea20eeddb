// Word-by-word differences between two states of a memory.

import { el } from "./dom.js";

const OWN = new Set(["version", "updated_at", "created_at", "id", "cells", "access_count", "last_accessed_at", "agent", "agent_id", "origin"]);
const SAID = ["title", "content", "tags"];
const MOST_WORDS = 1500;

/** The changed fields as `[name, before, now]`; for a new memory its text fields. */
export function difference(before, now) {
  if (!Object.keys(before).length) return SAID.filter((name) => !isNothing(now[name])).map((name) => [name, "", text(now[name])]);
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])].filter((name) => !OWN.has(name));
  const differs = (name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]) && !(isNothing(before[name]) && isNothing(now[name]));
  return names.filter(differs).map((name) => [name, text(before[name]), text(now[name])]);
}

const isNothing = (value) => value === undefined || value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);

function text(value) {
  if (isNothing(value)) return "";
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Merge two texts, with deletions and insertions marked. */
export function said(before, now) {
  if (!before) return now;
  return steps(words(before), words(now)).map(([sign, part]) => (sign === " " ? part : el(sign === "-" ? "del" : "ins", {}, part)));
}

const words = (value) => value.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

/** Diff two word lists: trim common ends, then find the longest common subsequence. Very long texts are not aligned. */
function steps(one, other) {
  let begin = 0;
  while (begin < one.length && begin < other.length && one[begin] === other[begin]) begin += 1;
  let end = 0;
  while (end < one.length - begin && end < other.length - begin && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  const left = one.slice(begin, one.length - end);
  const right = other.slice(begin, other.length - end);
  const middle = Math.max(left.length, right.length) > MOST_WORDS ? [["-", left.join("")], ["+", right.join("")]] : common(left, right);
  const ends = end ? one.slice(-end) : [];
  return joined([[" ", one.slice(0, begin).join("")], ...middle, [" ", ends.join("")]]);
}

function common(left, right) {
  const table = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      table[i][j] = left[i] === right[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) found.push([" ", left[i]]), (i += 1), (j += 1);
    else if (table[i + 1][j] >= table[i][j + 1]) found.push(["-", left[i++]]);
    else found.push(["+", right[j++]]);
  }
  return [...found, ...left.slice(i).map((word) => ["-", word]), ...right.slice(j).map((word) => ["+", word])];
}

function joined(found) {
  const runs = [];
  for (const [sign, part] of found) {
    if (!part) continue;
    if (runs.at(-1)?.[0] === sign) runs.at(-1)[1] += part;
    else runs.push([sign, part]);
  }
  return runs;
}
