import assert from "node:assert/strict";
import { createAuditKey, GENESIS, seal } from "@gateway/shared/audit";
import { escapeKey } from "@gateway/shared/testing";
import { createRecordTable, readRecord, type ShownRecord } from "./record.ts";

const RECORD: ShownRecord = {
  time: "2026-01-02T03:04:05.678Z",
  seq: 7n,
  caller: "broker-local",
  host: "10.0.0.5:22",
  outcome: "issued",
  serial: 9223372036854775808n,
  target_type: "",
  command: "role=target",
  command_line: "uptime",
  session_id: "5e551d",
  host_name: "web01",
  request_id: "r-1",
  policy_version: 4,
  reason: "INC 7",
  jti: "",
  elevation: "sudo:root",
  pty: true,
  policy_rule: "allow:^uptime$",
  dry_run: false,
  approved_by: "ann",
  anomaly: "",
  warning: "",
  err: "",
};
const DETAIL = "role=target [command: uptime] [session: 5e551d] [host: web01] [sudo:root] [pty] " +
  "[rule: allow:^uptime$] [approved-by: ann] [reason: INC 7] [policy: 4] [request: r-1]";

Deno.test.each([{ columns: undefined }, { columns: 160 }])(
  "createRecordTable() puts a record on one line of $columns columns",
  ({ columns }) => {
    const { heading, format } = createRecordTable({ columns, full: false });
    assert.equal(
      heading,
      "TIME                  SEQ     CALLER          HOST                  OUTCOME         SERIAL                DETAIL",
    );
    assert.deepEqual(format(RECORD), [
      "2026-01-02T03:04:05Z  7       broker-local    10.0.0.5:22           issued          9223372036854775808   " +
      DETAIL,
    ]);
  },
);

Deno.test("createRecordTable() puts the detail on a line of its own where it would be broken up", () => {
  const { heading, format } = createRecordTable({ columns: 80, full: false });
  assert.equal(heading, "TIME                  SEQ     OUTCOME         CALLER          HOST");
  assert.deepEqual(format(RECORD), [
    "2026-01-02T03:04:05Z  7       issued          broker-local    10.0.0.5:22",
    `    [serial: 9223372036854775808] ${DETAIL}`,
  ]);
  const bare = {
    ...RECORD,
    host: "",
    serial: 0n,
    elevation: "",
    pty: false,
    policy_rule: "",
    approved_by: "",
  };
  const empty = { command: "", command_line: "", session_id: "", host_name: "", request_id: "", reason: "" };
  assert.deepEqual(format({ ...bare, ...empty, policy_version: 0 }), [
    "2026-01-02T03:04:05Z  7       issued          broker-local    —",
  ]);
});

Deno.test.each([{ field: "command" }, { field: "policy_rule" }, { field: "err" }])(
  "createRecordTable() cuts a long $field, unless all of it is wanted",
  ({ field }) => {
    const record = { ...RECORD, [field]: "a".repeat(60_000) };
    const show = (full: boolean) => createRecordTable({ columns: undefined, full }).format(record).join();
    assert.match(show(false), /[ ]a{400}…\[first 400 of 60000 characters\]/);
    assert.match(show(true), /[ ]a{60000}(?!…)/);
  },
);

Deno.test("readRecord() shows what a line says, whatever was read before", () => {
  const { before, text } = escapeKey('{"caller":"broker-1","outcome":"denied","host":"web01"', "outcome");
  const lines = [before, text].map((body) =>
    seal({ body, ext: "" }, GENESIS, createAuditKey(new Uint8Array(32))).line
  );
  const [, record] = lines.map((line) => readRecord(new TextEncoder().encode(line)));
  assert.equal(record?.record.outcome, "denied");
});
