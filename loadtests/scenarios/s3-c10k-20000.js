// How long do 20,000 requests of 4 KiB that come at once take? S3's test, as far as one k6 can.
//
// S3 published a median of 30 ms and none over 300. One process may not hold 20,000 connections
// (its limit of open files), and a virtual user takes memory: here VUS connections ask in the same
// moment, ROUNDS times. `make ladder` has all 20,000 at once.

import exec from 'k6/execution';

import { exchange } from '../lib/exchange.js';
import { guarded } from '../lib/guard.js';
import { common } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { named } from '../lib/routes.js';
import { vus, whole } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';
import { firstTurn, until } from '../lib/turn.js';

const TOTAL = 20_000;
const CONNECTIONS = vus(2000);
const ROUNDS = whole('ROUNDS', Math.max(1, Math.round(TOTAL / CONNECTIONS)));
/** Seconds from one round to the next, and until the first. */
const GAP = 3;
const LATE_MS = 300;
const PAGE = named('static-4k');

export const options = {
  ...common,
  scenarios: {
    rush: {
      executor: 'per-vu-iterations',
      vus: CONNECTIONS,
      iterations: ROUNDS,
      maxDuration: `${GAP * (ROUNDS + 1) + 60}s`,
    },
  },
  thresholds: {
    http_req_failed: [{ threshold: 'rate==0', abortOnFail: true, delayAbortEval: '5s' }],
    checks: [{ threshold: 'rate==1', abortOnFail: true, delayAbortEval: '5s' }],
    script_errors: ['count==0'],
    dropped_iterations: ['count==0'],
    http_reqs: ['count>0'],
  },
};

export const setup = () => firstTurn(GAP);

export default function (first) {
  until(first + 1000 * GAP * exec.vu.iterationInScenario);
  guarded(() => exchange(PAGE, seeded(0), { timeout: '60s' }));
}

export const handleSummary = handleSummaryWith((metrics) => {
  const of = (key) => statistic(metrics, 'http_req_duration', key);
  return {
    figures: {
      all: {
        ...figure('at_once', CONNECTIONS, 'requests'),
        ...figure('median_ms', of('med'), 'ms'),
        ...figure('longest_ms', of('max'), 'ms'),
      },
    },
    notes: [
      `${CONNECTIONS} at once, ${ROUNDS} times: one process of k6 cannot hold ${TOTAL}, which make ladder can. `
      + `Published for ${TOTAL}: median 30 ms, none over ${LATE_MS} ms.`,
    ],
  };
});
