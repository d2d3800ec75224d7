// The HTTP API of the page.

const BRING_MS = 15_000; // a gateway answers within a few seconds, or not at all
const FILE_MS = 70_000;

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Everything there is to show of a conversation, and the place to follow it from. */
export function read(conversation) {
  return ask(`/chat/api/conversation?conversation=${encodeURIComponent(conversation)}`);
}

/** Brings a message, or a stop. The same `id` twice is one message. */
export function bring(path, message) {
  return ask(`/chat/api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(message),
    signal: AbortSignal.timeout(BRING_MS),
  });
}

/** Brings a file for a message that follows. */
export function bringFile(conversation, file) {
  return ask(`/chat/api/files?conversation=${encodeURIComponent(conversation)}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream" },
    body: file,
    signal: AbortSignal.timeout(FILE_MS),
  });
}

async function ask(url, options) {
  const response = await fetch(url, { ...options, credentials: "same-origin", redirect: "error" });
  if (response.status === 401) location.reload(); // leads to the login
  const answer = await response.json();
  if (!response.ok) throw new Refusal(response.status, answer.error);
  return answer;
}

/**
 * Follows a conversation from `place`. The browser connects again by itself and goes on after the last entry;
 * `lost` says that this has no hope: read the conversation anew. Returns how to end it.
 */
export function follow(conversation, place, { entry, online, lost }) {
  const source = new EventSource(
    `/chat/api/stream?conversation=${encodeURIComponent(conversation)}&after=${encodeURIComponent(place)}`,
  );
  source.onopen = () => online(true);
  source.onmessage = (event) => entry(JSON.parse(event.data));
  source.addEventListener("gone", () => {
    source.close();
    lost();
  });
  source.onerror = () => {
    online(false);
    if (source.readyState === EventSource.CLOSED) lost();
  };
  return () => source.close();
}
