// Pictures: who took from whom, the tree of queues, and which workload has which GPUs.
import type { GpuMap, MapNode, MapPod, Matrix, Model } from "./data";
import { el, get, table } from "./dom";
import { count, inWords, moment, quantity, sum } from "./words";

// matrix draws who took from whom, by what the select says: rows took, columns lost.
export function matrix(m: Model): void {
  const select = get<HTMLSelectElement>("matrix-by");
  const some = m.r.matrices.filter((x) => x.cells.length > 0);
  // Where nothing is in a queue, another property says more.
  const best = some.find((x) => x.names.some((n) => n !== "")) ?? some[0];
  if (select.options.length === 0) {
    select.append(...["queue", "namespace", "priority"].map((by) => el("option", { value: by }, by)));
    if (best) select.value = best.by;
    select.onchange = () => matrix(m);
  }
  select.onchange = () => matrix(m);
  get("matrix-controls").hidden = some.length === 0;
  const of = some.find((x) => x.by === select.value);
  get("matrix-help").textContent = of ? "Rows took, columns lost: pods that were stopped, with their GPU-hours where these are known. The darker, the more pods." : "";
  get("matrix-body").replaceChildren(of ? grid(of) : el("p", { class: "empty" }, "Nothing was taken from anybody."));
}

// widest is how many names a matrix has at most: those that took or lost the most pods.
const widest = 16;

function grid(of: Matrix): HTMLElement {
  const none = of.by === "queue" ? "in no queue" : "not recorded";
  const moved = of.names.map((_, i) => of.cells.reduce((n, c) => n + (c.taker === i || c.loser === i ? c.pods || c.stops : 0), 0));
  const order = of.names.map((_, i) => i).sort((a, b) => moved[b] - moved[a]).slice(0, widest).sort((a, b) => a - b);
  const most = Math.max(...of.cells.map((c) => c.pods || c.stops), 1);
  const name = (i: number) => of.names[i] || none;
  const rows = order.map((taker) => el("tr", {}, el("th", { scope: "row" }, name(taker)), ...order.map((loser) => {
    const c = of.cells.find((c) => c.taker === taker && c.loser === loser);
    if (!c) return el("td", { class: "none" }, el("span", { class: "hidden" }, "0"));
    const cell = el("td", {}, el("b", {}, (c.pods || c.stops).toLocaleString("en")), el("small", {}, `${sum(c, c.gpuHours)} GPU-h`));
    cell.style.setProperty("--heat", `${Math.round(8 + 42 * ((c.pods || c.stops) / most))}%`);
    cell.title = `${name(taker)} took ${count(c.pods, "pod")} of ${name(loser)} in ${count(c.stops, "stop")}`;
    return cell;
  })));
  const left = of.names.length - order.length;
  const caption = `Who took from whom, by ${of.by}`;
  return el("div", {}, el("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: "matrix" }, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, el("td", {}, "took \u2193 from \u2192"), ...order.map((i) => el("th", { scope: "col" }, name(i))))), el("tbody", {}, ...rows))),
  left > 0 ? el("p", { class: "help" }, `and ${left.toLocaleString("en")} more, which took and lost less`) : "");
}

// tree draws the queues as boxes in the boxes of their parents, as wide as their quota of a
// resource.
export function tree(m: Model): void {
  const body = get("tree-body");
  get("tree").hidden = m.r.queues.length === 0;
  if (m.r.queues.length === 0) return;
  const usage = m.r.usage[0];
  const last = (values: number[] | undefined) => values?.[values.length - 1] ?? -1;
  const quotaOf = (q: number) => usage ? Math.max(last(usage.queues[q]?.quota), 0) : parse(Object.entries(m.r.queues[q].quota ?? {}).find(([r]) => r.includes("gpu"))?.[1]);
  const resource = usage?.resource ?? "GPUs";
  const size = (q: number): number => Math.max(quotaOf(q), below(q).reduce((n, c) => n + size(c), 0), 0.5);
  const below = (q: number) => m.r.queues.map((_, i) => i).filter((i) => m.r.queues[i].parent === q);
  const box = (q: number): HTMLElement => {
    const of = m.r.queues[q];
    const [used, share] = [last(usage?.queues[q]?.used), last(usage?.queues[q]?.share)];
    const quota = quotaOf(q);
    const parts = [used >= 0 ? `${quantity(resource, used)} used` : "", quota > 0 ? `quota ${quantity(resource, quota)}` : "", share > 0 ? `fair share ${quantity(resource, share)}` : ""];
    const moved = of.took.stops + of.lost.stops > 0 ? `took ${of.took.pods.toLocaleString("en")}, lost ${of.lost.pods.toLocaleString("en")} pods` : "";
    const e = el("li", {}, el("p", { class: "queue-name" }, el("b", {}, of.name), " ", el("span", { class: "dim" }, [...parts, moved].filter(Boolean).join(", "))),
      used >= 0 ? level(used, quota, share) : null, below(q).length ? el("ul", {}, ...below(q).map(box)) : null);
    e.style.flexGrow = String(size(q));
    return e;
  };
  get("tree-help").textContent = usage ? `${resource}, as the status of the queues says last. A box is as wide as its quota; the bar is its use: beyond the line it is beyond the quota, the dashed line is its fair share.` : "Boxes lie in those of their parents; what queues use is not known here.";
  body.replaceChildren(el("ul", { class: "tree" }, ...below(-1).map(box)));
}

function parse(quantity: string | undefined): number {
  const n = Number.parseFloat(quantity ?? "");
  return Number.isFinite(n) ? n : 0;
}

// level is a bar of what a queue uses, with its quota and its fair share.
function level(used: number, quota: number, share: number): HTMLElement {
  const top = Math.max(used, quota, share, 1);
  const at = (v: number) => `${Math.round((v / top) * 1000) / 10}%`;
  const part = (kind: string, from: number, to: number) => {
    const e = el("i", { class: kind });
    e.style.left = at(from);
    e.style.width = at(Math.max(to - from, 0));
    return e;
  };
  return el("div", { class: "level", "aria-hidden": "true" }, part("within", 0, Math.min(used, quota)), part("over", quota, Math.max(used, quota)),
    quota > 0 ? part("quota", quota, quota) : null, share > 0 ? part("share", share, share) : null);
}

// gpus draws the nodes with a cell for each GPU, coloured by workload; after a plan as well where
// there is one.
export function gpus(m: Model): void {
  const map = m.r.map;
  get("map").hidden = !map;
  if (!map) return;
  const planned = map.plans.length > 0;
  const busy = map.nodes.reduce((n, node) => n + node.pods.reduce((k, p) => k + (p.change === "comes" ? 0 : p.amount), 0), 0);
  const total = map.nodes.reduce((n, node) => n + node.total, 0);
  get("map-help").textContent = `${map.resource} at ${moment(map.at)} UTC: ${busy.toLocaleString("en")} of ${total.toLocaleString("en")} in use on ${count(map.nodes.length, "node")}. Each cell is one; cells of one workload have its letters and colour.`;
  const coming = plans(map);
  const parts = [picture(map, planned ? "Now" : "", false)];
  if (planned) parts.push(picture(map, "After the plan", true));
  get("map-body").replaceChildren(...coming, el("div", { class: planned ? "maps two-maps" : "maps" }, ...parts), legend(map));
}

function plans(map: GpuMap): HTMLElement[] {
  return map.plans.map((p) => el("p", { class: "says plan" }, el("b", {}, p.name), ` ${p.placed} of ${count(p.pods, "pod")} would have a node, ${count(p.evicted, "pod")} would be evicted. `, el("span", { class: "dim" }, p.message)));
}

// mostNodes is how many nodes a picture has: those with changes first.
const mostNodes = 400;

function picture(map: GpuMap, title: string, after: boolean): HTMLElement {
  const changed = (n: MapNode) => n.pods.some((p) => p.change);
  const nodes = map.nodes.length <= mostNodes ? map.nodes : [...map.nodes].sort((a, b) => Number(changed(b)) - Number(changed(a))).slice(0, mostNodes);
  const left = map.nodes.length - nodes.length;
  const list = el("ul", { class: "nodes" }, ...nodes.map((n) => node(map, n, after)));
  return el("div", {}, title ? el("h3", {}, title) : null, list, left > 0 ? el("p", { class: "help" }, `and ${left.toLocaleString("en")} more nodes`) : null);
}

// there reports whether a pod is on its node before or after the plan.
function there(p: MapPod, after: boolean): boolean {
  return p.amount > 0 && p.change !== (after ? "goes" : "comes");
}

function node(map: GpuMap, n: MapNode, after: boolean): HTMLElement {
  const cells: HTMLElement[] = [];
  const words: string[] = [];
  for (const p of n.pods) {
    if (!there(p, after)) continue;
    for (let i = 0; i < p.amount; i++) {
      const cell = el("i", { class: p.change ? `gpu ${p.change}` : "gpu", title: `${p.pod} (${workName(map, p.work)})${p.change === "goes" ? ", would be evicted" : p.change === "comes" ? ", planned" : ""}` }, letters(p.work));
      cell.style.setProperty("--hue", String(hue(p.work)));
      cells.push(cell);
    }
    words.push(`${p.amount} ${workName(map, p.work)}`);
  }
  const free = n.total - cells.length;
  for (let i = 0; i < free; i++) cells.push(el("i", { class: "gpu free" }));
  const said = `${n.name}: ${[...words, `${Math.max(free, 0)} free`].join(", ")}${n.closed ? ", takes no new pods" : ""}`;
  return el("li", { class: n.closed ? "closed" : undefined }, el("span", { class: "node-name", title: n.name }, n.name), el("span", { class: "gpus", role: "img", "aria-label": said }, ...cells));
}

function workName(map: GpuMap, w: number): string {
  const of = map.works[w];
  return `${of.group ? "podgroup" : "pod"} ${of.ns}/${of.name}`;
}

// letters tell workloads apart where colours do not: A to Z, then AA and so on.
function letters(w: number): string {
  return w < 26 ? String.fromCharCode(65 + w) : letters(Math.floor(w / 26) - 1) + letters(w % 26);
}

// hue spreads colours so that neighbours in the list differ.
function hue(w: number): number {
  return Math.round((w * 137.5) % 360);
}

function legend(map: GpuMap): HTMLElement {
  const held = map.works.map(() => ({ before: 0, after: 0 }));
  for (const n of map.nodes) for (const p of n.pods) {
    if (there(p, false)) held[p.work].before += p.amount;
    if (there(p, true)) held[p.work].after += p.amount;
  }
  const order = map.works.map((_, i) => i).sort((a, b) => Math.max(held[b].before, held[b].after) - Math.max(held[a].before, held[a].after));
  const most = 60;
  const planned = map.plans.length > 0;
  const rows = order.slice(0, most).map((w) => {
    const key = el("i", { class: "gpu" }, letters(w));
    key.style.setProperty("--hue", String(hue(w)));
    const of = map.works[w];
    return [el("span", { class: "work" }, key, workName(map, w)), of.queue || "\u2013", of.priority === null ? "" : String(of.priority), String(held[w].before), ...(planned ? [String(held[w].after)] : [])];
  });
  return el("div", {}, table("Workloads on the map", ["Workload", "Queue", "#Priority", planned ? "#GPUs now" : "#GPUs", ...(planned ? ["#After"] : [])], rows),
    order.length > most ? el("p", { class: "help" }, `and ${order.length - most} more workloads`) : null);
}

// causes draws how many workloads wait for the same cause, as bars.
export function causes(m: Model): HTMLElement | null {
  const of = new Map<string, number>();
  for (const w of m.r.waiting) {
    const cause = w.reserved ? "room is reserved" : kind(w.reason, w.cause);
    of.set(cause, (of.get(cause) ?? 0) + 1);
  }
  if (of.size === 0) return null;
  const most = Math.max(...of.values());
  return el("ul", { class: "causes", "aria-label": "What workloads wait for" }, ...[...of].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([cause, n]) => {
    const fill = el("i", {});
    fill.style.width = `${Math.max((n / most) * 100, 2)}%`;
    return el("li", {}, el("span", {}, cause), el("span", { class: "track", "aria-hidden": "true" }, fill), el("b", {}, n.toLocaleString("en")));
  }));
}

// kind is what causes of workloads are told apart by: a protection, a resource, or the reason.
function kind(reason: string, cause: string): string {
  const rule = /protected \((\w+)\)/.exec(cause)?.[1];
  if (rule) return `others are protected (${rule})`;
  const short = /(?:short of|\d without) ([\w./-]+)/i.exec(cause)?.[1] ?? /Insufficient ([\w./-]+)/.exec(cause)?.[1];
  if (short) return `too little ${short.replace(/[.;,]$/, "")}`;
  return reason === "Infeasible" || reason === "" ? "finds no room" : inWords(reason);
}

