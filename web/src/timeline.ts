// The timeline: what is drawn, and how it is moved in.
import { happened, type Mark, type Model } from "./data";
import { el, get } from "./dom";
import type { Passed } from "./filter";
import { changes, layout, type Change, type Row, type Show, type Sort } from "./lanes";
import { clock, count, day, exact, headline } from "./words";

export interface Hooks { open(decision: number): void; openWorkload(w: number): void; moved(from: number, to: number): void }

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000].map((s) => s * 1000);

// mostArrows is how many arrows are drawn at most without being asked for.
const mostArrows = 60;

interface Arrow { x: number; from: number; to: number; chosen: boolean; of: number[] }
interface Hit { x: number; y: number; d: number; w: number }

export class Timeline {
  private m!: Model;
  private rows: Row[] = [];
  private where: (Row | undefined)[] = [];
  private bars = new Map<number, Change[]>();
  private readonly folded = new Set<number>();
  private hits: Hit[] = [];
  private cursor = { row: -1, mark: -1 };
  private selected = -1;
  private from = 0;
  private to = 1;
  private all: [number, number] = [0, 1];
  private pending = false;
  private readonly scroller = get("scroller");
  private readonly canvas = get<HTMLCanvasElement>("canvas");
  private readonly axis = get<HTMLCanvasElement>("axis");
  private readonly labels = get("labels");
  private readonly tip = get("tip");

  constructor(private readonly hooks: Hooks) {
    this.scroller.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.scroller.addEventListener("keydown", (e) => this.key(e));
    this.scroller.addEventListener("focus", () => this.draw());
    this.scroller.addEventListener("blur", () => this.draw());
    this.mouse();
    get("zoom-in").onclick = () => this.zoom(0.5);
    get("zoom-out").onclick = () => this.zoom(2);
    get("earlier").onclick = () => this.pan(-0.4);
    get("later").onclick = () => this.pan(0.4);
    get("zoom-all").onclick = () => this.window(this.all[0], this.all[1]);
  }

  // set shows a model; range is what of its time, all of it where that is undefined.
  set(m: Model, show: Show, passed: Passed, sort: Sort, range?: [number, number]): void {
    this.m = m;
    const pad = Math.max((m.r.to - m.r.from) * 0.03, 500);
    const wasAll = this.from === this.all[0] && this.to === this.all[1];
    this.all = [m.r.from - pad, m.r.to + pad];
    if (range) [this.from, this.to] = range;
    else if (wasAll || this.from === 0) [this.from, this.to] = this.all;
    this.filter(show, passed, sort);
  }

  private show: Show = "moved";
  private sort: Sort = "lost";
  private passed!: Passed;
  // pointed is the workload whose lane the pointer is on, or -1.
  private pointed = -1;

  filter(show: Show, passed: Passed, sort: Sort): void {
    this.show = show;
    this.sort = sort;
    this.passed = passed;
    this.bars = changes(this.m, passed);
    const { rows, where, height, lanes } = layout(this.m, show, passed, sort, this.folded);
    this.rows = rows;
    this.where = where;
    this.cursor = { row: -1, mark: -1 };
    get("rows").style.height = `${Math.max(height, 40)}px`;
    this.scroller.style.height = `${Math.min(Math.max(height, 40), Math.round(innerHeight * 0.62))}px`;
    get("shown").textContent = `${count(lanes, "workload")} of ${this.m.r.workloads.length.toLocaleString("en")} shown.`;
    this.draw();
  }

  // marks are those of a workload whose decisions pass the filter.
  private marks(w: number): Mark[] {
    return this.m.marks[w].filter((mark) => this.passed.decisions[mark.d]);
  }

  // select marks a decision, and brings it into view where it is not.
  select(d: number): void {
    this.selected = d;
    if (d >= 0) {
      const of = this.m.r.decisions[d];
      const span = this.to - this.from;
      if (of.at < this.from || of.at > this.to) [this.from, this.to] = [of.at - span / 2, of.at + span / 2];
      const row = this.where[of.w];
      if (row && (row.y < this.scroller.scrollTop || row.y + row.h > this.scroller.scrollTop + this.scroller.clientHeight)) {
        this.scroller.scrollTop = row.y - this.scroller.clientHeight / 2;
      }
    }
    this.draw();
  }

  reveal(w: number): void {
    const row = this.where[w];
    if (row) this.scroller.scrollTop = row.y - this.scroller.clientHeight / 3;
    this.draw();
  }

  private window(from: number, to: number): void {
    const least = 1000;
    if (to - from < least) [from, to] = [(from + to - least) / 2, (from + to + least) / 2];
    const most = this.all[1] - this.all[0];
    if (to - from >= most) [from, to] = this.all;
    const shift = Math.max(this.all[0] - from, 0) || Math.min(this.all[1] - to, 0);
    this.from = from + shift;
    this.to = to + shift;
    const whole = this.from === this.all[0] && this.to === this.all[1];
    this.hooks.moved(whole ? NaN : this.from, whole ? NaN : this.to);
    this.draw();
  }

  private zoom(by: number, at = this.middle()): void {
    this.window(at - (at - this.from) * by, at + (this.to - at) * by);
  }

  private pan(by: number): void {
    const d = (this.to - this.from) * by;
    this.window(this.from + d, this.to + d);
  }

  private middle(): number {
    const row = this.rows[this.cursor.row];
    const mark = row?.kind === "lane" ? this.marks(row.w)[this.cursor.mark] : undefined;
    return mark && mark.at >= this.from && mark.at <= this.to ? mark.at : (this.from + this.to) / 2;
  }

  private left(): number {
    return this.scroller.clientWidth < 640 ? 130 : 250;
  }
  private x(at: number): number {
    const left = this.left();
    return left + ((at - this.from) / (this.to - this.from)) * (this.scroller.clientWidth - left - 12);
  }

  draw(): void {
    if (this.pending || !this.m) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }

  private paint(): void {
    const top = this.scroller.scrollTop;
    const height = this.scroller.clientHeight;
    const first = Math.max(this.rows.findIndex((r) => r.y + r.h > top), 0);
    const visible: Row[] = [];
    for (let i = first; i < this.rows.length && this.rows[i].y < top + height; i++) visible.push(this.rows[i]);
    this.label(visible);
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue("--" + name).trim();
    const g = surface(this.canvas, this.scroller.clientWidth, height);
    const ticks = this.ticks();
    g.strokeStyle = colour("grid");
    g.lineWidth = 1;
    for (const t of ticks) line(g, Math.round(this.x(t)) + 0.5, 0, height);
    g.save();
    g.beginPath();
    g.rect(this.left() - 6, 0, this.scroller.clientWidth, height);
    g.clip();
    this.hits = [];
    const most = this.mostChange();
    for (const row of visible) {
      if (row.kind === "queue") this.paintBars(g, row, top, most, colour);
      else this.paintSpans(g, row, top, colour);
    }
    this.paintArrows(g, top, height, colour);
    for (const row of visible) if (row.kind === "lane") this.paintMarks(g, row, top, colour);
    this.paintCursor(g, top, colour);
    g.restore();
    this.paintAxis(ticks, colour);
  }

  private ticks(): number[] {
    const span = this.to - this.from;
    const room = (this.scroller.clientWidth - this.left()) / 110;
    const step = steps.find((s) => span / s <= room) ?? steps[steps.length - 1];
    const out = [];
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) out.push(t);
    return out;
  }

  private paintAxis(ticks: number[], colour: (n: string) => string): void {
    const width = this.scroller.clientWidth;
    const g = surface(this.axis, width, 34);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.fillStyle = colour("muted");
    let last = "";
    for (const t of ticks) {
      const x = Math.round(this.x(t));
      if (x > width - 60 || x < this.left() - 2) continue;
      g.fillText(clock(t), x + 4, 24);
      if (day(t) !== last) g.fillText((last = day(t)), x + 4, 9);
      line(g, x + 0.5, 16, 34);
    }
  }

  private inView(list: Change[]): Change[] {
    return list.filter((c) => c.at >= this.from && c.at <= this.to);
  }

  private bins(list: Change[]): Map<number, [number, number]> {
    const out = new Map<number, [number, number]>();
    for (const c of this.inView(list)) {
      const x = Math.floor(this.x(c.at) / 6) * 6;
      const bin = out.get(x) ?? [0, 0];
      out.set(x, [bin[0] + c.took, bin[1] + c.lost]);
    }
    return out;
  }

  private mostChange(): number {
    let most = 1;
    for (const list of this.bars.values()) for (const [took, lost] of this.bins(list).values()) most = Math.max(most, took, lost);
    return most;
  }

  private paintBars(g: CanvasRenderingContext2D, row: Row & { kind: "queue" }, top: number, most: number, colour: (n: string) => string): void {
    const middle = row.y - top + row.h / 2;
    g.fillStyle = colour("band");
    g.fillRect(0, row.y - top, this.scroller.clientWidth, row.h);
    g.fillStyle = colour("grid");
    g.fillRect(this.left(), middle, this.scroller.clientWidth, 1);
    const size = (n: number) => (n === 0 ? 0 : Math.max((n / most) * (row.h / 2 - 4), 2));
    for (const [x, [took, lost]] of this.bins(this.bars.get(row.q) ?? [])) {
      g.fillStyle = colour("took");
      g.fillRect(x, middle - size(took), 5, size(took));
      g.fillStyle = colour("stop");
      g.fillRect(x, middle + 1, 5, size(lost));
    }
  }

  private paintSpans(g: CanvasRenderingContext2D, row: Row & { kind: "lane" }, top: number, colour: (n: string) => string): void {
    const y = row.y - top + row.h / 2;
    g.fillStyle = colour("grid");
    g.fillRect(0, row.y - top + row.h - 1, this.scroller.clientWidth, 1);
    for (const s of this.m.r.workloads[row.w].spans ?? []) {
      const open = s.to === undefined;
      const a = Math.max(this.x(s.from), this.left() - 6);
      const b = open ? a + 36 : this.x(s.to!);
      if ((open ? this.x(s.from) + 36 : b) < this.left() || a > this.scroller.clientWidth) continue;
      if (s.kind === "waits") {
        g.strokeStyle = colour("wait");
        g.lineWidth = 2;
        g.setLineDash([3, 3]);
        g.beginPath();
        g.moveTo(a, y);
        g.lineTo(b, y);
        g.stroke();
        g.setLineDash([]);
        continue;
      }
      if (s.kind === "reserved") {
        g.strokeStyle = colour("took");
        g.lineWidth = 1.5;
        g.strokeRect(a, y - 3.5, Math.max(b - a, 1), 7);
        continue;
      }
      g.fillStyle = colour("run");
      if (open) {
        const fade = g.createLinearGradient(a, 0, b, 0);
        fade.addColorStop(0, colour("run"));
        fade.addColorStop(1, colour("run") + "00");
        g.fillStyle = fade;
      }
      g.fillRect(a, y - 4, Math.max(b - a, 1), 8);
    }
  }

  private range(): [number, number] {
    const all = this.m.r.decisions;
    const find = (t: number) => {
      let low = 0;
      let high = all.length;
      while (low < high) {
        const mid = (low + high) >> 1;
        if (all[mid].at < t) low = mid + 1;
        else high = mid;
      }
      return low;
    };
    return [find(this.from), find(this.to + 1)];
  }

  // arrows are those in view, from the lane that took to the lane that lost: each once.
  private arrows(top: number, height: number): Arrow[] {
    const [begin, end] = this.range();
    const drawn = new Set<string>();
    const out: Arrow[] = [];
    for (let i = begin; i < end; i++) {
      const d = this.m.r.decisions[i];
      const a = this.where[d.w];
      if (!a || !happened(d) || !this.passed.decisions[i]) continue;
      for (const v of d.victims ?? []) {
        const b = this.where[v.w];
        if (!b || a === b) continue;
        const ya = a.y + a.h / 2 - top;
        const yb = b.y + b.h / 2 - top;
        if (Math.max(ya, yb) < 0 || Math.min(ya, yb) > height) continue;
        const x = Math.round(this.x(d.at));
        const key = `${x >> 1} ${a.y} ${b.y}`;
        if (drawn.has(key) && i !== this.selected) continue;
        drawn.add(key);
        out.push({ x, from: ya, to: yb, chosen: i === this.selected, of: [d.w, v.w] });
      }
    }
    return out;
  }

  // paintArrows draws the arrows in view. Where they are so many that they would cover the lanes,
  // it draws those of the open decision and of the lane that is pointed at.
  private paintArrows(g: CanvasRenderingContext2D, top: number, height: number, colour: (n: string) => string): void {
    const all = this.arrows(top, height);
    const row = this.rows[this.cursor.row];
    const about = [this.pointed, row?.kind === "lane" && document.activeElement === this.scroller ? row.w : -1];
    const some = all.length <= mostArrows ? all : all.filter((a) => a.chosen || a.of.some((w) => about.includes(w)));
    for (const a of some) {
      g.globalAlpha = a.chosen ? 1 : Math.min(Math.max(40 / some.length, 0.25), 0.6);
      g.strokeStyle = g.fillStyle = colour(a.chosen ? "text" : "stop");
      g.lineWidth = a.chosen ? 2 : 1.25;
      arrow(g, a.x, a.from, a.to);
    }
    g.globalAlpha = 1;
    const left = all.length - some.length;
    get("arrows").textContent = left ? `${left.toLocaleString("en")} arrows in view are not drawn: point at a lane to see its own, or zoom in.` : "";
    this.canvas.dataset.arrows = String(some.length);
  }

  private paintMarks(g: CanvasRenderingContext2D, row: Row & { kind: "lane" }, top: number, colour: (n: string) => string): void {
    const y = row.y - top + row.h / 2;
    const drawn = new Set<string>();
    for (const mark of this.marks(row.w)) {
      if (mark.at < this.from || mark.at > this.to) continue;
      const x = this.x(mark.at);
      this.hits.push({ x, y, d: mark.d, w: row.w });
      const key = mark.kind + (Math.round(x) >> 1);
      if (!drawn.has(key)) sign(g, mark.kind, x, y, colour);
      drawn.add(key);
      if (mark.d === this.selected) ring(g, x, y, colour("text"));
    }
  }

  private paintCursor(g: CanvasRenderingContext2D, top: number, colour: (n: string) => string): void {
    const row = this.rows[this.cursor.row];
    if (!row || document.activeElement !== this.scroller) return;
    g.strokeStyle = colour("focus");
    g.lineWidth = 2;
    const mark = row.kind === "lane" ? this.marks(row.w)[this.cursor.mark] : undefined;
    if (mark) ring(g, this.x(mark.at), row.y - top + row.h / 2, colour("focus"));
    else g.strokeRect(this.left(), row.y - top + 1, this.scroller.clientWidth - this.left() - 2, row.h - 2);
  }

  private label(visible: Row[]): void {
    this.labels.replaceChildren(...visible.map((row) => {
      let e: HTMLElement;
      if (row.kind === "queue") {
        const q = this.m.r.queues[row.q];
        const quota = Object.entries(q?.quota ?? {}).map(([k, v]) => `${v} ${k}`).join(", ");
        const open = !this.folded.has(row.q);
        e = el("button", { type: "button", class: "queue", tabindex: "-1", "aria-expanded": open, title: quota && `quota ${quota}`, onclick: () => this.fold(row.q) },
          el("span", { class: "fold", "aria-hidden": "true" }, open ? "\u25be" : "\u25b8"), el("span", {}, el("b", {}, row.name), el("small", {}, q ? `took ${q.took.pods.toLocaleString("en")}, lost ${q.lost.pods.toLocaleString("en")} pods` : count(row.lanes, "workload"))));
      } else {
        const w = this.m.r.workloads[row.w];
        e = el("button", { type: "button", class: "lane", tabindex: "-1", title: this.m.name(row.w), onclick: () => this.hooks.openWorkload(row.w) },
          el("span", {}, this.left() < 200 ? w.name : `${w.ns}/${w.name}`), w.stopped ? el("small", { class: "stops" }, `${w.stopped}\u00d7`) : null);
      }
      e.style.top = `${row.y}px`;
      e.style.height = `${row.h}px`;
      e.style.width = `${this.left() - 8}px`;
      e.style.paddingLeft = `${8 + row.depth * 14}px`;
      return e;
    }));
  }

  private fold(q: number): void {
    if (!this.folded.delete(q)) this.folded.add(q);
    const at = this.cursor;
    this.filter(this.show, this.passed, this.sort);
    this.cursor = at;
  }

  private mouse(): void {
    let drag: { x: number; from: number; to: number; moved: boolean } | null = null;
    const near = (e: MouseEvent): Hit | undefined => {
      const box = this.canvas.getBoundingClientRect();
      const [x, y] = [e.clientX - box.left, e.clientY - box.top];
      const away = (h: Hit) => Math.hypot(h.x - x, h.y - y);
      return this.hits.filter((h) => away(h) < 12).sort((a, b) => away(a) - away(b))[0];
    };
    this.canvas.addEventListener("pointerdown", (e) => (drag = { x: e.clientX, from: this.from, to: this.to, moved: false }));
    addEventListener("pointerup", () => setTimeout(() => (drag = null)));
    this.canvas.addEventListener("pointermove", (e) => {
      if (drag && Math.abs(e.clientX - drag.x) > 4) {
        const by = ((drag.x - e.clientX) / (this.scroller.clientWidth - this.left())) * (drag.to - drag.from);
        drag.moved = true;
        this.window(drag.from + by, drag.to + by);
      }
      this.point(e);
      const hit = near(e);
      this.tip.hidden = !hit;
      this.canvas.style.cursor = hit ? "pointer" : "";
      if (hit) this.hover(hit, e);
    });
    this.canvas.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
      this.point();
    });
    this.canvas.addEventListener("click", (e) => {
      const hit = near(e);
      if (hit && !drag?.moved) this.hooks.open(hit.d);
    });
    this.scroller.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      const left = this.left();
      const share = (e.clientX - this.canvas.getBoundingClientRect().left - left) / (this.scroller.clientWidth - left);
      this.zoom(e.deltaY > 0 ? 1.25 : 0.8, this.from + share * (this.to - this.from));
    }, { passive: false });
  }

  // point notes which lane the pointer is on, if any.
  private point(e?: MouseEvent): void {
    const y = e ? e.clientY - this.canvas.getBoundingClientRect().top + this.scroller.scrollTop : -1;
    const row = this.rows.find((r) => r.y <= y && y < r.y + r.h);
    const now = row?.kind === "lane" ? row.w : -1;
    if (now !== this.pointed) {
      this.pointed = now;
      this.draw();
    }
  }

  private hover(hit: Hit, e: MouseEvent): void {
    const d = this.m.r.decisions[hit.d];
    this.tip.replaceChildren(el("b", {}, this.m.name(d.w)), ` ${headline(this.m, d)}`, el("br"), el("small", {}, exact(d.at)));
    const frame = this.tip.parentElement!.getBoundingClientRect();
    this.tip.style.left = `${Math.min(e.clientX - frame.left + 14, frame.width - 300)}px`;
    this.tip.style.top = `${e.clientY - frame.top + 16}px`;
  }

  private key(e: KeyboardEvent): void {
    if (e.target !== this.scroller || e.ctrlKey || e.metaKey || e.altKey) return;
    const act: Record<string, () => void> = {
      ArrowDown: () => this.toRow(1), ArrowUp: () => this.toRow(-1), ArrowRight: () => this.toMark(1), ArrowLeft: () => this.toMark(-1),
      Home: () => this.toMark(-Infinity), End: () => this.toMark(Infinity), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      Enter: () => this.enter(), " ": () => this.enter(),
    };
    if (!act[e.key]) return;
    e.preventDefault();
    act[e.key]();
    this.draw();
  }

  private toRow(by: number): void {
    const before = this.middle();
    const row = Math.min(Math.max(this.cursor.row + by, 0), this.rows.length - 1);
    this.cursor = { row, mark: -1 };
    const of = this.rows[row];
    if (!of) return;
    if (of.kind === "lane") {
      const marks = this.marks(of.w);
      this.cursor.mark = marks.reduce((best, mark, i) => (best < 0 || Math.abs(mark.at - before) < Math.abs(marks[best].at - before) ? i : best), -1);
    }
    if (of.y < this.scroller.scrollTop) this.scroller.scrollTop = of.y;
    if (of.y + of.h > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = of.y + of.h - this.scroller.clientHeight;
    this.say();
  }

  private toMark(by: number): void {
    const row = this.rows[this.cursor.row];
    if (row?.kind !== "lane") return row ? undefined : this.toRow(1);
    const marks = this.marks(row.w);
    this.cursor.mark = Math.min(Math.max(this.cursor.mark + by, 0), marks.length - 1);
    const at = marks[this.cursor.mark]?.at;
    if (at !== undefined && (at < this.from || at > this.to)) this.window(at - (this.to - this.from) / 2, at + (this.to - this.from) / 2);
    this.say();
  }

  private enter(): void {
    const row = this.rows[this.cursor.row];
    if (row?.kind === "queue") this.fold(row.q);
    else if (row) {
      const mark: Mark | undefined = this.marks(row.w)[this.cursor.mark];
      if (mark) this.hooks.open(mark.d);
      else this.hooks.openWorkload(row.w);
    }
    this.say();
  }

  private say(): void {
    const row = this.rows[this.cursor.row];
    if (!row) return;
    const said = get("said");
    if (row.kind === "queue") {
      said.textContent = `Queue ${row.name}, ${count(row.lanes, "workload")}, ${this.folded.has(row.q) ? "folded" : "unfolded"}. Enter folds or unfolds it.`;
      return;
    }
    const marks = this.marks(row.w);
    const mark = marks[this.cursor.mark];
    const what = mark ? `${exact(mark.at)}: ${mark.kind === "stop" ? `stopped by ${this.m.name(this.m.r.decisions[mark.d].w)}` : headline(this.m, this.m.r.decisions[mark.d])}. ${this.cursor.mark + 1} of ${marks.length}.` : "";
    said.textContent = `${this.m.name(row.w)}${this.m.queue(row.w) && `, queue ${this.m.queue(row.w)}`}. ${what}`;
  }
}

function surface(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const scale = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const g = canvas.getContext("2d")!;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

function line(g: CanvasRenderingContext2D, x: number, from: number, to: number): void {
  g.beginPath();
  g.moveTo(x, from);
  g.lineTo(x, to);
  g.stroke();
}

function arrow(g: CanvasRenderingContext2D, x: number, from: number, to: number): void {
  const bend = Math.min(Math.abs(to - from) / 4, 18);
  const down = Math.sign(to - from);
  const end = to - down * 6;
  g.beginPath();
  g.moveTo(x, from);
  g.quadraticCurveTo(x + bend, (from + to) / 2, x, end);
  g.stroke();
  g.beginPath();
  g.moveTo(x, to - down * 1);
  g.lineTo(x - 4, to - down * 9);
  g.lineTo(x + 4, to - down * 9);
  g.fill();
}

function ring(g: CanvasRenderingContext2D, x: number, y: number, colour: string): void {
  g.strokeStyle = colour;
  g.lineWidth = 2;
  g.beginPath();
  g.arc(x, y, 9, 0, 7);
  g.stroke();
}

// sign draws a mark; each kind has a shape of its own as well as a colour.
function sign(g: CanvasRenderingContext2D, kind: Mark["kind"], x: number, y: number, colour: (n: string) => string): void {
  g.lineWidth = 2;
  g.beginPath();
  switch (kind) {
    case "took":
      g.fillStyle = colour("took");
      g.arc(x, y, 5, 0, 7);
      g.fill();
      break;
    case "stop":
      g.fillStyle = colour("stop");
      g.fillRect(x - 2, y - 8, 4, 16);
      break;
    case "reserved":
      g.strokeStyle = colour("took");
      g.fillStyle = colour("surface");
      g.moveTo(x, y - 6);
      g.lineTo(x + 6, y);
      g.lineTo(x, y + 6);
      g.lineTo(x - 6, y);
      g.closePath();
      g.fill();
      g.stroke();
      break;
    case "none":
      g.strokeStyle = colour("wait");
      g.fillStyle = colour("surface");
      g.arc(x, y, 4, 0, 7);
      g.fill();
      g.stroke();
      break;
    case "fail":
      g.strokeStyle = colour("stop");
      g.moveTo(x - 4, y - 4);
      g.lineTo(x + 4, y + 4);
      g.moveTo(x + 4, y - 4);
      g.lineTo(x - 4, y + 4);
      g.stroke();
  }
}
