// Runs the climb of `breakpoint` against simulated servers. CASES is a JSON list of servers.

import { Climb } from './lib/knee.js';

export const options = { iterations: 1 };

export default function () {}

/** What a step at a rate gives: with one lane and random arrivals (M/M/1), and with what the case adds. */
function step(rate, number, { capacity, failed = 0, lateMs = 0, badSteps = [] }) {
  const spare = capacity - rate;
  const bad = spare <= 0 || badSteps.includes(number);
  return {
    rate,
    arrivals: 5 * rate,
    dropped: bad && spare <= 0 ? rate : 0,
    failed: failed * 5 * rate,
    lateMs,
    // Response times are exponentially distributed with the spare rate, so the p99 is ln 100 times
    // the mean.
    p99Ms: bad ? 1e6 : (1000 * Math.log(100)) / spare,
  };
}

export function handleSummary() {
  const results = JSON.parse(__ENV.CASES).map(({ settings, server }) => {
    const climb = new Climb(settings);
    const rates = [];
    while (climb.rate > 0 && rates.length < 1000) {
      rates.push(climb.rate);
      climb.take(step(climb.rate, rates.length, server));
    }
    return { knee: climb.knee, bad: climb.bad === Infinity ? null : climb.bad, why: climb.why, rates };
  });
  return { stdout: `\n${JSON.stringify({ results })}\n` };
}
