// The expected load: the usual mix of requests, each within the objective.
// `ramp` warms up; `steady` must answer 99% of the requests within P99_MS.

import { common, inTurn, openLoop, ramp, shown, sound, started, within } from '../lib/options.js';
import { one } from '../lib/overload.js';
import { p99Ms, rate, seconds } from '../lib/settings.js';

export { handleSummary } from '../lib/summary.js';

const RATE = rate(200);
const SECONDS = seconds('2m');

const scenarios = inTurn([
  { part: 'ramp', seconds: 0.1 * SECONDS, load: (length) => ramp(0, RATE, length) },
  { part: 'steady', seconds: 0.9 * SECONDS, load: (length) => openLoop(RATE, length) },
]);

export const options = {
  ...common,
  scenarios,
  thresholds: {
    ...sound(),
    ...started(RATE * SECONDS),
    ...within(p99Ms(), ['steady'], scenarios),
    ...shown(['ramp']),
  },
};

export default function () {
  one();
}
