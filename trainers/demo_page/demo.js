"use strict";
// The page of `s2d demo`. All numbers come from the server; this only draws them.

const at = (id) => document.getElementById(id);
const LONG = { total: "Total", data: "Data", knowledge: "Knowledge" };
const CHECK = "M5 13l5 5L20 6";
const PAUSE = "M8 5v14M16 5v14";
const MAX_BARS = 8;
let state, latest, waiting, busy, chosen = null;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)}%`;

// Of probabilities: none is quite 0 or 1.
function share(value) {
  if (value >= 0.9995) return ">99.9%";
  return value < 0.0005 ? "<0.1%" : percent(value);
}

function nats(value) {
  if (value === 0) return "0";
  if (value < 0.00001) return "<0.00001";
  return value.toFixed(value < 0.001 ? 5 : value < 0.1 ? 4 : 3);
}

// One request at a time; of the inputs that come meanwhile, only the last is sent.
async function request(body, source, kind = "application/json", query = "") {
  if (busy) {
    waiting = [body, source, kind, query];
    return;
  }
  busy = true;
  document.body.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(`predict${query}`, { method: "POST", body, headers: { "Content-Type": kind } });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    latest = { ...found, source };
    at("error").textContent = "";
    show();
    speak();
  } catch (error) {
    at("error").textContent = error instanceof TypeError ? "The server does not answer. Is `s2d demo` still running?" : error.message;
  } finally {
    busy = false;
    document.body.removeAttribute("aria-busy");
  }
  if (waiting) {
    const next = waiting;
    waiting = null;
    request(...next);
  }
}

// ---- answers ----

function rule(model) {
  const score = model.rules[at("score").value] ? at("score").value : "total";
  const rules = model.rules[score];
  return { score, known: Boolean(rules), ...(rules && rules[at("risk").value]) };
}

function verdict(model, answer) {
  const { score, known, threshold, coverage } = rule(model);
  const best = answer.probs.indexOf(Math.max(...answer.probs));
  const name = state.classes[best];
  const sure = `${share(answer.confidence)} confident`;
  const risk = percent(state.risks[at("risk").value]).replace(".0%", "%");
  if (!known) return { kind: "", icon: CHECK, title: name, detail: sure, note: "" };
  const abstains = threshold === undefined || answer[score] > threshold;
  const note = threshold === undefined
    ? `No threshold keeps wrong answers below ${risk} on known inputs: it always abstains.`
    : `At most ${risk} of its answers are wrong (${percent(state.confidence, 0)} sure), and ${percent(coverage, 0)} of known inputs are answered.`;
  if (!abstains) return { kind: "answers", icon: CHECK, title: `Answers ${name}`, detail: sure, note };
  return { kind: "abstains", icon: PAUSE, title: "Abstains", detail: `best guess ${name}, ${sure}`, note };
}

function show() {
  const cards = state.models.map((model, i) => card(model, latest.models[i], i));
  at("cards").replaceChildren(...cards);
  at("brief").replaceChildren(...state.models.map((model, i) => {
    const { kind, title, detail } = verdict(model, latest.models[i]);
    return make("p", { class: kind }, model.title, make("strong", {}, title), make("span", {}, detail.replace(" confident", "")));
  }));
  if (!latest.seen) return;
  const { truth, group, unknown } = latest.source;
  at("seen").hidden = false;
  at("seen-image").src = latest.seen;
  at("seen-image").alt = `The input as the models see it: ${latest.source.title}`;
  const [height, width] = state.shape;
  const [first, second] = truth ? [`True class: ${truth}`, group] : [latest.source.title, unknown ? "None of the classes" : ""];
  at("seen-caption").replaceChildren(make("strong", {}, first), ...(second ? [second, make("br")] : []), `${height} × ${width} pixels, as the models see it`);
}

function speak() {
  const parts = state.models.map((model, i) => {
    const { title, detail } = verdict(model, latest.models[i]);
    const measures = (model.decomposes ? ["total", "knowledge"] : ["total"]).map((name) => `${name} uncertainty ${nats(latest.models[i][name])}`);
    return `${model.title}: ${title}, ${detail}, ${measures.join(", ")}.`;
  });
  at("spoken").textContent = parts.join(" ");
}

function card(model, answer, index) {
  const { kind, icon, title, detail, note } = verdict(model, answer);
  const parts = [
    make("h3", { id: `model-${index}` }, model.title),
    make("p", { class: "name" }, [model.name, `${model.parameters.toLocaleString("en")} parameters`, model.members > 1 ? `${model.members} members` : ""].filter(Boolean).join(" · ")),
    make("p", { class: `verdict ${kind}` }, draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: icon })), make("strong", {}, title), make("span", {}, detail)),
    ...(note ? [make("p", { class: "rulenote" }, note)] : []),
    make("h4", {}, "Class probabilities"),
    bars(answer),
    make("h4", {}, "Uncertainty in nats"),
    ...(model.decomposes ? ["total", "data", "knowledge"] : ["total"]).map((name) => measure(model, answer, name)),
  ];
  if (!model.decomposes) parts.push(make("p", { class: "undivided" }, "A single softmax does not separate data and knowledge uncertainty: there is only the total."));
  if (Object.keys(answer.added).length) parts.push(make("h4", {}, "Fitted steps"), added(answer.added));
  return make("article", { class: "card", "aria-labelledby": `model-${index}`, "data-model": index }, ...parts);
}

function added(values) {
  const shown = (value) => (Array.isArray(value) ? value.join(", ") || "none" : typeof value === "number" ? nats(value) : String(value));
  return make("dl", { class: "added" }, ...Object.entries(values).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, shown(value))]));
}

function bars(answer) {
  let order = answer.probs.map((_, i) => i);
  if (order.length > MAX_BARS) order = order.sort((a, b) => answer.probs[b] - answer.probs[a]).slice(0, 5);
  const long = order.some((i) => state.classes[i].length > 4);
  const rows = order.map((i) => {
    const fill = make("span", { class: "fill" });
    fill.style.width = percent(answer.probs[i]);
    return make("li", {}, make("span", { class: "class", title: state.classes[i] }, state.classes[i]), make("span", { class: "track", "aria-hidden": "true" }, fill), make("data", { value: answer.probs[i], "data-class": i }, share(answer.probs[i])));
  });
  return make("ol", { class: `probs${long ? " long" : ""}` }, ...rows);
}

function measure(model, answer, name) {
  const place = answer.below && above(answer.below[name]);
  const value = make("data", { value: answer[name], "data-score": name }, nats(answer[name]));
  return make("div", { class: "measure" }, make("span", { class: "term" }, LONG[name]), value, histogram(model, answer[name], name), ...(place ? [make("p", {}, place)] : []));
}

function above(part) {
  if (part === 0) return "Lower than for all known inputs";
  return part === 1 ? "Higher than for all known inputs" : `Higher than for ${part < 0.01 ? "<1%" : part > 0.99 ? ">99%" : percent(part, 0)} of known inputs`;
}

function histogram(model, value, name) {
  const [width, top, base] = [320, 6, 42];
  const [low, high] = state.axis.map(Math.log10);
  const x = (v) => (width * (Math.log10(Math.min(Math.max(v, state.axis[0]), state.axis[1])) - low)) / (high - low);
  const svg = draw("svg", { viewBox: `0 0 ${width} 58`, "aria-hidden": "true" });
  const shape = (counts, kind, closed) => {
    const peak = Math.max(...counts), step = width / counts.length;
    const points = counts.flatMap((count, i) => [[i * step, count], [(i + 1) * step, count]]).map(([px, count]) => `${px.toFixed(1)},${(base - ((base - top) * count) / peak).toFixed(1)}`);
    svg.append(draw("path", { class: kind, d: `M0,${base}L${points.join("L")}L${width},${base}${closed ? "Z" : ""}`, "vector-effect": "non-scaling-stroke" }));
  };
  if (model.known) shape(model.known[name], "known", true);
  if (model.unknown) shape(model.unknown[name], "unknown", false);
  const line = (kind, px, from, to) => svg.append(draw("line", { class: kind, x1: px, x2: px, y1: from, y2: to, "vector-effect": "non-scaling-stroke" }));
  svg.append(draw("line", { class: "axis", x1: 0, x2: width, y1: base, y2: base, "vector-effect": "non-scaling-stroke" }));
  for (let power = Math.ceil(low); power <= high; power++) {
    line("axis", x(10 ** power), base, base + 3);
    svg.append(draw("text", { class: "tick", x: Math.min(Math.max(x(10 ** power), 12), width - 8), y: 56 }, String(10 ** power)));
  }
  const { score, threshold } = rule(model);
  if (score === name && threshold !== undefined) line("limit", x(threshold), 0, base);
  line("marker", x(value), 0, base);
  return svg;
}

function legend() {
  const sign = (...shapes) => draw("svg", { viewBox: "0 0 20 14", "aria-hidden": "true" }, ...shapes);
  const items = [
    [sign(draw("rect", { class: "known", width: 20, height: 14, rx: 2 })), `${state.examples.toLocaleString("en")} test inputs: ${state.data_name}`],
    ...(state.unknown.length ? [[sign(draw("rect", { class: "unknown", x: 1, y: 1, width: 18, height: 12, rx: 2 })), `Unknown: ${state.unknown.join(", ")}`]] : []),
    [sign(draw("line", { class: "marker", x1: 10, x2: 10, y1: 0, y2: 14 })), "This input"],
    ...(state.models[0].rules.total ? [[sign(draw("line", { class: "limit", x1: 10, x2: 10, y1: 0, y2: 14 })), "Abstains above"]] : []),
  ];
  at("legend").append(...items.map(([icon, text]) => make("span", {}, icon, text)), make("span", {}, "Logarithmic axes, each shape to its own height"));
  at("legend").hidden = false;
}

// ---- inputs ----

function choose(way) {
  for (const each of ["samples", "draw", "file", "text"]) at(`way-${each}`).hidden = each !== way;
  document.querySelector(`input[name=way][value=${way}]`).checked = true;
}

function press(button) {
  if (chosen) chosen.setAttribute("aria-pressed", "false");
  chosen = button;
  if (button) button.setAttribute("aria-pressed", "true");
}

function samples() {
  const groups = new Map();
  state.samples.forEach((sample, i) => groups.set(sample.group, [...(groups.get(sample.group) || []), i]));
  for (const [group, numbers] of groups) {
    const unknown = state.unknown.includes(group);
    const id = `group-${at("way-samples").childElementCount}`;
    const items = numbers.map((number, place) => {
      const sample = state.samples[number];
      const title = `${group}, ${place + 1} of ${numbers.length}${sample.truth ? `: class ${sample.truth}` : ""}`;
      const inside = state.kind === "image" ? make("img", { src: `samples/${number}.png`, alt: title }) : sample.text;
      const button = make("button", { type: "button", "aria-pressed": "false", "data-sample": number }, inside);
      button.addEventListener("click", () => {
        press(button);
        if (state.kind === "text") at("sentence").value = sample.text;
        request(JSON.stringify({ sample: number }), { title: group, group, truth: sample.truth, unknown });
      });
      return make("li", {}, button);
    });
    at("way-samples").append(make("p", { class: "group", id }, unknown ? `Unknown: ${group}` : group), make("ul", { class: state.kind === "text" ? "samples texts" : "samples", "aria-labelledby": id }, ...items));
  }
}

function image(file) {
  choose("file");
  press(null);
  const source = { title: file.name || "Your image" };
  if (file.size > 16 << 20) {
    at("error").textContent = `${source.title} is larger than 16 MB.`;
    return;
  }
  const query = at("invert").checked ? "?invert=1" : "";
  image.last = file;
  if (["image/png", "image/jpeg"].includes(file.type)) return request(file, source, file.type, query);
  // Other formats that the browser knows go through it.
  createImageBitmap(file).then((bitmap) => {
    const canvas = make("canvas", { width: bitmap.width, height: bitmap.height });
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    canvas.toBlob((blob) => request(blob, source, "image/png", query));
  }, () => { at("error").textContent = `${source.title} is not an image that can be read.`; });
}

function drawing() {
  const pad = at("pad"), context = pad.getContext("2d", { willReadFrequently: true });
  const { ink, fill } = state.draw, gray = (level) => `rgb(${level} ${level} ${level})`;
  const size = pad.width, width = size / 11;
  let pen = null, cursor;
  const moveTo = (to) => {
    cursor = to;
    Object.assign(at("pen").style, { left: percent(to[0] / size), top: percent(to[1] / size) });
  };
  const clear = () => {
    context.fillStyle = gray(255 - ink);
    context.fillRect(0, 0, size, size);
  };
  const stroke = (from, to) => {
    Object.assign(context, { strokeStyle: gray(ink), lineWidth: width, lineCap: "round" });
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(to[0] + 0.01, to[1]);
    context.stroke();
    moveTo(to);
    const pixels = reduced(context, size, fill, ink);
    if (pixels) request(JSON.stringify({ pixels }), { title: "Your drawing" });
  };
  const place = (event) => {
    const box = pad.getBoundingClientRect();
    return [((event.clientX - box.left) * size) / box.width, ((event.clientY - box.top) * size) / box.height];
  };
  pad.addEventListener("pointerdown", (event) => {
    pad.setPointerCapture(event.pointerId);
    pen = place(event);
    press(null);
    stroke(pen, pen);
  });
  pad.addEventListener("pointermove", (event) => {
    if (!pen) return;
    const to = place(event);
    stroke(pen, to);
    pen = to;
  });
  for (const name of ["pointerup", "pointercancel"]) pad.addEventListener(name, () => { pen = null; });
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  pad.addEventListener("keydown", (event) => {
    if (event.key === "Delete" || event.key === "Backspace") clear();
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const to = cursor.map((v, i) => Math.min(size, Math.max(0, v + (move[i] * size) / 16)));
    if (event.shiftKey) stroke(cursor, to);
    moveTo(to);
  });
  at("clear").addEventListener("click", clear);
  moveTo([size / 2, size / 2]);
  clear();
}

// The drawing as the pixels that a model takes; enlarged to fill the frame, where known images do.
function reduced(context, size, fill, ink) {
  const [height, width] = state.shape, block = 4;
  let box = [0, 0, size, size];
  if (fill) {
    const { data } = context.getImageData(0, 0, size, size);
    let [left, upper, right, lower] = [size, size, -1, -1];
    for (let y = 0; y < size; y++) {
      for (let x = 0; x < size; x++) {
        if (Math.abs(data[4 * (y * size + x)] - ink) > 127) continue;
        left = Math.min(left, x); right = Math.max(right, x); upper = Math.min(upper, y); lower = y;
      }
    }
    if (right < 0) return null;
    const side = Math.max(right - left, lower - upper) + 1;
    box = [(left + right + 1 - side) / 2, (upper + lower + 1 - side) / 2, side, side];
  }
  const small = make("canvas", { width: width * block, height: height * block });
  const target = small.getContext("2d", { willReadFrequently: true });
  target.fillStyle = `rgb(${255 - ink} ${255 - ink} ${255 - ink})`;
  target.fillRect(0, 0, small.width, small.height);
  target.imageSmoothingQuality = "high";
  target.drawImage(context.canvas, ...box, 0, 0, small.width, small.height);
  const { data } = target.getImageData(0, 0, small.width, small.height);
  return Array.from({ length: height * width }, (_, i) => {
    let sum = 0;
    for (let y = 0; y < block; y++) {
      for (let x = 0; x < block; x++) sum += data[4 * ((Math.floor(i / width) * block + y) * small.width + (i % width) * block + x)];
    }
    return Math.round(sum / (block * block));
  });
}

function listen() {
  document.querySelectorAll("input[name=way]").forEach((radio) => radio.addEventListener("change", () => choose(radio.value)));
  for (const id of ["risk", "score"]) {
    at(id).addEventListener("input", () => {
      risk();
      if (latest) { show(); speak(); }
    });
  }
  at("way-text").addEventListener("submit", (event) => {
    event.preventDefault();
    press(null);
    if (at("sentence").value) request(JSON.stringify({ text: at("sentence").value }), { title: "Your sentence" });
  });
  if (state.kind !== "image") return;
  at("file").addEventListener("change", () => { if (at("file").files[0]) image(at("file").files[0]); });
  at("invert").addEventListener("change", () => { if (image.last) image(image.last); });
  document.addEventListener("paste", (event) => { if (event.clipboardData.files[0]) image(event.clipboardData.files[0]); });
  document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
  document.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (event.dataTransfer.files[0]) image(event.dataTransfer.files[0]);
  });
}

function risk() {
  const text = percent(state.risks[at("risk").value]).replace(".0%", "%");
  at("risk-text").textContent = text;
  at("risk").setAttribute("aria-valuetext", text);
}

async function start() {
  try {
    state = await (await fetch("state")).json();
  } catch (error) {
    at("subtitle").textContent = "The server does not answer. Is `s2d demo` still running?";
    return;
  }
  const inputs = state.kind === "image" ? "an image" : "a sentence";
  at("subtitle").textContent = `${state.models.map((model) => model.title).join(" and ")} on ${inputs}: class probabilities, where the uncertainty comes from, and when to abstain.`;
  at("note").textContent = state.note;
  at("risk").max = state.risks.length - 1;
  at("risk").value = Math.min(2, state.risks.length - 1);
  const scores = [...new Set(state.models.flatMap((model) => Object.keys(model.rules)))];
  at("score").append(...scores.map((name) => make("option", { value: name }, `${LONG[name].toLowerCase()} uncertainty`)));
  at("rule").hidden = !state.models[0].rules.total;
  risk();
  if (state.examples) legend();
  samples();
  const ways = { samples: state.samples.length, draw: state.draw, file: state.kind === "image", text: state.kind === "text" };
  for (const [way, possible] of Object.entries(ways)) document.querySelector(`[data-way=${way}]`).hidden = !possible;
  at("ways").hidden = false;
  at("invert-row").hidden = !(state.draw && state.draw.ink === 255);
  if (state.draw) drawing();
  listen();
  choose(Object.keys(ways).find((way) => ways[way]));
  const first = document.querySelector(".samples button");
  if (first) first.click();
}

start();
