// The routes that smoke requests: how to request each route, and its only correct response.
//
// A route has the `name` of its series, the `status` and `type` of its responses, and `ask(random)`,
// which returns the path of one request and `body`: the expected text, or a test of the response.

const TEXT = 'text/plain; charset=utf-8';

export const routes = [
  get('root', 'application/json', () => ({ path: '/', body: namesItsReplica })),
  get('hello', TEXT, () => ({ path: '/hello', body: 'Hello, World!' })),
  get('div', TEXT, (random) => {
    const n = decimal(random);
    return { path: `/div/${n}`, body: half(n) };
  }),
  workOf(1000),
  get('static-index', 'text/html; charset=utf-8', () => ({ path: '/static/', body: hasLength(10831) })),
  get('static-4k', TEXT, () => ({ path: '/static/4k.txt', body: hasLength(4096) })),
  refused('not-found', 'GET', '/no-such-route', 404),
  refused('method-not-allowed', 'POST', '/hello', 405),
  refused('bad-parameter', 'GET', '/div/four', 400),
];

/** Returns the route with a name. */
export function named(name) {
  const found = routes.find((route) => route.name === name);
  if (!found) {
    throw new Error(`there is no route ${name}: there are ${routes.map((route) => route.name).join(', ')}`);
  }
  return found;
}

/** The average mix of users: mostly small requests, some files, some work. */
export const mix = [
  ['hello', 0.3], ['static-4k', 0.2], ['static-index', 0.15], ['div', 0.15], ['work', 0.15], ['root', 0.05],
].map(([name, share]) => ({ share, route: named(name) }));

/** Requests half of a constant number. */
export function halfOf(n) {
  return get('div', TEXT, () => ({ path: `/div/${n}`, body: half(n) }));
}

/** Requests this much arithmetic on a lane. */
export function workOf(ops, name = 'work') {
  const body = `${work(ops)}\n`;
  return get(name, TEXT, () => ({ path: `/work?ops=${ops}`, body }));
}

function get(name, type, ask) {
  return { name, method: 'GET', status: 200, type, ask };
}

/** A request that the server must reject; its name is the slug of the problem. */
function refused(name, method, path, status) {
  const body = (response) => response.json('type') === `urn:corelane:problem:${name}`;
  return { name, method, status, type: 'application/problem+json', ask: () => ({ path, body }) };
}

/** Returns a decimal number of up to 12 digits, up to 3 of them after the point. */
function decimal(random) {
  const digits = String(Math.floor(random() * 1e12));
  const places = Math.floor(random() * 4);
  const padded = digits.padStart(places + 1, '0');
  const point = padded.length - places;
  return places === 0 ? padded : `${padded.slice(0, point)}.${padded.slice(point)}`;
}

function namesItsReplica(response) {
  return response.json('replica') === response.headers['Corelane-Replica'];
}

function hasLength(bytes) {
  return (response) => response.body.length === bytes;
}

// The correct answers, computed in a different way from the service.

/** Returns exactly half of a decimal number, as a BigInt count of its smallest digit. */
function half(n) {
  const [whole, fraction = ''] = n.split('.');
  const halved = String(BigInt(whole + fraction) * 5n).padStart(fraction.length + 2, '0');
  const point = halved.length - fraction.length - 1;
  const rest = halved.slice(point).replace(/0+$/, '');
  return rest === '' ? halved.slice(0, point) : `${halved.slice(0, point)}.${rest}`;
}

function word(value) {
  return BigInt.asUintN(64, value);
}

/**
 * Returns the state of Knuth's MMIX generator after `ops` steps from 1, as 16 hexadecimal digits. A
 * step is x → ax + c; two steps also have this form, so steps can be doubled.
 */
function work(ops) {
  let [a, c] = [6364136223846793005n, 1442695040888963407n];
  let state = 1n;
  for (let left = ops; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) {
      state = word(state * a + c);
    }
    [a, c] = [word(a * a), word(c * a + c)];
  }
  return state.toString(16).padStart(16, '0');
}
