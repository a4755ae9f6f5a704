// Moves the numbers of a plan's page in a headless Chromium, by keys.
//
//   node sliders.mjs MODULES CHROMIUM PAGE FOLDER
//
// MODULES has puppeteer-core and axe-core. Prints as JSON which number of the first machine it moved to which value, and what the page says then. Pictures
// go to FOLDER.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

const [modules, chromium, file, folder] = process.argv.slice(2);
const { page, complaints, look, picture, close } = await open(modules, chromium, folder, (url) => url === `file://${file}`);
await page.goto(`file://${file}`);

const rows = () => page.$$eval(".sliders tbody tr", (all) => all.map((one) => ({ machine: one.dataset.machine, most: Number(one.dataset.most), p99: Number(one.dataset.p99), text: one.textContent })));
const words = (slider) => slider.evaluate((input) => [input.getAttribute("aria-label"), input.dataset.value]);
const asked = await rows();
assert.ok(asked.length >= 1 && asked.every((row) => row.most > 0 && row.p99 > 0), JSON.stringify(asked));
assert.ok((await page.$$(".sliders svg path.line")).length > 5);

// The load: the line, the table's heading and the figures move with it. (Which load is served sooner is the machine's: threads without work sleep.)
const [rate, ...others] = await page.$$(".sliders input");
const line = () => page.$eval(".sliders svg .chosen", (one) => Number(one.getAttribute("x1")));
const heading = () => page.$eval(".sliders caption", (one) => one.textContent);
const before = [await line(), await heading(), asked[0].p99];
await rate.press("Home");
const after = [await line(), await heading(), (await rows())[0].p99];
assert.ok(after[0] < before[0] && after[1] !== before[1] && after[2] > 0 && after[2] !== before[2], `${before} and ${after}`);
await rate.press("End");
assert.ok((await rows()).every((row) => row.text.includes("cannot serve so much")), "the highest load is beyond all of them");
await rate.evaluate((input, load) => {
  input.value = load;
  input.dispatchEvent(new Event("input"));
}, Math.round(Number(await rate.evaluate((input) => input.max)) / 2));

// The first number of the first machine, to its lower end.
const own = (await page.$$(".sliders fieldset:nth-of-type(2) input"))[0];
await own.press("Home");
const [label, value] = await words(own);
const [moved] = await rows();
assert.ok(others.length >= 2);

await look(async (at) => (await page.$(".sliders")).screenshot({ path: picture(`sliders-${at}`) }));
assert.deepEqual(complaints, []);
console.log(JSON.stringify({ number: label.split(",")[0], value, most: moved.most, asked: asked[0].most }));
await close();
