// Render a subset of Markdown as nodes: headings, lists, quotes, code, rules, emphasis and links. HTML stays text.

import { el, outward } from "./dom.js";

const FENCE = /^\s{0,3}(```+|~~~+)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)(?:[-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const INLINE = /(`+)(.+?)\1(?!`)|\*\*(.+?)\*\*|\*([^*\s][^*]*?)\*|!?\[([^\]\n]*)\]\(((?:[^()\s]|\([^()\s]*\))*)(?:\s+"[^"]*")?\)|(https?:\/\/[^\s<>"')\]]+)/g;
const DEEPEST = 8;

/** Render a text. */
export function written(text) {
  return el("div", { class: "written" }, blocks(text.replace(/\r\n?/g, "\n").split("\n"), 0));
}

function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line);
    if (!line.trim()) at += 1;
    else if (FENCE.test(line)) at = fenced(lines, at, found);
    else if (heading) found.push(el(`h${Math.min(6, heading[1].length + 1)}`, {}, inline(heading[2]))), (at += 1);
    else if (RULE.test(line)) found.push(el("hr")), (at += 1);
    else if (/^\s{0,3}>/.test(line) && depth < DEEPEST) at = quoted(lines, at, found, depth);
    else if (ITEM.test(line) && depth < DEEPEST) at = listed(lines, at, found, depth);
    else at = paragraph(lines, at, found);
  }
  return found;
}

function fenced(lines, begin, found) {
  const [, sign] = FENCE.exec(lines[begin]);
  let end = begin + 1;
  while (end < lines.length && !lines[end].trim().startsWith(sign)) end += 1;
  found.push(el("pre", {}, el("code", {}, lines.slice(begin + 1, end).join("\n"))));
  return end + 1;
}

function quoted(lines, begin, found, depth) {
  let end = begin;
  while (end < lines.length && /^\s{0,3}>/.test(lines[end])) end += 1;
  found.push(el("blockquote", {}, blocks(lines.slice(begin, end).map((line) => line.replace(/^\s{0,3}> ?/, "")), depth + 1)));
  return end;
}

function listed(lines, begin, found, depth) {
  const ordered = /^\s*\d/.test(lines[begin]);
  const items = [];
  let at = begin;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    const indent = ITEM.exec(lines[begin])[1].length;
    if (item && item[1].length <= indent) items.push([item[2]]);
    else if (lines[at].trim() && /^\s/.test(lines[at])) items.at(-1).push(lines[at].slice(Math.min(indent + 2, lines[at].search(/\S/))));
    else if (!lines[at].trim() && at + 1 < lines.length && (/^\s+\S/.test(lines[at + 1]) || ITEM.test(lines[at + 1]))) items.at(-1).push("");
    else break;
    at += 1;
  }
  const body = (item) => (item.length === 1 ? inline(item[0]) : blocks(item, depth + 1));
  found.push(el(ordered ? "ol" : "ul", ordered ? { start: parseInt(lines[begin], 10) } : {}, items.map((item) => el("li", {}, body(item)))));
  return at;
}

function paragraph(lines, begin, found) {
  let end = begin + 1;
  const ends = (line) => !line.trim() || HEADING.test(line) || FENCE.test(line) || ITEM.test(line) || /^\s{0,3}>/.test(line);
  while (end < lines.length && !ends(lines[end])) end += 1;
  found.push(el("p", {}, inline(lines.slice(begin, end).join("\n"))));
  return end;
}

/** Emphasis, code and links; a link that does not lead to a site by http or https is its text. */
function inline(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(text.slice(last, found.index));
    const [whole, , code, strong, light, label, address, bare] = found;
    if (code !== undefined) parts.push(el("code", {}, code));
    else if (strong !== undefined) parts.push(el("strong", {}, strong));
    else if (light !== undefined) parts.push(el("em", {}, light));
    else if (address !== undefined) parts.push(outward(address, label || address));
    else parts.push(outward(bare));
    last = found.index + whole.length;
  }
  return [...parts, text.slice(last)];
}
