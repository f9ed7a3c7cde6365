// Does it serve a page to ten thousand connections at once? S1's `ab -n 13000 -c 10000`, as far as VUS goes.
//
// Every request has a connection of its own, as with ab. A virtual user takes memory, so that VUS is
// lower by default; --vus 10000 is the whole test, and `--tool ab` the one that S1 was run with.

import { check } from 'k6';
import http from 'k6/http';

import { exchange } from '../lib/exchange.js';
import { guarded } from '../lib/guard.js';
import { common } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { named } from '../lib/routes.js';
import { baseUrl, vus } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const CONNECTIONS = vus(2000);
const REQUESTS = Math.round(1.3 * CONNECTIONS);
const SECONDS = 120;
const PAGE = named('static-index');

export const options = {
  ...common,
  setupTimeout: '10s',
  scenarios: {
    c10k: {
      executor: 'shared-iterations',
      vus: CONNECTIONS,
      iterations: REQUESTS,
      maxDuration: `${SECONDS}s`,
      gracefulStop: '6s',
    },
  },
  thresholds: {
    http_req_failed: [{ threshold: 'rate==0', abortOnFail: true, delayAbortEval: '5s' }],
    checks: [{ threshold: 'rate==1', abortOnFail: true, delayAbortEval: '5s' }],
    script_errors: ['count==0'],
    // None was left out, because time was over.
    dropped_iterations: ['count==0'],
    http_reqs: ['count>0'],
    'http_req_duration{name:static-index}': ['max>=0'],
  },
};

/** What is no GET must be refused. */
export function setup() {
  const refused = http.post(`${baseUrl}/static/`, 'x', {
    tags: { name: 'static-refused' },
    responseCallback: http.expectedStatuses(405),
  });
  check(refused, { 'static-refused: status 405': (reply) => reply.status === 405 });
}

export const handleSummary = handleSummaryWith((metrics) => {
  const connecting = (key) => statistic(metrics, 'http_req_connecting', key);
  return {
    figures: {
      all: {
        ...figure('connections', CONNECTIONS, ''),
        ...figure('connect_p50_ms', connecting('med'), 'ms'),
        ...figure('connect_p99_ms', connecting('p(99)'), 'ms'),
      },
    },
  };
});

export default function () {
  guarded(() => exchange(PAGE, seeded(0), { headers: { Connection: 'close' }, timeout: '60s' }));
}
