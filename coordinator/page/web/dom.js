// Small tools for the DOM. Text goes in as text nodes only: nothing that the coordinator says is ever parsed as HTML.

const kSvg = "http://www.w3.org/2000/svg";

export function byId(id) {
  return document.getElementById(id);
}

// An element with a class ("": none) and children: nodes or texts.
export function el(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Changes nothing that is as it should be, so that a selection survives an update.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setClass(node, className) {
  if (node.className !== className) node.className = className;
}

// Makes parent's children those of `items`, in order: `create(item)` makes one, `update(node, item)` brings it up to
// date, and the node of an item that stays, by `keyOf`, stays.
export function keyed(parent, items, keyOf, create, update) {
  const old = new Map();
  for (const child of parent.children) old.set(child.dataset.key, child);
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    old.delete(key);
    if (!node) {
      node = create(item);
      node.dataset.key = key;
    }
    if (node === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(node, place);
    }
    update(node, item);
  }
  for (const node of old.values()) node.remove();
}

function classOf(column) {
  return `${column.align ?? ""} ${column.className ?? ""}`.trim();
}

// A table whose columns are {title, align, className, note}. Under a parent of class "cards" each row is a card on a
// narrow screen, with the titles beside the values. Returns update(rows), where a row is {key, className, cells} and a
// cell a text or {text, className, note}.
export function table(parent, caption, columns) {
  const head = el("tr");
  for (const column of columns) {
    const cell = el("th", classOf(column), column.title);
    cell.scope = "col";
    if (column.note) cell.title = column.note;
    head.append(cell);
  }
  const body = el("tbody");
  const node = el("table", "", el("caption", "hidden", caption), el("thead", "", head), body);
  parent.replaceChildren(node);
  const create = () => {
    const row = el("tr");
    columns.forEach((column, i) => {
      const cell = el(i === 0 ? "th" : "td");
      if (i === 0) cell.scope = "row";
      cell.dataset.title = column.title;
      row.append(cell);
    });
    return row;
  };
  return (rows) => keyed(body, rows, (row) => row.key, create, (node, row) => {
    setClass(node, row.className ?? "");
    row.cells.forEach((value, i) => {
      const cell = node.children[i];
      const {text, className = "", note = ""} = typeof value === "string" ? {text: value} : value;
      setText(cell, text);
      setClass(cell, `${classOf(columns[i])} ${className}`.trim());
      if (cell.title !== note) cell.title = note;
    });
  });
}

// A definition list. Returns update([[title, text, note], ...]); a note is optional.
export function facts(parent) {
  return (entries) => keyed(parent, entries, ([title]) => title,
    ([title]) => el("div", "", el("dt", "", title), el("dd", "", el("span"), el("small"))),
    (node, [, text, note = ""]) => {
      setText(node.lastElementChild.firstElementChild, text);
      setText(node.lastElementChild.lastElementChild, note);
    });
}
