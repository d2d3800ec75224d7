// A conversation as nodes. Nodes of what has not changed stay as they are.

import { render } from "./markdown.js";

/**
 * Shows `conversation` in the list `into`; `again` is called with the id of a message to send once more, `press` with the command
 * of a button.
 */
export class View {
  #nodes = new Map();

  constructor(into, { words, rehearsal, again, press }) {
    this.into = into;
    this.words = words;
    this.rehearsal = rehearsal;
    this.again = again;
    this.press = press;
  }

  clear() {
    this.#nodes.clear();
    this.into.replaceChildren();
  }

  show(conversation) {
    const entries = arranged(conversation);
    const wanted = new Set(entries.map((entry) => entry.key));
    for (const [key, held] of this.#nodes) {
      if (wanted.has(key)) continue;
      held.node.remove();
      this.#nodes.delete(key);
    }
    let before = null;
    for (const entry of entries) {
      const node = this.#node(entry);
      const next = before ? before.nextElementSibling : this.into.firstElementChild;
      if (node !== next) this.into.insertBefore(node, next);
      before = node;
    }
  }

  #node(entry) {
    // A record's text never changes; only the answer that is being written does.
    const state = JSON.stringify(entry.live ? entry : { ...entry, text: entry.text?.length });
    const held = this.#nodes.get(entry.key);
    if (held?.state === state) return held.node;
    const node = held?.node ?? element("li");
    this[entry.kind](node, entry);
    this.#nodes.set(entry.key, { node, state });
    return node;
  }

  earlier(node) {
    node.className = "earlier";
    node.textContent = this.words["chat.earlier"];
  }

  person(node, { id, text, files, state, error }) {
    node.className = "person";
    node.replaceChildren(unseen(this.words["chat.you"]));
    if (text) node.append(element("div", "bubble", text));
    if (files.length) {
      const list = element("ul", "files");
      list.setAttribute("aria-label", this.words["chat.attached"]);
      list.append(...files.map((name) => element("li", "file", name)));
      node.append(list);
    }
    if (state === "waiting") node.append(element("div", "note", this.words["chat.waiting"]));
    if (state !== "failed") return;
    const again = element("button", "again", this.words["chat.try_again"]);
    again.type = "button";
    again.addEventListener("click", () => this.again(id));
    const note = element("div", "note failed", error || this.words["chat.not_sent"]);
    note.append(" ", again);
    node.append(note);
  }

  step(node, { step, name, state }) {
    node.className = `step ${state}`;
    const [before, after] = this.words[`step.${step}_${state}`].split("{name}");
    const line = element("span", "line", before);
    line.append(element("code", "", name), after ?? "");
    node.replaceChildren(element("span", "mark"), line);
  }

  reply(node, { key, text, notice, model, live, buttons }) {
    node.className = notice ? "reply notice" : "reply";
    node.setAttribute("aria-busy", String(live));
    let body = node.querySelector(":scope > .markdown");
    if (!body) {
      body = element("div", "markdown");
      node.append(element("div", "who"), body);
    }
    const who = node.firstElementChild;
    who.replaceChildren(element("span", "name", this.words[notice ? "chat.notice" : "chat.assistant"]));
    const isRehearsal = model === "rehearsal" || (this.rehearsal && model !== "");
    if (isRehearsal && !notice) who.append(element("span", "chip", this.words["model.rehearsal_label"]));
    render(body, text, this.words);
    body.id = key.replaceAll(" ", "-");
    const held = node.querySelector(":scope > .choices");
    if (!buttons.length) held?.remove();
    else if (held) held.replaceWith(this.#choices(buttons, body.id));
    else node.append(this.#choices(buttons, body.id));
  }

  #choices(buttons, about) {
    const group = element("div", "choices");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", this.words["chat.buttons"]);
    for (const { label, command, style, pressed } of buttons) {
      const button = element("button", style, label);
      button.type = "button";
      button.disabled = pressed;
      button.setAttribute("aria-describedby", about);
      button.addEventListener("click", () => this.press(command));
      group.append(button);
    }
    return group;
  }

  asked(node) {
    node.className = "working asked";
    node.replaceChildren(element("span", "", this.words["chat.asked"]));
  }

  working(node) {
    node.className = "working";
    const dots = element("span", "dots");
    dots.append(element("i"), element("i"), element("i"));
    node.replaceChildren(dots, element("span", "", this.words["chat.working"]));
  }
}

/** What stands in the list, from top to bottom, each entry with a key that stays. */
function arranged({ items, earlier, live, replies, pending, running, asked }) {
  const entries = earlier ? [{ kind: "earlier", key: "earlier" }] : [];
  const taken = items.filter((item) => !item.waiting);
  const turn = taken.findLastIndex((item) => item.kind === "reply" && !item.card) + 1;
  // The feed tells of a skill while it is being loaded; a turn that another worker goes on with is whole in the records only.
  const known = taken.slice(turn).filter((item) => item.kind === "step");
  const fresh = live && live.steps.length > known.length ? live.steps : null;
  const sent = new Set(pending.filter((message) => message.state !== "failed").map((message) => message.text));
  taken.forEach((item, at) => {
    if (item.kind === "person") entries.push(person(item));
    else if (item.kind === "reply") entries.push(reply(item, `reply ${item.index}`, item.model ?? "", sent));
    else if (!fresh || at < turn) entries.push(step(item.step, item, `step ${item.index} ${item.id ?? ""}`));
  });
  fresh?.forEach((line, at) => entries.push(step(line.kind, line, `live step ${at}`)));
  if (live?.text) entries.push({ kind: "reply", key: "live", text: live.text, notice: false, live: true, buttons: [] });
  for (const one of replies) entries.push(reply(one, `came ${one.key}`, undefined, sent));
  const kind = asked ? "asked" : "working";
  const working = running && !live?.text ? [{ kind, key: kind }] : [];
  const waiting = items.filter((item) => item.waiting);
  const isFree = turn === taken.length && !live; // nothing is ahead of the first that waits
  if (isFree && waiting.length) entries.push(person({ ...waiting.shift(), waiting: false }));
  entries.push(...working, ...waiting.map(person));
  for (const message of pending) entries.push(person({ ...message, files: message.files?.map((file) => file.name) }));
  return entries;
}

function person({ id, text = "", files = [], waiting, state, error }) {
  return { kind: "person", key: `person ${id}`, id, text, files, state: waiting ? "waiting" : state, error };
}

/**
 * `model` is empty where no model spoke, and missing where the records have not said yet. `sent`: what is on its way; a button
 * is not pressed twice.
 */
function reply({ text, notice, buttons = [] }, key, model, sent) {
  const shown = buttons.map((button) => ({ ...button, pressed: sent.has(`/${button.command}`) }));
  return { kind: "reply", key, text, notice: Boolean(notice), model, live: false, buttons: shown };
}

function step(kind, { name, state }, key) {
  return { kind: "step", key, step: kind, name, state };
}

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function unseen(text) {
  return element("span", "unseen", `${text}: `);
}
