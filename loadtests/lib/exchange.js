// One request on a route, and the checks of its reply.

import { check } from 'k6';
import http from 'k6/http';
import { Counter } from 'k6/metrics';

import { baseUrl, replicas } from './settings.js';

const replies = new Counter('replica_replies');

/** Sends one request. Its series carry the route's name, never the URL. */
export function exchange(route, random) {
  const { path, body } = route.ask(random);
  const response = http.request(route.method, baseUrl + path, null, {
    tags: { name: route.name },
    responseCallback: http.expectedStatuses(route.status),
    redirects: 0,
    timeout: '5s',
  });
  const replica = response.headers['Corelane-Replica'] || 'none';
  const known = replicas.includes(replica);
  replies.add(1, { replica: known ? replica : 'unknown' });
  check(
    response,
    {
      [`${route.name}: status ${route.status}`]: (reply) => reply.status === route.status,
      [`${route.name}: type ${route.type}`]: (reply) => reply.headers['Content-Type'] === route.type,
      [`${route.name}: body`]: (reply) => isRight(reply, body),
      [`${route.name}: a known replica`]: () => known,
    },
    { name: route.name },
  );
}

function isRight(response, body) {
  if (!response.body) {
    return false;
  }
  return typeof body === 'string' ? response.body === body : body(response);
}
