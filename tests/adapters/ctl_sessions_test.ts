import assert from "node:assert/strict";
import { createFolder, run, withConfig } from "./ctl_fixture.ts";
import { FakeService } from "./ctl_signer_fixture.ts";

const [FIRST, SECOND] = ["5f75dc071de6c26330dd3468", "5f80000000000000000000aa"] as const;
const OPEN = {
  ...{ caller: "broker-1", id: FIRST, end_user: "ann", host: "web01", mode: "exec", recorded: false },
  ...{ opened_at: "2026-01-02T03:04:05Z", last_command: "" },
};
const LIST = {
  sessions: [
    OPEN,
    { ...OPEN, id: SECOND, end_user: "b\u202eob", last_command: "ls\n\x1b]0;x\x07", recorded: true },
  ],
  complete: true,
};

Deno.test("session list shows open sessions with visible control characters, and a note about other signers", async () => {
  await using signer = await FakeService.start({ ...LIST, complete: false });
  const { out, exit } = await signer.run("session", "list");
  assert.deepEqual([exit, signer.requests.map(({ method, path }) => `${method} ${path}`)], [0, [
    "GET /v1/sessions",
  ]]);
  const [heading, first, second, note] = out.split("\n");
  assert.match(heading ?? "", /^ID +WHO +HOST +AGE +RECORDED +LAST COMMAND$/);
  assert.match(first ?? "", /^5f75dc07 +ann +web01 +\d\S+ +no +—$/);
  assert.match(second ?? "", /^5f800000 +b\\u\{202e\}ob +web01 +\d\S+ +yes +ls\\x0a\\x1b\]0;x\\x07$/);
  assert.equal(note, "Other signers can have more sessions: pass --url of each signer.");
  await using empty = await FakeService.start({ sessions: [], complete: true });
  assert.equal((await empty.run("session", "list")).out, "(no open sessions)\n");
});

Deno.test.each<{ id: string; kills?: string; err?: string }>([
  { id: "5f75", kills: FIRST },
  { id: "5f80", kills: SECOND },
  { id: "s-1", kills: "s-1" },
  {
    id: "5f",
    err: `error: Cannot find session "5f": the prefix is not unique\nfix: use one of ${FIRST}, ${SECOND}\n`,
  },
  {
    id: "5f7",
    err: `error: Cannot find session "5f7": the prefix is too short\nfix: use one of ${FIRST}\n`,
  },
  { id: "6", err: 'error: Cannot find session "6": unknown ID\nfix: broker-ctl session list\n' },
])("session kill $id with four open sessions", async ({ id, kills, err = "" }) => {
  const sessions = [...LIST.sessions, { ...OPEN, id: "s-10" }, { ...OPEN, id: "s-1" }];
  // One answer for both requests.
  await using signer = await FakeService.start({
    ...{ sessions, complete: true },
    status: "ok",
    newly_frozen: true,
    grants_revoked: 0,
  });
  const killed = await signer.run("session", "kill", id);
  assert.deepEqual([killed.err, killed.exit], [err, err === "" ? 0 : 1]);
  const frozen = signer.requests.filter(({ path }) => path === "/v1/freeze");
  assert.deepEqual(
    frozen.map(({ body }) => (body as { value: string }).value),
    kills === undefined ? [] : [kills],
  );
});

const CAST = (id: string, events: string) =>
  JSON.stringify({
    ...{ version: 2, width: 220, height: 40, timestamp: 1_767_323_045 },
    gateway: { session_id: id, caller: "ann", host: "web\x1b01", serial: 1, started_at: "" },
  }) + `\n${events}`;
const EVENTS =
  '[0.5, "i", "id\\n"]\nbroken\n[65.25, "o", "root\\u001b]0;x\\u0007\\u001b[6n\\r\\n"]\n[66, "o", "torn';

/** An installation whose broker records into the directory `casts`. */
async function withRecordings() {
  const config = await withConfig("{}");
  const casts = `${config.folder}/casts`;
  await Deno.mkdir(casts);
  await Deno.writeTextFile(`${casts}/${FIRST}.cast`, CAST(FIRST, EVENTS));
  await Deno.writeTextFile(`${casts}/${SECOND}.cast`, CAST(SECOND, ""));
  await Deno.writeTextFile(`${casts}/notes.cast`, "no recording\n");
  await Deno.symlink("/dev/zero", `${casts}/device.cast`);
  const broker = { audit_log: "a", audit_key: "k", ca_key: "c", session_recording_dir: "casts" };
  await Deno.writeTextFile(`${config.folder}/config.json`, JSON.stringify(broker));
  return { ...config, casts };
}

Deno.test("recording list shows the recordings of the brokers of an installation", async () => {
  await using at = await withRecordings();
  const { out, err } = await at.ctl("recording", "list");
  const [heading, ...rows] = out.split("\n").slice(0, -1);
  assert.match(`${err}${heading}`, /^ID +AGE +WHO +HOST +LENGTH +SIZE$/);
  assert.equal(rows.length, 2);
  assert.match(rows.join("\n"), /^5f75dc07 +.* +ann +web\\x1b01 +1m6s +1 KiB$/m);
  assert.match(rows.join("\n"), /^5f800000 +.* +ann +web\\x1b01 +0s +1 KiB$/m);
  const named = await at.ctl("recording", "list", "--recordings", "casts");
  assert.equal(named.out, out);
});

Deno.test.each<[args: string, err: RegExp]>([
  [
    "5f",
    /^error: Cannot find recording "5f": the prefix is not unique\nfix: use one of 5f[0-9a-f]{22}, 5f[0-9a-f]{22}\n$/,
  ],
  ["6", /^error: Cannot find recording "6": unknown ID\nfix: broker-ctl recording list\n$/],
  ["./none.cast", /^error: Cannot read ".*none\.cast": no such file\nfix: broker-ctl recording list\n$/],
  [
    "casts/notes.cast",
    /^error: Cannot play ".*notes\.cast": not an asciicast v2 file\nfix: correct the file/,
  ],
  ["/dev/zero", /^error: Cannot read "\/dev\/zero": it is a device, not a file\n/],
  ["5f --recordings none", /^error: Cannot read ".*none": no such file\n/],
  ["5f7 --speed 0", /^error: .*Expected a number from 1 to 100\n/],
  ["5f7 --speed x", /^error: .*Expected a number from 1 to 100\n/],
])("recording play %s fails", async (args, err) => {
  await using at = await withRecordings();
  const failed = await at.ctl(`recording play ${args}`);
  assert.match(failed.err, err);
  assert.equal(failed.out, "");
  assert.notEqual(failed.exit, 0);
});

Deno.test("recording play prints a recording without its dangerous sequences, by prefix and by file", async () => {
  await using at = await withRecordings();
  const shown = "\x1b[0;1m$ id\x1b[0m\r\nroot\r\n\x1b[0m\r\n";
  for (const wanted of ["5f75", `${at.casts}/${FIRST}.cast`]) {
    assert.deepEqual(await at.ctl("recording", "play", wanted), { out: shown, err: "", exit: 0 });
  }
});

Deno.test("recording list without a directory of recordings shows how to name it", async () => {
  await using folder = await createFolder();
  const { out, exit } = await run(folder.path, "recording", "list");
  assert.match(out, /^\(no recordings; pass --recordings, /);
  assert.equal(exit, 0);
});
