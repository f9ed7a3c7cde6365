// Overload: the rate rises to FACTOR times the expected load and falls again. The excess may be
// shed, but afterwards latency must be normal again.

import { openLoop, ramp } from '../lib/options.js';
import { one, overload, told } from '../lib/overload.js';
import { rate, seconds, whole } from '../lib/settings.js';
import { handleSummaryWith } from '../lib/summary.js';

const RATE = rate(200);
const TOP = RATE * whole('FACTOR', 5);
const SECONDS = seconds('3m');

export const options = overload({
  before: { part: 'expected', seconds: 0.2 * SECONDS, load: (length) => openLoop(RATE, length) },
  above: { part: 'above', seconds: 0.5 * SECONDS, load: (length) => ramp(RATE, TOP, length) },
  after: { part: 'recovery', seconds: 0.3 * SECONDS, load: (length) => openLoop(RATE, length) },
});

export const handleSummary = handleSummaryWith(told('expected', 'above', 'recovery'));

export default function () {
  one();
}

export function overloaded() {
  one({ mayRefuse: true });
}
