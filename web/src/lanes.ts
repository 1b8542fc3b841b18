// Which rows the timeline has: a row for each queue, and below it a lane for each of its workloads.
import { happened, type Model } from "./data";
import { narrows, type Passed } from "./filter";

export type Row = { kind: "queue"; q: number; name: string; depth: number; lanes: number; y: number; h: number } | { kind: "lane"; w: number; depth: number; y: number; h: number };

export const laneHeight = 24;
export const queueHeight = 44;

// Change is what happened to the work of a queue, or of one below it.
export interface Change { at: number; took: number; lost: number }

export type Show = "moved" | "all" | "again";
// Sort is the order of the lanes in a queue: by what they lost, by the first decision about them,
// or by name.
export type Sort = "lost" | "first" | "name";

export function shown(m: Model, w: number, show: Show): boolean {
  const of = m.r.workloads[w];
  if (show === "all") return true;
  if (show === "again") return (of.stopped ?? 0) > 1;
  return (of.stopped ?? 0) > 0 || (of.took ?? 0) > 0;
}

type Order = (a: number, b: number) => number;
const orders: Record<Sort, (m: Model) => Order> = {
  lost: (m) => (a, b) => m.lost[b].gpu - m.lost[a].gpu || m.lost[b].pods - m.lost[a].pods,
  first: (m) => (a, b) => (m.marks[a][0]?.at ?? Infinity) - (m.marks[b][0]?.at ?? Infinity),
  name: (m) => (a, b) => {
    const [x, y] = [m.r.workloads[a], m.r.workloads[b]];
    return x.ns.localeCompare(y.ns, "en") || x.name.localeCompare(y.name, "en");
  },
};

// layout lays the rows out. where has the row of each workload, that of its queue where that is folded.
export function layout(m: Model, show: Show, passed: Passed, sort: Sort, folded: Set<number>): { rows: Row[]; where: (Row | undefined)[]; height: number; lanes: number } {
  const of = new Map<number, number[]>();
  m.r.workloads.forEach((w, i) => {
    if (!shown(m, i, show) || !passed.lane(i)) return;
    const list = of.get(w.queue) ?? [];
    list.push(i);
    of.set(w.queue, list);
  });
  const order = orders[sort](m);
  const rows: Row[] = [];
  const where: (Row | undefined)[] = [];
  let y = 0;
  let lanes = 0;
  const below = new Map<number, number[]>();
  m.r.queues.forEach((q, i) => below.set(q.parent, [...(below.get(q.parent) ?? []), i]));
  const total = (q: number): number => (of.get(q)?.length ?? 0) + (below.get(q) ?? []).reduce((n, c) => n + total(c), 0);
  const hide = (q: number, row: Row): void => {
    for (const w of of.get(q) ?? []) where[w] = row;
    for (const c of below.get(q) ?? []) hide(c, row);
  };
  const add = (q: number, name: string, depth: number): void => {
    const n = total(q);
    if (n === 0 && (passed.f.search !== "" || narrows(passed.f) || q < 0)) return;
    const row: Row = { kind: "queue", q, name, depth, lanes: n, y, h: queueHeight };
    rows.push(row);
    y += queueHeight;
    lanes += of.get(q)?.length ?? 0;
    if (folded.has(q)) {
      hide(q, row);
      lanes += n - (of.get(q)?.length ?? 0);
      return;
    }
    for (const w of (of.get(q) ?? []).sort((a, b) => order(a, b) || a - b)) {
      const lane: Row = { kind: "lane", w, depth: depth + 1, y, h: laneHeight };
      rows.push(lane);
      where[w] = lane;
      y += laneHeight;
    }
    if (q >= 0) for (const c of below.get(q) ?? []) add(c, m.r.queues[c].name, depth + 1);
  };
  for (const q of below.get(-1) ?? []) add(q, m.r.queues[q].name, 0);
  // Workloads without a queue have -1, as the parent of queues at the top does.
  below.delete(-1);
  add(-1, "In no queue", 0);
  return { rows, where, height: y, lanes };
}

// changes are what each queue took and lost, in pods, with all below it; those in no queue stand under -1.
export function changes(m: Model, passed: Passed): Map<number, Change[]> {
  const out = new Map<number, Change[]>();
  const note = (w: number, at: number, took: number, lost: number): void => {
    let q = m.r.workloads[w].queue;
    for (;;) {
      const list = out.get(q);
      if (list) list.push({ at, took, lost });
      else out.set(q, [{ at, took, lost }]);
      if (q < 0) return;
      q = m.r.queues[q].parent;
      if (q < 0) return;
    }
  };
  for (const [i, d] of m.r.decisions.entries()) {
    if (!happened(d) || !passed.decisions[i]) continue;
    for (const v of d.victims ?? []) {
      note(d.w, d.at, v.pods.length, 0);
      note(v.w, d.at, 0, v.pods.length);
    }
  }
  return out;
}
