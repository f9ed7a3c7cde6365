// A few seconds of load: k6 run -e BASE_URL=http://127.0.0.1:8080 loadtest/smoke.js
import { check } from "k6";
import grpc from "k6/net/grpc";

export const options = {
  vus: 4,
  duration: __ENV.DURATION || "10s",
  thresholds: { checks: ["rate==1"], grpc_req_duration: [`p(99)<${__ENV.P99_MS || 500}`] },
};

const url = __ENV.BASE_URL || "http://127.0.0.1:8080";
const client = new grpc.Client();
client.load(["../proto"], "greeter.proto");

export default function () {
  if (__ITER === 0) client.connect(url.replace("http://", ""), { plaintext: true });
  const reply = client.invoke("greeter.v1.Greeter/Greet", { name: `user ${__VU}` });
  check(reply, { greeted: (call) => call.status === grpc.StatusOK });
}
