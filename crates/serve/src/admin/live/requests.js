// The slowest of the requests that were traced, and where the time of each went.
import { drawn, element, time } from "/live/metrics.js";

const SHOWN = 12;
const SPANS_SHOWN = 40;

/// Traces of the events of `/trace`: their spans, parents before their parts, and how long the whole took.
export function traces(answer) {
  const names = new Map();
  const found = new Map();
  for (const event of answer.traceEvents) {
    if (event.ph === "M" && event.name === "process_name") names.set(event.pid, event.args.name);
    if (event.ph !== "X") continue;
    const { trace, span, parent, place, outcome } = event.args;
    if (!found.has(trace)) found.set(trace, []);
    found.get(trace).push({ name: event.name, service: names.get(event.pid), place, outcome, span, parent, begin: event.ts / 1e6, seconds: event.dur / 1e6 });
  }
  return [...found].map(([id, spans]) => {
    spans.sort((a, b) => a.begin - b.begin || b.seconds - a.seconds);
    const begin = spans[0].begin;
    const seconds = Math.max(...spans.map((span) => span.begin + span.seconds)) - begin;
    const depths = new Map();
    for (const span of spans) {
      span.depth = (depths.get(span.parent) ?? -1) + 1;
      depths.set(span.span, span.depth);
    }
    return { id, spans, begin, seconds };
  });
}

function waterfall({ spans, begin, seconds }) {
  const shown = spans.slice(0, SPANS_SHOWN);
  const height = 18 * shown.length + 4;
  const rows = shown.flatMap((span, at) => {
    const x = 300 + (480 * (span.begin - begin)) / (seconds || 1);
    const width = Math.max(1.5, (480 * span.seconds) / (seconds || 1));
    const bar = drawn("rect", { x, y: 18 * at + 5, width, height: 11, rx: 2, class: span.depth ? "span part" : "span" });
    bar.append(drawn("title", {}, `${span.name}, ${span.service}: ${time(span.seconds)}, ${span.outcome}`));
    return [drawn("text", { x: 4 + 10 * span.depth, y: 18 * at + 15, class: "name" }, `${span.name} · ${span.place}`),
      drawn("text", { x: 292, y: 18 * at + 15, "text-anchor": "end" }, time(span.seconds)), bar];
  });
  const label = shown.map((span) => `${span.name} at ${span.place}: ${time(span.seconds)}`).join("; ");
  return element("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "spans" }, drawn("svg", { viewBox: `0 0 790 ${height}`, role: "img", "aria-label": label }, ...rows));
}

/// Draws them; those that are open stay open.
export async function show(into) {
  const answer = await fetch("/trace").catch(() => undefined);
  if (answer?.status === 404) {
    into.replaceChildren(element("p", { class: "soft" }, "This server leaves no traces."));
    return;
  }
  if (!answer?.ok) return;
  const slow = traces(await answer.json()).sort((a, b) => b.seconds - a.seconds).slice(0, SHOWN);
  if (slow.length === 0) {
    into.replaceChildren(element("p", { class: "soft" }, "No request was traced yet: set the register ", element("code", {}, "trace.sample"), " to trace one of so many."));
    return;
  }
  const open = new Set([...into.querySelectorAll("details[open]")].map((one) => one.dataset.trace));
  if ([...into.querySelectorAll("details")].map((one) => one.dataset.trace).join() === slow.map((one) => one.id).join()) return;
  const held = into.contains(document.activeElement) ? document.activeElement.closest("details")?.dataset.trace : undefined;
  into.replaceChildren(...slow.map((trace) => {
    const { spans, seconds, id } = trace;
    const where = [...new Set(spans.map((span) => span.place))].join(" → ");
    const summary = element("summary", {}, element("strong", {}, time(seconds)), ` ${spans[0].name}, ${spans[0].service}: ${where}`);
    const one = element("details", { "data-trace": id, open: open.has(id) }, summary, waterfall(trace));
    if (id === held) queueMicrotask(() => summary.focus());
    return one;
  }));
}
