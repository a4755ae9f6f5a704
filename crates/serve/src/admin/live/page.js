// The live page: asks its server every half second while somebody looks, and draws what it says.
import { Pages, bytes, count, element, percent, rate, time } from "/live/metrics.js";
import { members, paths, withMembers } from "/live/hops.js";
import { Tuner } from "/live/registers.js";
import * as requests from "/live/requests.js";
import * as hour from "/live/history.js";

const INTERVAL_MS = 500;
const part = (id) => document.getElementById(id);
const pages = new Pages();
let [cluster, clusterBefore, isInCluster] = [undefined, undefined, true];
let [isPaused, isReady, failedBefore] = [false, undefined, new Set()];

/// Said to screen readers, too.
const say = (text) => part("news").replaceChildren(element("p", {}, text));
const tuner = new Tuner({ form: part("token-form"), token: part("token"), filter: part("filter"), changed: part("changed"), problem: part("problem"), undo: part("undo"), table: part("tuned") }, say);

function state(kind, text) {
  const badge = part("state");
  if (badge.textContent === text) return;
  badge.className = `badge ${kind}`;
  badge.textContent = text;
}

function hop(one) {
  const facts = [
    ...(one.p50 === undefined ? [] : [["p50", time(one.p50)]]), ...(one.p99 === undefined ? [] : [["p99", time(one.p99)]]),
    ...(one.share === undefined ? [] : [[one.shareWord, percent(one.share)]]), ...one.facts,
  ];
  const list = element("dl", {}, facts.flatMap(([word, value]) => [element("dt", {}, word), element("dd", {}, value)]));
  const why = one.failed ? [element("p", { class: "bad" }, one.failed)] : [];
  const title = one.about ?? one.name;
  return element("li", { class: `hop${one.failed ? " failed" : one.rate > 0.05 ? " busy" : ""}`, title }, element("h4", {}, one.name), element("b", {}, rate(one.rate)), list, why);
}

function methods(list) {
  const head = ["method", "rate", "p50", "p99", ""].map((word, at) => element("th", { scope: "col", class: at && at < 4 ? "number" : undefined }, word));
  const rows = list.map((one) => element("tr", {}, element("th", { scope: "row" }, element("code", {}, one.about)), ...[rate(one.rate), time(one.p50), time(one.p99)].map((text) => element("td", { class: "number" }, text)),
    element("td", {}, one.facts.map(([word, value]) => `${word} ${value}`).join(", "))));
  return element("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "methods" }, element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)));
}

function drawPaths(all) {
  const drawn = paths(pages).flatMap(({ service, title, hops }) => {
    const parts = hops.filter((one) => !one.isMethod);
    const own = title === "memcached" ? withMembers(parts, all) : parts;
    const called = hops.filter((one) => one.isMethod);
    return [element("h3", {}, service ? `${service} (${title})` : title), element("ol", { class: "hops" }, own.map(hop)), ...(called.length ? [methods(called)] : [])];
  });
  part("paths").replaceChildren(...(drawn.length ? drawn : [element("p", { class: "soft" }, "This server answers no requests of clients; what it counts is below.")]));
}

function drawMembers(all) {
  if (all.length === 0) {
    part("members").replaceChildren(element("p", { class: "soft" }, "This server is in no cluster that a file describes."));
    return;
  }
  const columns = ["member", "state", "role", "rate", "epoch", "lease", "address", "counted"];
  const head = element("thead", {}, element("tr", {}, columns.map((word) => element("th", { scope: "col" }, word))));
  const rows = all.map((one) => element("tr", { class: one.isFailed ? "failed" : undefined, "data-member": one.name }, element("th", { scope: "row" }, one.name),
    ...[one.why ? `${one.state}: ${one.why}` : one.state, one.role, one.rate === undefined ? "" : rate(one.rate), one.epoch ?? "", one.lease ?? "", one.address ?? "", one.figures ?? ""].map((text) => element("td", {}, String(text)))));
  const verdict = cluster ? [element("p", { class: cluster.code === 0 ? "good" : "bad" }, cluster.verdict)] : [];
  const todo = (cluster?.problems ?? []).map((problem) => element("li", {}, `${problem.about}: ${problem.what}`, ...(problem.todo ? [element("small", { class: "soft" }, ` ${problem.todo}`)] : [])));
  part("members").replaceChildren(...verdict, ...(todo.length ? [element("ul", {}, todo)] : []),
    element("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "members" }, element("table", {}, head, element("tbody", {}, rows))));
  const failed = new Set(all.filter((one) => one.isFailed).map((one) => one.name));
  const news = [...[...failed].filter((name) => !failedBefore.has(name)).map((name) => `${name} is silent`), ...[...failedBefore].filter((name) => !failed.has(name)).map((name) => `${name} is back`)];
  failedBefore = failed;
  if (news.length) say(news.join(", "));
}

function drawServices() {
  const rows = paths(pages).map(({ service, title }) => {
    const prefix = service ? `${service}.` : "";
    const placed = [...tuner.rows.values()].filter(({ row }) => row.name.startsWith(`${prefix}place.`) || row.name === `${prefix}engine.mode` || row.name === `${prefix}engine.form`);
    return element("tr", {}, element("th", { scope: "row" }, service ?? "(the only one)"), element("td", {}, title),
      element("td", {}, placed.flatMap(({ row }, at) => [at ? ", " : "", element("code", {}, row.name.slice(prefix.length)), ` ${row.value}`])));
  });
  const head = element("thead", {}, element("tr", {}, ["service", "speaks", "where it runs"].map((word) => element("th", { scope: "col" }, word))));
  part("services").replaceChildren(element("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "services" }, element("table", {}, head, element("tbody", {}, rows))));
}

function drawSamples() {
  const wanted = part("metric").value.toLowerCase();
  const rows = [];
  for (const [name, samples] of pages.newest?.samples ?? []) {
    if (!name.toLowerCase().includes(wanted) || name.endsWith("_bucket") || name === "millrace_register") continue;
    for (const { labels, value } of samples) {
      const shown = Object.entries(labels).map(([label, value]) => `${label}="${value}"`).join(", ");
      rows.push(element("tr", { "data-sample": shown ? `${name}{${shown.replaceAll(", ", ",")}}` : name }, element("th", { scope: "row", title: pages.newest.helps.get(name) }, element("code", {}, shown ? `${name}{${shown}}` : name)), element("td", { class: "number" }, String(value))));
    }
  }
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "metric"), element("th", { scope: "col", class: "number" }, "value")));
  const table = element("table", {}, head, element("tbody", {}, rows));
  // Drawn anew, it stays where it was scrolled to.
  const at = part("samples").scrollTop;
  part("samples").replaceChildren(table);
  part("samples").scrollTop = at;
}

async function askCluster() {
  if (!isInCluster) return;
  const answer = await fetch("/cluster").catch(() => undefined);
  if (answer?.status === 404) isInCluster = false;
  if (answer?.ok) {
    const told = { ...(await answer.json()), time: performance.now() };
    // Rates are of three seconds, as those of the path are.
    if (!clusterBefore || told.time - clusterBefore.time > 3000) clusterBefore = cluster ?? told;
    cluster = told;
  } else cluster = undefined;
}

async function turn() {
  const [answer, ready] = await Promise.all([fetch("/metrics").catch(() => undefined), fetch("/readyz").catch(() => undefined), askCluster()]);
  if (!answer?.ok) {
    state("bad", answer ? `status ${answer.status}` : "the server does not answer");
    return;
  }
  pages.add(await answer.text(), performance.now() / 1000);
  isReady = ready?.ok;
  state(isReady ? "good" : "late", isReady ? "ready" : ((await ready?.text()) ?? "not ready").trim());
  const version = pages.of("millrace_build_info")[0]?.labels.version ?? "";
  const up = Date.now() / 1000 - pages.value("process_start_time_seconds");
  part("about").textContent = `version ${version} · up ${up >= 3600 ? `${Math.floor(up / 3600)} h ${Math.floor((up % 3600) / 60)} min` : up >= 60 ? `${Math.floor(up / 60)} min` : `${Math.floor(up)} s`} · ${bytes(pages.value("process_resident_memory_bytes"))} · ${count(pages.rate("process_cpu_seconds_total"))} processors`;
  const all = members(pages, cluster, clusterBefore === cluster ? undefined : clusterBefore);
  drawPaths(all);
  drawMembers(all);
}

/// Calls again and again, one after the other, while the page is seen and not paused.
async function every(milliseconds, work) {
  for (;;) {
    if (!isPaused && !document.hidden) await work().catch((error) => state("bad", String(error)));
    await new Promise((done) => setTimeout(done, milliseconds));
  }
}

part("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  part("pause").textContent = isPaused ? "Go on" : "Pause";
  part("pause").setAttribute("aria-pressed", String(isPaused));
});
part("metric").addEventListener("input", drawSamples);
document.title = `millrace at ${location.host}`;
part("title").textContent = `millrace at ${location.host}`;
every(INTERVAL_MS, turn);
every(2000, async () => drawSamples());
every(3000, async () => {
  await tuner.load();
  drawServices();
});
every(5000, () => requests.show(part("slow")));
every(10000, () => hour.show(part("charts")));
