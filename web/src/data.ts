// What internal/report writes into the page.

export interface Loss { stops: number; pods: number; gpuHours: number; cpuHours: number; unmeasured?: number }
export interface Source { name: string; decisions: number; broken: number }
export interface Queue { name: string; parent: number; depth: number; quota?: Record<string, string>; took: Loss; lost: Loss }
export interface Span { kind: "waits" | "runs"; from: number; to?: number }
export interface Workload { ns: string; name: string; group?: boolean; queue: number; priority: number | null; stopped?: number; took?: number; spans?: Span[] }
export interface Pod { pod: string; node?: string }
export interface Victim { w: number; priority: number | null; rule?: string; since?: number; pods: Pod[]; hours: { gpu: number; cpu: number } | null }
export interface Unit { namespace: string; name: string; group: boolean; priority: number }
export interface ProtectedUnit extends Unit { rule: string; until?: number; queue?: string }
export interface Decision {
  id: string; at: number; ended?: number; w: number; priority: number | null; outcome: "Fits" | "Waits" | "Preempts" | "Infeasible";
  state: "Waiting" | "UnderWay" | "CarriedOut" | "GivenUp" | "Failed"; message: string; waitsFor?: string; error?: string; begun?: number;
  repeated?: boolean; minCount?: number; retryAt?: number; asks?: { pods: number; request: Record<string, number> }[];
  victims?: Victim[]; placements?: Pod[]; protected?: { rule: string; units: number }[]; protectedUnits?: ProtectedUnit[];
  reprieved?: number; reprievedUnits?: Unit[]; nodesOut?: { reason: string; nodes: number }[];
}
export interface LossRow extends Loss { name: string; w: number }
export interface Turns extends Loss { a: number; b: number; turns: number; decisions: number[] }
export interface Again extends Loss { w: number; shortest: number; decisions: number[] }
export interface Unused { decision: number; why: "failed" | "givenUp" | "again"; pods: number; next: number }
export interface QueueUsage { used: number[]; quota: number[]; share: number[] }
export interface Usage { resource: string; at: number[]; queues: QueueUsage[] }
export interface Report {
  schema: string; sources: Source[]; note?: string; from: number; to: number;
  totals: Loss & { decisions: number; preemptions: number; waiting: number };
  usage: Usage[]; noUsage?: string;
  queues: Queue[]; workloads: Workload[]; decisions: Decision[];
  lost: { byQueue: LossRow[]; byPriority: LossRow[]; byPreemptor: LossRow[] };
  turns: Turns[]; again: Again[]; unused: Unused[];
}

// Mark is a decision on the lane of one workload: as its preemptor, or as a victim.
export interface Mark { d: number; at: number; kind: "took" | "none" | "wait" | "fail" | "stop" }

// Model is the report with what drawing looks up.
export class Model {
  readonly marks: Mark[][];
  readonly ids = new Map<string, number>();
  readonly keys = new Map<string, number>();

  constructor(readonly r: Report) {
    this.marks = r.workloads.map(() => []);
    r.workloads.forEach((_, w) => this.keys.set(this.key(w), w));
    r.decisions.forEach((d, i) => {
      this.ids.set(d.id, i);
      const done = happened(d);
      const kind = done ? "took" : d.outcome === "Preempts" ? "fail" : d.outcome === "Waits" ? "wait" : "none";
      this.marks[d.w].push({ d: i, at: d.at, kind });
      if (done) for (const v of d.victims ?? []) this.marks[v.w].push({ d: i, at: d.at, kind: "stop" });
    });
  }

  // name is a workload as kubectl reprieve names it.
  name(w: number): string {
    const of = this.r.workloads[w];
    return `${of.group ? "podgroup" : "pod"} ${of.ns}/${of.name}`;
  }
  // key names a workload in links.
  key(w: number): string {
    const of = this.r.workloads[w];
    return `${of.group ? "podgroup" : "pod"}/${of.ns}/${of.name}`;
  }
  queue(w: number): string {
    const q = this.r.workloads[w].queue;
    return q < 0 ? "" : this.r.queues[q].name;
  }
  matches(w: number, search: string): boolean {
    return search === "" || this.name(w).toLowerCase().includes(search) || this.key(w).includes(search);
  }
  decisionMatches(d: Decision, search: string): boolean {
    return search === "" || this.matches(d.w, search) || (d.victims ?? []).some((v) => this.matches(v.w, search));
  }
}

// happened tells decisions whose victims were stopped. It is the rule of internal/report.
export function happened(d: Decision): boolean {
  return d.outcome === "Preempts" && (d.state === "CarriedOut" || d.state === "UnderWay");
}
