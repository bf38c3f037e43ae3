"use strict";
(() => {
  const script = document.currentScript;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { pairs, strata } = data;
  const key = "simflip review " + script.dataset.id;
  const labels = ["", "duplicate", "0.5", "distinct", "unknown"];
  const byKey = { y: "duplicate", v: "0.5", n: "distinct", u: "unknown" };
  const names = { "duplicate": "near-duplicates", "0.5": "variants", "distinct": "different", "unknown": "cannot tell" };

  // What is kept: a label for each pair, the pair in view, and what was judged in which order, for undo.
  const state = { labels: pairs.map(() => ""), at: 0, done: [], scores: false };
  let unfolded = false;
  let keeps = true;
  const place = (at) => Number.isInteger(at) && at >= 0 && at < pairs.length;
  try {
    const kept = JSON.parse(localStorage.getItem(key) || "null");
    if (kept && Array.isArray(kept.labels) && kept.labels.length === pairs.length
        && kept.labels.every((label) => labels.includes(label))) {
      state.labels = kept.labels;
      if (place(kept.at)) state.at = kept.at;
      if (Array.isArray(kept.done)) {
        state.done = kept.done.filter((step) => Array.isArray(step) && place(step[0]) && labels.includes(step[1]));
      }
      state.scores = kept.scores === true;
    }
  } catch { keeps = false; }

  function keep() {
    try { localStorage.setItem(key, JSON.stringify(state)); } catch { keeps = false; }
  }

  // The estimate of `simflip evaluate --judged`, step by step: see evaluate::sample::estimate_precision.
  const Z = 1.959963984540054;
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  function wilson(successes, trials) {
    if (!(trials > 0)) return null;
    const p = clamp(successes / trials, 0, 1);
    const z2 = Z * Z / trials;
    const middle = p + z2 / 2;
    const half = Z * Math.sqrt(p * (1 - p) / trials + z2 / (4 * trials));
    return [p === 0 ? 0 : clamp((middle - half) / (1 + z2), 0, p), p === 1 ? 1 : clamp((middle + half) / (1 + z2), p, 1)];
  }

  // How often each label stands in each band.
  function count() {
    const counts = strata.map(() => Object.fromEntries(labels.map((label) => [label, 0])));
    pairs.forEach((pair, i) => { counts[pair.stratum][state.labels[i]] += 1; });
    return counts;
  }

  function estimate(counts, right) {
    const judged = counts.map((c) => ({ x: right.reduce((sum, label) => sum + c[label], 0), n: c["duplicate"] + c["0.5"] + c["distinct"] }));
    const pairsOf = (all) => strata.reduce((sum, band, h) => sum + (all || judged[h].n > 0 ? band.pairs : 0), 0);
    const all = pairsOf(true), covered = pairsOf(false);
    let precision = 0, smoothed = 0, variance = 0;
    strata.forEach((band, h) => {
      const { x, n } = judged[h];
      if (n === 0 || band.pairs === 0) return;
      const share = band.pairs / covered;
      const q = (x + 1) / (n + 2);
      precision += share * x / n;
      smoothed += share * q;
      variance += share * share * Math.max(0, 1 - n / band.pairs) * q * (1 - q) / n;
    });
    if (covered === 0) return null;
    const census = judged.reduce((sum, band) => sum + band.n, 0) === covered;
    precision = clamp(precision, 0, 1);
    const trials = smoothed * (1 - smoothed) / variance;
    const interval = variance > 0 ? wilson(precision * trials, trials) : [precision, precision];
    const known = covered / all;
    return { precision, interval, census, covered, all, whole: [known * interval[0], Math.min(1, known * interval[1] + (1 - known))] };
  }

  const digits = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const range = (interval) => "[" + interval[0].toFixed(4) + ", " + interval[1].toFixed(4) + "]";
  const plural = (n, one) => digits(n) + " " + one + (n === 1 ? "" : "s");

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // Text of the corpus goes into text nodes only.
  function pieces(cell, text, marked) {
    if (!marked) {
      cell.append(text);
      return;
    }
    const blank = text.match(/^\s*/)[0];
    cell.append(blank);
    if (blank.length < text.length) cell.append(make("mark", {}, text.slice(blank.length)));
  }

  function showPair() {
    const section = document.getElementById("pair");
    section.replaceChildren();
    const pair = pairs[state.at];
    const judged = state.labels[state.at];
    const facts = make("p", { class: "facts-line" });
    if (judged) facts.append(make("b", {}, "judged: " + names[judged]));
    if (judged || state.scores) {
      if (pair.distance !== null) facts.append(make("span", {}, "distance " + pair.distance + " of 64 bits"));
      if (pair.similarity !== null) facts.append(make("span", {}, "similarity " + pair.similarity.toFixed(4)));
      facts.append(make("span", {}, "band: " + strata[pair.stratum].name));
    } else {
      facts.append(make("span", {}, "Would one of these two documents do? Press y, v, n or u; their scores appear once you have judged."));
    }
    for (const note of pair.notes) facts.append(make("span", {}, note));
    section.append(facts);

    const grid = make("div", { class: "texts" });
    for (const side of pair.sides) {
      const shown = side.url || side.id;
      const name = make("bdi", { dir: "ltr" });
      name.append(side.link ? make("a", { href: side.link, rel: "noopener noreferrer nofollow", target: "_blank" }, shown) : shown);
      grid.append(make("div", { class: side === pair.sides[1] ? "name right" : "name", title: side.id }, name, make("small", { class: "soft" }, " " + plural(side.bytes, "byte"))));
    }
    let row = null;
    const newRow = () => {
      row = [make("div", { dir: "auto" }), make("div", { dir: "auto", class: "right" })];
      grid.append(...row);
    };
    const both = (...children) => { grid.append(make("div", { class: "both" }, ...children)); row = null; };
    for (const part of pair.parts) {
      const [kind, value] = Object.entries(part)[0];
      if (kind === "same") {
        // A row for each line, so that the sides stay level.
        value.split("\n").forEach((line, i) => {
          if (i > 0 || !row) newRow();
          row.forEach((cell) => pieces(cell, line, false));
        });
      } else if (kind === "differs") {
        if (!row) newRow();
        row.forEach((cell, side) => pieces(cell, value[side], true));
      } else if (kind === "folded") {
        const [chars, missing, text] = value;
        if (unfolded && text) {
          row = null;
          text.split("\n").forEach((line) => {
            newRow();
            row.forEach((cell) => { cell.classList.add("unfolded"); pieces(cell, line, false); });
          });
          if (missing > 0) both("⋯ " + plural(missing, "character") + " more that both documents have, not on this page ⋯");
          row = null;
        } else if (text) {
          const button = make("button", { type: "button" }, "⋯ " + plural(chars, "character") + " that both documents have ⋯");
          button.addEventListener("click", () => { unfolded = true; showPair(); });
          both(button);
        } else {
          both("⋯ " + plural(chars, "character") + " that both documents have, not on this page ⋯");
        }
      } else if (kind === "boilerplate") {
        newRow();
        row.forEach((cell, side) => { cell.classList.add("boilerplate"); pieces(cell, value[side], false); });
        row = null;
      } else if (kind === "rest") {
        // Characters of the beginning that was compared, and bytes behind it that were not.
        const [chars, unread] = value;
        const left = (side) => [chars[side] && plural(chars[side], "character"), unread[side] && plural(unread[side], "byte")]
          .filter(Boolean).join(" and then ") || "nothing";
        both("Not on this page: " + left(0) + " more on the left, " + left(1) + " more on the right.");
      }
    }
    if (pair.parts.length === 0) both("Neither document has a word.");
    section.append(grid);
    for (const button of document.querySelectorAll("[data-label]")) {
      button.setAttribute("aria-pressed", String(button.dataset.label === judged));
    }
    document.getElementById("place").textContent = (state.at + 1) + " of " + pairs.length;
  }

  function summary(e) {
    const to = (interval) => percent(interval[0]) + " to " + percent(interval[1]);
    return e.covered === e.all ? "precision " + percent(e.precision) + " (" + (e.census ? "every pair judged" : "95 % interval " + to(e.interval)) + ")"
      : "precision " + percent(e.precision) + " in the bands with a judgement; in all, " + to(e.whole);
  }

  function showResult() {
    const counts = count();
    const kinds = [
      ["near-duplicates", estimate(counts, ["duplicate"])],
      ["near-duplicates and variants", estimate(counts, ["duplicate", "0.5"])],
    ];
    const judged = state.labels.filter((label) => label !== "").length;
    const bar = document.getElementById("progress");
    bar.setAttribute("aria-valuenow", String(judged));
    bar.firstElementChild.style.width = (100 * judged / Math.max(1, pairs.length)) + "%";
    const strict = kinds[0][1];
    document.getElementById("status").textContent = judged + " of " + pairs.length + " judged"
      + (strict ? " · " + summary(strict) : "")
      + (keeps ? "" : " · this browser does not keep judgements: save them before you leave");
    const rows = kinds.map(([name, e]) => {
      const covers = !e ? "nothing judged yet" : e.covered === e.all ? "all " + digits(e.all) + " listed pairs of different texts"
        : digits(e.covered) + " of " + digits(e.all) + " pairs: no judgement yet in the other bands; whatever those are, it is in " + range(e.whole);
      return make("tr", {}, make("td", {}, name), make("td", { class: "n" }, e ? e.precision.toFixed(4) : "–"),
        make("td", { class: "n" }, !e ? "–" : e.census ? "every pair judged" : range(e.interval)), make("td", {}, covers));
    });
    document.getElementById("estimates").replaceChildren(...rows);
    document.getElementById("bands").replaceChildren(...strata.map((band, h) => {
      const cells = [band.pairs, band.sampled, counts[h]["duplicate"], counts[h]["0.5"], counts[h]["distinct"], counts[h]["unknown"], counts[h][""]];
      return make("tr", {}, make("th", {}, band.name), ...cells.map((n) => make("td", { class: "n" }, digits(n))));
    }));
  }

  function show() {
    showResult();
    if (pairs.length > 0) showPair();
  }

  function move(to) {
    if (!place(to) || to === state.at) return;
    state.at = to;
    unfolded = false;
    keep();
    show();
    scrollTo(0, 0);
  }

  function judge(label) {
    state.done.push([state.at, state.labels[state.at]]);
    state.labels[state.at] = label;
    // On to the next that has no judgement; the last one stays in view.
    for (let step = 1; step < pairs.length; step += 1) {
      const next = (state.at + step) % pairs.length;
      if (state.labels[next] === "") {
        move(next);
        return;
      }
    }
    keep();
    show();
    document.getElementById("result").scrollIntoView();
  }

  function undo() {
    const last = state.done.pop();
    if (!last) return;
    state.labels[last[0]] = last[1];
    state.at = last[0];
    unfolded = false;
    keep();
    show();
    scrollTo(0, 0);
  }

  function csv() {
    return data.header + "\n" + pairs.map((pair, i) => pair.csv + state.labels[i] + "\n").join("");
  }

  function save() {
    const link = make("a", { download: "judged.csv", href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })) });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  function press(name) {
    if (Object.hasOwn(byKey, name)) judge(byKey[name]);
    else if (name === "ArrowLeft" || name === "k") move(state.at - 1);
    else if (name === "ArrowRight" || name === "j") move(state.at + 1);
    else if (name === "z" || name === "Backspace") undo();
    else if (name === "e") { unfolded = !unfolded; showPair(); }
    else if (name === "s") { state.scores = !state.scores; keep(); showPair(); }
    else if (name === "d") save();
    else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (press(event.key.length === 1 ? event.key.toLowerCase() : event.key)) event.preventDefault();
  });
  document.getElementById("bar").addEventListener("click", (event) => {
    const button = event.target.closest("[data-key]");
    if (!button) return;
    press(button.dataset.key);
    // So that the space bar scrolls again.
    button.blur();
  });
  document.getElementById("save").addEventListener("click", save);
  document.getElementById("forget").addEventListener("click", () => {
    if (!confirm("Forget all judgements of this sample?")) return;
    Object.assign(state, { labels: pairs.map(() => ""), at: 0, done: [] });
    keep();
    show();
    scrollTo(0, 0);
  });
  show();
})();
