// What the environment says; `python3 loadtests` sets it.

/** Where requests go, without a slash at the end. */
export const baseUrl = required('BASE_URL');

/** Names of the replicas that must answer. */
export const replicas = (__ENV.REPLICA_NAMES || '').split(',').filter((name) => name !== '');

/** File for the summary; without it the summary goes to standard output. */
export const summaryFile = __ENV.SUMMARY_FILE || 'stdout';

/** Requests started per second. */
export function rate(byDefault) {
  const value = Number(__ENV.RATE || byDefault);
  if (!Number.isInteger(value) || value < 1) {
    throw new Error(`RATE=${__ENV.RATE}: give a whole number above 0`);
  }
  return value;
}

/** How long requests are started. */
export function duration(byDefault) {
  return __ENV.DURATION || byDefault;
}

function required(name) {
  const value = __ENV[name];
  if (!value) {
    throw new Error(`${name} is not set: run the scenario with python3 loadtests, or set it with --env`);
  }
  return value.replace(/\/+$/, '');
}
