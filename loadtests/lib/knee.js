// The rule by which `breakpoint` climbs: which rate comes next, and which is the knee.

/** A step that is worse than this is beyond the knee. */
export const RULE = {
  /** Share of the requests that failed or had a wrong reply. */
  failed: 0.01,
  /** Share of the arrivals that could not start, because too many were under way. */
  dropped: 0.01,
};

/** From rate to rate until one is too much; */
const CLIMB = 1.5;

/** then between the last good and the first bad one, until they are this close. */
const CLOSE = 1.08;

/**
 * Why a step is beyond the knee, or '' where it is not. `late` is the p99 of how late the generator
 * itself was: a tail that it made itself says nothing about the server.
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

/** Climbs from `start` to at most `most`, in at most `steps` steps; a p99 above `limitMs` is too much. */
export class Climb {
  constructor({ start, most, steps, limitMs }) {
    Object.assign(this, { most, steps, limitMs, rate: Math.min(start, most), knee: 0 });
    /** The lowest rate that is too much, and why. */
    this.bad = Infinity;
    this.why = '';
    this.doubted = false;
  }

  /** Takes what a step at `rate` gave; chooses the next `rate`, 0 at the end. */
  take(step) {
    this.steps -= 1;
    const why = verdict(step, this.limitMs);
    if (why && !this.doubted && this.steps > 0) {
      // Once more: the machine may have been busy with something else.
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
