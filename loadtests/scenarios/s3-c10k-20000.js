// 20,000 simultaneous requests of 4 KiB: S3's test, as far as one k6 process can run it.
//
// S3 published a median of 30 ms and no request over 300 ms. The open-file limit keeps one process
// below 20,000 connections. Here, VUS connections send requests at the same time, ROUNDS times.
// `make bench BENCH="connections --only ladder"` sends all 20,000 at once.

import exec from 'k6/execution';

import { connections, crowd, keeping, own, server, told, until, users } from '../lib/crowd.js';
import { exchangeAsync, guardedAsync } from '../lib/exchange.js';
import { common, complete } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { named } from '../lib/routes.js';
import { whole } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const TOTAL = 20_000;
const ROUNDS = whole('ROUNDS', Math.max(1, Math.round(TOTAL / connections)));
/** Seconds between two rounds, and until the first. */
const GAP = 3;
const LATE_MS = 300;
const PAGE = named('static-4k');

export const options = {
  ...common,
  ...keeping,
  scenarios: {
    rush: {
      executor: 'per-vu-iterations',
      vus: users,
      iterations: ROUNDS,
      maxDuration: `${GAP * (ROUNDS + 1) + 60}s`,
    },
  },
  thresholds: complete(),
};

/** Start of the first round, by which all virtual users exist. */
export const setup = () => Date.now() + 1000 * GAP;

const HOW = { base: server, timeout: '60s' };

export default async function (first) {
  await until(first + 1000 * GAP * exec.vu.iterationInScenario);
  await guardedAsync(() => crowd(own, () => exchangeAsync(PAGE, seeded(0), HOW)));
}

export const handleSummary = handleSummaryWith((metrics) => {
  const of = (key) => statistic(metrics, 'http_req_duration', key);
  return told(
    metrics,
    {
      ...figure('at_once', connections, 'requests'),
      ...figure('median_ms', of('med'), 'ms'),
      ...figure('longest_ms', of('max'), 'ms'),
    },
    ` ${ROUNDS} times: one process of k6 cannot hold ${TOTAL}, which make bench BENCH=connections can. `
    + `Published for ${TOTAL}: median 30 ms, none over ${LATE_MS} ms.`,
  );
});
