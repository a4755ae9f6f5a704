// The last hour as curves: what the server kept every ten seconds.
import { bytes, count, drawn, element, percent, time } from "/live/metrics.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [380, 120, 58, 16];

const sum = (lists) => lists.length && lists[0].map((_, at) => lists.reduce((all, list) => (list[at] === null ? all : (all ?? 0) + list[at]), null));
const ratio = (above, below) => above && below && above.map((value, at) => (value === null || !(below[at] > 0) ? null : value / below[at]));

/// Curves that say something of any server, and those of its services.
function curves(series) {
  const names = Object.keys(series);
  const all = (prefix, ...labels) => sum(names.filter((name) => name.split("{")[0] === prefix && labels.every((label) => name.includes(label))).map((name) => series[name]));
  const rate = (value) => `${count(value)}/s`;
  const hits = all("millrace_kv_command_outcomes_total", 'command="get"', 'outcome="hit"');
  const gets = all("millrace_kv_command_outcomes_total", 'command="get"');
  const boxHits = all("millrace_inc_events_total", 'event="hits"');
  const boxGets = sum([boxHits, all("millrace_inc_events_total", 'event="misses"')].filter(Boolean));
  const mean = (name, ...labels) => ratio(all(`${name}_sum`, ...labels), all(`${name}_count`, ...labels));
  return [
    ["memcached requests", all("millrace_kv_requests_total"), rate],
    ["hits of gets", ratio(hits, gets), percent],
    ["an engine's work for a request, mean", mean("millrace_kv_stage_seconds", 'stage="execute"'), time],
    ["items", all("millrace_kv_items"), count],
    ["transactions of chains", all("millrace_kv_chain_transaction_seconds_count"), rate],
    ["a transaction, mean", mean("millrace_kv_chain_transaction_seconds"), time],
    ["RPC calls", all("millrace_rpc_calls_ended_total", 'side="server"'), rate],
    ["a call, mean", mean("millrace_rpc_call_seconds", 'side="server"'), time],
    ["recommendations", all("millrace_rec_requests_total", 'outcome="answered"'), rate],
    ["datagrams of boxes", all("millrace_inc_events_total", 'event="received"'), rate],
    ["answered by the box", ratio(boxHits, boxGets), percent],
    ["replica: calls answered", all("millrace_chain_calls_answered_total"), rate],
    ["replica: log syncs", all("millrace_chain_log_syncs_total"), rate],
    ["proxy: requests", all("millrace_proxy_requests_total"), rate],
    ["processors in use", all("process_cpu_seconds_total"), count],
    ["memory", all("process_resident_memory_bytes"), bytes],
  ].filter(([, values]) => values && values.some((value) => value !== null));
}

function chart([title, values, shown], interval) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, 1e-12);
  const slots = Math.round(3600 / interval);
  const x = (at) => LEFT + ((WIDTH - LEFT - 4) * (slots - values.length + at)) / (slots - 1);
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 8) * value) / top;
  let [line, pen] = ["", "M"];
  values.forEach((value, at) => {
    if (value === null) pen = "M";
    else {
      // A lone point is a short stroke, so that it is seen.
      line += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}${pen === "M" ? "h.8" : ""}`;
      pen = "L";
    }
  });
  const text = (value, y) => drawn("text", { x: LEFT - 5, y, "text-anchor": "end" }, value);
  const ago = (minutes) => drawn("text", { x: LEFT + ((WIDTH - LEFT - 4) * (60 - minutes)) / 60, y: HEIGHT - 3, "text-anchor": minutes === 60 ? "start" : minutes === 0 ? "end" : "middle" }, minutes ? `−${minutes} min` : "now");
  const now = shown(known.at(-1));
  const label = `${title}: now ${now}, at least ${shown(Math.min(...known))}, at most ${shown(top)} in ${Math.round((values.length * interval) / 60)} minutes`;
  const grid = [0, top].map((value) => drawn("line", { x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value), class: "grid" }));
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, ...grid, text(shown(top), y(top) + 4), text("0", y(0) + 1), ago(60), ago(30), ago(0), drawn("path", { d: line, class: "line" }));
  return element("figure", {}, element("figcaption", {}, element("span", {}, title), element("b", {}, now)), svg);
}

/// Draws all curves that there are.
export async function show(into) {
  const answer = await fetch("/history").catch(() => undefined);
  if (!answer?.ok) return;
  const { interval_seconds: interval, series } = await answer.json();
  const found = curves(series);
  into.replaceChildren(...(found.length ? found.map((curve) => chart(curve, interval)) : [element("p", { class: "soft" }, "The first curves are there when the server has run for half a minute.")]));
}
