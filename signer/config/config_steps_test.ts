import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { finish } from "@gateway/shared/clock";
import { parseConfigSteps } from "@gateway/shared/config";
import { LARGE_SIGNER_KEYS, signerConfig, UNSUPPORTED_SIGNER_KEYS } from "./config.ts";

const HOST = `"addr":"h:22","user":"u","host_key":"k"`;

/** A `signer.json` with these members, read whole or host by host; the lines of the problems, sorted. */
function outcome(members: string, large: Readonly<Record<string, z.ZodType>>) {
  const text =
    `{"server_cert":"a","server_key":"b","client_ca":"c","audit_log":"e","audit_key":"f",${members}}`;
  const kind = { what: "signer config", source: "s", schema: signerConfig };
  try {
    return finish(parseConfigSteps({ ...kind, text, unsupported: UNSUPPORTED_SIGNER_KEYS, large }));
  } catch (error) {
    assert.ok(error instanceof AppError && error.code === "invalid_config", String(error));
    return error.message.split("\n").toSorted();
  }
}

Deno.test.each([
  { name: "hosts", members: `"hosts":{"web01":{${HOST},"allow_sudo":true},"db01":{${HOST},"groups":["a"]}}` },
  { name: "no hosts", members: `"hosts":{}` },
  { name: "hosts that are absent", members: `"listen":":1"` },
  { name: "hosts that are null", members: `"hosts":null` },
  { name: "hosts that are a list", members: `"hosts":[{${HOST}}]` },
  { name: "hosts that are a text", members: `"hosts":"web01"` },
  {
    name: "comments among the hosts",
    members: `"hosts":{"_comment":"x","_example":{"addr":1},"a":{${HOST}}}`,
  },
  { name: "comments in a host", members: `"hosts":{"a":{${HOST},"_note":["x"]}}` },
  { name: "a host that is a _ name (C2)", members: `"hosts":{"_a":{"addr":"h:22"}}` },
  { name: "a host that is null", members: `"hosts":{"a":null}` },
  { name: "a host that is a list", members: `"hosts":{"a":[1]}` },
  { name: "a host called like a method", members: `"hosts":{"constructor":{${HOST}},"toString":{}}` },
  { name: "a typo in a host (C1)", members: `"hosts":{"web.1":{${HOST},"allow_sudoo":true}}` },
  { name: "a wrong value deep in a host", members: `"hosts":{"a":{${HOST},"command_policy":{"mode":"x"}}}` },
  { name: "a host that stands twice (C3)", members: `"hosts":{"a":{${HOST}},"a":{${HOST}}}` },
  { name: "a host's key that stands twice (C3)", members: `"hosts":{"a":{${HOST},"user":"root"}}` },
  { name: "command policies", members: `"command_policies":{"a":{"mode":"off"},"_c":{"mode":"x"},"b":{}}` },
  { name: "command policies that are a list", members: `"command_policies":[]` },
  {
    name: "a typo in a command policy (C1)",
    members: `"command_policies":{"a.b":{"alow":[]},"c":{"mode":1}}`,
  },
  { name: "a command policy that stands twice (C3)", members: `"command_policies":{"a":{},"a":{}}` },
  { name: "problems everywhere", members: `"listn":1,"kubernetes":{},"hosts":{"a":{},"b":{${HOST},"x":1}}` },
])("parseConfigSteps() reads $name entry by entry as it does at once", ({ members }) => {
  assert.deepEqual(outcome(members, LARGE_SIGNER_KEYS), outcome(members, {}));
});

Deno.test("parseConfigSteps() reports a key that is not supported in an entry of a large map (I23)", () => {
  const hosts = z.record(z.string(), z.strictObject({ addr: z.string() }));
  const config = {
    what: "x",
    source: "s",
    schema: z.strictObject({ hosts: hosts.default({}) }),
    unsupported: ["hosts.*.later"],
  };
  const text = `{"hosts":{"a":{"addr":"h","later":1}}}`;
  assert.throws(
    () => finish(parseConfigSteps({ ...config, text, large: { hosts } })),
    { message: `Cannot load x "s": "hosts.a.later": not supported yet by this version` },
  );
});

Deno.test("parseConfigSteps() may pause after each entry of a large map", () => {
  const members = Array.from({ length: 100 }, (_, n) => `"h${n}":{${HOST}}`).join(",");
  const text =
    `{"server_cert":"a","server_key":"b","client_ca":"c","audit_log":"e","audit_key":"f","hosts":{${members}}}`;
  const kind = { what: "signer config", source: "s", schema: signerConfig };
  const steps = parseConfigSteps({ ...kind, text, large: LARGE_SIGNER_KEYS });
  let pauses = 0;
  while (steps.next().done !== true) pauses++;
  assert.ok(pauses >= 100, `${pauses}`);
});
