// C10k, S1's test: 13,000 requests for a page on ten thousand concurrent connections.
//
// S1 was run as `ab -n 13000 -c 10000` directly against the server. Every request has its own
// connection, as with ab without -k. VUS is the number of concurrent connections.

import { check } from 'k6';
import http from 'k6/http';

import { connections, crowd, own, server, told, users } from '../lib/crowd.js';
import { exchangeAsync, guardedAsync } from '../lib/exchange.js';
import { common, complete } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { named } from '../lib/routes.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

/** Requests per connection. */
const SHARE = 1.3;
const LONGEST = '120s';
const PAGE = named('static-index');

export const options = {
  ...common,
  setupTimeout: '10s',
  scenarios: {
    c10k: {
      executor: 'per-vu-iterations',
      vus: users,
      iterations: 1,
      maxDuration: LONGEST,
      gracefulStop: '6s',
    },
  },
  thresholds: complete(),
};

/** The server must reject methods other than GET. */
export function setup() {
  const refused = http.post(`${server}/static/`, 'x', {
    tags: { name: 'static-refused' },
    responseCallback: http.expectedStatuses(405),
  });
  check(refused, { 'static-refused: status 405': (reply) => reply.status === 405 });
}

export const handleSummary = handleSummaryWith((metrics) => {
  const connecting = (key) => statistic(metrics, 'http_req_connecting', key);
  return told(metrics, {
    ...figure('connections', connections, ''),
    ...figure('connect_p50_ms', connecting('med'), 'ms'),
    ...figure('connect_p99_ms', connecting('p(99)'), 'ms'),
  });
});

const HOW = { base: server, headers: { Connection: 'close' }, timeout: '60s' };

export default async function () {
  await guardedAsync(() => crowd(Math.round(SHARE * own), () => exchangeAsync(PAGE, seeded(0), HOW)));
}
