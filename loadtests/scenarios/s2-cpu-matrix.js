// Throughput by connections and work per request: S2's matrix, a closed loop for each cell.
//
// The server determines its threads: start it with a different number of lanes, or see `make bench
// BENCH=threads`. S2 reported milliseconds per request (a cell's duration divided by its requests),
// which is `ms_per_request` here. Latency is not judged, because a closed loop sends less while it
// waits.

import exec from 'k6/execution';

import { exchange, guarded } from '../lib/exchange.js';
import { closedLoop, common, inTurn, sound } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { workOf } from '../lib/routes.js';
import { seconds, vus } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const MOST = vus(1000);
const CONNECTIONS = [...new Set([1, 20, 1000].map((count) => Math.min(count, MOST)))];
const OPS = [1000, 100_000, 5_000_000];

/** Maximum steps that wait on all connections together: a few tenths of a second of one CPU. */
const WAITING = 200_000_000;

const CELLS = CONNECTIONS.flatMap((connections) => OPS.map((ops) => ({ connections, ops })))
  .filter(({ connections, ops }) => connections * ops <= WAITING)
  .map((cell) => ({ ...cell, part: `c${cell.connections}-ops${cell.ops}` }));
const EACH = Math.max(1, seconds('40s') / CELLS.length);
const ROUTES = Object.fromEntries(CELLS.map(({ part, ops }) => [part, workOf(ops, `work-${ops}`)]));

export const options = {
  ...common,
  scenarios: inTurn(
    CELLS.map(({ part, connections }) => ({ part, seconds: EACH, load: (length) => closedLoop(connections, length) })),
    // Requests still in flight belong to their own cell.
    1,
  ),
  thresholds: {
    ...sound(),
    ...Object.fromEntries(CELLS.map(({ part }) => [`http_reqs{part:${part}}`, ['count>0']])),
  },
};

export const handleSummary = handleSummaryWith((metrics) => {
  const cell = ({ part }) => {
    const requests = statistic(metrics, `http_reqs{part:${part}}`, 'count');
    return [part, figure('ms_per_request', (1000 * EACH) / requests, 'ms')];
  };
  return {
    figures: Object.fromEntries(CELLS.map(cell)),
    notes: [`Cells of more than ${WAITING} steps on all connections together are left out.`],
  };
});

export default function () {
  const { part } = exec.vu.metrics.tags;
  guarded(() => exchange(ROUTES[part], seeded(0), { timeout: '60s' }));
}
