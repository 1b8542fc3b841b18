// Opens the page in a real browser: how it looks is seen in shots/, which are for people.
//
// KUBECTL_REPRIEVE is the command that writes the pages, ../bin/kubectl-reprieve by default; CHROMIUM is the browser.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { lines, usage } from "./log.mjs";
import { cluster, scheduler } from "./servers.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const command = process.env.KUBECTL_REPRIEVE ?? join(here, "..", "..", "bin", "kubectl-reprieve");
const executablePath = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const axe = readFileSync(join(here, "..", "node_modules", "axe-core", "axe.min.js"), "utf8");
const shots = join(here, "shots");
const dir = mkdtempSync(join(tmpdir(), "reprieve-page-"));
let browser;

const snapshot = {
  apiVersion: "snapshot.reprieve.dev/v1", kind: "ClusterSnapshot", taken: "2026-03-02T08:00:00Z", counts: { "queues.reprieve.dev": 5 },
  objects: { "queues.reprieve.dev": [["research"], ["research-vision", "research"], ["research-language", "research"], ["serving"], ["batch-nightly"]].map(([name, parent]) => (
    { apiVersion: "reprieve.dev/v1alpha1", kind: "Queue", metadata: { name, uid: name }, spec: { parent, quota: { "nvidia.com/gpu": "64" } } })) },
};

function write(name, decisions, ...args) {
  const log = join(dir, `${name}.jsonl`);
  const page = join(dir, `${name}.html`);
  writeFileSync(log, lines(decisions) + usage() + '{"schema":"reprieve.dev/decision/v1","ti\n');
  execFileSync(command, ["report", log, "-o", page, ...args]);
  return pathToFileURL(page).href;
}

let small, large;
before(async () => {
  assert.ok(executablePath, "no Chromium found: install one, or set CHROMIUM");
  mkdirSync(shots, { recursive: true });
  writeFileSync(join(dir, "cluster.json"), JSON.stringify(snapshot));
  small = write("small", 120, "--snapshot", join(dir, "cluster.json"));
  large = write("large", 10_000);
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  rmSync(dir, { recursive: true });
});

// open opens a page that fails the test when it has an error or asks the network for anything.
async function open(t, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, bypassCSP: false, ...options });
  t.after(() => context.close());
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (e) => faults.push(String(e)));
  page.on("console", (m) => m.type() === "error" && faults.push(m.text()));
  page.on("request", (r) => !r.url().startsWith("file:") && !r.url().startsWith("data:") && !r.url().startsWith("http://127.0.0.1") && faults.push(r.url()));
  await page.goto(url);
  await page.waitForFunction(() => performance.getEntriesByName("reprieve-drawn").length > 0);
  return { page, faults };
}

async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert.deepEqual(found.violations.map((v) => `${what}: ${v.id}: ${v.nodes.map((n) => n.target + " " + n.failureSummary).slice(0, 3).join("; ")}`), []);
}

for (const colorScheme of ["light", "dark"]) {
  test(`the page is accessible in ${colorScheme}, and so is the panel`, async (t) => {
    const { page, faults } = await open(t, small, { colorScheme });
    await page.screenshot({ path: join(shots, `${colorScheme}.png`), fullPage: true });
    await accessible(page, colorScheme);
    await page.locator("#decisions-body tbody th a").first().click();
    await page.locator("#panel").waitFor();
    await page.evaluate(() => scrollTo(0, 0));
    await page.waitForFunction(() => scrollY === 0);
    await page.screenshot({ path: join(shots, `${colorScheme}-panel.png`) });
    await accessible(page, `${colorScheme} with the panel`);
    assert.deepEqual(faults, []);
  });
}

test("queues over time: a chart and numbers for each, by resource", async (t) => {
  const { page, faults } = await open(t, small);
  const rows = page.locator("#usage-body tbody tr");
  assert.deepEqual(await rows.locator("th").allTextContents(), ["batch-nightly", "research", "research-language", "research-vision", "serving"]);
  assert.match(await rows.nth(1).locator("svg").getAttribute("aria-label"), /^research: \d+ at the end, [\d.]+ on average, \d+ at most, of a quota of 64$/);
  assert.ok((await rows.nth(1).locator("svg path.over").getAttribute("d")).length > 100, "nothing is drawn");
  assert.match(await page.textContent("#usage-help"), /^nvidia.com\/gpu from 2026-03-02 08:/);
  await page.selectOption("#usage-resource", "cpu");
  assert.match(await rows.nth(1).locator("svg").getAttribute("aria-label"), /of a quota of 512$/);
  await page.locator("#usage").screenshot({ path: join(shots, "usage.png") });
  assert.deepEqual(faults, []);
});

test("a log that does not have what queues used says so", async (t) => {
  const log = join(dir, "bare.jsonl");
  writeFileSync(log, lines(20));
  execFileSync(command, ["report", log, "-o", join(dir, "bare.html")]);
  const { page } = await open(t, pathToFileURL(join(dir, "bare.html")).href);
  assert.match(await page.textContent("#usage-body"), /--decision-log-inputs=redacted/);
});

test("a narrow screen", async (t) => {
  const { page, faults } = await open(t, small, { viewport: { width: 420, height: 800 } });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it is wider than the screen");
  await page.screenshot({ path: join(shots, "narrow.png") });
  await accessible(page, "narrow");
  assert.deepEqual(faults, []);
});

test("colours are chosen, and kept", async (t) => {
  const { page } = await open(t, small, { colorScheme: "light" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.selectOption("#theme", "dark");
  assert.notEqual(await ground(), light);
  await page.reload();
  assert.notEqual(await ground(), light);
});

test("the keyboard goes from decision to decision, opens one, and comes back", async (t) => {
  const { page, faults } = await open(t, small);
  await page.focus("#scroller");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  const said = await page.textContent("#said");
  assert.match(said, /^pod(group)? team-/);
  await page.keyboard.press("Enter");
  await page.locator("#panel").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "panel");
  assert.match(await page.textContent("#panel"), /asks for|pod/);
  await page.keyboard.press("Escape");
  await page.locator("#panel").waitFor({ state: "hidden" });
  assert.equal(await page.evaluate(() => document.activeElement.id), "scroller");
  assert.deepEqual(faults, []);
});

test("a click on a mark opens its decision, and the link to it opens it again", async (t) => {
  const { page } = await open(t, small);
  const box = await page.locator("#canvas").boundingBox();
  // The marks are pixels: the pointer says when it is on one.
  let at;
  for (let y = 50; y < box.height && !at; y += 12) {
    for (let x = 260; x < box.width && !at; x += 10) {
      await page.mouse.move(box.x + x, box.y + y);
      if (await page.evaluate(() => document.getElementById("canvas").style.cursor === "pointer")) at = [box.x + x, box.y + y];
    }
  }
  assert.ok(at, "no mark is found");
  await page.mouse.click(...at);
  await page.locator("#panel").waitFor();
  const title = await page.textContent("#panel-h");
  const link = page.url();
  assert.match(link, /#.*decision=/);
  const again = await open(t, link);
  assert.equal(await again.page.textContent("#panel-h"), title);
});

test("a search leaves what has the name", async (t) => {
  const { page } = await open(t, small);
  const name = (await page.textContent("#decisions-body tbody tr td a")).split("/")[1];
  await page.fill("#search", name);
  await page.waitForFunction((n) => [...document.querySelectorAll("#labels .lane")].every((e) => e.textContent.includes(n)) && location.hash.includes(n), name);
  const again = await open(t, page.url());
  assert.equal(await again.page.inputValue("#search"), name);
  await page.fill("#search", "no such name");
  await page.getByText("No decision is about that name.").waitFor();
});

test("names are text and never markup", async (t) => {
  const log = join(dir, "evil.jsonl");
  writeFileSync(log, lines(30).replaceAll(/train-/g, "</script><img src=x onerror=alert(1)>"));
  execFileSync(command, ["report", log, "-o", join(dir, "evil.html")]);
  const { page, faults } = await open(t, pathToFileURL(join(dir, "evil.html")).href);
  assert.equal(await page.locator("img").count(), 0);
  assert.deepEqual(faults, []);
});

test("10,000 decisions open in under two seconds", async (t) => {
  const { page, faults } = await open(t, large);
  const took = await page.evaluate(() => performance.getEntriesByName("reprieve-drawn")[0].startTime);
  t.diagnostic(`10,000 decisions are drawn after ${Math.round(took)} ms`);
  await page.screenshot({ path: join(shots, "large.png") });
  assert.ok(took < 2000, `it took ${took} ms`);
  assert.deepEqual(faults, []);
});

// serve starts ui with some arguments, and returns the URL that it prints.
async function serve(t, ...args) {
  const ui = spawn(command, ["ui", ...args]);
  t.after(() => ui.kill("SIGINT"));
  let said = "";
  ui.stderr.on("data", (text) => (said += text));
  return new Promise((resolve, reject) => {
    ui.stdout.on("data", (text) => resolve(String(text).match(/http:\S+/)[0]));
    ui.on("exit", () => reject(new Error(`ui ended: ${said}`)));
  });
}

const object = (apiVersion, kind, namespace, name, more = {}) => ({ apiVersion, kind, ...more, metadata: { namespace, name, uid: `uid-${name}`, creationTimestamp: "2026-03-02T08:00:00Z", ...more.metadata } });
const aPod = (name, node, phase, more = {}) => object("v1", "Pod", "team", name, { ...more,
  spec: { schedulerName: "reprieve-scheduler", priority: 10, nodeName: node, containers: [{ name: "c", image: "c", resources: { requests: { cpu: "1", "nvidia.com/gpu": "2" }, limits: { "nvidia.com/gpu": "2" } } }], ...more.spec },
  status: { phase, startTime: node ? "2026-03-02T08:00:00Z" : undefined, ...more.status } });
const aNode = (name) => object("v1", "Node", undefined, name, { spec: {}, status: { allocatable: { cpu: "64", memory: "512Gi", pods: "110", "nvidia.com/gpu": "8" }, capacity: { cpu: "64", memory: "512Gi", pods: "110", "nvidia.com/gpu": "8" } } });
const aQueue = (name, parent, used) => object("reprieve.dev/v1alpha1", "Queue", undefined, name, { spec: { parent, quota: { "nvidia.com/gpu": "8" } }, status: { allocated: { "nvidia.com/gpu": used }, fairShare: { "nvidia.com/gpu": "8" } } });

// busy is a cluster in which a pod was preempted, one runs and one waits.
const busy = {
  "/api/v1/namespaces": [object("v1", "Namespace", undefined, "team")],
  "/api/v1/nodes": [aNode("node-0"), aNode("node-1")],
  "/api/v1/pods": [
    aPod("runs", "node-0", "Running"), aPod("runs-too", "node-1", "Running"),
    aPod("waits", undefined, "Pending", { spec: { priority: 20 }, status: { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/2 nodes are available", lastTransitionTime: "2026-03-02T09:00:00Z" }] } }),
    aPod("taken", "node-1", "Running", { status: { conditions: [{ type: "DisruptionTarget", status: "True", reason: "PreemptionByScheduler", lastTransitionTime: "2026-03-02T09:00:00Z",
      message: "preempted by Pod team/runs-too (priority 1000): LowerPriority, the victim's priority is 10" }] } }),
  ],
  "/apis/reprieve.dev/v1alpha1/queues": [aQueue("org", undefined, "6"), aQueue("team", "org", "6")],
};

// Each way in which docs/report.md and docs/kubectl.md have ui and report started.
const ways = {
  "report FILE... -o report.html": async () => write("way", 40),
  "report FILE.1 FILE, the rotated ones too": async () => {
    const all = lines(40).trimEnd().split("\n");
    const files = [join(dir, "rotated.jsonl.1"), join(dir, "rotated.jsonl")];
    writeFileSync(files[0], all.slice(0, 20).join("\n") + "\n");
    writeFileSync(files[1], all.slice(20).join("\n") + "\n");
    execFileSync(command, ["report", ...files, "-o", join(dir, "rotated.html")]);
    return pathToFileURL(join(dir, "rotated.html")).href;
  },
  "report -": async () => {
    execFileSync(command, ["report", "-", "-o", join(dir, "piped.html")], { input: lines(40) });
    return pathToFileURL(join(dir, "piped.html")).href;
  },
  "report FILE --snapshot FILE": async () => write("planted", 40, "--snapshot", join(dir, "cluster.json")),
  "ui FILE...": async (t) => {
    writeFileSync(join(dir, "served.jsonl"), lines(40));
    return serve(t, join(dir, "served.jsonl"));
  },
  "ui --scheduler URL": async (t) => serve(t, "--scheduler", await scheduler(t, dir, lines(40)), "--kubeconfig", await cluster(t, dir)),
  "ui --scheduler URL, of one that has decided nothing": async (t) => serve(t, "--scheduler", await scheduler(t, dir, ""), "--kubeconfig", await cluster(t, dir)),
  "ui": async (t) => serve(t, "--kubeconfig", await cluster(t, dir, busy)),
  "ui, of a cluster with nothing in it": async (t) => serve(t, "--kubeconfig", await cluster(t, dir)),
};
for (const [way, start] of Object.entries(ways)) {
  test(`a documented way: ${way}`, async (t) => {
    const { page, faults } = await open(t, await start(t));
    // The last section that is drawn.
    await page.waitForFunction(() => document.querySelector("#decisions-body").childElementCount > 0);
    assert.match(await page.textContent("#meta"), /^\d+ decisions?/);
    assert.equal(await page.locator("#tiles .tile").count(), 6);
    await accessible(page, way);
    assert.deepEqual(faults, []);
  });
}

test("the page draws what there is when its data lacks parts, or has them as null", async (t) => {
  const text = readFileSync(new URL(small), "utf8");
  for (const [n, data] of ["null", '{"sources":null,"decisions":null,"workloads":null,"queues":null,"usage":null,"lost":{"byQueue":null}}', '{"schema":"reprieve.dev/report/v1"}'].entries()) {
    const file = join(dir, `bare-${n}.html`);
    writeFileSync(file, text.replace(/(id="data">)[^<]*/, `$1${data}`));
    const { page, faults } = await open(t, pathToFileURL(file).href);
    assert.equal(await page.textContent("#decisions-body"), "There are no decisions.");
    assert.deepEqual(faults, []);
  }
});

// decided is a line about a pod that comes to nothing, or whose room is reserved.
function decided(sequence, name, outcome, message, more = {}) {
  return JSON.stringify({
    schema: "reprieve.dev/decision/v1", time: new Date(Date.UTC(2026, 2, 2, 8, sequence)).toISOString(), process: "p", sequence, profile: "reprieve-scheduler", asks: [], ...more,
    decision: { outcome, preemptor: { namespace: "prod", name, uid: `uid-${name}`, gang: false, priority: 10, queue: "", now: 0 }, reprieved: 0, message, elapsedNanoseconds: 1 }, result: { state: "Waiting" },
  });
}
function waitEnd(sequence, name, end) {
  return JSON.stringify({ schema: "reprieve.dev/wait-end/v1", time: new Date(Date.UTC(2026, 2, 2, 9)).toISOString(), process: "p", sequence, namespace: "prod", name, uid: `uid-${name}`, end });
}

test("a decision that waits is drawn as reserved room, and what was bound or deleted waits no more", async (t) => {
  const log = join(dir, "waits.jsonl");
  writeFileSync(log, [
    decided(1, "bound", "Infeasible", "no room"), decided(2, "gone", "Infeasible", "no room"), decided(3, "stuck", "Infeasible", "needs 8 GPUs"),
    decided(4, "kept", "Waits", "fits once 1 pod is gone", { waitsFor: "waits for prod/old on node-1" }), waitEnd(1, "bound", "Bound"), waitEnd(2, "gone", "Gone"),
  ].join("\n") + "\n");
  execFileSync(command, ["report", log, "-o", join(dir, "waits.html")]);
  const { page, faults } = await open(t, pathToFileURL(join(dir, "waits.html")).href);
  assert.deepEqual(await page.locator(".tile", { hasText: "Waiting at the end" }).locator("dd > *").allTextContents(), ["2", "1 with room reserved"]);
  assert.deepEqual(await page.locator("#waiting-body tbody th").allTextContents(), ["pod prod/stuck", "pod prod/kept"]);
  assert.match(await page.textContent("#waiting-body tr:nth-child(2)"), /room is reserved.*waits for prod\/old on node-1/);
  await page.selectOption("#by-outcome", "reserved");
  assert.deepEqual(await page.locator("#decisions-body tbody tr td:nth-child(2) .cell").allTextContents(), ["pod prod/kept"]);
  await page.selectOption("#by-outcome", "none");
  assert.equal(await page.locator("#decisions-body tbody tr").count(), 3);
  await page.locator("#decisions-body tr", { hasText: "prod/bound" }).locator("th a").click();
  assert.equal(await page.textContent("#wait-end"), "It was bound to its room 59 min later.");
  await page.locator("#timeline").screenshot({ path: join(shots, "waits.png") });
  assert.deepEqual(faults, []);
});

test("filters by outcome, rule and queue go for the timeline and the decisions, and stand in the link", async (t) => {
  const { page } = await open(t, small);
  const count = async () => Number((await page.textContent(".pager span")).match(/of ([\d,]+)/)[1]);
  const all = await count();
  const lanes = await page.locator("#shown").textContent();
  await page.selectOption("#by-rule", "Reclaim");
  const reclaims = await count();
  assert.ok(reclaims > 0 && reclaims < all);
  await page.selectOption("#by-queue", "research");
  const ofResearch = await count();
  assert.ok(ofResearch > 0 && ofResearch < reclaims, "research has what is in the queues below it");
  assert.notEqual(await page.locator("#shown").textContent(), lanes);
  const again = await open(t, page.url());
  assert.equal(await again.page.inputValue("#by-rule"), "Reclaim");
  assert.match(await again.page.textContent(".pager span"), new RegExp(`of ${ofResearch}$`));
  await page.click("#no-filter");
  assert.equal(await count(), all);
  await page.selectOption("#by-outcome", "fail");
  for (const what of await page.locator("#decisions-body tbody td:nth-child(3)").allTextContents()) assert.match(what, /could not carry|gave/);
});

test("pictures: who has which GPUs now and after a plan, what waits, the queues as a tree, and who took from whom", async (t) => {
  const manifest = join(dir, "job.yaml");
  writeFileSync(manifest, JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name: "urgent", namespace: "team" },
    spec: { schedulerName: "reprieve-scheduler", containers: [{ name: "c", image: "c", resources: { limits: { "nvidia.com/gpu": "4" }, requests: { cpu: "1" } } }] } }));
  const { page, faults } = await open(t, await serve(t, "--plan", manifest, "--kubeconfig", await cluster(t, dir, busy)));
  const gpus = (picture) => page.locator(`#map .maps > div:nth-child(${picture}) .gpus`);
  assert.deepEqual(await gpus(1).evaluateAll((all) => all.map((e) => e.getAttribute("aria-label"))),
    ["node-0: 2 pod team/runs, 6 free", "node-1: 2 pod team/runs-too, 2 pod team/taken, 4 free"]);
  const after = await gpus(2).evaluateAll((all) => all.map((e) => e.getAttribute("aria-label")).join("; "));
  assert.match(after, /4 pod team\/urgent/);
  assert.match(await page.textContent("#map .plan"), /urgent.*1 of 1 pod would have a node, 0 pods would be evicted/);
  assert.deepEqual(await page.locator("#waiting-body tbody tr").allTextContents(), ["pod team/waitsSince (UTC)2026-03-02 08:00:00Queue\u2013StateunschedulableWhy0/2 nodes are available"]);
  assert.deepEqual(await page.locator("#waiting-body .causes li").allTextContents(), ["unschedulable1"]);
  assert.deepEqual(await page.locator("#tree-body li > .queue-name b").allTextContents(), ["org", "team"]);
  assert.match(await page.textContent("#tree-body li li"), /^team 6 used, quota 8, fair share 8/);
  await accessible(page, "pictures");
  await page.locator("#map").screenshot({ path: join(shots, "map.png") });
  assert.deepEqual(faults, []);
  const still = await open(t, small, { colorScheme: "dark" });
  assert.equal(await still.page.locator("#map").isHidden(), true);
  const total = async () => (await still.page.locator(".matrix td b").allTextContents()).reduce((n, text) => n + Number(text), 0);
  const stopped = Number((await still.page.textContent(".tile:first-child dd span")).match(/^([\d,]+) pods/)[1].replace(",", ""));
  assert.equal(await total(), stopped, "every pod that was stopped is in one cell");
  await still.page.selectOption("#matrix-by", "priority");
  assert.equal(await total(), stopped);
  assert.deepEqual(await still.page.locator(".matrix thead th").allTextContents(), ["5000", "1000", "100", "10"]);
  await still.page.locator("#matrix").screenshot({ path: join(shots, "matrix.png") });
  await still.page.locator("#tree").screenshot({ path: join(shots, "tree.png") });
});

test("lanes are sorted by what they lost, or by name", async (t) => {
  const { page } = await open(t, small);
  const order = await page.evaluate(() => {
    const r = JSON.parse(document.getElementById("data").textContent);
    const lost = new Map();
    for (const d of r.decisions) if (d.outcome === "Preempts" && d.state === "CarriedOut") for (const v of d.victims) lost.set(v.w, (lost.get(v.w) ?? 0) + v.hours.gpu);
    const q = r.queues.findIndex((q) => q.name === "batch-nightly");
    return r.workloads.map((w, i) => ({ ...w, i })).filter((w) => w.queue === q && lost.has(w.i)).sort((a, b) => lost.get(b.i) - lost.get(a.i)).slice(0, 4).map((w) => `${w.ns}/${w.name}`);
  });
  const shown = () => page.locator("#labels .lane > span").allTextContents();
  assert.ok(order.length > 1);
  assert.deepEqual((await shown()).slice(0, order.length), order);
  await page.selectOption("#sort", "name");
  const first = [...order].sort()[0];
  await page.waitForFunction((first) => document.querySelector("#labels .lane > span").textContent <= first, first);
  const names = (await shown()).filter((n) => n.startsWith("team-batch/"));
  assert.deepEqual(names, [...names].sort((a, b) => a.localeCompare(b, "en")));
});

test("with 900 workloads the arrows do not cover the timeline, and the lane that is pointed at has its own", async (t) => {
  const log = join(dir, "many.jsonl");
  writeFileSync(log, lines(4000, 950));
  execFileSync(command, ["report", log, "-o", join(dir, "many.html")]);
  const { page, faults } = await open(t, pathToFileURL(join(dir, "many.html")).href);
  const drawn = () => page.evaluate(() => Number(document.getElementById("canvas").dataset.arrows));
  assert.equal(await drawn(), 0);
  assert.match(await page.textContent("#arrows"), /^[\d,]+ arrows in view are not drawn/);
  await page.screenshot({ path: join(shots, "many.png") });
  const box = await page.locator("#labels .lane").nth(1).boundingBox();
  await page.mouse.move(600, box.y + box.height / 2);
  await page.waitForFunction(() => Number(document.getElementById("canvas").dataset.arrows) > 0);
  assert.ok(await drawn() < 60);
  assert.deepEqual(faults, []);
});

for (const colorScheme of ["light", "dark"]) {
  test(`a phone, ${colorScheme}: no table breaks its words, with a decision open and without`, async (t) => {
    const { page, faults } = await open(t, small, { viewport: { width: 390, height: 844 }, colorScheme, hasTouch: true });
    // narrowest is the width of the narrowest cell with text in it.
    const narrowest = (within) => page.evaluate((within) => Math.min(...[...document.querySelectorAll(`${within} td .cell, ${within} [role=table] tbody th`)].filter((e) => e.offsetParent && e.textContent.length > 6).map((e) => e.getBoundingClientRect().width)), within);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it is wider than the screen");
    assert.ok(await narrowest("main") >= 180, `a cell is ${await narrowest("main")} px wide`);
    await page.screenshot({ path: join(shots, `phone-${colorScheme}.png`), fullPage: true });
    await accessible(page, "phone");
    await page.locator("#decisions-body tbody th a").first().click();
    await page.locator("#panel").waitFor();
    assert.equal(await page.evaluate(() => document.getElementById("panel").getBoundingClientRect().width), 390);
    await page.screenshot({ path: join(shots, `phone-${colorScheme}-panel.png`) });
    await page.locator("#panel a").first().click();
    await page.locator("#panel table").waitFor();
    assert.ok(await narrowest("#panel") >= 180, `a cell of the panel is ${await narrowest("#panel")} px wide`);
    await page.screenshot({ path: join(shots, `phone-${colorScheme}-workload.png`) });
    await accessible(page, "phone with the panel");
    assert.deepEqual(faults, []);
  });
}

test("a decision open beside the page leaves its columns readable", async (t) => {
  for (const width of [1000, 1180, 1360]) {
    const { page } = await open(t, small, { viewport: { width, height: 900 } });
    await page.locator("#decisions-body tbody th a").first().click();
    await page.locator("#panel").waitFor();
    const least = await page.evaluate(() => Math.min(...[...document.querySelectorAll("main td .cell")].filter((e) => e.offsetParent && e.textContent.length > 40).map((e) => e.getBoundingClientRect().width)));
    assert.ok(least >= 160, `at ${width} px a cell with a sentence is ${least} px wide`);
    await page.locator("#decisions").scrollIntoViewIfNeeded();
    await page.screenshot({ path: join(shots, `beside-${width}.png`) });
  }
});

test("ui shows what is added to its file", async (t) => {
  const log = join(dir, "live.jsonl");
  const all = lines(60).split("\n");
  writeFileSync(log, all.slice(0, 20).join("\n") + "\n");
  const { page, faults } = await open(t, await serve(t, log));
  await page.getByText("20 decisions").waitFor();
  writeFileSync(log, all.join("\n"));
  await page.getByText("60 decisions").waitFor({ timeout: 40_000 });
  await accessible(page, "live");
  assert.deepEqual(faults, []);
});
