// The cost of the gateway: the same open loop at one replica and through the gateway.
//
// S0 was run as `ab -n 50000 -c 100`. This scenario also has 100 connections, but a request starts
// when it is due. The slices have the order direct, gateway, gateway, direct, so that drift on the
// machine affects both parts. Each response names its replica, and a silent replica fails the run
// (with plain SO_REUSEPORT only the last of several processes received requests).

import exec from 'k6/execution';

import { check } from 'k6';
import { exchange, guarded } from '../lib/exchange.js';
import { common, everyReplica, inTurn, openLoop, shown, sound, started } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { named } from '../lib/routes.js';
import { baseUrl, directUrl, rate, seconds, vus } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const RATE = rate(300);
const SECONDS = seconds('1m');
const CONNECTIONS = vus(100);
const BASES = { direct: directUrl, gateway: baseUrl };
const ORDER = directUrl ? ['direct', 'gateway', 'gateway', 'direct'] : ['gateway'];
const COMPARED = { p50: 'med', p98: 'p(98)', p99: 'p(99)', max: 'max' };

export const options = {
  ...common,
  scenarios: inTurn(
    ORDER.map((part) => ({
      part,
      seconds: SECONDS / ORDER.length,
      load: (length) => openLoop(RATE, length, { least: CONNECTIONS, most: CONNECTIONS }),
    })),
  ),
  thresholds: { ...sound(), ...started(RATE * SECONDS), ...everyReplica(), ...shown([...new Set(ORDER)]) },
};

export const handleSummary = handleSummaryWith((metrics) => {
  if (!directUrl) {
    return { notes: ['DIRECT_URL is not set: only the gateway was asked, and nothing is compared.'] };
  }
  const of = (part, key) => statistic(metrics, `http_req_duration{part:${part}}`, key);
  const ratios = Object.entries(COMPARED).map(([name, key]) =>
    figure(`${name}_gateway_over_direct`, of('gateway', key) / of('direct', key), ''));
  return { figures: { gateway: Object.assign({}, ...ratios) } };
});

let first;

export default function () {
  const { part } = exec.vu.metrics.tags;
  const random = seeded(exec.scenario.iterationInTest);
  guarded(() => {
    const { response } = exchange(named('root'), random, { base: BASES[part] });
    if (part === 'direct') {
      const replica = response.headers['Corelane-Replica'];
      first = first || replica;
      check(replica, { 'direct: always the same replica': (name) => name === first }, { name: 'root' });
    }
  });
}
