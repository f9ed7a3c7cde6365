// Options that scenarios share.

import { replicas } from './settings.js';

export const common = {
  // Without url, ip and error texts, the number of series depends on the routes alone. Without
  // group, the summary lists no checks.
  systemTags: [
    'scenario', 'group', 'name', 'method', 'status', 'error_code', 'expected_response', 'check',
  ],
  summaryTrendStats: ['min', 'med', 'avg', 'p(90)', 'p(95)', 'p(99)', 'max'],
};

/** Open loop: requests start at a fixed rate, whether or not earlier ones were answered. */
export function openLoop(rate, duration) {
  return {
    executor: 'constant-arrival-rate',
    rate,
    timeUnit: '1s',
    duration,
    preAllocatedVUs: 50,
    maxVUs: 200,
    gracefulStop: '6s',
  };
}

/**
 * No request fails, every check passes, every route is asked and every replica answers. k6 passes
 * on failed checks and on exceptions in a script unless a threshold says otherwise.
 */
export function flawless(routes) {
  const thresholds = {
    http_req_failed: [{ threshold: 'rate==0', abortOnFail: true, delayAbortEval: '2s' }],
    checks: ['rate==1'],
    script_errors: ['count==0'],
  };
  for (const { name } of routes) {
    thresholds[`http_reqs{name:${name}}`] = ['count>0'];
    thresholds[`http_req_failed{name:${name}}`] = ['rate==0'];
    // Always true: k6 puts a route's times into the summary only if a threshold names them.
    thresholds[`http_req_duration{name:${name}}`] = ['max>=0'];
  }
  for (const name of replicas) {
    thresholds[`replica_replies{replica:${name}}`] = ['count>0'];
  }
  return thresholds;
}
