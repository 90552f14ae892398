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
  ["hosts", `"hosts":{"web01":{${HOST},"allow_sudo":true},"db01":{${HOST},"groups":["a"]}}`],
  ["no hosts", `"hosts":{}`],
  ["hosts that are absent", `"listen":":1"`],
  ["hosts that are null", `"hosts":null`],
  ["hosts that are a list", `"hosts":[{${HOST}}]`],
  ["hosts that are a text", `"hosts":"web01"`],
  ["comments among the hosts", `"hosts":{"_comment":"x","_example":{"addr":1},"a":{${HOST}}}`],
  ["comments in a host", `"hosts":{"a":{${HOST},"_note":["x"]}}`],
  ["a host that is a _ name (C2)", `"hosts":{"_a":{"addr":"h:22"}}`],
  ["a host that is null", `"hosts":{"a":null}`],
  ["a host that is a list", `"hosts":{"a":[1]}`],
  ["a host called like a method", `"hosts":{"constructor":{${HOST}},"toString":{}}`],
  ["a typo in a host (C1)", `"hosts":{"web.1":{${HOST},"allow_sudoo":true}}`],
  ["a wrong value deep in a host", `"hosts":{"a":{${HOST},"command_policy":{"mode":"x"}}}`],
  ["a host that stands twice (C3)", `"hosts":{"a":{${HOST}},"a":{${HOST}}}`],
  ["a host's key that stands twice (C3)", `"hosts":{"a":{${HOST},"user":"root"}}`],
  ["command policies", `"command_policies":{"a":{"mode":"off"},"_c":{"mode":"x"},"b":{}}`],
  ["command policies that are a list", `"command_policies":[]`],
  ["a typo in a command policy (C1)", `"command_policies":{"a.b":{"alow":[]},"c":{"mode":1}}`],
  ["a command policy that stands twice (C3)", `"command_policies":{"a":{},"a":{}}`],
  ["problems everywhere", `"listn":1,"kubernetes":{},"hosts":{"a":{},"b":{${HOST},"x":1}}`],
])("parseConfigSteps() reads %s entry by entry as it does at once", (_name, members) => {
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
