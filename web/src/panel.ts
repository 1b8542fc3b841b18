// The panel beside the page: one decision, or one workload, in words.
import { happened, type Decision, type Model, type Pod, type Unit } from "./data";
import { el, get, table } from "./dom";
import { amount, count, duration, exact, headline, hours, moment, outcome, rules } from "./words";

export interface Links { decision(d: number): string; workload(w: number): string; close(): void }

// show fills the panel and moves the focus there.
export function show(title: HTMLElement, body: (Node | string | null)[], links: Links): void {
  const panel = get("panel");
  const was = !panel.hidden;
  panel.replaceChildren(
    el("div", { class: "panel-head" }, title, el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => links.close() }, "\u00d7")),
    ...body.filter((b): b is Node | string => b !== null));
  panel.hidden = false;
  document.body.classList.add("open");
  panel.scrollTop = 0;
  if (!was || !panel.contains(document.activeElement)) panel.focus({ preventScroll: true });
}

export function hide(): void {
  get("panel").hidden = true;
  document.body.classList.remove("open");
}

export function workloadLink(m: Model, w: number, links: Links): HTMLElement {
  const [kind, name] = m.name(w).split(" ");
  return el("a", { href: links.workload(w) }, `${kind} `, el("span", { class: "name" }, name));
}

function title(text: string): HTMLElement {
  return el("h2", { id: "panel-h" }, text);
}

function whose(m: Model, w: number, priority: number | null): string {
  return [priority === null ? "" : `priority ${priority}`, m.queue(w) && `queue ${m.queue(w)}`].filter(Boolean).join(", ");
}

export function decision(m: Model, i: number, links: Links): void {
  const d = m.r.decisions[i];
  const about = whose(m, d.w, d.priority);
  show(title(`${m.name(d.w)} ${headline(m, d)}`), [
    el("p", { class: "when" }, el("time", { datetime: new Date(d.at).toISOString() }, exact(d.at)), " UTC"),
    el("p", {}, workloadLink(m, d.w, links), about && ` (${about})`, asks(d)),
    el("p", { class: "says" }, d.message || headline(m, d)),
    el("p", {}, outcome(d), d.waitsFor ? ` It ${d.waitsFor}.` : "", d.retryAt ? ` Protections end at ${moment(d.retryAt)}.` : ""),
    d.repeated ? el("p", {}, "No search was made: an equal pod had just been told the same.") : null,
    waitEnd(d),
    d.error ? el("p", { class: "error" }, d.error) : null,
    victims(m, d, links),
    list("Where it goes", (d.placements ?? []).map(podAt)),
    list("Protected", (d.protected ?? []).map((p) => `${count(p.units, "workload")} by ${p.rule}: ${rules[p.rule] ?? ""}`)),
    list("Closest to being taken, and protected", (d.protectedUnits ?? []).map((u) =>
      `${unit(u)} by ${u.rule}${u.until ? ` until ${moment(u.until / 1e6)}` : ""}${u.queue ? ` (queue ${u.queue})` : ""}`)),
    d.reprieved ? list(`Might have been taken and stayed: ${d.reprieved}`, (d.reprievedUnits ?? []).map(unit)) : null,
    list("Topology domains", d.domains ?? []),
    list("Nodes out of the question", (d.nodesOut ?? []).map((n) => `${count(n.nodes, "node")}: ${n.reason}`)),
    steps(m, i, links),
  ], links);
}

// waitEnd says how the wait of the preemptor ended after a decision.
function waitEnd(d: Decision): HTMLElement | null {
  if (!d.waitEnd || d.waitEndAt === undefined) return null;
  const how = d.waitEnd === "Bound" ? "It was bound to its room" : "It was deleted";
  return el("p", { id: "wait-end" }, `${how} ${duration(d.waitEndAt - d.at)} later.`);
}

function asks(d: Decision): string {
  const parts = (d.asks ?? []).map((a) => {
    const each = Object.entries(a.request).filter(([r]) => r !== "pods").map(([r, v]) => amount(r, v)).join(", ");
    return `${count(a.pods, "pod")}${each && ` of ${each}`}${a.pods > 1 && each ? " each" : ""}`;
  });
  return parts.length ? ` asks for ${parts.join(" and ")}.` : "";
}

function unit(u: Unit): string {
  return `${u.group ? "podgroup" : "pod"} ${u.namespace}/${u.name} (priority ${u.priority})`;
}

function podAt(p: Pod): string {
  return p.node ? `${p.pod} on ${p.node}` : p.pod;
}

function list(head: string, items: string[]): HTMLElement | null {
  if (items.length === 0) return null;
  const most = 40;
  const more = items.length > most ? [el("li", {}, `and ${items.length - most} more`)] : [];
  return el("div", {}, el("h3", {}, head), el("ul", {}, ...items.slice(0, most).map((t) => el("li", {}, t)), ...more));
}

function victims(m: Model, d: Decision, links: Links): HTMLElement | null {
  if (!d.victims?.length) return null;
  return el("div", {}, el("h3", {}, happened(d) ? "What was stopped" : "What would have been stopped"),
    d.lostDeviceHours ? el("p", {}, `Lost work since the last checkpoints, in all: ${hours(d.lostDeviceHours)} device-hours.`) : null,
    ...d.victims.map((v) => el("div", { class: "victim" },
      el("p", {}, workloadLink(m, v.w, links), ` (${[whose(m, v.w, v.priority), count(v.pods.length, "pod")].filter(Boolean).join(", ")})`),
      v.rule ? el("p", {}, el("b", {}, v.rule), `: ${rules[v.rule] ?? ""}`) : null,
      el("p", { class: "dim" }, v.since ? `Since ${moment(v.since)} (${duration(d.at - v.since)}). ` : "",
        v.hours ? `Lost: ${hours(v.hours.gpu)} GPU-hours, ${hours(v.hours.cpu)} CPU-hours.` : "What it had been given is not recorded.",
        v.lostDeviceHours ? ` Its work since the last checkpoint: ${hours(v.lostDeviceHours)} device-hours.` : ""),
      v.pods.length ? el("details", {}, el("summary", {}, count(v.pods.length, "pod")), el("ul", {}, ...v.pods.map((p) => el("li", {}, podAt(p))))) : null)));
}

// steps lead to the decisions before and after about the same workload.
function steps(m: Model, i: number, links: Links): HTMLElement {
  const d = m.r.decisions[i];
  const about = [...new Set(m.marks[d.w].map((k) => k.d))];
  const at = about.indexOf(i);
  return el("nav", { class: "steps", "aria-label": "Decisions about the same workload" },
    at > 0 && el("a", { href: links.decision(about[at - 1]) }, "\u2190 The one before"),
    el("span", {}, `${at + 1} of ${about.length} about it`),
    at < about.length - 1 && el("a", { href: links.decision(about[at + 1]) }, "The next one \u2192"));
}

export function workload(m: Model, w: number, links: Links): void {
  const of = m.r.workloads[w];
  const marks = m.marks[w];
  const most = 300;
  show(title(m.name(w)), [
    el("p", {}, whose(m, w, of.priority) || "Its priority and queue are not recorded."),
    el("p", { class: "says" }, `Stopped ${count(of.stopped ?? 0, "time")}, took the room of ${count(of.took ?? 0, "workload")}, ${count(new Set(marks.map((k) => k.d)).size, "decision")}.`),
    table(`Decisions about ${m.name(w)}`, ["When (UTC)", "What"], marks.slice(0, most).map((k) => {
      const d = m.r.decisions[k.d];
      const what = k.kind === "stop" ? `was stopped by ${m.name(d.w)}` : headline(m, d);
      return [el("a", { href: links.decision(k.d) }, moment(k.at)), what];
    })),
    marks.length > most ? el("p", {}, `and ${marks.length - most} more`) : null,
  ], links);
}
