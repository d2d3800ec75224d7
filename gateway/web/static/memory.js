// What this browser remembers: its conversations, and what was not sent yet. All of it may be missing.

const LIST = "deskmate.conversations";
const LIST_MAX = 50;
const YOUNG_MS = 600_000;

export function conversations() {
  const list = get(localStorage, LIST, []);
  return Array.isArray(list) ? list.filter((one) => isId(one?.id)) : [];
}

/** Puts a conversation at the top of the list; its title stays the first that it got. */
export function remember(id, title) {
  const list = conversations();
  const known = list.find((one) => one.id === id);
  const others = list.filter((one) => one.id !== id);
  set(localStorage, LIST, [{ id, title: known?.title ?? title.slice(0, 80) }, ...others].slice(0, LIST_MAX));
}

export function isId(text) {
  return typeof text === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(text);
}

export function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Messages that may not have arrived. They are sent again with the same id, so that none is taken twice; but not by themselves
 * when that is long ago: nobody knows that id any more, and whoever wrote it may not want it now.
 */
export function pending(conversation) {
  const list = get(sessionStorage, `deskmate.pending.${conversation}`, []);
  const kept = Array.isArray(list) ? list.filter((one) => isId(one?.id) && typeof one.text === "string") : [];
  return kept.map((message) => ({ ...message, state: isYoung(message) ? "sending" : "failed" }));
}

/** Whether a message may be sent again without anybody asking for it. */
export function isYoung(message) {
  return Date.now() - (message.at ?? 0) < YOUNG_MS;
}

/** Those that were accepted are forgotten. */
export function keepPending(conversation, messages) {
  const open = messages.filter((message) => message.state !== "sent");
  const kept = open.map(({ id, text, files, at }) => ({ id, text, files, at }));
  set(sessionStorage, `deskmate.pending.${conversation}`, kept.length ? kept : null);
}

export function draft(conversation) {
  return String(get(sessionStorage, `deskmate.draft.${conversation}`, ""));
}

export function keepDraft(conversation, text) {
  set(sessionStorage, `deskmate.draft.${conversation}`, text || null);
}

/** What is attached to a draft; the files themselves are with the gateway. */
export function draftFiles(conversation) {
  const list = get(sessionStorage, `deskmate.files.${conversation}`, []);
  return Array.isArray(list) ? list.filter((one) => isId(one?.file) && typeof one.name === "string") : [];
}

export function keepDraftFiles(conversation, files) {
  const kept = files.map(({ file, name, mime }) => ({ file, name, mime }));
  set(sessionStorage, `deskmate.files.${conversation}`, kept.length ? kept : null);
}

function get(storage, key, otherwise) {
  try {
    return JSON.parse(storage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function set(storage, key, value) {
  try {
    if (value === null) storage.removeItem(key);
    else storage.setItem(key, JSON.stringify(value));
  } catch {
    // A full or forbidden storage: the page works on, and forgets at the next load.
  }
}
