// What is attached to the message that is being written: brought at once, shown as chips, sent with the message.

import { draftFiles, keepDraftFiles } from "./memory.js";
import { bringFile, Refusal } from "./wire.js";

export class Attached {
  conversation = "";
  #chips = []; // { name, mime, state: bringing | ready | failed | removed, file, problem }

  /** Shows chips in the list `into`; `changed` is called after each change, `said` with what a screen reader should tell. */
  constructor(into, { page, changed, said }) {
    this.into = into;
    this.page = page;
    this.words = page.phrases;
    this.changed = changed;
    this.said = said;
  }

  /** Another conversation is open: its own chips. */
  enter(conversation) {
    this.conversation = conversation;
    this.#chips = draftFiles(conversation).map((one) => ({ ...one, state: "ready" }));
    this.#show();
  }

  get isEmpty() {
    return this.#chips.length === 0;
  }

  /** All of it has arrived: the message may go. */
  get isReady() {
    return this.#chips.every((chip) => chip.state === "ready");
  }

  /** Hands over what is attached, for a message; nothing is attached any more. */
  take() {
    const files = this.#chips.map(({ file, name, mime }) => ({ file, name, mime }));
    this.#chips = [];
    this.#show();
    return files;
  }

  add(files) {
    for (const file of files) this.#add(file);
    this.#show();
  }

  async #add(file) {
    const { conversation } = this;
    const name = [...file.name].filter((mark) => /[^\p{C}\p{Zl}\p{Zp}]/u.test(mark)).join("").slice(-255) || "file";
    const mime = /^[a-z0-9!#$&^_.+-]{1,64}\/[a-z0-9!#$&^_.+-]{1,128}$/.test(file.type) ? file.type : "";
    const chip = { name, mime, state: "bringing", file: "", problem: "" };
    this.#chips.push(chip);
    const problem = this.#problem(file);
    try {
      if (problem) throw new Refusal(0, problem);
      chip.file = (await bringFile(conversation, file)).file;
      if (chip.state === "removed") return;
      chip.state = "ready";
      this.said(this.words["chat.file_is_attached"].replace("{name}", name));
    } catch (error) {
      if (chip.state === "removed") return;
      chip.state = "failed";
      chip.problem = error instanceof Refusal ? error.message : this.words["chat.file_failed"];
      this.said(`${name}: ${chip.problem}`);
    }
    if (this.conversation !== conversation) {
      if (chip.file) keepDraftFiles(conversation, [...draftFiles(conversation), chip]);
      return;
    }
    if (!this.#chips.includes(chip)) this.#chips.push(chip); // somebody was elsewhere, and came back
    this.#show();
  }

  #problem(file) {
    if (this.#chips.length > this.page.files_max) {
      return this.words["chat.files_limit"].replace("{limit}", this.page.files_max);
    }
    if (file.size > this.page.file_max_bytes) {
      return this.words["chat.file_limit"].replace("{limit}", this.page.file_max_bytes >> 20);
    }
    return file.size ? "" : this.words["chat.file_empty"];
  }

  #remove(chip) {
    const at = this.#chips.indexOf(chip);
    chip.state = "removed";
    this.#chips.splice(at, 1);
    this.said(this.words["chat.file_is_removed"].replace("{name}", chip.name));
    this.#show();
    // Who uses the keyboard stays where they are: at the next chip, or the message.
    const left = this.into.querySelectorAll("button");
    (left[Math.min(at, left.length - 1)] ?? document.getElementById("message")).focus();
  }

  #show() {
    keepDraftFiles(this.conversation, this.#chips.filter((chip) => chip.state === "ready"));
    this.into.replaceChildren(...this.#chips.map((chip) => this.#chip(chip)));
    this.into.hidden = this.isEmpty;
    this.changed();
  }

  #chip(chip) {
    const item = document.createElement("li");
    item.className = `file ${chip.state}`;
    item.setAttribute("aria-busy", String(chip.state === "bringing"));
    const name = document.createElement("span");
    name.className = "name";
    name.textContent = chip.problem ? `${chip.name}: ${chip.problem}` : chip.name;
    const remove = document.createElement("button");
    remove.type = "button";
    remove.setAttribute("aria-label", this.words["chat.file_remove"].replace("{name}", chip.name));
    remove.textContent = "×";
    remove.addEventListener("click", () => this.#remove(chip));
    item.append(name, remove);
    return item;
  }
}
