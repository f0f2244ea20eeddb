// Everything on the page is made here, as nodes. Text is only ever text: nothing that was stored can become markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "open", "required", "readOnly", "indeterminate"]);

/** An element with its attributes, its listeners (`on: {click}`) and its children; false and null children are left out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a drawing. */
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
  else if (/^on|^style$|^srcdoc$/i.test(name)) throw new Error(`${name} is no attribute of this page`);
  else if (name === "href") node.setAttribute("href", safe(value) ?? "#/search");
  else node.setAttribute(name, value === true ? "" : String(value));
}

/** Append children: nodes as they are, everything else as text. */
export function put(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Put children in the place of those that are there. */
export function fill(node, ...children) {
  node.replaceChildren();
  return put(node, ...children);
}

/** An address that a link may lead to: within the page, to another site by http or https, or made here to be saved. */
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

/** Our own words, in which what stands between backticks is code. */
export function coded(text) {
  return String(text).split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));
}

/** A link to another site, if it is one that may be followed; otherwise the text alone. */
export function outward(address, label = address) {
  const href = /^https?:/i.test(address) ? safe(address) : null;
  if (href === null) return document.createTextNode(label);
  return el("a", { href, rel: "noopener noreferrer nofollow", target: "_blank" }, label);
}

/** Text in which the addresses of sites are links. */
export function linked(text) {
  return String(text).split(/(https?:\/\/[^\s<>"')\]]+)/g).map((part, place) => (place % 2 ? outward(part) : part));
}
