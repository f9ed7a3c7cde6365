// Many connections at once, shared by a few virtual users, because creating each user takes 0.4 MB
// and 3 ms of CPU.

import { directUrl, baseUrl, vus } from './settings.js';
import { figure, statistic } from './summary.js';

/** Connections of one virtual user. */
export const EACH = 100;

/** The gateway lets 1,024 requests wait for a connection to a replica, and rejects others immediately. */
const THROUGH_GATEWAY = 1000;

/** One replica accepts 10,000 connections, some of which the gateway uses. */
const DIRECT = 9900;

/** The first replica, because the original tests had no gateway; without its address, the gateway. */
export const server = directUrl || baseUrl;

export const connections = vus(directUrl ? DIRECT : THROUGH_GATEWAY);

export const users = Math.ceil(connections / EACH);

/** Connections of one user; all users together have `connections`, or slightly fewer. */
export const own = Math.floor(connections / users);

/** Options with which a virtual user keeps this many connections. */
export const keeping = { batch: EACH, batchPerHost: EACH };

/** Sends `total` requests, `own` of them at a time. `send()` returns a promise. */
export async function crowd(total, send) {
  let left = total;
  const chain = async () => {
    while (left > 0) {
      left -= 1;
      await send();
    }
  };
  await Promise.all(Array.from({ length: own }, chain));
}

/** Waits until a given time; returns immediately if it has passed. */
export function until(moment) {
  return new Promise((done) => setTimeout(done, Math.max(0, moment - Date.now())));
}

/** A server closes connections that send nothing for ten seconds, and checks for them twice a second. */
const SILENT_MS = 8000;

/** Returns the summary of a crowd: `figures` of the entire run, and the text `more`. */
export function told(metrics, figures, more = '') {
  const silent = statistic(metrics, 'http_req_sending', 'max');
  return {
    figures: { all: { ...figures, ...figure('longest_from_connection_to_request_ms', silent, 'ms') } },
    notes: [asked + more, ...(silent > SILENT_MS ? [late(silent)] : [])],
    via: directUrl ? 'direct' : 'gateway',
  };
}

const asked = directUrl
  ? `Asked was one replica, without the gateway, on ${own * users} connections.`
  : `DIRECT_URL is not set: asked was the gateway, on ${own * users} connections.`;

const late = (silent) => (
  `k6 had no CPU for up to ${(silent / 1000).toFixed(1)} s between a connection and its request. The server gives `
  + 'up after timeouts.header, 10 s by default, which k6 calls EOF: fewer --vus, or a machine with less to do.'
);
