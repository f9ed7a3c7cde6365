// Stability: a moderate load for a long time, and its last third compared with its first.
// One request in ten is the last of its connection, so that connections come and go as well.

import exec from 'k6/execution';

import { common, inTurn, openLoop, sound, started, within } from '../lib/options.js';
import { one } from '../lib/overload.js';
import { p99Ms, rate, seconds } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const RATE = rate(100);
const SECONDS = seconds('30m');
const THIRDS = ['first', 'middle', 'last'];
const CLOSED = 10;

const scenarios = inTurn(
  THIRDS.map((part) => ({ part, seconds: SECONDS / 3, load: (length) => openLoop(RATE, length) })),
);

export const options = {
  ...common,
  scenarios,
  thresholds: { ...sound(), ...started(RATE * SECONDS), ...within(p99Ms(), THIRDS, scenarios) },
};

export const handleSummary = handleSummaryWith((metrics) => {
  const p99 = (part) => statistic(metrics, `http_req_duration{part:${part}}`, 'p(99)');
  return { figures: { last: figure('p99_last_over_first', p99('last') / p99('first'), '') } };
});

export default function () {
  const closes = exec.scenario.iterationInTest % CLOSED === 0;
  one(closes ? { headers: { Connection: 'close' } } : {});
}
