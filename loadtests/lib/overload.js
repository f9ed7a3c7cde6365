// More load than is expected, and whether all is well again after it.

import exec from 'k6/execution';

import { exchange, guarded } from './exchange.js';
import { common, inTurn, shown, sound, within } from './options.js';
import { drawn, seeded } from './random.js';
import { mix } from './routes.js';
import { p99Ms } from './settings.js';
import { figure, statistic } from './summary.js';

/**
 * Options of parts that follow each other. The expected load must be answered within the objective,
 * `before` the overload and `after` it. In `above` a request may be refused, as long as the refusal
 * says when to come again; an error, or no reply, is a failure there, too.
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
      // Always true, to have it in the summary.
      refusals: ['count>=0'],
    },
  };
}

/** One request of the mix. */
export function one(how = {}) {
  const random = seeded(exec.scenario.iterationInTest);
  guarded(() => exchange(drawn(mix, random).route, random, how));
}

/** How many were refused, and how the latency after compares with that before. */
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
