// Starts all runners at once, when each of them has created its virtual users and waits. Stops them
// if one is missing.
//
// They wait as `k6 run --paused`. This script controls them through k6's REST API
// (https://grafana.com/docs/k6/latest/misc/k6-rest-api/).

import exec from 'k6/execution';
import http from 'k6/http';
import { sleep } from 'k6';

const runners = __ENV.RUNNER_URLS.split(',');
const patience = Number(__ENV.START_SECONDS);

/** k6's ExecutionStatusPausedBeforeRun: everything is prepared. */
const WAITING = 4;
const PAUSE = 0.25;

export const options = {
  scenarios: {
    start: { executor: 'per-vu-iterations', vus: 1, iterations: 1, maxDuration: `${patience + 30}s` },
  },
  // Names of pods that do not exist yet must be looked up again.
  dns: { ttl: '0' },
  // All at once instead of in batches of twenty.
  batch: runners.length,
};

export default function () {
  const missing = waitForAll();
  if (missing.length > 0) {
    tell({ stopped: true }, runners);
    exec.test.abort(`not started: after ${patience} s not ready: ${missing.join(', ')}`);
  }
  const begun = Date.now();
  const replies = tell({ paused: false }, runners);
  const deaf = runners.filter((_, index) => replies[index].status !== 200);
  if (deaf.length > 0) {
    tell({ stopped: true }, runners);
    exec.test.abort(`stopped again: not started: ${deaf.join(', ')}`);
  }
  console.log(`started ${runners.length} runners within ${Date.now() - begun} ms`);
}

/** Those that are not ready when patience ends; none, as soon as all are. */
function waitForAll() {
  const end = Date.now() + patience * 1000;
  let missing = runners;
  while (missing.length > 0 && Date.now() < end) {
    const replies = http.batch(missing.map((url) => ['GET', url, null, { timeout: '2s' }]));
    missing = missing.filter((_, index) => !waits(replies[index]));
    sleep(missing.length > 0 ? PAUSE : 0);
  }
  return missing;
}

function waits(reply) {
  return reply.status === 200 && reply.json('data.attributes.status') === WAITING;
}

function tell(attributes, whom) {
  const body = JSON.stringify({ data: { type: 'status', id: 'default', attributes } });
  return http.batch(whom.map((url) => ['PATCH', url, body, { timeout: '5s' }]));
}

/** Nothing of this is a measurement. */
export function handleSummary() {
  return {};
}
