// Looks at a live page in a headless Chromium, as a person, a screen reader and a keyboard would.
//
//   node live.mjs MODULES CHROMIUM URL TOKEN FOLDER
//
// MODULES has puppeteer-core and axe-core. Says `kill` on a line when a box is to be killed, and waits for a line; then what it found, as JSON. Pictures go
// to FOLDER.
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

const [modules, chromium, url, token, folder] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { page, complaints, look, whole, picture, close } = await open(modules, chromium, folder, (asked) => asked.startsWith(url) || asked.startsWith("data:"));

const said = {};
const until = (what, ...words) => page.waitForFunction(what, { timeout: 60000, polling: 50 }, ...words);
const metric = async (name) => {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(text.split("\n").find((line) => line.startsWith(`${name} `))?.split(" ")[1]);
};

await page.setViewport({ width: 1440, height: 1000 });
await page.goto(`${url}/live`);

// The path and the members are there, and figures are those of /metrics.
await until(() => document.querySelectorAll(".hop").length >= 5 && document.querySelectorAll("[data-member]").length === 4);
await until(() => document.querySelectorAll("#tuned tbody tr").length > 20);
said.hops = await page.$$eval(".hop h4", (all) => all.map((one) => one.textContent));
const items = await metric("millrace_kv_items");
assert.ok(items > 0);
await until((items) => document.querySelector('[data-sample="millrace_kv_items"] td')?.textContent === String(items), items);
await until((items) => [...document.querySelectorAll(".hop")].some((hop) => hop.querySelector("h4").textContent === "store" && hop.textContent.includes(`items${items}`)), items);
await until(() => [...document.querySelectorAll(".hop.busy b")].length >= 3);
await until(() => document.querySelector("#state").textContent === "ready");

// Without the token nothing can be set; with it a register that is moved here moves there, and back.
const row = (name) => `xpath///tr[th/code[.="${name}"]]`;
const box = async () => (await page.$(row("net.idle_timeout"))).$('input[type="text"]');
assert.ok(await (await box()).evaluate((input) => input.disabled));
await page.type("#filter", "net.idle_timeout");
await until(() => [...document.querySelectorAll("#tuned details[open] tbody tr")].filter((row) => !row.hidden).length === 1);
await page.type("#token", token);
await page.click("#token-form button");
await until(() => [...document.querySelectorAll("#tuned tr")].some((row) => row.textContent.startsWith("net.idle_timeout") && !row.querySelector("input").disabled));
// A list that was asked for before something is set arrives after it.
await page.evaluate(() => {
  const { fetch } = window;
  window.late = [];
  window.fetch = async (...what) => {
    const answer = await fetch(...what);
    if (what[0] === "/registers" && window.late) await new Promise((go) => window.late.push(go));
    return answer;
  };
});
await until(() => window.late.length > 0);
const input = await box();
await input.evaluate((input) => input.focus());
await page.keyboard.down("Control");
await page.keyboard.press("a");
await page.keyboard.up("Control");
await page.keyboard.type("777");
await page.keyboard.press("Enter");
await until(() => document.querySelector("#undo code")?.textContent === "net.idle_timeout");
const there = async () => (await (await fetch(`${url}/registers/net.idle_timeout`)).json()).value;
assert.equal(await there(), "777");
await page.evaluate(() => {
  window.late.forEach((go) => go());
  window.late = undefined;
  return new Promise((go) => setTimeout(go, 50));
});
await page.click("#undo button");
await until(() => !document.querySelector("#undo code"));
assert.equal(await there(), "0");
// What is no value is refused, and said.
await (await box()).evaluate((input) => {
  input.value = "soon";
  input.dispatchEvent(new Event("change"));
});
await until(() => document.querySelector("#problem").textContent.includes("soon"));
assert.equal(await there(), "0");

// Filters.
const filter = (words) => page.$eval("#filter", (input, words) => {
  input.value = words;
  input.dispatchEvent(new Event("input"));
}, words);
await filter("idle");
said.found = await page.$$eval("#tuned tbody tr", (all) => all.filter((row) => !row.hidden).length);
assert.ok(said.found >= 1 && said.found < 20, `${said.found} registers speak of idle`);
await filter("");
assert.equal(await page.$$eval("#tuned details[open]", (all) => all.length), 0);

// The curves of the last hour.
await until(() => document.querySelectorAll("#charts figure").length >= 3);
// A latency is two lines, told apart by their pattern as well.
await until(() => document.querySelectorAll("#charts svg path.line.upper").length >= 1);
const latency = await page.$$eval("#charts figure", (all) => all.filter((one) => one.querySelector("path.upper")).map((one) => [one.querySelectorAll("path.line").length, one.querySelector("b").textContent]));
for (const [lines, now] of latency) {
  assert.equal(lines, 2);
  const [p50, p99] = /^p50 (\S+ ?\S+), p99 (\S+ ?\S+)$/.exec(now).slice(1);
  assert.ok(p50 && p99, now);
}
said.latencies = latency.length;
said.curves = await page.$$eval("#charts svg", (all) => all.map((one) => one.getAttribute("aria-label")));

// Pictures, and what axe says of each: nothing may be wrong.
said.axe = await look(async (at) => {
  await new Promise((done) => setTimeout(done, 1200));
  await page.screenshot({ path: picture(`live-${at}`), fullPage: false });
  await whole(`live-${at}-whole`);
});

// Everything can be reached by keys, and what has the focus is visible.
await page.setViewport({ width: 1440, height: 1000 });
await page.goto(`${url}/live`);
await until(() => document.querySelectorAll("[data-member]").length === 4);
await page.keyboard.press("Tab");
assert.equal(await page.evaluate(() => document.activeElement.textContent), "Go to the path");

// A box is killed: its row turns red.
console.log("kill");
await lines.next();
const begun = Date.now();
await until(() => document.querySelector('tr.failed[data-member="box:1"]'));
said.red_ms = Date.now() - begun;
await until(() => document.querySelector("#news").textContent.includes("box:1 is silent"));
await until(() => [...document.querySelectorAll(".hop.failed h4")].some((hop) => hop.textContent === "boxes"));
await page.screenshot({ path: picture("live-killed"), fullPage: false });

assert.deepEqual(complaints.filter((text) => !text.includes("400 (Bad Request)")), []);
console.log(JSON.stringify(said));
await close();
process.exit(0);
