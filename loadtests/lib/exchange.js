// Sends one request on a route, checks its response, and counts a script's exceptions.

import { check } from 'k6';
import http from 'k6/http';
import { Counter } from 'k6/metrics';

import { baseUrl, replicas } from './settings.js';

const replies = new Counter('replica_replies');
const refusals = new Counter('refusals');
const errors = new Counter('script_errors');

/**
 * Sends one request. Its series have the route's name, never the URL. `how` may contain `base`,
 * `headers`, `tags`, `timeout`, and `mayRefuse`, which also accepts a 503 with `Retry-After`.
 */
export function exchange(route, random, how = {}) {
  const { path, body } = route.ask(random);
  const response = http.request(route.method, (how.base || baseUrl) + path, null, asked(route, how));
  return { response, right: judge(route, body, response, how) };
}

/** Like `exchange`, but concurrent with other requests of the same virtual user. */
export async function exchangeAsync(route, random, how = {}) {
  const { path, body } = route.ask(random);
  const url = (how.base || baseUrl) + path;
  const response = await http.asyncRequest(route.method, url, null, asked(route, how));
  return { response, right: judge(route, body, response, how) };
}

function asked(route, { headers = {}, tags = {}, timeout = '5s', mayRefuse = false }) {
  return {
    tags: { name: route.name, ...tags },
    headers,
    responseCallback: http.expectedStatuses(route.status, ...(mayRefuse ? [503] : [])),
    redirects: 0,
    timeout,
  };
}

function judge(route, body, response, { tags = {}, mayRefuse = false }) {
  if (mayRefuse && response.status === 503) {
    refusals.add(1);
    const name = `${route.name}: a refusal says when to come again`;
    return check(response, { [name]: (reply) => 'Retry-After' in reply.headers }, { name: route.name, ...tags });
  }
  const replica = response.headers['Corelane-Replica'] || 'none';
  const known = replicas.length === 0 ? replica !== 'none' : replicas.includes(replica);
  replies.add(1, { replica: replicas.includes(replica) ? replica : 'unknown' });
  return check(
    response,
    {
      [`${route.name}: status ${route.status}`]: (reply) => reply.status === route.status,
      [`${route.name}: type ${route.type}`]: (reply) => reply.headers['Content-Type'] === route.type,
      [`${route.name}: body`]: (reply) => isRight(reply, body),
      [`${route.name}: a known replica`]: () => known,
    },
    { name: route.name, ...tags },
  );
}

function isRight(response, body) {
  if (!response.body) {
    return false;
  }
  return typeof body === 'string' ? response.body === body : body(response);
}

/** Runs one iteration. k6 itself only logs an exception and continues. */
export function guarded(iteration) {
  try {
    return iteration();
  } catch (error) {
    errors.add(1);
    throw error;
  }
}

/** Like `iterate`, for an iteration that waits for promises. */
export async function guardedAsync(iteration) {
  try {
    await iteration();
  } catch (error) {
    errors.add(1);
    throw error;
  }
}
