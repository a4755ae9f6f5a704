// The last hour as curves: what the server kept every ten seconds.
import { bytes, count, drawn, element, percent, time } from "/live/metrics.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [380, 120, 58, 16];

const merged = (lists, both) => lists.length && lists[0].map((_, at) => lists.reduce((all, list) => (list[at] === null ? all : all === null ? list[at] : both(all, list[at])), null));
const sum = (lists) => merged(lists, (one, other) => one + other);
const ratio = (above, below) => above && below && above.map((value, at) => (value === null || !(below[at] > 0) ? null : value / below[at]));

/// Curves that say something of any server, and those of its services: a title, how values are shown, and lines with their names.
function curves(series) {
  const names = Object.keys(series);
  const those = (prefix, labels) => names.filter((name) => name.split("{")[0] === prefix && labels.every((label) => name.includes(label))).map((name) => series[name]);
  const all = (prefix, ...labels) => sum(those(prefix, labels));
  const rate = (value) => `${count(value)}/s`;
  const hits = all("millrace_kv_command_outcomes_total", 'command="get"', 'outcome="hit"');
  const gets = all("millrace_kv_command_outcomes_total", 'command="get"');
  const boxHits = all("millrace_inc_events_total", 'event="hits"');
  const boxGets = sum([boxHits, all("millrace_inc_events_total", 'event="misses"')].filter(Boolean));
  const one = (title, values, shown) => ({ title, shown, lines: [["", values]] });
  // Of several kinds of requests the slowest: quantiles do not add up.
  const latency = (title, name, ...labels) => ({ title, shown: time, lines: ["p50", "p99"].map((q) => [q, merged(those(`${name}_${q}`, labels), Math.max)]) });
  return [
    one("memcached requests", all("millrace_kv_requests_total"), rate),
    one("hits of gets", ratio(hits, gets), percent),
    latency("an engine's work for a request", "millrace_kv_stage_seconds", 'stage="execute"'),
    latency("a request's wait for the engine", "millrace_kv_stage_seconds", 'stage="queue"'),
    one("items", all("millrace_kv_items"), count),
    one("transactions of chains", all("millrace_kv_chain_transaction_seconds_count"), rate),
    latency("a transaction", "millrace_kv_chain_transaction_seconds"),
    one("RPC calls", all("millrace_rpc_calls_ended_total", 'side="server"'), rate),
    latency("a call, of the slowest method", "millrace_rpc_call_seconds", 'side="server"'),
    one("recommendations", all("millrace_rec_requests_total", 'outcome="answered"'), rate),
    one("datagrams of boxes", all("millrace_inc_events_total", 'event="received"'), rate),
    latency("a datagram, of the slowest node", "millrace_inc_datagram_seconds"),
    one("answered by the box", ratio(boxHits, boxGets), percent),
    one("replica: calls answered", all("millrace_chain_calls_answered_total"), rate),
    one("replica: log syncs", all("millrace_chain_log_syncs_total"), rate),
    one("proxy: requests", all("millrace_proxy_requests_total"), rate),
    one("processors in use", all("process_cpu_seconds_total"), count),
    one("memory", all("process_resident_memory_bytes"), bytes),
  ]
    .map((curve) => ({ ...curve, lines: curve.lines.filter(([, values]) => values && values.some((value) => value !== null)) }))
    .filter(({ lines }) => lines.length);
}

function chart({ title, shown, lines }, interval) {
  const known = ([, values]) => values.filter((value) => value !== null);
  const every = lines.flatMap(known);
  const top = Math.max(...every, 1e-12);
  const slots = Math.round(3600 / interval);
  const length = lines[0][1].length;
  const x = (at) => LEFT + ((WIDTH - LEFT - 4) * (slots - length + at)) / (slots - 1);
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 8) * value) / top;
  const path = ([name, values]) => {
    let [line, pen] = ["", "M"];
    values.forEach((value, at) => {
      if (value === null) pen = "M";
      else {
        // A lone point is a short stroke, so that it is seen.
        line += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}${pen === "M" ? "h.8" : ""}`;
        pen = "L";
      }
    });
    return drawn("path", { d: line, class: name === "p99" ? "line upper" : "line" });
  };
  const text = (value, y) => drawn("text", { x: LEFT - 5, y, "text-anchor": "end" }, value);
  const ago = (minutes) => drawn("text", { x: LEFT + ((WIDTH - LEFT - 4) * (60 - minutes)) / 60, y: HEIGHT - 3, "text-anchor": minutes === 60 ? "start" : minutes === 0 ? "end" : "middle" }, minutes ? `−${minutes} min` : "now");
  const now = lines.map((line) => `${line[0]} ${shown(known(line).at(-1))}`.trim()).join(", ");
  const label = `${title}: now ${now}, at least ${shown(Math.min(...every))}, at most ${shown(top)} in ${Math.round((length * interval) / 60)} minutes`;
  const grid = [0, top].map((value) => drawn("line", { x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value), class: "grid" }));
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, ...grid, text(shown(top), y(top) + 4), text("0", y(0) + 1), ago(60), ago(30), ago(0), ...lines.map(path));
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
