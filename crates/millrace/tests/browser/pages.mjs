// Looks at pages in files in a headless Chromium, each at two widths in light and dark.
//
//   node pages.mjs MODULES CHROMIUM FOLDER PAGE…
//
// MODULES has puppeteer-core and axe-core. Prints as JSON how many rules of axe each page keeps; fails with all that is wrong with any of them. Pictures go to
// FOLDER.
import { statSync } from "node:fs";
import { basename } from "node:path";
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

const [modules, chromium, folder, ...files] = process.argv.slice(2);
/// Bytes of a page: what a mail takes, and a phone shows.
const LONGEST = 2 << 20;

const { page, complaints, look, whole, close } = await open(modules, chromium, folder, (url) => files.some((file) => url === `file://${file}`));
const [said, wrong] = [{}, []];
for (const file of files) {
  const name = basename(file, ".html");
  const check = async (what) => {
    try {
      await what();
    } catch (error) {
      wrong.push(`${name}: ${error.message}`);
    }
  };
  await check(() => assert.ok(statSync(file).size <= LONGEST, `${statSync(file).size} bytes`));
  await page.setViewport({ width: 1440, height: 1000 });
  await page.goto(`file://${file}`);
  // What is folded is looked at, too.
  await page.$$eval("details", (all) => all.forEach((one) => (one.open = true)));
  await check(async () => {
    said[name] = await look((at) => whole(`${name}-${at}`));
  });
  await check(() => assert.deepEqual(complaints.splice(0), []));
}
await close();
if (wrong.length) throw new Error(wrong.join("\n"));
console.log(JSON.stringify(said));
