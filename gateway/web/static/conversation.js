// One conversation as this page knows it: the records as last read, and what has happened since.

import { isYoung, keepPending, pending, randomId } from "./memory.js";
import { bring, follow, read, Refusal } from "./wire.js";

const AGAIN_MS = [300, 1_000, 2_000, 5_000, 10_000];
const LOOK_MS = 20_000; // while somebody waits: what was missed is seen after this at the latest
const RECENT = 20;

export class Conversation {
  items = []; // from the records, in their order
  earlier = false;
  running = false;
  asked = false; // what runs waits for somebody's word
  live = null; // the answer that is being written: its whole text so far, and the turn's steps
  replies = []; // replies that came and are not in the records as last read
  pending; // our own messages that are not in the records yet, as far as we know
  online = true;
  problem = ""; // what the gateway said when it refused
  loaded = false;

  #work = Promise.resolve();
  #bringing = Promise.resolve();
  #seen = new Set();
  #stop = null;
  #tries = 0;
  #timer = 0;
  #visit = 0; // counts openings: what an earlier one still waits for is of no use
  #closed = false;

  constructor(id, { changed, said }) {
    this.id = id;
    this.changed = changed;
    this.said = said;
    this.pending = pending(id);
  }

  /** Reads the records and follows from there; goes on trying. */
  async open() {
    this.#unfollow();
    if (this.#closed) return;
    const visit = this.#visit;
    try {
      const place = await this.#load();
      if (visit !== this.#visit) return;
      this.#tries = 0;
      this.#setOnline(true);
      this.#stop = follow(this.id, place, {
        entry: (entry) => this.#then(() => this.#heard(entry)),
        online: (is) => {
          this.#setOnline(is);
          if (is) this.#bringAll((message) => message.state === "failed" && !message.error && isYoung(message));
        },
        lost: () => this.#openLater(),
      });
      this.#timer = setInterval(() => this.running && this.#then(() => this.#load()), LOOK_MS);
      this.#bringAll((message) => message.state !== "sent" && isYoung(message));
    } catch (error) {
      if (visit !== this.#visit) return;
      this.problem = error instanceof Refusal ? error.message : "";
      this.#setOnline(false);
      this.#openLater();
    }
  }

  /** For a page that nobody sees: browsers allow few connections. `open` goes on. */
  pause() {
    this.#unfollow();
  }

  close() {
    this.#closed = true;
    this.#unfollow();
  }

  send(text, files) {
    const message = { id: randomId(), text, files, at: Date.now(), state: "sending" };
    this.pending.push(message);
    this.#bring(message);
  }

  again(id) {
    const message = this.pending.find((one) => one.id === id);
    if (message) this.#bring(message);
  }

  async stop() {
    try {
      await bring("stop", { conversation: this.id, id: randomId() });
    } catch (error) {
      this.problem = error instanceof Refusal ? error.message : "";
      this.#setOnline(false);
      this.#openLater();
    }
  }

  #bringAll(which) {
    for (const message of this.pending.filter(which)) this.#bring(message);
  }

  #bring(message) {
    message.state = "sending";
    message.error = "";
    keepPending(this.id, this.pending);
    this.changed();
    // One after the other: two that are on their way at once may arrive in the other order.
    this.#bringing = this.#bringing.then(() => this.#post(message));
  }

  async #post(message) {
    try {
      await bring("messages", {
        conversation: this.id,
        text: message.text,
        id: message.id,
        files: message.files,
      });
      message.state = "sent";
      keepPending(this.id, this.pending); // nothing sends it again from here on
      this.#then(() => this.#load());
    } catch (error) {
      message.state = "failed";
      message.error = error instanceof Refusal ? error.message : "";
      this.changed();
    }
  }

  async #heard(entry) {
    if (entry.type === "text") {
      // The first of a turn, or another step: the records have what was asked and done, and whether somebody still waits.
      const steps = JSON.stringify(entry.steps);
      if (!this.live || steps !== JSON.stringify(this.live.steps)) await this.#load();
      if (!this.running) return;
      this.live = { text: entry.text, steps: entry.steps };
      this.changed();
    } else if (entry.type === "reply") {
      const known = this.#seen.has(entry.key);
      this.#seen.add(entry.key);
      this.live = null;
      if (!known) this.said(entry.text);
      this.replies = [...this.replies.filter((one) => one.key !== entry.key), entry];
      await this.#load();
    }
  }

  async #load() {
    const accepted = new Set(this.pending.filter((message) => message.state === "sent"));
    const shown = await read(this.id);
    this.items = shown.items;
    this.running = shown.running;
    this.asked = shown.asked;
    this.earlier = shown.earlier;
    this.loaded = true;
    this.problem = "";
    if (!this.running) this.live = null;
    const taken = new Set(this.items.filter((item) => item.kind === "person").map((item) => item.id));
    // What was accepted before we asked is among what we were told, or is older than all of that.
    this.pending = this.pending.filter((message) => !taken.has(message.id) && !accepted.has(message));
    keepPending(this.id, this.pending);
    const recent = this.items.filter((item) => item.kind === "reply").slice(-RECENT);
    this.replies = this.replies.filter(
      (reply) => !recent.some((item) => item.text === reply.text),
    );
    this.changed();
    return shown.place;
  }

  /** One thing after the other; what fails is made good by the next reading. */
  #then(step) {
    this.#work = this.#work.then(() => (this.#closed ? null : step())).catch(() => this.changed());
  }

  #setOnline(is) {
    if (this.online === is) return;
    this.online = is;
    this.changed();
  }

  #openLater() {
    this.#unfollow();
    const wait = AGAIN_MS[Math.min(this.#tries, AGAIN_MS.length - 1)];
    this.#tries += 1;
    this.#timer = setTimeout(() => this.open(), wait);
  }

  #unfollow() {
    this.#visit += 1;
    this.#stop?.();
    this.#stop = null;
    clearInterval(this.#timer); // of a timeout as well: they share their numbers
  }
}
