// A sudden burst of FACTOR times the load. The burst may be shed, but later requests must not be
// affected.

import { openLoop } from '../lib/options.js';
import { one, overload, told } from '../lib/overload.js';
import { rate, seconds, whole } from '../lib/settings.js';
import { handleSummaryWith } from '../lib/summary.js';

const RATE = rate(100);
const CROWD = RATE * whole('FACTOR', 10);
const SECONDS = seconds('1m');

export const options = overload({
  before: { part: 'before', seconds: 0.4 * SECONDS, load: (length) => openLoop(RATE, length) },
  above: { part: 'spike', seconds: 0.2 * SECONDS, load: (length) => openLoop(CROWD, length) },
  after: { part: 'after', seconds: 0.4 * SECONDS, load: (length) => openLoop(RATE, length) },
});

export const handleSummary = handleSummaryWith(told('before', 'spike', 'after'));

export default function () {
  one();
}

export function overloaded() {
  one({ mayRefuse: true });
}
