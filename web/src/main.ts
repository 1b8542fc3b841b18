// Puts the page together: the report in it or from its server, what the location asks for, and what people do.
import { Model, type Report } from "./data";
import { get, el } from "./dom";
import { narrows, outcomes, Passed, rulesIn, type Filter } from "./filter";
import { shown, type Show, type Sort } from "./lanes";
import { decision, hide, workload, type Links } from "./panel";
import { gpus, matrix, tree } from "./pictures";
import { hash, read, type Route } from "./route";
import { Decisions, findings, lost, tiles, waiting } from "./tables";
import { Timeline } from "./timeline";
import { usage } from "./usage";
import { count, moment } from "./words";

const live = document.querySelector<HTMLMetaElement>("meta[name=reprieve-mode]")?.content === "live";
const interval = 5000;

let model = new Model(JSON.parse(get("data").textContent || "null") as Partial<Report> | null);
let route: Route = read();
let opener: Element | null = null;
let stale = "";

const links: Links = {
  decision: (d) => hash({ ...route, workload: undefined, decision: model.r.decisions[d].id }),
  workload: (w) => hash({ ...route, decision: undefined, workload: model.key(w) }),
  close: () => go({ ...route, decision: undefined, workload: undefined }),
};
const timeline = new Timeline({
  open: (d) => (location.hash = links.decision(d)),
  openWorkload: (w) => (location.hash = links.workload(w)),
  moved: (from, to) => replace({ ...route, from: Number.isNaN(from) ? undefined : from, to: Number.isNaN(to) ? undefined : to }),
});
const decisions = new Decisions(model, links);

// go follows a route as a link would; replace notes one without a step in the history.
function go(r: Route): void {
  location.hash = hash(r);
}
function replace(r: Route): void {
  route = r;
  history.replaceState(null, "", hash(r));
}

function showing(): Show {
  const asked = route.show as Show | undefined;
  if (asked === "all" || asked === "moved" || asked === "again") return asked;
  return model.r.workloads.some((_, w) => shown(model, w, "moved")) ? "moved" : "all";
}

function range(): [number, number] | undefined {
  return route.from !== undefined && route.to !== undefined && route.to > route.from ? [route.from, route.to] : undefined;
}

function head(): void {
  const r = model.r;
  const broken = r.sources.reduce((n, s) => n + s.broken, 0);
  const names = r.sources.length > 3 ? `${r.sources.length} files` : r.sources.map((s) => s.name).join(", ");
  const parts = [count(r.totals.decisions, "decision"), r.decisions.length ? `${moment(r.from)} to ${moment(r.to)} UTC` : "", names && `from ${names}`,
    broken ? `${count(broken, "broken line")} passed over` : "", live ? (stale || "live") : ""];
  get("meta").textContent = parts.filter(Boolean).join(" \u00b7 ");
  get("note").hidden = !r.note;
  get("note").textContent = r.note ?? "";
  const select = get<HTMLSelectElement>("show");
  const names2: [Show, string][] = [["moved", "what took or was stopped"], ["again", "what was stopped more than once"], ["all", "all workloads"]];
  select.replaceChildren(...names2.map(([value, text]) => el("option", { value }, `${text} (${r.workloads.filter((_, w) => shown(model, w, value)).length})`)));
  select.value = showing();
  get<HTMLSelectElement>("sort").value = sorting();
  filters();
}

// render draws all; its parts go by the route.
function render(): void {
  head();
  tiles(model);
  usage(model);
  waiting(model, links);
  gpus(model);
  tree(model);
  matrix(model);
  lost(model, links);
  findings(model, links);
  const passed = new Passed(model, filter());
  timeline.set(model, showing(), passed, sorting(), range());
  decisions.set(model, passed);
}

function filter(): Filter {
  return { search: search(), outcome: route.outcome ?? "", rule: route.rule ?? "", queue: route.queue ?? "" };
}

function sorting(): Sort {
  return route.sort === "first" || route.sort === "name" ? route.sort : "lost";
}

// filters fills the selects of the filters with what the report has.
function filters(): void {
  const select = (id: string, values: [string, string][], value: string) => {
    const e = get<HTMLSelectElement>(id);
    e.replaceChildren(...values.map(([v, text]) => el("option", { value: v }, text)));
    // A link may name what this report does not have.
    if (value !== "" && !values.some(([v]) => v === value)) e.append(el("option", { value }, value));
    e.value = value;
  };
  select("by-outcome", outcomes, route.outcome ?? "");
  select("by-rule", [["", "Any rule"], ...rulesIn(model).map((r): [string, string] => [r, r])], route.rule ?? "");
  select("by-queue", [["", "Any queue"], ...model.r.queues.map((q): [string, string] => [q.name, "\u00a0".repeat(2 * q.depth) + q.name])], route.queue ?? "");
  get("no-filter").hidden = !narrows(filter());
}

// narrow changes what of the timeline and of the decisions is shown.
function narrow(by: Partial<Route>): void {
  replace({ ...route, ...by });
  const passed = new Passed(model, filter());
  get("no-filter").hidden = !narrows(filter());
  timeline.filter(showing(), passed, sorting());
  decisions.set(model, passed);
}

function search(): string {
  return (route.q ?? "").trim().toLowerCase();
}

// panel opens what the route names.
function panel(): void {
  const d = route.decision === undefined ? undefined : model.ids.get(route.decision);
  const w = route.workload === undefined ? undefined : model.keys.get(route.workload);
  if (d === undefined && w === undefined) {
    const inside = get("panel").contains(document.activeElement);
    hide();
    timeline.select(-1);
    if (inside && opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true });
    else if (inside) get("scroller").focus({ preventScroll: true });
    return;
  }
  if (get("panel").hidden) opener = document.activeElement;
  if (d !== undefined) {
    decision(model, d, links);
    timeline.select(d);
  } else if (w !== undefined) {
    workload(model, w, links);
    timeline.select(-1);
    timeline.reveal(w);
  }
}

function follow(): void {
  const before = route;
  route = read();
  const drawn: (keyof Route)[] = ["q", "show", "sort", "outcome", "rule", "queue", "from", "to"];
  if (drawn.some((name) => before[name] !== route[name])) {
    get<HTMLInputElement>("search").value = route.q ?? "";
    render();
  }
  panel();
}

function listen(): void {
  addEventListener("hashchange", follow);
  addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !get("panel").hidden) links.close();
  });
  // Links to sections leave the route as it is.
  document.addEventListener("click", (e) => {
    const a = e.target instanceof Element ? e.target.closest<HTMLAnchorElement>("a[data-skip]") : null;
    if (!a) return;
    e.preventDefault();
    const to = get(a.getAttribute("href")!.slice(1));
    to.scrollIntoView();
    to.focus({ preventScroll: true });
  });
  const input = get<HTMLInputElement>("search");
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => narrow({ q: input.value || undefined }), 120);
  });
  const selects: [string, keyof Route][] = [["show", "show"], ["sort", "sort"], ["by-outcome", "outcome"], ["by-rule", "rule"], ["by-queue", "queue"]];
  for (const [id, name] of selects) {
    get(id).addEventListener("change", (e) => narrow({ [name]: (e.target as HTMLSelectElement).value || undefined }));
  }
  get("no-filter").onclick = () => {
    narrow({ outcome: undefined, rule: undefined, queue: undefined });
    get("by-outcome").focus();
  };
  theme();
}

// theme goes by the system until one is chosen. A page from a file may have no storage.
function theme(): void {
  const select = get<HTMLSelectElement>("theme");
  const kept = (() => {
    try { return localStorage.getItem("reprieve-theme"); } catch { return null; }
  })();
  const set = (value: string) => {
    if (value === "light" || value === "dark") document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
    timeline.draw();
  };
  select.value = kept === "light" || kept === "dark" ? kept : "auto";
  set(select.value);
  select.addEventListener("change", () => {
    try { localStorage.setItem("reprieve-theme", select.value); } catch { /* it lasts as long as the page, then */ }
    set(select.value);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.draw());
}

// poll asks the server for more, one question at a time.
async function poll(): Promise<void> {
  try {
    const answer = await fetch("data.json", { cache: "no-cache" });
    if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
    const text = await answer.text();
    stale = "";
    if (text !== last) {
      last = text;
      model = new Model(JSON.parse(text) as Partial<Report> | null);
      render();
    }
  } catch (e) {
    stale = `not up to date: ${e instanceof Error ? e.message : String(e)}`;
  }
  head();
  setTimeout(() => void poll(), interval);
}
let last = "";

get<HTMLInputElement>("search").value = route.q ?? "";
listen();
render();
panel();
if (live) void poll();
requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("reprieve-drawn")));
