// Which decisions are shown: those about a name, of an outcome, by a rule, of a queue.
import { kindOf, type Decision, type Model } from "./data";

export interface Filter { search: string; outcome: string; rule: string; queue: string }

// outcomes are the values of the filter by outcome, with their words.
export const outcomes: [string, string][] = [["", "Any outcome"], ["took", "took room"], ["reserved", "room is reserved"], ["none", "found no room"], ["fail", "not carried out"]];

// rulesIn lists the rules that decisions name, for victims or for what stays.
export function rulesIn(m: Model): string[] {
  const seen = new Set<string>();
  for (const d of m.r.decisions) for (const rule of rulesOf(d)) seen.add(rule);
  return [...seen].sort();
}

function rulesOf(d: Decision): string[] {
  return [...(d.victims ?? []).map((v) => v.rule ?? ""), ...(d.protected ?? []).map((p) => p.rule)].filter((r) => r !== "");
}

// within reports whether a workload is in a queue, or below it. The empty name stands for all.
function within(m: Model, w: number, queue: string): boolean {
  if (queue === "") return true;
  for (let q = m.r.workloads[w].queue; q >= 0; q = m.r.queues[q].parent) if (m.r.queues[q].name === queue) return true;
  return false;
}

export function narrows(f: Filter): boolean {
  return f.outcome !== "" || f.rule !== "" || f.queue !== "";
}

// Passed says which decisions pass a filter, and which workloads are part of one.
export class Passed {
  readonly decisions: boolean[];
  private readonly workloads = new Set<number>();

  constructor(private readonly m: Model, readonly f: Filter) {
    this.decisions = m.r.decisions.map((d) => this.passes(d));
    m.r.decisions.forEach((d, i) => {
      if (!this.decisions[i]) return;
      for (const w of [d.w, ...(d.victims ?? []).map((v) => v.w)]) if (within(m, w, f.queue)) this.workloads.add(w);
    });
  }

  private passes(d: Decision): boolean {
    const { f, m } = this;
    if (f.outcome !== "" && kindOf(d) !== f.outcome) return false;
    if (f.rule !== "" && !rulesOf(d).includes(f.rule)) return false;
    return f.queue === "" || within(m, d.w, f.queue) || (d.victims ?? []).some((v) => within(m, v.w, f.queue));
  }

  // lane reports whether a workload has a lane.
  lane(w: number): boolean {
    return this.m.matches(w, this.f.search) && (!narrows(this.f) || this.workloads.has(w));
  }

  // row reports whether a decision is in the table.
  row(i: number): boolean {
    return this.decisions[i] && this.m.decisionMatches(this.m.r.decisions[i], this.f.search);
  }
}
