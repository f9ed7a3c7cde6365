// A moderate open-loop load on every route except /projects, /docs and /openapi.json, with a full
// check of each response. It does not judge speed, so it has no latency threshold.

import exec from 'k6/execution';

import { exchange, guarded } from '../lib/exchange.js';
import { common, flawless, openLoop } from '../lib/options.js';
import { seeded } from '../lib/random.js';
import { routes } from '../lib/routes.js';
import { rate, seconds } from '../lib/settings.js';

export { handleSummary } from '../lib/summary.js';

export const options = {
  ...common,
  scenarios: { smoke: openLoop(rate(300), seconds('20s')) },
  thresholds: flawless(routes),
};

export default function () {
  // Each of several runners counts its iterations from 0 and therefore requests every route.
  const route = routes[exec.scenario.iterationInInstance % routes.length];
  guarded(() => exchange(route, seeded(exec.scenario.iterationInTest)));
}
