// The registers: found, shown with their help, set by whoever has the token, and set back.
import { element } from "/live/metrics.js";

const NAMED = ["choice", "switch"];
/// Sliders have so many steps; a range over three powers of ten is taken by its logarithm.
const STEPS = 1000;

const isWide = ([low, high]) => high / Math.max(low, 1) > 1000;
const place = (number, [low, high]) => Math.round(STEPS * (isWide([low, high]) ? Math.log((number + 1) / (low + 1)) / Math.log((high + 1) / (low + 1)) : (number - low) / (high - low)));
const numberAt = (step, [low, high]) => Math.round(isWide([low, high]) ? (low + 1) * ((high + 1) / (low + 1)) ** (step / STEPS) - 1 : low + ((high - low) * step) / STEPS);

export class Tuner {
  constructor(parts, say) {
    this.parts = parts;
    this.say = say;
    this.rows = new Map();
    this.done = [];
    this.sets = 0;
    this.token = sessionStorage.getItem("millrace token") ?? "";
    parts.token.value = this.token;
    parts.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.token = parts.token.value.trim();
      sessionStorage.setItem("millrace token", this.token);
      this.draw();
    });
    parts.filter.addEventListener("input", () => this.sift());
    parts.changed.addEventListener("change", () => this.sift());
  }

  async load() {
    const { sets } = this;
    const answer = await fetch("/registers");
    if (!answer.ok) return;
    const list = await answer.json();
    // What was asked before something was set here says how it was: the next says how it is.
    if (sets !== this.sets) return;
    const isNew = list.length !== this.rows.size || list.some((row) => !this.rows.has(row.name));
    if (isNew) {
      this.rows = new Map(list.map((row) => [row.name, { row }]));
      this.draw();
    }
    for (const row of list) this.show(row);
    this.sift();
  }

  /// Brings a row up to date; what somebody is changing now stays as they have it.
  show(row) {
    const entry = this.rows.get(row.name);
    entry.row = row;
    const isHeld = entry.line?.contains(document.activeElement) && document.activeElement !== entry.back;
    if (!entry.put || isHeld) return;
    entry.put(row);
    entry.usual.textContent = row.value === row.default ? "" : `default ${row.default}`;
  }

  async set(name, text, isUndo = false) {
    const before = this.rows.get(name).row.value;
    if (text === before) return;
    const headers = { Authorization: `Bearer ${this.token}` };
    const answer = await fetch(`/registers/${encodeURIComponent(name)}`, { method: "PUT", body: text, headers }).catch(() => undefined);
    const said = (await answer?.text()) ?? "the server does not answer";
    this.parts.problem.textContent = answer?.ok ? "" : `${name} was not set to ${text}: ${said.trim()}`;
    if (answer?.ok) {
      this.sets += 1;
      const row = JSON.parse(said);
      if (isUndo) this.done = this.done.filter((change) => change !== isUndo);
      else this.done.unshift({ name, before, after: row.value });
      this.done.length = Math.min(this.done.length, 20);
      this.say(`${name} is ${row.value}`);
      this.rows.get(name).row = row;
      this.drawUndo();
    }
    const { put, row, usual } = this.rows.get(name);
    put?.(row);
    if (usual) usual.textContent = row.value === row.default ? "" : `default ${row.default}`;
  }

  drawUndo() {
    const items = this.done.map((change) =>
      element("li", {}, element("code", {}, change.name), `${change.before} → ${change.after}`,
        element("button", { type: "button", "aria-label": `Set ${change.name} back to ${change.before}`, onclick: () => this.set(change.name, change.before, change) }, "Undo")));
    this.parts.undo.replaceChildren(...(items.length ? [element("h3", {}, "Set here"), element("ul", {}, items)] : []));
  }

  control(row) {
    const { name } = row;
    const disabled = !row.live || this.token === "";
    const label = { "aria-label": name, disabled };
    if (row.unit === "switch") {
      const box = element("input", { type: "checkbox", ...label, onchange: () => this.set(name, box.checked ? "on" : "off") });
      return [[box], (row) => (box.checked = row.number !== 0)];
    }
    if (row.choices?.length) {
      const list = element("select", { ...label, onchange: () => this.set(name, list.value) }, row.choices.map((choice) => element("option", { value: choice }, choice)));
      return [[list], (row) => (list.value = row.value)];
    }
    const text = element("input", { type: "text", ...label, spellcheck: "false", onchange: () => this.set(name, text.value.trim()) });
    const slider = element("input", { type: "range", "aria-label": `${name}, slider`, min: 0, max: STEPS, disabled,
      oninput: () => (text.value = numberAt(Number(slider.value), row.range)), onchange: () => this.set(name, String(numberAt(Number(slider.value), row.range))) });
    const put = (row) => {
      text.value = row.value;
      slider.value = place(row.number, row.range);
      slider.setAttribute("aria-valuetext", row.value);
    };
    return [[text, slider], put];
  }

  line(entry) {
    const { row } = entry;
    const [inputs, put] = this.control(row);
    entry.put = put;
    entry.usual = element("small", {});
    const unit = NAMED.includes(row.unit) || row.unit === "count" ? "" : ` ${row.unit}`;
    const limits = row.choices?.length || row.unit === "switch" ? "" : ` ${row.range[0]} to ${row.range[1]}${unit}.`;
    const start = row.live ? "" : " Read at the start only.";
    entry.line = element("tr", {}, element("th", { scope: "row" }, element("code", {}, row.name), element("small", {}, row.help + limits + start)),
      element("td", { class: "control" }, inputs, entry.usual));
    put(row);
    entry.usual.textContent = row.value === row.default ? "" : `default ${row.default}`;
    return entry.line;
  }

  /// By family, each closed until something in it is looked for.
  draw() {
    const families = new Map();
    for (const entry of this.rows.values()) {
      const family = entry.row.name.split(".").slice(0, -1).join(".");
      if (!families.has(family)) families.set(family, []);
      families.get(family).push(entry);
    }
    const open = new Set(this.families?.filter(({ box }) => box.open).map(({ family }) => family));
    this.families = [...families].map(([family, entries]) => {
      const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "register"), element("th", { scope: "col" }, "value")));
      const table = element("table", {}, head, element("tbody", {}, entries.map((entry) => this.line(entry))));
      const note = element("span", { class: "soft" });
      const box = element("details", { open: open.has(family) }, element("summary", {}, element("code", {}, family), note), table);
      return { family, entries, box, note };
    });
    this.parts.table.replaceChildren(...this.families.map(({ box }) => box));
    this.sift();
  }

  /// Hides what is not looked for, and opens where it is.
  sift() {
    const words = this.parts.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isChanged = ({ row }) => row.value !== row.default;
    const isLooking = words.length > 0 || this.parts.changed.checked;
    const looked = `${words.join(" ")} ${this.parts.changed.checked}`;
    for (const { entries, box, note } of this.families ?? []) {
      for (const { row, line } of entries) {
        const text = `${row.name} ${row.help}`.toLowerCase();
        line.hidden = !words.every((word) => text.includes(word)) || (this.parts.changed.checked && !isChanged({ row }));
      }
      const left = entries.filter(({ line }) => !line.hidden).length;
      const changed = entries.filter(isChanged).length;
      const said = ` ${left === entries.length ? left : `${left} of ${entries.length}`}${changed ? `, ${changed} not at the default` : ""}`;
      if (note.textContent !== said) note.textContent = said;
      box.hidden = left === 0;
      // Only when something else is looked for: what somebody closed stays closed.
      if (looked !== this.looked && (isLooking || this.looked !== undefined)) box.open = isLooking && left > 0;
    }
    this.looked = looked;
  }
}
