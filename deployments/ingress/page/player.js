// Plays samples as they arrive, sample-exactly one piece after the other, and keeps them for replay.
// Scheduled buffers instead of an AudioWorklet: worklets exist in secure contexts only, and a service in a local
// network is often reached over plain http.

const LEAD_S = 0.04;
const FADE_S = 0.008;

/** Events: "change" when the state or the number of samples changed. States: empty, ready, playing, paused. */
export class Player extends EventTarget {
  #context = null;
  #contextRate = 0;
  #analyser = null;
  #rate = 0;
  #buffer = new Float32Array(0);
  #length = 0;
  #isWhole = true;
  #state = "empty";
  #run = null;
  #restS = 0;
  #edition = 0;

  /** "empty", "ready", "playing" or "paused". */
  get state() {
    return this.#state;
  }

  /** Samples per second; 0 before the first audio. */
  get rate() {
    return this.#rate;
  }

  /** Changes with every new audio. */
  get edition() {
    return this.#edition;
  }

  /** Whether no more samples will come. */
  get isWhole() {
    return this.#isWhole;
  }

  /** All samples so far, -1 to 1. */
  get samples() {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Seconds of audio so far. */
  get duration() {
    return this.#rate ? this.#length / this.#rate : 0;
  }

  /** Seconds from the start of the audio to what is heard now. */
  get position() {
    if (this.#state !== "playing" && this.#state !== "paused") return this.#restS;
    const now = this.#context.currentTime - (this.#context.outputLatency || 0);
    const piece = this.#run.pieces.findLast(({ when }) => when <= now);
    if (!piece) return this.#run.fromS;
    return Math.min(piece.offsetS + now - piece.when, piece.offsetS + piece.lengthS);
  }

  /** The loudest sample that leaves the player now, 0 to 1. */
  get level() {
    if (!this.#analyser) return 0;
    const heard = new Float32Array(this.#analyser.fftSize);
    this.#analyser.getFloatTimeDomainData(heard);
    return heard.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0);
  }

  /**
   * Forgets the audio and gets ready for new audio that plays as it comes. Call it from a click or a key press, else
   * browsers stay silent.
   *
   * @param {number} rate Samples per second.
   */
  begin(rate) {
    this.#endRun();
    this.#open(rate);
    this.#edition += 1;
    this.#length = 0;
    this.#restS = 0;
    this.#isWhole = false;
    this.#startRun(0);
    this.#enter("playing");
  }

  /** Takes samples and plays them after those before. */
  push(samples) {
    this.#grow(samples.length);
    this.#buffer.set(samples, this.#length);
    const offset = this.#length;
    this.#length += samples.length;
    if (this.#run) this.#schedule(offset, this.#length);
    this.#changed();
  }

  /** No more samples will come. */
  finish() {
    this.#isWhole = true;
    if (this.#run && !this.#run.sources.size) this.#ended();
    else this.#changed();
  }

  /** Takes a whole audio without playing it. */
  load(samples, rate) {
    this.#endRun();
    this.#edition += 1;
    this.#rate = rate;
    this.#buffer = samples;
    this.#length = samples.length;
    this.#isWhole = true;
    this.#restS = 0;
    this.#enter(samples.length ? "ready" : "empty");
  }

  /** Plays on from where it stands, from the start when it stands at the end. */
  play() {
    if (this.#state === "paused") {
      this.#context.resume();
      this.#enter("playing");
    } else if (this.#state === "ready") {
      this.#playFrom(this.#restS >= this.duration - 0.02 ? 0 : this.#restS);
    }
  }

  /** Holds the sound where it is. */
  pause() {
    if (this.#state !== "playing") return;
    this.#context.suspend();
    this.#enter("paused");
  }

  /** Moves to a position, seconds; plays on if it was playing. */
  seek(seconds) {
    const toS = Math.max(0, Math.min(seconds, this.duration));
    if (this.#state === "playing") {
      this.#playFrom(toS);
      return;
    }
    if (this.#state === "paused") {
      this.#endRun();
      this.#enter("ready");
    }
    this.#restS = toS;
    this.#changed();
  }

  /** Falls silent; what arrived stays. */
  stop() {
    if (this.#state !== "playing" && this.#state !== "paused") return;
    this.#restS = this.position;
    this.#isWhole = true;
    this.#endRun();
    this.#enter(this.#length ? "ready" : "empty");
  }

  #open(rate) {
    if (this.#contextRate !== rate) {
      this.#context?.close();
      this.#contextRate = rate;
      try {
        this.#context = new AudioContext({ sampleRate: rate });
      } catch {
        this.#context = new AudioContext(); // a rate that this device cannot run at: buffers are resampled one by one
      }
      this.#analyser = this.#context.createAnalyser();
      this.#analyser.connect(this.#context.destination);
    }
    this.#rate = rate;
    this.#context.resume();
  }

  #playFrom(fromS) {
    this.#endRun();
    this.#open(this.#rate);
    this.#startRun(fromS);
    this.#enter("playing");
    this.#schedule(Math.round(fromS * this.#rate), this.#length);
  }

  #startRun(fromS) {
    const gain = this.#context.createGain();
    gain.connect(this.#analyser);
    this.#run = { gain, fromS, pieces: [], sources: new Set(), next: 0 };
  }

  #schedule(from, to) {
    const run = this.#run;
    if (to <= from) {
      if (this.#isWhole && !run.sources.size) this.#ended();
      return;
    }
    const buffer = this.#context.createBuffer(1, to - from, this.#rate);
    buffer.copyToChannel(this.#buffer.subarray(from, to), 0);
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(run.gain);
    // positions in whole samples, so that neighbours meet without a gap and without a click
    const soonest = Math.ceil((this.#context.currentTime + LEAD_S) * this.#rate);
    const start = Math.max(run.next, soonest);
    run.next = start + to - from;
    run.pieces.push({ when: start / this.#rate, offsetS: from / this.#rate, lengthS: (to - from) / this.#rate });
    run.sources.add(source);
    source.onended = () => {
      run.sources.delete(source);
      if (this.#run === run && this.#isWhole && !run.sources.size) this.#ended();
    };
    source.start(start / this.#rate);
  }

  #ended() {
    this.#restS = this.duration;
    this.#endRun();
    this.#enter(this.#length ? "ready" : "empty");
    this.dispatchEvent(new Event("ended"));
  }

  #endRun() {
    const run = this.#run;
    this.#run = null;
    if (!run) return;
    const now = this.#context.currentTime;
    if (this.#context.state === "suspended") run.gain.disconnect();
    run.gain.gain.setTargetAtTime(0, now, FADE_S / 3);
    for (const source of run.sources) source.stop(now + FADE_S);
  }

  #grow(more) {
    if (this.#length + more <= this.#buffer.length && this.#length) return;
    const size = Math.max(this.#length + more, 2 * this.#length, this.#rate);
    const larger = new Float32Array(size);
    larger.set(this.#buffer.subarray(0, this.#length));
    this.#buffer = larger;
  }

  #enter(state) {
    this.#state = state;
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
