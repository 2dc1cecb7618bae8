// What the pictures show, computed from the samples: extremes per column, and a mel spectrogram.

const FFT_SIZE = 1024;
const WINDOW_S = 0.05;
const NUM_MELS = 72;
const FLOOR_DB = -80;
const COSINES = Float64Array.from({ length: FFT_SIZE / 2 + 1 }, (_, n) => Math.cos((2 * Math.PI * n) / FFT_SIZE));

/**
 * The lowest and highest sample of each column.
 *
 * @param {Float32Array} samples
 * @param {number} numColumns
 * @returns {{low: Float32Array, high: Float32Array}}
 */
export function extremes(samples, numColumns) {
  const low = new Float32Array(numColumns);
  const high = new Float32Array(numColumns);
  for (let column = 0; column < numColumns; column += 1) {
    const from = Math.floor((column * samples.length) / numColumns);
    const to = Math.max(from + 1, Math.floor(((column + 1) * samples.length) / numColumns));
    for (let index = from; index < to && index < samples.length; index += 1) {
      low[column] = Math.min(low[column], samples[index]);
      high[column] = Math.max(high[column], samples[index]);
    }
  }
  return { low, high };
}

/**
 * A mel spectrogram with one frame per column.
 *
 * @param {Float32Array} samples -1 to 1.
 * @param {number} rate Samples per second.
 * @param {number} numColumns
 * @returns {Float32Array[]} Per column, mel bands from low to high: 0 (80 dB below the loudest, or less) to 1.
 */
export function melColumns(samples, rate, numColumns) {
  const bank = melBank(rate);
  const width = Math.min(FFT_SIZE, Math.round(WINDOW_S * rate));
  const window = Float32Array.from({ length: width }, (_, n) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (n + 0.5)) / width));
  const real = new Float32Array(FFT_SIZE);
  const imaginary = new Float32Array(FFT_SIZE);
  const columns = [];
  let loudest = -Infinity;
  for (let column = 0; column < numColumns; column += 1) {
    const start = Math.round(((column + 0.5) * samples.length) / numColumns - width / 2);
    real.fill(0);
    imaginary.fill(0);
    for (let n = 0; n < width; n += 1) real[n] = window[n] * (samples[start + n] || 0);
    transform(real, imaginary);
    const bands = bank.map((weights) => decibels(weights, real, imaginary));
    loudest = bands.reduce((most, band) => Math.max(most, band), loudest);
    columns.push(bands);
  }
  return columns.map((bands) => Float32Array.from(bands, (band) => Math.max(0, Math.min(1, 1 - (band - loudest) / FLOOR_DB))));
}

/** Loudness of one band: 10 log10 of its weighted power. */
function decibels(weights, real, imaginary) {
  let power = 1e-10;
  for (const [bin, weight] of weights) power += weight * (real[bin] * real[bin] + imaginary[bin] * imaginary[bin]);
  return 10 * Math.log10(power);
}

/** Triangular filters, equally spaced on the mel scale 2595 log10(1 + f / 700): per band its bins and weights. */
function melBank(rate) {
  const toMel = (hz) => 2595 * Math.log10(1 + hz / 700);
  const toHz = (mel) => 700 * (10 ** (mel / 2595) - 1);
  const lowest = toMel(50);
  const step = (toMel(rate / 2) - lowest) / (NUM_MELS + 1);
  const edges = Array.from({ length: NUM_MELS + 2 }, (_, band) => (toHz(lowest + band * step) * FFT_SIZE) / rate);
  return Array.from({ length: NUM_MELS }, (_, band) => {
    const [left, middle, right] = edges.slice(band, band + 3);
    const weights = [];
    for (let bin = Math.floor(left); bin <= Math.ceil(right) && bin <= FFT_SIZE / 2; bin += 1) {
      const weight = Math.min((bin - left) / (middle - left), (right - bin) / (right - middle));
      if (weight > 0) weights.push([bin, weight]);
    }
    return weights.length ? weights : [[Math.round(middle), 1]]; // a low band may lie between two bins
  });
}

/** Fast Fourier transform of FFT_SIZE values or a smaller power of two, in place: radix 2 (Cooley and Tukey 1965). */
export function transform(real, imaginary) {
  const size = real.length;
  for (let index = 1, mirrored = 0; index < size; index += 1) {
    let bit = size >> 1;
    for (; mirrored & bit; bit >>= 1) mirrored ^= bit;
    mirrored ^= bit;
    if (index < mirrored) {
      [real[index], real[mirrored]] = [real[mirrored], real[index]];
      [imaginary[index], imaginary[mirrored]] = [imaginary[mirrored], imaginary[index]];
    }
  }
  for (let half = 1; half < size; half *= 2) {
    for (let turn = 0; turn < half; turn += 1) {
      const cosine = COSINES[(turn * FFT_SIZE) / 2 / half];
      const sine = -COSINES[Math.abs((turn * FFT_SIZE) / 2 / half - FFT_SIZE / 4)];
      for (let even = turn; even < size; even += 2 * half) {
        const odd = even + half;
        const re = real[odd] * cosine - imaginary[odd] * sine;
        const im = real[odd] * sine + imaginary[odd] * cosine;
        real[odd] = real[even] - re;
        imaginary[odd] = imaginary[even] - im;
        real[even] += re;
        imaginary[even] += im;
      }
    }
  }
}
