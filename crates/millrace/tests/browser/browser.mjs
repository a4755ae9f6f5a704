// A headless Chromium with one page in it, and what a page of ours must keep: what axe wants, its width, and that its texts can be read.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/// Opens a browser. `modules` has puppeteer-core and axe-core; pictures go to `folder`; `mayAsk` says of an address whether the page may ask for it.
export async function open(modules, chromium, folder, mayAsk) {
  const require = createRequire(join(modules, "here.js"));
  const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  mkdirSync(folder, { recursive: true });
  const options = { executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"], headless: true };
  const browser = await require("puppeteer-core").launch(options);
  const page = await browser.newPage();
  // What the console said, what failed, and whom else the page asked.
  const complaints = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => mayAsk(request.url()) || complaints.push(`it asks ${request.url()}`));

  /// A picture of the page, of no more of it than Chromium can draw.
  const whole = async (name) => {
    const [width, height] = await page.evaluate(() => [innerWidth, document.documentElement.scrollHeight]);
    await page.screenshot({ path: picture(name), clip: { x: 0, y: 0, width, height: Math.min(height, 12000) } });
  };

  /// Looks at the page at two widths, in light and dark: `take` takes pictures of it for a name. How many rules of axe it keeps.
  const look = async (take) => {
    const wrong = [];
    let passes = 0;
    for (const [width, scheme] of [[1440, "light"], [1440, "dark"], [400, "light"], [400, "dark"]]) {
      const complain = (what) => wrong.push(`${width} px, ${scheme}: ${what}`);
      await page.setViewport({ width, height: 1000 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await take(`${width}-${scheme}`);
      await page.setBypassCSP(true);
      await page.evaluate(axe);
      const result = await page.evaluate(() => window.axe.run());
      for (const one of result.violations) complain(`${one.id}, ${one.nodes.length} times: ${one.nodes.map((node) => node.target).slice(0, 3).join(", ")}`);
      (await page.evaluate(unreadable)).forEach(complain);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (overflow) complain(`the page is ${overflow} px wider than the screen`);
      passes = result.passes.length;
    }
    if (wrong.length) throw new Error(wrong.join("\n  "));
    return passes;
  };
  const picture = (name) => join(folder, `${name}.png`);
  return { page, complaints, look, whole, picture, close: () => browser.close() };
}

/// Texts of drawings that cannot be read: cut off by their drawing's edge, on one another, too pale for what is behind them. A line for each. (axe looks at no
/// text in SVG.)
function unreadable() {
  const found = [];
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const lightness = (colour) => {
    const [red, green, blue] = parts(colour).map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return parts(colour)[3] === 0 && element.parentElement ? behind(element.parentElement) : colour;
  };
  for (const svg of document.querySelectorAll("svg")) {
    const edge = svg.getBoundingClientRect();
    const areas = [...svg.querySelectorAll("rect")].map((one) => one.getBoundingClientRect());
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim() && text.getBoundingClientRect().width);
    const boxes = texts.map((text) => {
      const { left, right, top, bottom } = text.getBoundingClientRect();
      // Letters have room above and below them: a box without it.
      const room = (bottom - top) / 4;
      return { said: text.textContent, fill: getComputedStyle(text).fill, left, right, top: top + room, bottom: bottom - room };
    });
    boxes.forEach((one, at) => {
      if (one.left < edge.left - 1 || one.right > edge.right + 1 || one.top < edge.top - 1 || one.bottom > edge.bottom + 1) {
        found.push(`cut: ${one.said}`);
      }
      for (const other of boxes.slice(at + 1)) {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (across > 1 && down > 1) found.push(`on one another: ${one.said} | ${other.said}`);
      }
      // What stands on an area of the drawing has another ground.
      if (areas.some((area) => area.left < one.right && one.left < area.right && area.top < one.bottom && one.top < area.bottom)) return;
      const [low, high] = [lightness(one.fill), lightness(behind(svg))].sort((a, b) => a - b);
      const contrast = (high + 0.05) / (low + 0.05);
      if (contrast < 4.5) found.push(`pale, ${contrast.toFixed(1)}: ${one.said}`);
    });
  }
  return found;
}
