// The knee: the rate rises until the tail latency, failures or dropped requests exceed their limit.
//
// The knee is the highest rate of a good step (RULE in lib/knee.js). A bad step is repeated once. Then
// the search continues between the last good and the first bad rate. Reaching the knee is not a
// failure: the run fails only if the first step is bad.

import { Counter, Gauge } from 'k6/metrics';

import { arrivals } from '../lib/arrivals.js';
import { exchangeAsync, guardedAsync } from '../lib/exchange.js';
import { Climb } from '../lib/knee.js';
import { common } from '../lib/options.js';
import { drawn, seeded } from '../lib/random.js';
import { mix, named, workOf } from '../lib/routes.js';
import { p99Ms, rate, seconds, vus, whole } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const START = rate(100);
const STEP = seconds('5s');
const MOST = whole('MAX_RATE', 20000);
const STEPS = whole('STEPS', 30);
const AT_ONCE = vus(200);
const LIMIT_MS = p99Ms();
const TIMEOUT = 5;
const REASONS = {
  tail: `the p99 passed ${LIMIT_MS} ms`,
  failures: 'requests failed',
  dropped: `more than ${AT_ONCE} requests were under way, so that others could not start`,
  generator: 'the generator was late itself: the server may carry more',
  'highest-rate': 'MAX_RATE was reached: the server may carry more',
  steps: 'STEPS were used up: the server may carry more',
};

const knee = new Gauge('knee_requests_per_second');
const beyond = new Gauge('knee_first_bad_requests_per_second');
const stopped = new Counter('knee_stopped_by');

const first = `${START}/s`;

export const options = {
  ...common,
  // Number of idle connections that a virtual user keeps.
  batch: AT_ONCE,
  batchPerHost: AT_ONCE,
  scenarios: {
    climb: {
      executor: 'per-vu-iterations',
      vus: 1,
      iterations: 1,
      maxDuration: `${Math.ceil(STEPS * (STEP + TIMEOUT)) + 10}s`,
    },
  },
  thresholds: {
    [`http_req_failed{part:${first}}`]: ['rate<=0.01'],
    [`checks{part:${first}}`]: ['rate>=0.99'],
    script_errors: ['count==0'],
    knee_requests_per_second: ['value>0'],
    // Always true, so that the summary contains them.
    ...Object.fromEntries(Object.keys(REASONS).map((by) => [`knee_stopped_by{by:${by}}`, ['count>=0']])),
  },
};

export const handleSummary = handleSummaryWith((metrics) => {
  const of = (name) => statistic(metrics, name, 'value');
  const by = Object.keys(REASONS).find((each) => statistic(metrics, `knee_stopped_by{by:${each}}`, 'count') > 0);
  return {
    figures: {
      all: {
        ...figure('knee_requests_per_second', of('knee_requests_per_second'), 'requests/s'),
        ...figure('first_bad_requests_per_second', of('knee_first_bad_requests_per_second'), 'requests/s'),
        ...figure('p99_limit_ms', LIMIT_MS, 'ms'),
      },
    },
    notes: by ? [`The climb ended because ${REASONS[by]}.`] : [],
  };
});

const only = __ENV.OPS ? workOf(whole('OPS', 1)) : __ENV.ROUTE && named(__ENV.ROUTE);

export default async function () {
  await guardedAsync(async () => {
    const climb = new Climb({ start: START, most: MOST, steps: STEPS, limitMs: LIMIT_MS });
    const random = seeded(0);
    while (climb.rate > 0) {
      const tags = { part: `${climb.rate}/s` };
      const step = await arrivals({
        rate: climb.rate, seconds: STEP, most: AT_ONCE, random, send: () => send(random, tags),
      });
      climb.take(step);
      console.log(said(step));
    }
    knee.add(climb.knee);
    if (climb.bad < Infinity) {
      beyond.add(climb.bad);
    }
    stopped.add(1, { by: climb.why });
  });
}

async function send(random, tags) {
  const route = only || drawn(mix, random).route;
  const { response, right } = await exchangeAsync(route, random, { tags, timeout: `${TIMEOUT}s` });
  return { right, ms: response.timings.duration + response.timings.connecting };
}

function said(step) {
  return `${step.rate}/s: p50 ${step.p50Ms.toFixed(1)} ms, p99 ${step.p99Ms.toFixed(1)} ms, `
    + `${step.failed} failed, ${step.dropped} left out of ${step.arrivals}`;
}
