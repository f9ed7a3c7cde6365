// Serves the routes of the reference service with Node's http module: one process, or a cluster with
// one process per thread.

import cluster from "node:cluster";
import http from "node:http";
import { parseArgs } from "node:util";

import send from "send";

import { hello, div, notFound, work } from "./plain.js";

const text = (fallback) => ({ type: "string", default: fallback });
const { values: options } = parseArgs({
  options: {
    listen: text(""),
    threads: text("1"),
    static: text(""),
  },
});

const SETTINGS = {
  // As others have it. The default, 5 s, is shorter than what proxies keep a connection for.
  keepAliveTimeout: 75_000,
};

function route(request, response) {
  const { method, url } = request;
  const mark = url.indexOf("?");
  const path = mark < 0 ? url : url.slice(0, mark);
  if (method !== "GET" && method !== "HEAD") {
    notFound(response);
  } else if (path === "/hello") {
    hello(response);
  } else if (path.startsWith("/div/")) {
    div(response, path.slice("/div/".length));
  } else if (path === "/work") {
    work(response, mark < 0 ? "" : url.slice(mark + 1));
  } else if (options.static && path.startsWith("/static/")) {
    // As in Express, because Node has no file server.
    send(request, path.slice("/static".length), { root: options.static }).pipe(response);
  } else {
    notFound(response);
  }
}

function serve() {
  const colon = options.listen.lastIndexOf(":");
  const [host, port] = [options.listen.slice(0, colon), Number(options.listen.slice(colon + 1))];
  http.createServer(SETTINGS, route).listen({ host, port, backlog: 4096 });
}

if (cluster.isPrimary && Number(options.threads) > 1) {
  for (let count = 0; count < Number(options.threads); count++) {
    cluster.fork();
  }
  cluster.on("exit", () => process.exit(1));
} else {
  serve();
}
