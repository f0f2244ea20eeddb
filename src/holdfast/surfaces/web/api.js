// HTTP client of the page: the public API, with the key in a header only.

const KEPT = "holdfast.key";

/** The error of a failed request. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.error ?? `The server returned ${status}.`);
    this.status = status;
    this.code = body.code ?? "UNKNOWN";
    this.body = body;
  }
}

/** The key of this tab: in session storage only, never in an address. */
export const key = {
  get: () => sessionStorage.getItem(KEPT),
  set: (secret) => sessionStorage.setItem(KEPT, secret),
  forget: () => sessionStorage.removeItem(KEPT),
};

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body = {}, signal) => ask("POST", path, { body, signal });
export const put = (path, body, signal) => ask("PUT", path, { body, signal });
export const remove = (path, body) => ask("DELETE", path, { body });

/** Encode a path segment. */
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
    throw new Refused(0, { error: "The server does not respond. Is `holdfast serve` running?", code: "AWAY" });
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

/** Build a query without empty values; lists are comma-separated. */
function questionMark(query = {}) {
  const pairs = Object.entries(given(query)).map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : value]);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** Remove empty fields. */
export function given(fields) {
  const filled = ([, value]) => value !== undefined && value !== null && value !== "" && !(Array.isArray(value) && !value.length);
  return Object.fromEntries(Object.entries(fields).filter(filled));
}

/** Stream changes after a sequence number until the signal aborts. */
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
