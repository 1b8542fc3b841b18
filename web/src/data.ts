// What internal/report writes into the page.

export interface Loss { stops: number; pods: number; gpuHours: number; cpuHours: number; unmeasured?: number }
export interface Source { name: string; decisions: number; broken: number }
export interface Queue { name: string; parent: number; depth: number; quota?: Record<string, string>; took: Loss; lost: Loss }
export interface Span { kind: "waits" | "reserved" | "runs"; from: number; to?: number }
export interface Workload { ns: string; name: string; group?: boolean; queue: number; priority: number | null; stopped?: number; took?: number; spans?: Span[] }
export interface Pod { pod: string; node?: string }
export interface Victim { w: number; priority: number | null; rule?: string; since?: number; pods: Pod[]; hours: { gpu: number; cpu: number } | null; lostDeviceHours?: number }
export interface Unit { namespace: string; name: string; group: boolean; priority: number }
export interface ProtectedUnit extends Unit { rule: string; until?: number; queue?: string }
export interface Decision {
  id: string; at: number; ended?: number; w: number; priority: number | null; outcome: "Fits" | "Waits" | "Preempts" | "Infeasible";
  state: "Waiting" | "UnderWay" | "CarriedOut" | "GivenUp" | "Failed"; message: string; waitsFor?: string; error?: string; begun?: number;
  waitEnd?: "Bound" | "Gone"; waitEndAt?: number; repeated?: boolean; minCount?: number; retryAt?: number; asks?: { pods: number; request: Record<string, number> }[];
  victims?: Victim[]; lostDeviceHours?: number; placements?: Pod[]; protected?: { rule: string; units: number }[]; protectedUnits?: ProtectedUnit[];
  reprieved?: number; reprievedUnits?: Unit[]; nodesOut?: { reason: string; nodes: number }[]; domains?: string[];
}
export interface LossRow extends Loss { name: string; w: number }
export interface Turns extends Loss { a: number; b: number; turns: number; decisions: number[] }
export interface Again extends Loss { w: number; shortest: number; decisions: number[] }
export interface Unused { decision: number; why: "failed" | "givenUp" | "again"; pods: number; next: number }
export interface QueueUsage { used: number[]; quota: number[]; share: number[] }
export interface Usage { resource: string; at: number[]; queues: QueueUsage[] }
export interface Waiting { w: number; since: number; reserved?: boolean; reason: string; cause: string; decision: number }
export interface Matrix { by: string; names: string[]; cells: (Loss & { taker: number; loser: number })[] }
export interface MapPod { pod: string; work: number; amount: number; change?: "goes" | "comes" }
export interface MapNode { name: string; total: number; closed?: boolean; pods: MapPod[] }
export interface MapPlan { name: string; outcome: string; pods: number; placed: number; evicted: number; message: string }
export interface GpuMap { resource: string; at: number; nodes: MapNode[]; works: { ns: string; name: string; group?: boolean; priority: number | null; queue?: string }[]; plans: MapPlan[] }
export interface Report {
  schema: string; sources: Source[]; note?: string; from: number; to: number;
  totals: Loss & { decisions: number; preemptions: number; waiting: number; reserved: number };
  usage: Usage[]; noUsage?: string;
  queues: Queue[]; workloads: Workload[]; decisions: Decision[];
  lost: { byQueue: LossRow[]; byPriority: LossRow[]; byPreemptor: LossRow[] };
  waiting: Waiting[]; matrices: Matrix[]; map?: GpuMap; turns: Turns[]; again: Again[]; unused: Unused[];
}

// complete fills in the parts of a report that its data lacks, or has as null, so that the page
// draws the others.
export function complete(some: Partial<Report> | null): Report {
  const nothing: Loss = { stops: 0, pods: 0, gpuHours: 0, cpuHours: 0 };
  const r = some ?? {};
  const lost = r.lost ?? { byQueue: [], byPriority: [], byPreemptor: [] };
  return {
    schema: r.schema ?? "", sources: r.sources ?? [], note: r.note, from: r.from ?? 0, to: r.to ?? 0,
    totals: { ...nothing, decisions: 0, preemptions: 0, waiting: 0, reserved: 0, ...r.totals },
    usage: r.usage ?? [], noUsage: r.noUsage, queues: r.queues ?? [], workloads: r.workloads ?? [], decisions: r.decisions ?? [],
    lost: { byQueue: lost.byQueue ?? [], byPriority: lost.byPriority ?? [], byPreemptor: lost.byPreemptor ?? [] },
    waiting: r.waiting ?? [], matrices: r.matrices ?? [], map: r.map ?? undefined, turns: r.turns ?? [], again: r.again ?? [], unused: r.unused ?? [],
  };
}

// Mark is a decision on the lane of one workload: as its preemptor, or as a victim.
export interface Mark { d: number; at: number; kind: "took" | "none" | "reserved" | "fail" | "stop" }

// Model is the report with what drawing looks up.
export class Model {
  readonly r: Report;
  readonly marks: Mark[][];
  readonly ids = new Map<string, number>();
  readonly keys = new Map<string, number>();
  // lost is what each workload lost, to sort by.
  readonly lost: { gpu: number; pods: number }[];

  constructor(some: Partial<Report> | null) {
    const r = complete(some);
    this.r = r;
    this.marks = r.workloads.map(() => []);
    this.lost = r.workloads.map(() => ({ gpu: 0, pods: 0 }));
    r.workloads.forEach((_, w) => this.keys.set(this.key(w), w));
    r.decisions.forEach((d, i) => {
      this.ids.set(d.id, i);
      const kind = kindOf(d);
      this.marks[d.w].push({ d: i, at: d.at, kind });
      if (kind !== "took") return;
      for (const v of d.victims ?? []) {
        this.marks[v.w].push({ d: i, at: d.at, kind: "stop" });
        this.lost[v.w].gpu += v.hours?.gpu ?? 0;
        this.lost[v.w].pods += v.pods.length;
      }
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

// kindOf says how a decision is drawn for its preemptor.
export function kindOf(d: Decision): "took" | "none" | "reserved" | "fail" {
  if (happened(d)) return "took";
  switch (d.outcome) {
    case "Preempts": return "fail";
    case "Infeasible": return "none";
    default: return "reserved";
  }
}

// happened tells decisions whose victims were stopped. It is the rule of internal/report.
export function happened(d: Decision): boolean {
  return d.outcome === "Preempts" && (d.state === "CarriedOut" || d.state === "UnderWay");
}
