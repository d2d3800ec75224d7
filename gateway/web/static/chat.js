// The page: which conversation is open, and what keys and buttons do.

import { Conversation } from "./conversation.js";
import { Attached } from "./files.js";
import { plain } from "./markdown.js";
import * as memory from "./memory.js";
import { View } from "./view.js";

const page = JSON.parse(document.getElementById("page").textContent);
const words = page.phrases;
const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 52rem)");

let open = null;
let stays = true; // at the latest message, also when the window or a text grows
let followedTo = 0; // where that was
const view = new View($("messages"), { words, rehearsal: page.rehearsal, again: (id) => open.again(id), press });

const attached = new Attached($("attached"), { page, changed: () => grow(), said: (text) => said(text) });

// ---- a conversation ----

function enter(id) {
  open?.close();
  view.clear();
  open = new Conversation(id, { changed, said });
  history.replaceState(null, "", `#${id}`);
  $("message").value = memory.draft(id);
  attached.enter(id);
  list();
  changed();
  toLatest();
  open.open();
}

/** A button says its command, as if somebody had typed it. */
function press(command) {
  open.send(`/${command}`, []);
  toLatest();
  $("message").focus(); // the button goes when it has decided
}

function changed() {
  view.show(open);
  const isEmpty = open.loaded && !open.items.length && !open.pending.length && !open.replies.length;
  $("welcome").hidden = !isEmpty;
  $("stop").hidden = !open.running;
  $("offline").hidden = open.online;
  $("offline").textContent = open.problem || words["chat.offline"];
  follow();
  tellLatest();
}

/** A reply is read out when it is whole: a growing text would be read again and again. */
function said(text) {
  $("said").textContent = plain(text, words);
}

// ---- scrolling ----

function isAtLatest() {
  const box = $("scroll");
  return box.scrollHeight - box.scrollTop - box.clientHeight < 60;
}

function toLatest() {
  stays = true;
  $("scroll").scrollTop = $("scroll").scrollHeight;
  followedTo = $("scroll").scrollTop;
}

/** Whoever has just scrolled up is not taken back: the event that says so comes a frame later. */
function follow() {
  if (stays && ($("scroll").scrollTop >= followedTo || isAtLatest())) toLatest();
}

function tellLatest() {
  $("latest").hidden = isAtLatest();
}

$("scroll").addEventListener(
  "scroll",
  () => {
    stays = isAtLatest();
    tellLatest();
  },
  { passive: true },
);
new ResizeObserver(() => {
  follow();
  tellLatest();
}).observe($("scroll"));
$("latest").addEventListener("click", () => {
  toLatest();
  $("message").focus();
});

// ---- writing ----

function grow() {
  const field = $("message");
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
  const isTooLong = field.value.length > page.text_max;
  field.setAttribute("aria-invalid", String(isTooLong));
  $("hint").textContent = isTooLong ? words["chat.too_long"].replace("{limit}", page.text_max) : words["chat.hint"];
  $("send").disabled = isTooLong || !attached.isReady || (attached.isEmpty && !field.value.trim());
}

function send() {
  const field = $("message");
  const text = field.value.trim();
  if ($("send").disabled) return;
  field.value = "";
  memory.keepDraft(open.id, "");
  const files = attached.take();
  memory.remember(open.id, text || files[0].name);
  list();
  open.send(text, files);
  toLatest();
  field.focus();
}

$("message").addEventListener("input", () => {
  memory.keepDraft(open.id, $("message").value);
  grow();
});
$("message").addEventListener("keydown", (event) => {
  // While an input method composes, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  send();
});
$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", async () => {
  $("stop").disabled = true;
  await open.stop();
  $("stop").disabled = false;
  $("message").focus();
});

// ---- attaching ----

$("attach").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => {
  attached.add($("files").files);
  $("files").value = ""; // the same file once more is a change again
  $("message").focus();
});
$("message").addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  attached.add(event.clipboardData.files);
});

const isFiles = (event) => event.dataTransfer?.types.includes("Files");
const drops = document.querySelector("main");
let over = 0; // what is entered is left again, each element by itself
const showDrop = (is) => {
  over = is ? over : 0;
  $("drop").hidden = !is;
};
drops.addEventListener("dragenter", (event) => {
  if (!isFiles(event)) return;
  over += 1;
  showDrop(true);
});
drops.addEventListener("dragleave", (event) => {
  if (isFiles(event) && (over -= 1) <= 0) showDrop(false);
});
// Beside the place for it a dropped file would take the page's place.
addEventListener("dragover", (event) => isFiles(event) && event.preventDefault());
addEventListener("drop", (event) => {
  if (!isFiles(event)) return;
  event.preventDefault();
  showDrop(false);
  if (!drops.contains(event.target)) return;
  attached.add(event.dataTransfer.files);
  $("message").focus();
});

// ---- the list of conversations ----

function list() {
  const items = memory.conversations().map(({ id, title }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `#${id}`;
    link.textContent = title;
    if (id === open.id) link.setAttribute("aria-current", "page");
    item.append(link);
    return item;
  });
  $("conversations").replaceChildren(...items);
}

function showSide(is) {
  const side = $("side");
  side.classList.toggle("open", is);
  side.inert = narrow.matches && !is;
  $("shade").hidden = !(narrow.matches && is);
  $("menu").setAttribute("aria-expanded", String(is));
  if (is) $("new").focus();
}

$("menu").addEventListener("click", () => showSide($("menu").getAttribute("aria-expanded") !== "true"));
$("shade").addEventListener("click", () => showSide(false));
narrow.addEventListener("change", () => showSide(false));
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || $("menu").getAttribute("aria-expanded") !== "true") return;
  showSide(false);
  $("menu").focus();
});
$("new").addEventListener("click", () => {
  showSide(false);
  enter(memory.randomId());
  $("message").focus();
});
$("conversations").addEventListener("click", (event) => {
  if (event.target.closest("a")) showSide(false);
});

addEventListener("hashchange", () => {
  const id = location.hash.slice(1);
  if (memory.isId(id) && id !== open.id) {
    enter(id);
    $("message").focus();
  }
});
addEventListener("storage", list);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) open.pause();
  else open.open();
});

const asked = location.hash.slice(1);
showSide(false);
enter(memory.isId(asked) ? asked : (memory.conversations()[0]?.id ?? memory.randomId()));
if (!narrow.matches) $("message").focus();
