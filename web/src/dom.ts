// Elements in one line. Text is always set as text, never as markup.
type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Record<string, unknown> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value as EventListener);
    else e.setAttribute(name, value === true ? "" : String(value));
  }
  e.append(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
  return e;
}

export function get<T extends HTMLElement>(id: string): T {
  const e = document.getElementById(id);
  if (!e) throw new Error(`the page has no #${id}`);
  return e as T;
}

// table makes a table with a header cell first in each row. Columns whose head begins with # have
// numbers. Where there is no room for columns (a table of sentences needs most of it), style.css
// has each row be a card with the heads beside the cells; the roles say that it is a table all the
// same.
export function table(caption: string, heads: string[], rows: Child[][], sentences = false): HTMLElement {
  const compact = heads.slice(1).every((h) => h.startsWith("#"));
  const number = heads.map((h) => h.startsWith("#"));
  const names = heads.map((h) => h.replace("#", ""));
  const cell = (c: Child, i: number) => i === 0 ? el("th", { scope: "row", role: "rowheader" }, c) :
    el("td", { class: number[i] && "n", role: "cell" }, el("span", { class: "head-of", "aria-hidden": "true" }, names[i]), el("span", { class: "cell" }, c));
  return el("div", { class: `scroll ${sentences ? "sentences" : compact ? "compact" : "wide"}`, tabindex: "0", role: "region", "aria-label": caption },
    el("table", { role: "table" },
      el("caption", { class: "hidden" }, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...names.map((h, i) => el("th", { scope: "col", role: "columnheader", class: number[i] && "n" }, h)))),
      el("tbody", { role: "rowgroup" }, ...rows.map((cells) => el("tr", { role: "row" }, ...cells.map(cell))))));
}
