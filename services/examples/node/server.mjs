// A service without the Corelane library: requests on PORT, a health check, metrics, and an end that cuts no request.
//
//   PORT=8080 node server.mjs
import { createServer } from "node:http";

let requests = 0;

const server = createServer((request, response) => {
  if (request.url === "/healthz") {
    response.end();
  } else if (request.url === "/metrics") {
    response.setHeader("content-type", "text/plain; version=0.0.4");
    response.end(
      "# HELP web_requests_total Requests of clients.\n# TYPE web_requests_total counter\n" +
        `web_requests_total ${requests}\n`,
    );
  } else {
    requests += 1;
    // The name of the pod.
    response.setHeader("corelane-replica", process.env.HOSTNAME ?? "");
    response.end(`node ${process.env.VERSION ?? ""}\n`);
  }
});

// The gateway closes idle connections first: upstream.idleTimeout is 30 s, and Node's default here is 5 s.
server.keepAliveTimeout = 75_000;
server.listen(Number(process.env.PORT), "0.0.0.0");

process.once("SIGTERM", () => {
  server.close(() => console.log("drained"));
  // The connections whose last request was still running become idle later.
  setInterval(() => server.closeIdleConnections(), 100).unref();
});
