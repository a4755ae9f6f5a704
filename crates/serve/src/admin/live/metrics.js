// Prometheus text, read; rates and quantiles between two pages of it.

/// The labels in braces; values may have escapes.
function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(/([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
  }
  return labels;
}

/// A page: by name the samples, each with labels and value.
export function parse(text) {
  const samples = new Map();
  const helps = new Map();
  for (const line of text.split("\n")) {
    if (line.startsWith("# HELP ")) {
      const end = line.indexOf(" ", 7);
      helps.set(line.slice(7, end), line.slice(end + 1));
      continue;
    }
    const found = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const [, name, labels, value] = found;
    if (!samples.has(name)) samples.set(name, []);
    samples.get(name).push({ labels: labels ? labelsOf(labels) : {}, value: value === "+Inf" ? Infinity : Number(value) });
  }
  return { samples, helps };
}

/// Whether a sample has these labels; undefined: it has no such label.
const has = (labels, wanted) => Object.entries(wanted).every(([name, value]) => labels[name] === value);

/// The pages of the last seconds.
export class Pages {
  /// `seconds`: how far apart the pages are that rates are taken from, at most.
  constructor(seconds = 3) {
    this.seconds = seconds;
    this.kept = [];
  }

  add(text, time) {
    const page = { time, ...parse(text) };
    const start = page.samples.get("process_start_time_seconds")?.[0]?.value;
    // Another process is at this port: what it counts began anew.
    if (start !== this.start) this.kept = [];
    this.start = start;
    this.kept.push(page);
    while (this.kept.length > 2 && time - this.kept[1].time >= this.seconds) this.kept.shift();
  }

  get newest() {
    return this.kept.at(-1);
  }

  /// The samples of that name with these labels.
  of(name, wanted = {}, page = this.newest) {
    return (page?.samples.get(name) ?? []).filter((sample) => has(sample.labels, wanted));
  }

  /// Their sum; undefined if there are none.
  value(name, wanted = {}, page = this.newest) {
    const found = this.of(name, wanted, page);
    return found.length ? found.reduce((sum, sample) => sum + sample.value, 0) : undefined;
  }

  /// How much a counter grew; undefined if that is not known yet.
  grown(name, wanted = {}) {
    const [first, last] = [this.kept[0], this.newest];
    const value = this.value(name, wanted, last);
    if (value === undefined || first === last) return undefined;
    return Math.max(0, value - (this.value(name, wanted, first) ?? 0));
  }

  /// The same each second.
  rate(name, wanted = {}) {
    const grown = this.grown(name, wanted);
    return grown === undefined ? undefined : grown / (this.newest.time - this.kept[0].time);
  }

  /// A quantile of what a histogram was told meanwhile; undefined if that was nothing.
  quantile(name, q, wanted = {}) {
    const [first, last] = [this.kept[0], this.newest];
    if (!last || first === last) return undefined;
    const sums = new Map();
    for (const [page, sign] of [[last, 1], [first, -1]]) {
      for (const { labels, value } of this.of(`${name}_bucket`, wanted, page)) {
        const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
        sums.set(bound, (sums.get(bound) ?? 0) + sign * value);
      }
    }
    const buckets = [...sums].sort(([a], [b]) => a - b);
    const all = buckets.at(-1)?.[1] ?? 0;
    if (!(all > 0)) return undefined;
    let [low, below] = [0, 0];
    for (const [bound, count] of buckets) {
      if (count >= q * all) {
        return bound === Infinity ? low : low + ((bound - low) * (q * all - below)) / (count - below || 1);
      }
      [low, below] = [bound, count];
    }
    return low;
  }

  /// The values that a label has in samples of that name.
  labels(name, label, wanted = {}) {
    return [...new Set(this.of(name, wanted).map((sample) => sample.labels[label]))];
  }

  /// Names of samples that begin so.
  names(prefix) {
    return [...(this.newest?.samples.keys() ?? [])].filter((name) => name.startsWith(prefix));
  }
}

const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

/// Three digits, and a letter for thousands.
export function count(number) {
  if (number === undefined || Number.isNaN(number)) return "–";
  const [unit, letter] = PREFIXES.find(([unit]) => Math.abs(number) >= unit) ?? [1, ""];
  const scaled = number / unit;
  const digits = unit === 1 && Number.isInteger(number) ? 0 : Math.abs(scaled) >= 100 ? 0 : Math.abs(scaled) >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)}${letter && ` ${letter}`}`;
}

/// How many each second.
export const rate = (number) => (number === undefined ? "–" : `${count(number < 0.05 ? 0 : number)}/s`);

/// A time in the unit that fits.
export function time(seconds) {
  if (seconds === undefined || Number.isNaN(seconds)) return "–";
  const [unit, word] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e-3, "ms"] : seconds >= 1e-6 ? [1e-6, "µs"] : [1e-9, "ns"];
  const scaled = seconds / unit;
  return `${scaled.toFixed(scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2)} ${word}`;
}

/// A size in the unit that fits.
export function bytes(number) {
  if (number === undefined || Number.isNaN(number)) return "–";
  const power = number < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(number) / 10));
  const scaled = number / 1024 ** power;
  return `${power === 0 ? Math.round(scaled) : scaled.toFixed(scaled >= 100 ? 0 : 1)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/// A share in percent.
export const percent = (share) => (share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);

/// An element with attributes and children; texts are texts.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== undefined));
  return made;
}

/// The same of a drawing.
export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
