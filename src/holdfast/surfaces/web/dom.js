// Create DOM nodes. Text is always inserted as text, so stored data never becomes markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "open", "required", "readOnly", "indeterminate"]);

/** Create an element with attributes, listeners (`on: {click}`) and children; false and null children are skipped. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) give(node, name, value);
  return put(node, ...children);
}

function give(node, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
  else if (name === "set") for (const [property, given] of Object.entries(value)) node.style.setProperty(property, given);
  else if (PROPERTIES.has(name)) node[name] = value;
  else if (/^on|^style$|^srcdoc$/i.test(name)) throw new Error(`${name} is not an allowed attribute`);
  else if (name === "href") node.setAttribute("href", safe(value) ?? "#/search");
  else node.setAttribute(name, value === true ? "" : String(value));
}

/** Append children: nodes as nodes, everything else as text. */
export function put(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Replace the children of a node. */
export function fill(node, ...children) {
  node.replaceChildren();
  return put(node, ...children);
}

/** Return a safe link target: within the page, http(s), or a blob created here; else null. */
function safe(address) {
  const text = String(address);
  if (text.startsWith("#") || text.startsWith("blob:")) return text;
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

/** Render our own text; backticks mark code. */
export function coded(text) {
  return String(text).split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));
}

/** A link to another site if it is safe, else plain text. */
export function outward(address, label = address) {
  const href = /^https?:/i.test(address) ? safe(address) : null;
  if (href === null) return document.createTextNode(label);
  return el("a", { href, rel: "noopener noreferrer nofollow", target: "_blank" }, label);
}

/** Turn URLs in a text into links. */
export function linked(text) {
  return String(text).split(/(https?:\/\/[^\s<>"')\]]+)/g).map((part, place) => (place % 2 ? outward(part) : part));
}
