// Settings from the environment, which `python3 loadtests` sets. Only BASE_URL is required.

/** Target of the requests, without a slash at the end. */
export const baseUrl = trimmed(required('BASE_URL', 'run the scenario with python3 loadtests, or set it with --env'));

/** Address of a replica without the gateway; empty if none is reachable. */
export const directUrl = trimmed(__ENV.DIRECT_URL || '');

/** Names of the replicas that must respond; empty if they are unknown. */
export const replicas = (__ENV.REPLICA_NAMES || '').split(',').filter((name) => name !== '');

/** File for the summary; without it the summary goes to standard output. */
export const summaryFile = __ENV.SUMMARY_FILE || 'stdout';

/** Seed of every random choice. */
export const seed = whole('SEED', 1, 0);

/** Requests started per second. */
export const rate = (byDefault) => whole('RATE', byDefault);

/** Users or connections at once. */
export const vus = (byDefault) => whole('VUS', byDefault);

/** Milliseconds within which 99% of responses must arrive; by default the objective of dashboards/rules. */
export const p99Ms = (byDefault = 250) => whole('P99_MS', byDefault);

/** Seconds during which requests start. */
export function seconds(byDefault) {
  const text = __ENV.DURATION || byDefault;
  const units = { h: 3600, m: 60, s: 1, ms: 0.001 };
  const found = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)];
  const total = found.reduce((sum, [, number, unit]) => sum + Number(number) * units[unit], 0);
  if (found.map(([all]) => all).join('') !== text || total < 1) {
    throw new Error(`DURATION=${text}: give at least 1s, as in 90s or 1h30m`);
  }
  return total;
}

/** Reads a whole number from the environment. */
export function whole(name, byDefault, least = 1) {
  const value = Number(__ENV[name] || byDefault);
  if (!Number.isSafeInteger(value) || value < least) {
    throw new Error(`${name}=${__ENV[name]}: give a whole number from ${least}`);
  }
  return value;
}

/** Reads a variable that a scenario requires. */
export function required(name, what) {
  const value = __ENV[name];
  if (!value) {
    throw new Error(`${name} is not set: ${what}`);
  }
  return value;
}

function trimmed(url) {
  return url.replace(/\/+$/, '');
}
