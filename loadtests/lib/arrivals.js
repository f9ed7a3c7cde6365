// An open loop of one virtual user, whose rate may change while it runs.
//
// k6's own arrival-rate executors need their plan before the run, and their virtual users share no
// state, so no user sees the overall result. A single user that sends without waiting does.

const TICK_MS = 1;

/**
 * Sends at random (exponentially distributed) intervals for this many seconds, with at most `most`
 * requests in flight. `send()` returns a promise of {right, ms}. Waits for all responses; returns the step's figures.
 */
export async function arrivals({ rate, seconds, most, random, send }) {
  const step = { rate, arrivals: 0, dropped: 0, failed: 0 };
  const [times, lates, underWay] = [[], [], new Set()];
  const begin = Date.now();
  const end = begin + 1000 * seconds;
  const gap = () => (-1000 * Math.log(1 - random())) / rate;
  const one = async (late) => {
    const { right, ms } = await send();
    step.failed += right ? 0 : 1;
    // Latency is measured from the due time and therefore includes the wait in the generator.
    times.push(late + ms);
  };
  for (let due = begin + gap(); due < end; due += gap()) {
    while (Date.now() < due) {
      await tick();
    }
    step.arrivals += 1;
    if (underWay.size >= most) {
      step.dropped += 1;
      continue;
    }
    const late = Date.now() - due;
    lates.push(late);
    const sent = one(late);
    underWay.add(sent);
    sent.then(() => underWay.delete(sent));
  }
  await Promise.all(underWay);
  return { ...step, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99), lateMs: quantile(lates, 0.99) };
}

function tick() {
  return new Promise((done) => setTimeout(done, TICK_MS));
}

/** Returns the smallest value that at least this share does not exceed; infinite without values. */
function quantile(values, share) {
  values.sort((one, other) => one - other);
  return values.length ? values[Math.ceil(share * values.length) - 1] : Infinity;
}
