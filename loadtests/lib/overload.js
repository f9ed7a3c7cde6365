// More load than expected, and the recovery after it.

import exec from 'k6/execution';

import { exchange, guarded } from './exchange.js';
import { common, inTurn, shown, sound, within } from './options.js';
import { drawn, seeded } from './random.js';
import { mix } from './routes.js';
import { p99Ms } from './settings.js';
import { figure, statistic } from './summary.js';

/**
 * Options of consecutive parts. `before` and `after` the overload, responses must meet the objective.
 * In `above`, the server may reject requests with a `Retry-After` header; an error or a missing response
 * is still a failure.
 */
export function overload({ before, above, after }) {
  const judged = [before, after].map(({ part }) => part);
  const scenarios = inTurn([before, { ...above, exec: 'overloaded' }, after]);
  return {
    ...common,
    scenarios,
    thresholds: {
      ...sound(),
      [`http_req_failed{part:${after.part}}`]: ['rate==0'],
      ...within(p99Ms(), judged, scenarios),
      ...shown([above.part]),
      // Always true, so that the summary contains it.
      refusals: ['count>=0'],
    },
  };
}

/** Sends one request of the mix. */
export function one(how = {}) {
  const random = seeded(exec.scenario.iterationInTest);
  guarded(() => exchange(drawn(mix, random).route, random, how));
}

/** Returns the number of rejected requests, and the latency after the overload compared with before. */
export function told(before, above, after) {
  return (metrics) => {
    const p99 = (part) => statistic(metrics, `http_req_duration{part:${part}}`, 'p(99)');
    const refused = statistic(metrics, 'refusals', 'count');
    return {
      figures: {
        [above]: figure('refusals', refused, 'requests'),
        [after]: figure('p99_after_over_before', p99(after) / p99(before), ''),
      },
    };
  };
}
