// What queues used over time: a table with a chart for each queue.
import type { Model, Queue, QueueUsage, Usage } from "./data";
import { el, get, table } from "./dom";
import { moment, quantity } from "./words";

const width = 600;
const height = 36;

// usage draws one resource; which one, the select says.
export function usage(m: Model): void {
  const all = m.r.usage;
  const select = get<HTMLSelectElement>("usage-resource");
  const before = select.value;
  select.replaceChildren(...all.map((u) => el("option", { value: u.resource }, u.resource)));
  if (all.some((u) => u.resource === before)) select.value = before;
  get("usage-controls").hidden = all.length < 2;
  get("usage-legend").hidden = all.length === 0;
  select.onchange = () => draw(m);
  draw(m);
}

function draw(m: Model): void {
  const help = get("usage-help");
  const body = get("usage-body");
  const u = m.r.usage.find((u) => u.resource === get<HTMLSelectElement>("usage-resource").value) ?? m.r.usage[0];
  if (!u || u.at.length === 0) {
    help.textContent = "";
    body.replaceChildren(el("p", { class: "empty" }, m.r.noUsage || "There are no queues, or none that uses anything or has a quota."));
    return;
  }
  const end = Math.max(m.r.to, u.at[u.at.length - 1]);
  help.textContent = `${u.resource} from ${moment(u.at[0])} to ${moment(end)} UTC, as the status of the queues said at ${u.at.length.toLocaleString("en")} moments; each holds until the next. Each chart goes up to its own most.`;
  const rows = m.r.queues.map((q, i) => row(q, u, u.queues[i], end)).filter((r) => r !== null);
  body.replaceChildren(table(`${u.resource} used by queues over time`, ["Queue", "Over time", "#Last", "#Quota", "#On average", "#Most"], rows));
}

function row(q: Queue, u: Usage, of: QueueUsage, end: number): (Node | string)[] | null {
  const there = of.used.map((v, i) => (v < 0 ? -1 : i)).filter((i) => i >= 0);
  if (there.length === 0) return null;
  const last = there[there.length - 1];
  const most = Math.max(...there.map((i) => of.used[i]));
  const name = el("span", { class: "indent" }, q.name);
  name.style.paddingLeft = `${q.depth * 14}px`;
  const amount = (v: number) => quantity(u.resource, v);
  const mean = average(u, of, end);
  const words = `${q.name}: ${amount(of.used[last])} at the end, ${amount(mean)} on average, ${amount(most)} at most, of a quota of ${amount(of.quota[last])}`;
  return [name, chart(u, of, end, words), amount(of.used[last]), amount(of.quota[last]), amount(mean), amount(most)];
}

// average weighs each amount by how long it held.
function average(u: Usage, of: QueueUsage, end: number): number {
  let sum = 0;
  let time = 0;
  let plain = 0;
  let count = 0;
  of.used.forEach((v, i) => {
    if (v < 0) return;
    const held = (u.at[i + 1] ?? end) - u.at[i];
    sum += v * held;
    time += held;
    plain += v;
    count++;
  });
  return time > 0 ? sum / time : plain / Math.max(count, 1);
}

function svg(tag: string, attributes: Record<string, string>, ...children: Node[]): SVGElement {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function chart(u: Usage, of: QueueUsage, end: number, words: string): Node {
  const top = Math.max(...of.used, ...of.quota, ...of.share) || 1;
  const span = end - u.at[0];
  const x = (i: number) => (span > 0 ? Math.round((((u.at[i] ?? end) - u.at[0]) / span) * width * 10) / 10 : i === 0 ? 0 : width);
  const y = (v: number) => Math.round((height - 1 - (v / top) * (height - 4)) * 10) / 10;
  const below = (v: number) => y(Math.max(v, 0));
  const area = (values: number[]) => `M0 ${y(0)}${values.map((v, i) => `V${below(v)}H${x(i + 1)}`).join("")}V${y(0)}Z`;
  const steps = (values: number[]) => values.map((v, i) => (v < 0 ? "" : `${i === 0 || values[i - 1] < 0 ? "M" : "L"}${x(i)} ${y(v)}H${x(i + 1)}`)).join("");
  const over = of.used.map((v, i) => (v > Math.max(of.quota[i], 0) ? v : 0));
  const within = of.used.map((v, i) => Math.min(v, Math.max(of.quota[i], 0)));
  return svg("svg", { class: "usage", role: "img", "aria-label": words, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" },
    svg("path", { class: "over", d: area(over) }), svg("path", { class: "within", d: area(within) }),
    ...(of.share.some((v) => v > 0) ? [svg("path", { class: "share", d: steps(of.share) })] : []), svg("path", { class: "quota", d: steps(of.quota) }));
}
