// Options that scenarios share.

import { replicas } from './settings.js';

export const common = {
  // Without url, ip and error texts, the number of series depends only on the routes. Without
  // `group`, the summary would not list checks.
  systemTags: [
    'scenario', 'group', 'name', 'method', 'status', 'error_code', 'expected_response', 'check',
  ],
  summaryTrendStats: ['min', 'med', 'avg', 'p(90)', 'p(95)', 'p(98)', 'p(99)', 'p(99.9)', 'max'],
};

/** Longer than the timeout of a request. */
const GRACE = '6s';

/** Open loop: requests start at a fixed rate, whether or not earlier ones were answered. */
export function openLoop(rate, seconds, connections = {}) {
  return {
    executor: 'constant-arrival-rate',
    ...frequency(rate),
    duration: whole(seconds),
    ...users(rate, connections),
    gracefulStop: GRACE,
  };
}

/** Open loop whose rate changes from one value to another. */
export function ramp(from, to, seconds, connections = {}) {
  return {
    executor: 'ramping-arrival-rate',
    startRate: from,
    timeUnit: '1s',
    stages: [{ target: to, duration: whole(seconds) }],
    ...users(Math.max(from, to), connections),
    gracefulStop: GRACE,
  };
}

/** Closed loop: each of this many connections sends its next request after the response. */
export function closedLoop(connections, seconds) {
  return {
    executor: 'constant-vus',
    vus: connections,
    duration: whole(seconds),
    gracefulStop: GRACE,
  };
}

/**
 * Consecutive parts, as k6 scenarios. Each has a `part`, which is a tag of its series, `seconds`, and
 * `load(seconds)`. `pause` is the number of seconds between two parts. Each part lasts at least one
 * second, the minimum that k6 accepts.
 */
export function inTurn(parts, pause = 0) {
  const scenarios = {};
  let start = 0;
  parts.forEach(({ part, seconds, load, exec = 'default' }, index) => {
    const name = `${String(index + 1).padStart(2, '0')}-${part}`;
    const length = Math.max(1, seconds);
    scenarios[name] = { ...load(length), exec, startTime: whole(start), tags: { part } };
    start += length + pause;
  });
  return scenarios;
}

function users(rate, { least = 50, most = 400 }) {
  const maxVUs = Math.max(least, Math.min(most, rate));
  return { preAllocatedVUs: Math.min(maxVUs, Math.max(least, Math.ceil(rate / 8))), maxVUs };
}

function frequency(rate) {
  return { rate, timeUnit: '1s' };
}

function whole(seconds) {
  return `${Math.round(1000 * seconds)}ms`;
}

/** Seconds of a part whose requests a threshold must see before it may abort a run. */
const SEEN = 10;

/**
 * 99% of the responses in these parts must meet the objective. A part in which fewer than 90% do aborts
 * the run.
 */
export function within(p99, parts, scenarios) {
  const limits = (part) => {
    const starts = Object.values(scenarios).filter(({ tags }) => tags.part === part)
      .map(({ startTime = '0ms' }) => parseInt(startTime, 10));
    const seen = `${Math.max(...starts) + 1000 * SEEN}ms`;
    return [
      `http_req_duration{part:${part}}`,
      [`p(99)<${p99}`, { threshold: `p(90)<${p99}`, abortOnFail: true, delayAbortEval: seen }],
    ];
  };
  return Object.fromEntries(parts.map(limits));
}

/** Always true, because k6 includes a part's times in the summary only if a threshold names them. */
export function shown(parts) {
  return Object.fromEntries(parts.map((part) => [`http_req_duration{part:${part}}`, ['max>=0']]));
}

/**
 * At most this share of requests fails or gets a wrong response, and no script throws. A run in which
 * one in twenty fails is aborted. Without a threshold, k6 passes despite failed checks and exceptions in a
 * script.
 */
export function sound(share = 0.001) {
  const early = { abortOnFail: true, delayAbortEval: '5s' };
  return {
    http_req_failed: [`rate<=${share}`, { threshold: 'rate<=0.05', ...early }],
    checks: [`rate>=${1 - share}`, { threshold: 'rate>=0.95', ...early }],
    script_errors: ['count==0'],
  };
}

/** Every request is sent and gets the right response; for crowds, in which none may be left behind. */
export function complete() {
  const early = { abortOnFail: true, delayAbortEval: '5s' };
  return {
    http_req_failed: [{ threshold: 'rate==0', ...early }],
    checks: [{ threshold: 'rate==1', ...early }],
    script_errors: ['count==0'],
    // Iterations that k6 dropped because no time was left.
    dropped_iterations: ['count==0'],
    http_reqs: ['count>0'],
  };
}

/** At most one percent of this many requests was omitted because no virtual user was free. */
export function started(planned) {
  return { dropped_iterations: [{ threshold: `count<=${Math.ceil(planned / 100)}`, abortOnFail: true }] };
}

/** No request fails, every check passes, every route is requested and every replica responds. */
export function flawless(routes) {
  const thresholds = {
    http_req_failed: [{ threshold: 'rate==0', abortOnFail: true, delayAbortEval: '2s' }],
    checks: ['rate==1'],
    script_errors: ['count==0'],
    ...everyReplica(),
  };
  for (const { name } of routes) {
    thresholds[`http_reqs{name:${name}}`] = ['count>0'];
    thresholds[`http_req_failed{name:${name}}`] = ['rate==0'];
    thresholds[`http_req_duration{name:${name}}`] = ['max>=0'];
  }
  return thresholds;
}

/** Every replica whose name is known responds. */
export function everyReplica() {
  return Object.fromEntries(replicas.map((name) => [`replica_replies{replica:${name}}`, ['count>0']]));
}
