// The gain of keep-alive: S4's `/div/4` at full rate, with and without it.
//
// S4 was run with vegeta at full rate and 4 workers. The `close` and `keep-alive` parts are a
// closed loop of VUS connections, whose figure is the throughput. `open` judges latency at a given
// rate.

import exec from 'k6/execution';

import { exchange, guarded } from '../lib/exchange.js';
import { closedLoop, common, inTurn, openLoop, sound, within } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { halfOf } from '../lib/routes.js';
import { p99Ms, rate, seconds, vus } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const WORKERS = vus(4);
const RATE = rate(300);
const EACH = seconds('30s') / 3;
const DIV = halfOf('4');
const PARTS = ['close', 'keep-alive', 'open'];

const scenarios = inTurn(
  PARTS.map((part) => ({
    part,
    seconds: EACH,
    load: (length) => (part === 'open' ? openLoop(RATE, length) : closedLoop(WORKERS, length)),
  })),
  1,
);

export const options = {
  ...common,
  scenarios,
  thresholds: {
    ...sound(),
    ...within(p99Ms(), ['open'], scenarios),
    ...Object.fromEntries(PARTS.map((part) => [`http_reqs{part:${part}}`, ['count>0']])),
  },
};

export default function () {
  const { part } = exec.vu.metrics.tags;
  guarded(() => exchange(DIV, seeded(0), part === 'close' ? { headers: { Connection: 'close' } } : {}));
}

export const handleSummary = handleSummaryWith((metrics) => {
  const requests = (part) => statistic(metrics, `http_reqs{part:${part}}`, 'count');
  return {
    figures: {
      'keep-alive': figure('keep_alive_over_close', requests('keep-alive') / requests('close'), ''),
    },
  };
});
