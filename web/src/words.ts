// Decisions, times and amounts in words.
import { happened, type Decision, type Loss, type Model } from "./data";

// rules are those of docs/troubleshooting.md, in its words; a test compares.
export const rules: Record<string, string> = {
  LowerPriority: "The victim's priority is lower than the preemptor's.",
  Reclaim: "The victim's queue has more than its fair share, and the preemptor's stays within its own.",
  StaleGang: "The victim is a gang that has lacked members for longer than `gang.staleTimeout`. Work of the same or a higher priority may preempt it as a whole.",
  NotLowerPriority: "The unit's priority is not lower.",
  OwnGang: "The unit is a member of the preemptor's own PodGroup.",
  DeletionRefused: "The API server has just refused to delete a pod of the unit or to mark its PodGroup: an admission policy or webhook denies it or does not answer, or the object is too large. The scheduler asks again after ten seconds, then later each time, up to ten minutes.",
  StaticPod: "The node's kubelet runs the pod by itself (a mirror pod, with the annotation `kubernetes.io/config.mirror`): its deletion frees nothing.",
  PreemptionToleration: "The unit's PriorityClass tolerates preemption by that priority.",
  DisruptionModeNever: "The unit belongs to a PodGroup of a tree in `disruptionMode` `Never`, and its time has not ended.",
  PriorityClassNotFound: "The unit's PriorityClass does not exist any more, so its toleration is unknown. Create the class again.",
  PreemptMinRuntime: "The unit has not run long enough to be preempted by priority.",
  ReclaimMinRuntime: "The unit has not run long enough to be reclaimed.",
  MoreImportantGang: "The unit is a stale gang, and more important than the preemptor, which lacks members too.",
  Quota: "Without the unit, its queue would have less than its quota.",
  FairShare: "The unit's queue has no more than its fair share.",
  PreemptorOverFairShare: "The preemptor's own queue would have more than its fair share.",
  QueueLimit: "The limit of the preemptor's queue, or of a queue above it, would be exceeded: only evictions below that limit help.",
  NeverPreempts: "The preemptor's `preemptionPolicy` is `Never`. It preempts nothing, so no unit is listed.",
  UnknownQueue: "The preemptor names a queue that accepts no work. It preempts nothing, so no unit is listed.",
};

export function count(n: number, noun: string): string {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

// inWords writes a reason such as QueueLimit as people do.
export function inWords(reason: string): string {
  return reason.replace(/[A-Z]/g, (letter, at: number) => (at > 0 ? " " : "") + letter.toLowerCase());
}

const pad = (n: number, width = 2) => String(n).padStart(width, "0");

export function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
export function clock(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}
export function moment(ms: number): string {
  return `${day(ms)} ${clock(ms)}`;
}
export function exact(ms: number): string {
  return `${moment(ms)}.${pad(new Date(ms).getUTCMilliseconds(), 3)}`;
}

export function duration(ms: number): string {
  const s = Math.round(ms / 1000);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60 ? `${s % 60} s` : ""}`.trim();
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60) ? `${Math.floor((s % 3600) / 60)} min` : ""}`.trim();
  return `${Math.round(s / 86400)} days`;
}

export function hours(h: number): string {
  if (h === 0) return "0";
  if (h < 0.05) return "<0.1";
  return h >= 100 ? Math.round(h).toLocaleString("en") : h.toFixed(1);
}

// gpuHours are those of a sum, with a sign where it is not all.
export function sum(of: Loss, h: number): string {
  if (of.unmeasured === of.stops && of.stops > 0) return "?";
  return (of.unmeasured ? "\u2265 " : "") + hours(h);
}

export function amount(resource: string, v: number): string {
  if (resource === "cpu") return `${v / 1000} CPU`;
  if (resource === "") return "a resource that no node has";
  if (resource === "memory" || resource === "ephemeral-storage") {
    for (const [unit, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20]] as const) {
      if (v >= size) return `${Math.round((v / size) * 10) / 10} ${unit}B ${resource}`;
    }
  }
  return `${v.toLocaleString("en")} ${resource}`;
}

// quantity is an amount in the units of the API: cores, bytes and counts.
export function quantity(resource: string, v: number): string {
  if (resource === "memory" || resource === "ephemeral-storage") {
    for (const [unit, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20]] as const) {
      if (v >= size) return `${Math.round((v / size) * 10) / 10} ${unit}`;
    }
  }
  return (Math.round(v * 10) / 10).toLocaleString("en");
}

// headline says a decision in a few words.
export function headline(m: Model, d: Decision): string {
  const n = d.victims?.length ?? 0;
  if (happened(d)) return `took the room of ${n === 1 ? m.name(d.victims![0].w) : count(n, "workload")}`;
  if (d.outcome === "Preempts") return d.state === "Failed" ? "could not carry its preemption out" : "gave its preemption up";
  if (d.outcome === "Waits") return "waits for pods that are leaving";
  if (d.outcome === "Fits") return "waits for the limit of its queue";
  return d.retryAt ? "waits for protections to end" : "found no room";
}

export function outcome(d: Decision): string {
  switch (d.state) {
    case "UnderWay": return "The victims were being removed when this was recorded.";
    case "CarriedOut": return d.ended ? `All victims were on their way out ${duration(d.ended - d.at)} later.` : "All victims were on their way out.";
    case "GivenUp": return "It was given up: it did not apply any more." + begun(d);
    case "Failed": return "It failed, and the preemptor tries again." + begun(d);
    case "Waiting": return d.outcome === "Waits" ? "Room is reserved for it, and nothing more had to go." : "Nothing was stopped for it.";
  }
}

function begun(d: Decision): string {
  return d.begun ? ` ${count(d.begun, "pod")} of the victims went all the same.` : "";
}
