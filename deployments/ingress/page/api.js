// Requests to the service that this page came from. Addresses are relative, so that it may live under any path.

export const FORMATS = ["wav", "mp3", "flac", "opus", "aac", "pcm"];
const MEDIA_TYPES = { wav: "audio/wav", mp3: "audio/mpeg", flac: "audio/flac", opus: "audio/ogg", aac: "audio/aac" };
const SUFFIXES = { opus: "ogg" };
const RATES = [8000, 16000, 22050, 24000, 44100, 48000];
let apiKey = "";

/** The key that is sent from now on; empty for none. Kept in memory only. */
export function useKey(key) {
  apiKey = key;
}

/** What the service refused or failed at, as its one error shape says it, or what hindered the request. */
export class RequestError extends Error {
  /**
   * @param {string} code The service's code, or "unreachable", "broken", "empty".
   * @param {string} message What the service says.
   * @param {{param?: string|null, status?: number, retryAfter?: string|null, requestId?: string|null}} details
   */
  constructor(code, message, { param = null, status = 0, retryAfter = null, requestId = null } = {}) {
    super(message);
    Object.assign(this, { code, param, status, retryAfter, requestId });
  }
}

/** The voices, in order. */
export async function voices(signal) {
  return (await (await request("v1/audio/voices", { signal })).json()).voices;
}

/** Waits for nothing: why the service is not ready, or "" when it is. */
export async function whyNotReady(signal) {
  try {
    await request("readyz", { signal });
    return "";
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return error.message || error.code;
  }
}

/** What would be spoken. */
export async function analysis({ input, voice, normalize }, signal) {
  return (await post("v1/text/analysis", { input, voice, normalize }, { signal })).json();
}

/** The answer of the speech endpoint, its head received. */
export function speech(body, { signal, isFresh = false } = {}) {
  return post("v1/audio/speech", body, { signal, headers: isFresh ? { "cache-control": "no-cache" } : {} });
}

/** Where each word lies, with subtitles; null from a service that does not have that. */
export async function timestamps(body, signal) {
  try {
    return await (await post("v1/audio/speech/with-timestamps", body, { signal })).json();
  } catch (error) {
    if (error.status === 404 || error.status === 405) return null;
    throw error;
  }
}

/**
 * The samples of a body of 16 bit little endian PCM as they arrive.
 *
 * @param {Response} response
 * @yields {Float32Array} Samples, -1 to 1.
 */
export async function* samplesOf(response) {
  const reader = response.body.getReader();
  let odd = new Uint8Array(0);
  try {
    for (;;) {
      const { done, value } = await read(reader);
      if (done) return;
      const bytes = new Uint8Array(odd.length + value.length);
      bytes.set(odd);
      bytes.set(value, odd.length);
      const even = bytes.length - (bytes.length % 2);
      odd = bytes.slice(even);
      if (even) yield toFloat(new DataView(bytes.buffer, 0, even));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The headers of an answer that tell how it was made. */
export function toldBy(response) {
  const stages = [];
  for (const part of (response.headers.get("server-timing") || "").split(",")) {
    const [name, ...rest] = part.trim().split(";");
    const spent = rest.map((item) => item.trim()).find((item) => item.startsWith("dur="));
    if (name && spent) stages.push({ name, ms: Number(spent.slice(4)) });
  }
  return {
    cache: response.headers.get("x-cache"),
    requestId: response.headers.get("x-request-id"),
    stages,
  };
}

/** A name for a file of this speech: the first characters, the voice, the emotion. */
export function fileName({ input, voice, emotion }, suffix) {
  const words = input.replace(/<[^<>]*>/g, "").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return `${[words.slice(0, 16) || "speech", voice, emotion].filter(Boolean).join("-")}.${SUFFIXES[suffix] || suffix}`;
}

/**
 * The sample rate to ask samples of a voice in: its own, where it can be asked for. Asking fixes it, also where a text
 * names another voice.
 */
export function answerRate(voice) {
  return RATES.includes(voice?.sample_rate) ? voice.sample_rate : 24000;
}

/** The media type of a format. */
export function mediaType(format) {
  return MEDIA_TYPES[format] || "application/octet-stream";
}

function post(path, body, { signal, headers = {} }) {
  const json = { "content-type": "application/json", ...headers };
  return request(path, { method: "POST", headers: json, body: JSON.stringify(body), signal });
}

async function request(path, options) {
  const headers = { ...options.headers, ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("unreachable", "");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const details = {
    status: response.status,
    retryAfter: response.headers.get("retry-after"),
    requestId: response.headers.get("x-request-id"),
  };
  try {
    const { error } = await response.json();
    return new RequestError(error.code, error.message, { ...details, param: error.param });
  } catch {
    return new RequestError("other", `${response.status} ${response.statusText}`, details);
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("broken", "");
  }
}

function toFloat(view) {
  const samples = new Float32Array(view.byteLength / 2);
  for (let index = 0; index < samples.length; index += 1) samples[index] = view.getInt16(2 * index, true) / 32768;
  return samples;
}
