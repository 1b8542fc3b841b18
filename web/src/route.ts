// What is shown stands in the location's hash, so that a link shows the same.
export interface Route { decision?: string; workload?: string; q?: string; show?: string; sort?: string; outcome?: string; rule?: string; queue?: string; from?: number; to?: number }

export function read(): Route {
  const p = new URLSearchParams(location.hash.slice(1));
  const number = (name: string) => {
    const v = Number(p.get(name));
    return p.has(name) && Number.isFinite(v) ? v : undefined;
  };
  const text = (name: string) => p.get(name) ?? undefined;
  return { decision: text("decision"), workload: text("workload"), q: text("q"), show: text("show"),
    sort: text("sort"), outcome: text("outcome"), rule: text("rule"), queue: text("queue"), from: number("from"), to: number("to") };
}

export function hash(r: Route): string {
  const p = new URLSearchParams();
  for (const [name, value] of Object.entries(r)) {
    if (value !== undefined && value !== "") p.set(name, typeof value === "number" ? String(Math.round(value)) : value);
  }
  return "#" + p.toString();
}
