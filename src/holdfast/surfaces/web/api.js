// How the page asks: by the operations that everybody else uses, with the key in a header and nowhere else.

const KEPT = "holdfast.key";

/** What a request was refused with. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.error ?? `The server answered with ${status}.`);
    this.status = status;
    this.code = body.code ?? "UNKNOWN";
    this.body = body;
  }
}

/** The key of this tab: gone when it is closed, in no address and in no file. */
export const key = {
  get: () => sessionStorage.getItem(KEPT),
  set: (secret) => sessionStorage.setItem(KEPT, secret),
  forget: () => sessionStorage.removeItem(KEPT),
};

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body = {}, signal) => ask("POST", path, { body, signal });
export const put = (path, body, signal) => ask("PUT", path, { body, signal });
export const remove = (path, body) => ask("DELETE", path, { body });

/** Part of a path, whatever it holds. */
export const part = (text) => encodeURIComponent(text);

async function ask(method, path, { query, body, signal } = {}) {
  const headers = { accept: "application/json", ...authorization() };
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await sent(`/api/v1${path}${questionMark(query)}`, {
    method,
    headers,
    signal,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw refusal(answer.status, told);
  return told;
}

async function sent(address, options) {
  try {
    return await fetch(address, { ...options, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { error: "The server does not answer. Is `holdfast serve` still running?", code: "AWAY" });
  }
}

function refusal(status, told) {
  const error = new Refused(status, told);
  if (status === 401) window.dispatchEvent(new CustomEvent("key-needed", { detail: error }));
  return error;
}

function authorization() {
  const secret = key.get();
  return secret ? { authorization: `Bearer ${secret}` } : {};
}

/** A query without what was left empty; a list is written with commas. */
function questionMark(query = {}) {
  const pairs = Object.entries(given(query)).map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : value]);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** Fields without those that were left empty. */
export function given(fields) {
  const filled = ([, value]) => value !== undefined && value !== null && value !== "" && !(Array.isArray(value) && !value.length);
  return Object.fromEntries(Object.entries(fields).filter(filled));
}

/** Changes as they come, from one on, until the signal says that nobody looks any more. */
export async function follow(after, signal, heard) {
  const answer = await sent(`/api/v1/events${questionMark({ after })}`, {
    headers: { accept: "text/event-stream", ...authorization() },
    signal,
  });
  if (!answer.ok) throw refusal(answer.status, await answer.json().catch(() => ({})));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) heard(JSON.parse(data.join("\n")));
    }
  }
}
