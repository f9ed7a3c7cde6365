// Sends load to every route of the service, including project changes, through BASE_URL and, one
// request in eight, directly to DIRECT_URL. Responses are counted but not checked, because faults
// are part of the test.

import exec from 'k6/execution';
import http from 'k6/http';
import { check } from 'k6';

import { common, openLoop } from '../../loadtests/lib/options.js';
import { seeded } from '../../loadtests/lib/random.js';
import { routes as asked } from '../../loadtests/lib/routes.js';
import { baseUrl, rate, seconds } from '../../loadtests/lib/settings.js';

export const options = {
  ...common,
  insecureSkipTLSVerify: true,
  scenarios: { load: openLoop(rate(60), seconds('60s')) },
};

/** Tens of milliseconds in an unoptimised build: capacity panels need lanes that are more than 2% busy. */
const OPS = 2500000;

const head = { Authorization: `Bearer ${__ENV.TOKEN}`, 'Content-Type': 'application/json' };
const words = 'a lane is one core of a server; ';

export default function () {
  const number = exec.scenario.iterationInTest;
  const at = number % 8 === 7 ? __ENV.DIRECT_URL || baseUrl : baseUrl;
  const plain = number % (asked.length + 2);
  if (plain < asked.length) {
    const route = asked[plain];
    const path = route.name === 'work' ? `/work?ops=${OPS}` : route.ask(seeded(number)).path;
    send(at, route.name, route.method, path, null, route.status);
  } else if (plain === asked.length) {
    send(at, 'openapi', 'GET', '/openapi.json', null, 200);
  } else {
    project(at, number);
  }
}

/** Creates, reads, lists, replaces and deletes a project; another replacement and another read then fail. */
function project(at, number) {
  const made = send(at, 'project-create', 'POST', '/projects', document(number), 201);
  const path = made.headers.Location;
  if (!path) {
    return;
  }
  const read = send(at, 'project-get', 'GET', path, null, 200);
  send(at, 'project-list', 'GET', '/projects?limit=3', null, 200);
  send(at, 'project-replace', 'PUT', path, document(number + 1), 200, { 'If-Match': read.headers.Etag });
  send(at, 'project-conflict', 'PUT', path, document(number), 412, { 'If-Match': read.headers.Etag });
  send(at, 'project-delete', 'DELETE', path, null, 204);
  send(at, 'project-gone', 'GET', path, null, 404);
}

function document(number) {
  const tasks = Array.from({ length: 40 }, (_, at) => ({ title: `${at} ${words.repeat(3)}`, done: at % 2 === 0 }));
  return JSON.stringify({ name: `Project ${number}`, description: words.repeat(16), tasks });
}

function send(at, name, method, path, body, status, more = {}) {
  const reply = http.request(method, at + path, body, {
    headers: { ...head, ...more },
    tags: { name },
    responseCallback: http.expectedStatuses(status),
    redirects: 0,
    timeout: '5s',
  });
  check(reply, { [`${name}: status ${status}`]: (one) => one.status === status }, { name });
  return reply;
}
