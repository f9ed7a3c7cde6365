// The rule that `breakpoint` follows: the next rate, and the knee.

/** A step that exceeds one of these limits is beyond the knee. */
export const RULE = {
  /** Share of requests that failed or had a wrong response. */
  failed: 0.01,
  /** Share of arrivals that could not start because too many requests were in flight. */
  dropped: 0.01,
};

/** Factor between two rates until one is too high. */
const CLIMB = 1.5;

/** Ratio of the first bad to the last good rate at which the search between them ends. */
const CLOSE = 1.08;

/**
 * Returns why a step is beyond the knee, or '' if it is not. `late` is the p99 of the generator's own
 * delay: a tail that the generator causes does not concern the server.
 */
function verdict(step, limitMs) {
  if (step.failed > RULE.failed * step.arrivals) {
    return 'failures';
  }
  if (step.lateMs > limitMs / 2) {
    return 'generator';
  }
  if (step.dropped > RULE.dropped * step.arrivals) {
    return 'dropped';
  }
  return step.p99Ms > limitMs ? 'tail' : '';
}

/** Climbs from `start` to at most `most`, in at most `steps` steps; a p99 above `limitMs` is too high. */
export class Climb {
  constructor({ start, most, steps, limitMs }) {
    Object.assign(this, { most, steps, limitMs, rate: Math.min(start, most), knee: 0 });
    /** The lowest rate that is too high, and the reason. */
    this.bad = Infinity;
    this.why = '';
    this.doubted = false;
  }

  /** Records the result of a step at `rate`; chooses the next `rate`, 0 at the end. */
  take(step) {
    this.steps -= 1;
    const why = verdict(step, this.limitMs);
    if (why && !this.doubted && this.steps > 0) {
      // Repeat the step once: other processes may have kept the machine busy.
      this.doubted = true;
      return;
    }
    this.doubted = false;
    if (why) {
      Object.assign(this, { bad: this.rate, why });
    } else {
      this.knee = this.rate;
    }
    this.rate = this.steps > 0 ? this.next() : 0;
    if (this.rate === 0 && this.bad === Infinity) {
      this.why = this.knee >= this.most ? 'highest-rate' : 'steps';
    }
  }

  next() {
    if (this.bad === Infinity) {
      return this.knee >= this.most ? 0 : Math.min(this.most, Math.round(this.knee * CLIMB));
    }
    if (this.knee === 0 || this.bad <= this.knee * CLOSE) {
      return 0;
    }
    const between = Math.round(Math.sqrt(this.knee * this.bad));
    return between > this.knee && between < this.bad ? between : 0;
  }
}
