import assert from "node:assert/strict";
import { describeExposure, type UsedFile } from "./mod.ts";

const SERVICE = 990;

const FILES: readonly { use: UsedFile["use"]; mode: number; uid?: number; may: string }[] = [
  { use: "secret", mode: 0o600, may: "" },
  { use: "secret", mode: 0o400, may: "" },
  { use: "secret", mode: 0o640, may: "read" },
  { use: "secret", mode: 0o640, uid: 0, may: "" },
  { use: "secret", mode: 0o644, uid: 0, may: "read" },
  { use: "secret", mode: 0o604, may: "read" },
  { use: "secret", mode: 0o660, may: "read and write" },
  { use: "secret", mode: 0o660, uid: 0, may: "write" },
  { use: "secret", mode: 0o602, may: "write" },
  { use: "secret", mode: 0o666, may: "read and write" },
  { use: "config", mode: 0o640, may: "" },
  { use: "config", mode: 0o644, may: "read" },
  { use: "config", mode: 0o660, may: "write" },
  { use: "relied_on", mode: 0o644, may: "" },
  { use: "relied_on", mode: 0o664, may: "write" },
  { use: "relied_on", mode: 0o646, may: "write" },
];
const ROWS = FILES.map((row) => ({
  ...row,
  what: `${row.use} of ${row.uid === 0 ? "root" : "the service"} with mode ${row.mode.toString(8)}`,
  can: row.may === "" ? "do nothing with" : row.may,
}));

Deno.test.each(ROWS)("describeExposure() reports that others can $can a $what", ({ use, mode, uid, may }) => {
  const found = describeExposure({ key: "key", path: "file", use }, {
    mode: 0o100_000 | mode,
    uid: uid ?? SERVICE,
  });
  assert.equal(/other users may (.*) it/.exec(found ?? "")?.[1] ?? "", may);
});

Deno.test("describeExposure() reports the key, the file, its mode and the fix", () => {
  assert.equal(
    describeExposure({ key: "ca_keys.prod", path: "/etc/g/a\nb", use: "secret" }, {
      mode: 0o100_666,
      uid: 0,
    }),
    'ca_keys.prod "/etc/g/a\\nb": other users may read and write it (mode 0666); fix: chmod 600',
  );
});

Deno.test("describeExposure() reports nothing if the system has no file modes", () => {
  assert.equal(
    describeExposure({ key: "k", path: "f", use: "secret" }, { mode: null, uid: null }),
    undefined,
  );
});
