// The sections below the timeline.
import type { LossRow, Model } from "./data";
import { el, get, table } from "./dom";
import type { Filter, Passed } from "./filter";
import { workloadLink, type Links } from "./panel";
import { causes } from "./pictures";
import { count, duration, headline, hours, inWords, moment, sum } from "./words";

export function tiles(m: Model): void {
  const t = m.r.totals;
  const some = t.unmeasured ? (t.unmeasured === t.stops ? "not recorded" : `${count(t.unmeasured, "stop")} not recorded`) : `and ${hours(t.cpuHours)} CPU-hours`;
  const pods = m.r.unused.reduce((n, u) => n + u.pods, 0);
  const all: [string, string, string, string][] = [
    ["Stops", t.stops.toLocaleString("en"), `${count(t.pods, "pod")} in ${count(t.preemptions, "preemption")}`, "lost"],
    ["GPU-hours lost", sum(t, t.gpuHours), t.stops ? some : "nothing was stopped", "lost"],
    ["Taking in turns", m.r.turns.length.toLocaleString("en"), m.r.turns.length === 1 ? "pair" : "pairs", "turns"],
    ["Stopped again", m.r.again.length.toLocaleString("en"), m.r.again[0] ? `at most ${m.r.again[0].stops} times` : "workloads", "again"],
    ["Freed, not used", m.r.unused.length.toLocaleString("en"), pods ? `${count(pods, "pod")} went for it` : "times", "unused"],
    ["Waiting at the end", t.waiting.toLocaleString("en"), t.waiting === 0 ? "workloads" : `${t.reserved.toLocaleString("en")} with room reserved`, "waiting"],
  ];
  get("tiles").replaceChildren(...all.map(([name, value, note, section]) =>
    el("div", { class: "tile" }, el("dt", {}, el("a", { href: `#${section}`, "data-skip": true }, name)), el("dd", {}, el("b", {}, value), el("span", {}, note)))));
}

export function lost(m: Model, links: Links): void {
  const hint = m.r.totals.unmeasured ? ` Of ${count(m.r.totals.unmeasured, "stop")} it is not recorded, which makes the sums lower bounds.` : "";
  get("lost-help").textContent = "What the stopped pods had been given since they started: all of it, if they cannot go on where they were." + hint;
  const of = (title: string, head: string, rows: LossRow[], name: (r: LossRow) => Node | string) =>
    el("div", {}, el("h3", {}, title), rows.length === 0 ? el("p", { class: "empty" }, "Nothing was stopped.") : table(title, [head, "#Stops", "#Pods", "#GPU-h"],
      rows.slice(0, few).map((r) => [name(r), String(r.stops), String(r.pods), bar(sum(r, r.gpuHours), r, rows[0])])),
    rest(rows.length, few));
  get("lost-tables").replaceChildren(
    of("By the queue that lost it", "Queue", m.r.lost.byQueue, (r) => r.name || "in no queue"),
    of("By the priority that lost it", "Priority", m.r.lost.byPriority, (r) => r.name || "not recorded"),
    of("By the preemptor that took it", "Preemptor", m.r.lost.byPreemptor, (r) => workloadLink(m, r.w, links)));
}

// bar shows a number with a bar beside it, by GPU-hours, or pods where those are not known.
function bar(text: string, r: LossRow, most: LossRow): HTMLElement {
  const share = most.gpuHours > 0 ? r.gpuHours / most.gpuHours : r.pods / Math.max(most.pods, 1);
  const fill = el("i", {});
  fill.style.width = `${Math.round(share * 100)}%`;
  return el("span", { class: "bar" }, text, el("span", { class: "track", "aria-hidden": "true" }, fill));
}

// waiting lists what waits at the end, and what for.
export function waiting(m: Model, links: Links): void {
  const body = get("waiting-body");
  if (m.r.waiting.length === 0) {
    body.replaceChildren(el("p", { class: "empty" }, "Nothing waits at the end, as far as this tells."));
    return;
  }
  const rows = m.r.waiting.slice(0, page).map((w) => {
    const since = w.decision >= 0 ? el("a", { href: links.decision(w.decision), class: "t" }, moment(w.since)) : el("span", { class: "t" }, w.since ? moment(w.since) : "");
    return [workloadLink(m, w.w, links), since, m.queue(w.w) || "\u2013", w.reserved ? "room is reserved" : w.reason === "Infeasible" ? "finds no room" : inWords(w.reason), el("span", { class: "dim" }, w.cause)];
  });
  body.replaceChildren(causes(m) ?? "", table("Workloads that wait at the end", ["Workload", "Since (UTC)", "Queue", "State", "Why"], rows, true), rest(m.r.waiting.length, page));
}

export function findings(m: Model, links: Links): void {
  const empty = (text: string) => el("p", { class: "empty" }, text);
  const at = (d: number) => el("a", { href: links.decision(d), class: "t" }, moment(m.r.decisions[d].at));
  get("turns-body").replaceChildren(m.r.turns.length === 0 ? empty("No two workloads have taken from each other.") :
    table("Pairs that take from each other in turns", ["One", "The other", "#Turns", "#GPU-h", "Last"],
      m.r.turns.slice(0, few).map((t) => [workloadLink(m, t.a, links), workloadLink(m, t.b, links), String(t.turns), sum(t, t.gpuHours), at(t.decisions[t.decisions.length - 1])])), rest(m.r.turns.length, few));
  get("again-body").replaceChildren(m.r.again.length === 0 ? empty("No workload was stopped more than once.") :
    table("Workloads that were stopped more than once", ["Workload", "#Stops", "#Shortest interval", "#GPU-h", "Last"],
      m.r.again.slice(0, few).map((a) => [workloadLink(m, a.w, links), String(a.stops), duration(a.shortest), sum(a, a.gpuHours), at(a.decisions[a.decisions.length - 1])])), rest(m.r.again.length, few));
  const why = { failed: "A call failed after pods had begun to go.", givenUp: "It was given up after pods had begun to go.", again: "Room had to be made for the same pods once more." };
  get("unused-body").replaceChildren(m.r.unused.length === 0 ? empty("The decisions tell of none.") :
    table("Room that was freed and not used", ["When (UTC)", "For", "#Pods that went", "Why", "Next"],
      m.r.unused.slice(0, 50).map((u) => [at(u.decision), workloadLink(m, m.r.decisions[u.decision].w, links), String(u.pods), why[u.why], u.next >= 0 ? at(u.next) : "\u2013"]), true), rest(m.r.unused.length, page));
}

// rest says how many a table leaves out.
function rest(all: number, shown: number): HTMLElement | "" {
  return all > shown ? el("p", { class: "help" }, `and ${(all - shown).toLocaleString("en")} more`) : "";
}

const few = 10;
const page = 50;

// Decisions is the table of all decisions, newest first, a page at a time.
export class Decisions {
  private first = 0;
  private passed?: Passed;

  constructor(private m: Model, private readonly links: Links) {}

  set(m: Model, passed: Passed): void {
    const before = this.passed?.f;
    if (before && (Object.keys(before) as (keyof Filter)[]).some((name) => before[name] !== passed.f[name])) this.first = 0;
    this.m = m;
    this.passed = passed;
    this.draw();
  }

  private draw(): void {
    const found: number[] = [];
    for (let i = this.m.r.decisions.length - 1; i >= 0; i--) if (this.passed?.row(i)) found.push(i);
    this.first = Math.min(this.first, Math.max(found.length - 1, 0));
    const some = found.slice(this.first, this.first + page);
    const go = (by: number) => () => {
      this.first = Math.max(this.first + by, 0);
      this.draw();
    };
    const body = get("decisions-body");
    if (found.length === 0) {
      const text = this.m.r.decisions.length === 0 ? "There are no decisions." : this.passed?.f.search ? "No decision is about that name." : "No decision passes the filters.";
      body.replaceChildren(el("p", { class: "empty" }, text));
      return;
    }
    body.replaceChildren(
      table("Decisions, newest first", ["When (UTC)", "Workload", "What", "In a sentence"], some.map((i) => {
        const d = this.m.r.decisions[i];
        return [el("a", { href: this.links.decision(i) }, moment(d.at)), workloadLink(this.m, d.w, this.links), headline(this.m, d), el("span", { class: "dim" }, d.message)];
      }), true),
      el("div", { class: "pager" },
        el("button", { type: "button", disabled: this.first === 0, onclick: go(-page) }, "Newer"),
        el("span", {}, `${(this.first + 1).toLocaleString("en")} to ${(this.first + some.length).toLocaleString("en")} of ${found.length.toLocaleString("en")}`),
        el("button", { type: "button", disabled: this.first + page >= found.length, onclick: go(page) }, "Older")));
  }
}
