// A page, a load and a save at the same time: VUS of S3's users, with ten rounds each.
//
// `users` is the published test: all users at once, each with a 4 KiB page, a load and a save of
// its own project, ten times. It is a closed loop, so its figure is the total time. `open` judges
// latency: it sends the same three requests, each when it is due. Saving requires TOKEN.

import exec from 'k6/execution';

import { exchange, guarded } from '../lib/exchange.js';
import { common, openLoop, sound, started, within } from '../lib/options.js';
import { Projects } from '../lib/projects.js';
import { seeded } from '../lib/random.js';
import { named } from '../lib/routes.js';
import { p99Ms, rate, seconds, vus, whole } from '../lib/settings.js';
import { figure, handleSummaryWith, statistic } from '../lib/summary.js';

const USERS = vus(200);
const ROUNDS = whole('ROUNDS', 10);
const RATE = rate(100);
const SECONDS = seconds('20s');
const LONGEST = 90;
/** Number of projects in the open loop, large enough that two users rarely save the same one. */
const SHARED = Math.min(USERS, 50);
const PAGE = named('static-4k');
const ROUTES = [PAGE.name, 'load', 'save'];

const projects = new Projects();

const scenarios = {
  open: { ...openLoop(RATE, SECONDS), exec: 'judged', tags: { part: 'open' } },
  users: {
    executor: 'per-vu-iterations',
    exec: 'users',
    vus: USERS,
    iterations: 1,
    startTime: `${SECONDS + 1}s`,
    maxDuration: `${LONGEST}s`,
    tags: { part: 'users' },
  },
};

export const options = {
  ...common,
  setupTimeout: '30s',
  teardownTimeout: '30s',
  scenarios,
  thresholds: {
    ...sound(),
    ...started(RATE * SECONDS),
    ...within(p99Ms(), ['open'], scenarios),
    ...Object.fromEntries(ROUTES.map((name) => [`http_reqs{name:${name}}`, ['count>0']])),
    'iteration_duration{part:users}': ['max>=0'],
    'http_reqs{part:users}': ['count>0'],
  },
};

/** Returns user numbers that no other runner uses. */
const base = whole('RUNNER', 0, 0) * 1_000_000;

export function setup() {
  return Array.from({ length: SHARED }, (_, index) => ({ user: base + index, id: projects.create(base + index) }));
}

export function judged(shared) {
  const number = exec.scenario.iterationInInstance;
  const { user, id } = shared[Math.floor(number / ROUTES.length) % shared.length];
  guarded(() => {
    const turns = [
      () => exchange(PAGE, seeded(number)),
      () => projects.load(id, user),
      () => projects.save(id, user, number),
    ];
    turns[number % turns.length]();
  });
}

/** Runs one user from its first request to its last. */
export function users() {
  const user = base + SHARED + exec.scenario.iterationInInstance;
  guarded(() => {
    const id = projects.create(user);
    for (let round = 1; round <= ROUNDS; round += 1) {
      exchange(PAGE, seeded(user), { timeout: '30s' });
      projects.load(id, user, round - 1);
      projects.save(id, user, round);
    }
    projects.remove(id);
  });
}

export function teardown(shared) {
  shared.forEach(({ id }) => projects.remove(id));
}

export const handleSummary = handleSummaryWith((metrics) => ({
  figures: {
    users: {
      // Time when the last user finishes; all users start at once.
      ...figure('all_users_seconds', statistic(metrics, 'iteration_duration{part:users}', 'max') / 1000, 's'),
      ...figure('users', USERS, ''),
    },
  },
}));
