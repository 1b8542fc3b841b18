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

test("ui shows what is added to its file", async (t) => {
  const log = join(dir, "live.jsonl");
  const all = lines(60).split("\n");
  writeFileSync(log, all.slice(0, 20).join("\n") + "\n");
  const ui = spawn(command, ["ui", log]);
  t.after(() => ui.kill("SIGINT"));
  const url = await new Promise((resolve, reject) => {
    ui.stdout.on("data", (text) => resolve(String(text).match(/http:\S+/)[0]));
    ui.on("exit", () => reject(new Error("ui ended")));
  });
  const { page, faults } = await open(t, url);
  await page.getByText("20 decisions").waitFor();
  writeFileSync(log, all.join("\n"));
  await page.getByText("60 decisions").waitFor({ timeout: 40_000 });
  await accessible(page, "live");
  assert.deepEqual(faults, []);
});
