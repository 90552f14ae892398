import assert from "node:assert/strict";
import { describeFault } from "@gateway/shared/errors";
import {
  atAddress,
  atBastion,
  canceled,
  connectionFailure,
  executionFailure,
  failureClassOf,
  forwardFailure,
  socketFailure,
} from "./failures.ts";

const failed = (code: string) =>
  Object.assign(new Error(`connect ${code} 10.0.0.21:22`), { code, address: "10.0.0.21", port: 22 });

Deno.test.each([
  { error: failed("ECONNREFUSED"), text: "connection: connection refused" },
  { error: failed("ECONNRESET"), text: "connection: connection reset by the host" },
  { error: failed("EHOSTUNREACH"), text: "connection: host unreachable" },
  { error: failed("ENETUNREACH"), text: "connection: network unreachable" },
  { error: failed("ENOTFOUND"), text: "connection: host name not found" },
  { error: failed("ETIMEDOUT"), text: "connection: connect timeout" },
  { error: failed("EMFILE"), text: "connection: connect failed" },
  { error: failed("constructor"), text: "connection: connect failed" },
  { error: new Error("10.0.0.21"), text: "connection: connect failed" },
  { error: "10.0.0.21", text: "connection: connect failed" },
  {
    error: new Deno.errors.NotCapable('Requires net access to "10.0.0.21:22"'),
    text:
      "connection: host address is not among those that this broker may connect to (networks in its config)",
  },
])("socketFailure() says '$text' and keeps the address for the log (I19)", ({ error, text }) => {
  const failure = socketFailure(error);
  assert.equal(failure.code, "upstream_failure");
  assert.equal(failure.message, text);
  assert.equal(failure.cause, error);
});

Deno.test.each([
  { reason: 1, text: "connection: the bastion does not permit the connection to the next host" },
  { reason: 2, text: "connection: the bastion could not connect to the next host" },
  { reason: 4, text: "connection: the bastion did not connect to the next host" },
  { reason: undefined, text: "connection: the bastion did not connect to the next host" },
])("forwardFailure() says '$text' and keeps what the bastion said for the log (I19)", ({ reason, text }) => {
  const error = Object.assign(new Error("10.0.0.21: No route to host"), { reason });
  const failure = forwardFailure(error);
  assert.deepEqual([failure.code, failure.message, failure.cause], ["upstream_failure", text, error]);
});

Deno.test.each([
  { hostname: "10.0.0.21", said: "connecting to 10.0.0.21:22: no answer" },
  { hostname: "fd00::1", said: "connecting to [fd00::1]:22: no answer" },
])("atAddress() says '$said' in the log, and the agent hears what it heard before", ({ hostname, said }) => {
  const error = connectionFailure("connect timeout", new Error("no answer"), "timeout");
  const named = atAddress({ hostname, port: 22 }, error);
  assert.ok(named instanceof Error);
  assert.equal(named.message, "connection: connect timeout");
  assert.equal(failureClassOf(named), "timeout");
  assert.equal(describeFault(named), `connection: connect timeout: ${said}`);
  const gone = canceled("connection", "gone");
  assert.equal(atAddress({ hostname, port: 22 }, gone), gone);
});

Deno.test("atBastion() names the bastion in a failed connection, and keeps code and cause", () => {
  const cause = new Error("10.0.0.21");
  for (const error of [connectionFailure("SSH handshake timeout", cause), canceled("connection", cause)]) {
    const named = atBastion('edge"1', error);
    assert.ok(named instanceof Error);
    assert.equal(
      named.message,
      error.message.replace("connection: ", String.raw`connection: bastion "edge\"1": `),
    );
    assert.equal(Reflect.get(named, "code"), error.code);
    assert.equal(named.cause, cause);
  }
});

Deno.test("atBastion() leaves other errors as they are", () => {
  for (const error of [executionFailure("x"), new TypeError("x")]) {
    assert.equal(atBastion("edge", error), error);
  }
});
