// Draws the waveform and the mel spectrogram, and moves the mark of the position over both.

import { byId, clock, oncePerFrame } from "./dom.js";
import { isDark } from "./preferences.js";
import { extremes, melColumns } from "./signal.js";

const MAX_COLUMNS = 900;
const KEY_STEP_S = 0.5;
const STREAM_REDRAW_MS = 200;
// from silence to loud, red green blue
const INKS = {
  light: [[247, 250, 248], [190, 226, 214], [70, 160, 140], [18, 84, 92], [12, 24, 48]],
  dark: [[17, 23, 22], [15, 66, 66], [31, 148, 126], [226, 178, 76], [255, 247, 214]],
};

/** The pictures of a player's audio; a slider over them moves its position. */
export class Pictures {
  #player;
  #box = byId("pictures");
  #draw = oncePerFrame(() => this.#drawAll());
  #drawn = "";
  #drawnAt = 0;

  constructor(player) {
    this.#player = player;
    player.addEventListener("change", () => this.#draw());
    new ResizeObserver(() => this.#draw()).observe(this.#box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    this.#box.addEventListener("pointerdown", (event) => this.#grab(event));
    this.#box.addEventListener("keydown", (event) => this.#step(event));
  }

  /** Draws again at the next frame. */
  redraw() {
    this.#draw();
  }

  /** Moves the mark to the player's position. */
  follow() {
    const { position, duration } = this.#player;
    const part = duration ? Math.min(1, position / duration) : 0;
    this.#box.style.setProperty("--part", String(part));
    this.#box.setAttribute("aria-valuenow", position.toFixed(1));
    this.#box.setAttribute("aria-valuetext", clock(position));
    byId("now").textContent = clock(position);
  }

  #drawAll() {
    const { samples, rate, duration, isWhole } = this.#player;
    this.#box.setAttribute("aria-valuemax", duration.toFixed(1));
    byId("length").textContent = clock(duration);
    this.follow();
    const { width, height } = this.#box.getBoundingClientRect();
    const shown = [samples.length, this.#player.edition, width, height, isDark()].join();
    const isSoon = !isWhole && performance.now() - this.#drawnAt < STREAM_REDRAW_MS;
    if (shown === this.#drawn || (isSoon && samples.length)) return;
    this.#drawn = shown;
    this.#drawnAt = performance.now();
    drawWave(byId("wave"), samples);
    drawMel(byId("mel"), samples, rate);
  }

  #grab(event) {
    if (!this.#player.duration) return;
    this.#box.setPointerCapture(event.pointerId);
    const move = ({ clientX }) => {
      const { left, width } = this.#box.getBoundingClientRect();
      this.#player.seek(((clientX - left) / width) * this.#player.duration);
      this.follow();
    };
    move(event);
    this.#box.onpointermove = move;
    this.#box.onpointerup = this.#box.onpointercancel = () => {
      this.#box.onpointermove = null;
    };
  }

  #step(event) {
    const { position, duration } = this.#player;
    const targets = { ArrowLeft: position - KEY_STEP_S, ArrowRight: position + KEY_STEP_S, Home: 0, End: duration };
    if (!(event.key in targets) || !duration || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#player.seek(targets[event.key]);
    this.follow();
  }
}

/** Draws a waveform over the whole canvas, in the canvas's text colour. */
export function drawWave(canvas, samples) {
  const { pen, width, height } = fit(canvas);
  if (!samples.length) return;
  const { low, high } = extremes(samples, width);
  const peak = Math.max(0.05, high.reduce((a, b) => Math.max(a, b), 0), -low.reduce((a, b) => Math.min(a, b), 0));
  const scale = (0.94 * height) / 2 / peak;
  pen.fillStyle = getComputedStyle(canvas).color;
  for (let column = 0; column < width; column += 1) {
    const top = height / 2 - high[column] * scale;
    pen.fillRect(column, top, 1, Math.max(1, (high[column] - low[column]) * scale));
  }
}

function drawMel(canvas, samples, rate) {
  const { pen, width, height } = fit(canvas);
  if (!samples.length) return;
  const columns = melColumns(samples, rate, Math.min(width, MAX_COLUMNS));
  const numBands = columns[0].length;
  const ink = inkTable(isDark() ? INKS.dark : INKS.light);
  const image = new ImageData(columns.length, numBands);
  columns.forEach((bands, x) => {
    bands.forEach((level, band) => {
      const at = 4 * ((numBands - 1 - band) * columns.length + x);
      image.data.set(ink[Math.round(255 * level)], at);
    });
  });
  const small = new OffscreenCanvas(columns.length, numBands);
  small.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = true;
  pen.drawImage(small, 0, 0, width, height);
}

/** Gives a canvas the resolution of the screen and clears it. */
function fit(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  return { pen: canvas.getContext("2d"), width: canvas.width, height: canvas.height };
}

/** 256 colours along the stops, as red, green, blue, opacity. */
function inkTable(stops) {
  return Array.from({ length: 256 }, (_, level) => {
    const place = (level / 255) * (stops.length - 1);
    const index = Math.min(stops.length - 2, Math.floor(place));
    const mix = (channel) => stops[index][channel] + (place - index) * (stops[index + 1][channel] - stops[index][channel]);
    return [mix(0), mix(1), mix(2), 255];
  });
}
