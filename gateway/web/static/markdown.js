// Markdown to DOM nodes. What a model says is text: it never becomes HTML, never loads anything, and a link shows its host.

const DEPTH_MAX = 12;
const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
// An address ends at blanks and quotes, and where Chinese text goes on behind it.
const ADDRESS = /https?:\/\/[^\s<>"'`\u3000-\u303f\uff00-\uffef\u4e00-\u9fff“”‘’…]+/y;

const MARKS = "●○✗⚠";
const COLUMNS = /^[●○✗] /m;
const ODD_WIDTH =
  /([●○✗⚠\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]+)/u;

const sources = new WeakMap();

/** Shows `text` in `into`. Blocks that have not changed keep their nodes, so a growing answer keeps a selection. */
export function render(into, text, words) {
  const blocks = split(text.replace(/\r\n?/g, "\n").split("\n"));
  blocks.forEach((block, at) => {
    const there = into.children[at];
    const source = block.kind + "\n" + block.source;
    if (there && sources.get(there) === source) return;
    const node = build(block, words, 0);
    sources.set(node, source);
    if (there) there.replaceWith(node);
    else into.append(node);
  });
  while (into.children.length > blocks.length) into.lastElementChild.remove();
}

/** The words of `text` without its markup, for a screen reader. */
export function plain(text, words) {
  const shade = document.createElement("div");
  render(shade, text, words);
  return shade.textContent;
}

// ---- blocks ----

function split(lines) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const begin = at;
    const block = blockAt(lines, at);
    at = block.end;
    blocks.push({ ...block, source: lines.slice(begin, at).join("\n") });
  }
  return blocks;
}

function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence && !(fence[1][0] === "`" && fence[2].includes("`"))) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const text = (heading[2] ?? "").replace(/[ \t]+#+[ \t]*$/, "");
    return { kind: "heading", level: heading[1].length, text, end: at + 1 };
  }
  if (RULE.test(line)) return { kind: "rule", end: at + 1 };
  if (QUOTE.test(line)) return quoted(lines, at);
  if (ITEM.test(line)) return listed(lines, at);
  if (line.includes("|") && DELIMITERS.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) {
    const head = cells(line);
    if (head.length === cells(lines[at + 1]).length) return tabled(lines, at, head);
  }
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !interrupts(lines[end])) end += 1;
  return { kind: "paragraph", text: lines.slice(at, end).join("\n"), end };
}

function interrupts(line) {
  const item = ITEM.exec(line);
  const begins = item && item[3] && (item[2].length === 1 || /^1[.)]$/.test(item[2]));
  return begins || FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
}

function fenced(lines, at, [, marks, info]) {
  const closing = new RegExp(`^ {0,3}\\${marks[0]}{${marks.length},}[ \\t]*$`);
  let end = at + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  return { kind: "code", text, language: info.trim().split(/\s/)[0], end: Math.min(end + 1, lines.length) };
}

function quoted(lines, at) {
  let end = at;
  while (end < lines.length && lines[end].trim() && (QUOTE.test(lines[end]) || !interrupts(lines[end]))) end += 1;
  return { kind: "quote", lines: lines.slice(at, end).map((line) => line.replace(QUOTE, "")), end };
}

function listed(lines, at) {
  const ordered = /\d/.test(ITEM.exec(lines[at])[2]);
  const items = [];
  let loose = false;
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[end])) break;
    const indent = found[1].length + found[2].length + Math.min(Math.max(found[3].length, 1), 4);
    const inside = [lines[end].slice(indent)];
    end += 1;
    for (; end < lines.length; end += 1) {
      const line = lines[end];
      const depth = line.length - line.trimStart().length;
      if (!line.trim()) inside.push("");
      else if (depth >= Math.min(indent, 2) && !(depth < 2 && ITEM.test(line))) inside.push(line.slice(Math.min(depth, indent)));
      else if (inside.at(-1) !== "" && !interrupts(line) && !ITEM.test(line)) inside.push(line.trimStart());
      else break;
    }
    while (inside.length > 1 && inside.at(-1) === "") {
      inside.pop();
      if (ITEM.test(lines[end] ?? "")) loose = true;
    }
    items.push(inside);
  }
  const start = ordered ? Number.parseInt(lines[at].trim(), 10) : 1;
  return { kind: "list", ordered, start, items, loose, end };
}

function tabled(lines, at, head) {
  const aligned = cells(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  const rows = [];
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) rows.push(cells(lines[end++]));
  return { kind: "table", head, rows, aligned, end };
}

function cells(line) {
  const found = [""];
  const row = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  for (let at = 0; at < row.length; at += 1) {
    if (row[at] === "\\" && row[at + 1] === "|") found[found.length - 1] += row[++at];
    else if (row[at] === "|") found.push("");
    else found[found.length - 1] += row[at];
  }
  return found.map((cell) => cell.trim());
}

// ---- nodes ----

function build(block, words, depth) {
  if (depth > DEPTH_MAX) return node("p", block.source ?? "");
  if (block.kind === "heading") {
    // The page's own headings are h1 and h2.
    return inline(node(`h${Math.min(block.level + 2, 6)}`), block.text, words);
  }
  if (block.kind === "rule") return node("hr");
  if (block.kind === "code") return code(block, words);
  if (block.kind === "quote") return nested(node("blockquote"), block.lines, words, depth);
  if (block.kind === "list") return list(block, words, depth);
  if (block.kind === "table") return table(block, words);
  return inline(node("p"), block.text, words);
}

function nested(into, lines, words, depth) {
  into.append(...split(lines).map((block) => build(block, words, depth + 1)));
  return into;
}

function code(block, words) {
  const box = node("div");
  box.className = "code";
  const pre = node("pre");
  pre.tabIndex = 0; // it scrolls sideways, also by keyboard
  if (COLUMNS.test(block.text)) {
    pre.className = "columns";
    pre.append(inColumns(block.text));
  } else pre.append(node("code", block.text));
  const copy = node("button", words["chat.code_copy"]);
  copy.type = "button";
  copy.className = "copy";
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(block.text);
    copy.textContent = words["chat.code_copied"];
  });
  box.append(pre, copy);
  return box;
}

/** Text that was laid out in columns: what a font would draw as wide as it likes gets the columns that it was counted by. */
function inColumns(text) {
  const made = node("code");
  for (const part of text.split(ODD_WIDTH)) {
    if (!ODD_WIDTH.test(part)) made.append(part);
    else for (const sign of part) made.append(boxed(sign));
  }
  return made;
}

function boxed(sign) {
  const box = node("span", sign);
  box.className = MARKS.includes(sign) ? "one" : "two";
  return box;
}

function list(block, words, depth) {
  const made = node(block.ordered ? "ol" : "ul");
  if (block.ordered && block.start !== 1) made.start = block.start;
  const items = block.items.map(split);
  const isLoose = block.loose || items.some((parts) => parts.filter((part) => part.kind === "paragraph").length > 1);
  for (const parts of items) {
    const item = node("li");
    for (const part of parts) {
      if (part.kind === "paragraph" && !isLoose) inline(item, part.text, words);
      else item.append(build(part, words, depth + 1));
    }
    made.append(item);
  }
  return made;
}

function table(block, words) {
  const box = node("div");
  box.className = "table";
  box.tabIndex = 0;
  const made = node("table");
  const row = (texts, tag) => {
    const line = node("tr");
    block.head.forEach((_, at) => {
      const cell = inline(node(tag), texts[at] ?? "", words);
      cell.className = block.aligned[at] ?? "left";
      line.append(cell);
    });
    return line;
  };
  const head = node("thead");
  head.append(row(block.head, "th"));
  const body = node("tbody");
  body.append(...block.rows.map((texts) => row(texts, "td")));
  made.append(head, body);
  box.append(made);
  return box;
}

function node(tag, text = "") {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  return made;
}

// ---- inside a line ----

/** Appends `text` to `into`, marked up. Each mark without an end is looked for once: the time grows with the length. */
function inline(into, text, words, depth = 0) {
  const endless = new Set();
  let said = "";
  let at = 0;
  const flush = () => {
    if (said) into.append(said);
    said = "";
  };
  const put = (made, end) => {
    flush();
    into.append(...[made].flat());
    at = end;
  };
  while (at < text.length) {
    const mark = text[at];
    const found = depth < DEPTH_MAX ? span(text, at, mark, endless, words, depth) : null;
    if (found) put(found.made, found.end);
    else if (mark === "\\" && PUNCTUATION.test(text[at + 1] ?? "")) {
      said += text[at + 1];
      at += 2;
    } else if (mark === "\n") {
      said = said.replace(/[ \\]+$/, "");
      put(node("br"), at + 1);
    } else {
      const run = /^(?:`+|\*+|_+|~+)/.exec(text.slice(at, at + 64))?.[0] ?? mark;
      said += run;
      at += run.length;
    }
  }
  flush();
  return into;
}

function span(text, at, mark, endless, words, depth) {
  if (mark === "`") return codeSpan(text, at, endless);
  if (mark === "*" || mark === "_" || mark === "~") return emphasis(text, at, mark, endless, words, depth);
  if (mark === "!" && text[at + 1] === "[") return bracket(text, at + 1, true, endless, words, depth);
  if (mark === "[") return bracket(text, at, false, endless, words, depth);
  if (mark === "<") {
    const found = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/.exec(text.slice(at, at + 2020));
    return found && { made: link(found[1], found[1]), end: at + found[0].length };
  }
  if (mark === "h" && !WORD.test(text[at - 1] ?? " ")) return bareAddress(text, at);
  return null;
}

function codeSpan(text, at, endless) {
  const marks = /^`+/.exec(text.slice(at, at + 64))[0];
  if (endless.has(marks)) return null;
  for (let end = text.indexOf(marks, at + marks.length); end !== -1; end = text.indexOf(marks, end)) {
    let after = end;
    while (text[after] === "`") after += 1;
    if (after - end === marks.length) {
      const inside = text.slice(at + marks.length, end).replaceAll("\n", " ");
      return { made: node("code", /^ .*[^ ].* $/.test(inside) ? inside.slice(1, -1) : inside), end: after };
    }
    end = after;
  }
  endless.add(marks);
  return null;
}

function emphasis(text, at, mark, endless, words, depth) {
  let length = 1;
  while (text[at + length] === mark && length < 4) length += 1;
  if (mark === "~" ? length !== 2 : length > 3) return null;
  const marks = mark.repeat(length);
  const before = text[at - 1] ?? " ";
  if (endless.has(marks) || /\s/.test(text[at + length] ?? " ") || (mark === "_" && WORD.test(before))) return null;
  for (let end = text.indexOf(marks, at + length); end !== -1; end = text.indexOf(marks, end + 1)) {
    const stands = text[end + length] !== mark && !(text[end - 1] === mark && length < 3);
    const closes = !/[\s\\]/.test(text[end - 1]) && !(mark === "_" && WORD.test(text[end + length] ?? " "));
    if (!stands || !closes) continue;
    const made = node({ 1: "em", 2: mark === "~" ? "s" : "strong", 3: "strong" }[length]);
    const inner = length === 3 ? made.appendChild(node("em")) : made;
    inline(inner, text.slice(at + length, end), words, depth + 1);
    return { made, end: end + length };
  }
  endless.add(marks);
  return null;
}

function bracket(text, at, isImage, endless, words, depth) {
  let open = 0;
  let end = at;
  for (const stop = Math.min(text.length, at + 1000); end < stop; end += 1) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === "[") open += 1;
    else if (text[end] === "]" && (open -= 1) === 0) break;
  }
  if (text[end] !== "]" || open || text[end + 1] !== "(") return null;
  const found = /^\(\s*<?([^\s<>]*?)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)$/.exec(address(text.slice(end + 1, end + 2100)));
  if (!found) return null;
  const shown = text.slice(at + 1, end);
  const after = end + 1 + found[0].length;
  if (isImage) return { made: link(found[1], words["chat.image"].replace("{name}", shown)), end: after };
  const made = link(found[1], "");
  const label = made[0] ?? made;
  const inside = inline(node("span"), shown, words, Math.max(depth + 1, 6));
  inside.querySelectorAll("a").forEach((inner) => inner.replaceWith(inner.textContent));
  label.prepend(...inside.childNodes);
  return { made, end: after };
}

/** `(address "title")` and no further: brackets inside an address come in pairs. */
function address(text) {
  let open = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "(") open += 1;
    else if (text[at] === ")" && (open -= 1) === 0) return text.slice(0, at + 1);
    else if (text[at] === "\n") break;
  }
  return "";
}

function bareAddress(text, at) {
  ADDRESS.lastIndex = at;
  let found = ADDRESS.exec(text)?.[0].replace(/[.,:;!?*_~]+$/, "");
  if (found?.endsWith(")") && !found.includes("(")) found = found.slice(0, -1);
  return found ? { made: link(found, found), end: at + found.length } : null;
}

/** A link that tells where it leads; an address that is not http, https or mailto stays text. */
function link(where, shown) {
  let address;
  try {
    address = new URL(where);
  } catch {
    return node("span", shown);
  }
  if (!["http:", "https:", "mailto:"].includes(address.protocol)) return node("span", shown);
  const made = node("a", shown);
  made.href = address.href;
  made.target = "_blank";
  made.rel = "noopener noreferrer nofollow";
  const host = address.protocol === "mailto:" ? address.pathname : address.host;
  if (shown === where) return made;
  const told = node("span", ` (${host})`);
  told.className = "host";
  return [made, told];
}
