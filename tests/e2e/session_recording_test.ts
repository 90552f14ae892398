import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { diskTest, fill, makeRoom, mayNotMount as ignore, TinyDisk } from "../adapters/tiny_disk.ts";
import { readPid } from "../ssh_target/running.ts";
import { HOST } from "../stage/stage.ts";
import { share } from "../stage/share.ts";
import { ALLOW_PTY, type SessionScene, withSessions } from "./session_scene.ts";
import { createFolder } from "../stage/folder.ts";

/** More than the last page of a file can hold on a full disk. */
const BEYOND_A_PAGE = "x".repeat(8_000);
const PRINTS_MUCH = "head -c 8000 /dev/zero | tr '\\0' x; echo";

async function withRecordings(
  { folder, strict }: { readonly folder: string; readonly strict: boolean },
  test: (scene: SessionScene) => Promise<void>,
): Promise<void> {
  const broker = [
    { path: ["session_recording_dir"], value: folder },
    { path: ["session_recording_strict"], value: strict },
  ];
  await withSessions({ broker, signer: [ALLOW_PTY] }, test);
}

/** The fields of the last outcome record. */
async function lastRecord({ records }: SessionScene, outcome: string): Promise<Record<string, unknown>> {
  return (await records()).findLast((record) => record["outcome"] === outcome) ?? {};
}

const PLACES = [
  {
    where: "on a full disk",
    mount: async () => {
      const disk = await TinyDisk.mount("size=64k");
      fill(`${disk.folder}/filler`);
      return disk;
    },
  },
  { where: "in a folder that is read-only", mount: () => TinyDisk.mount("size=64k,ro") },
];

Deno.test.each(PLACES)(
  "a session that cannot be recorded $where does not open (strict), and the log has the reason (needs root)",
  { ignore },
  async ({ mount }) => {
    await using disk = await mount();
    await withRecordings({ folder: disk.folder, strict: true }, async (scene) => {
      const { client, mcp } = scene;
      for (const mode of ["shell", "pty"]) {
        const opened = await client.call("ssh_session_open", { server: HOST, mode });
        assert.equal(opened.isError, true);
        assert.match(opened.text, /^opening session recording: \w+$/);
        assert.ok(!opened.text.includes(disk.folder));
        const failed = await lastRecord(scene, "error");
        assert.equal(failed["command"], `mode=${mode}`);
        assert.equal(failed["err"], opened.text);
      }
      assert.match(mcp.log, /session recording failed/);
      assert.deepEqual((await scene.records()).filter(({ outcome }) => outcome === "session_open"), []);
      // These sessions are not recorded, so the full disk does not block them.
      assert.equal((await client.exec(await client.open(), "true")).isError, false);
    });
  },
);

Deno.test(
  "a session that cannot be recorded opens anyway (best effort), and the log contains a warning (needs root)",
  { ignore },
  async () => {
    await using disk = await TinyDisk.mount("size=64k,ro");
    await withRecordings({ folder: disk.folder, strict: false }, async (scene) => {
      const id = await scene.client.open({ mode: "shell" });
      assert.match(scene.mcp.log, /session recording failed/);
      const opened = await lastRecord(scene, "session_open");
      assert.deepEqual([opened["session_id"], opened["warning"]], [id, "the session is not recorded"]);
      assert.equal((await scene.client.exec(id, "echo on")).structured["stdout"], "on\n");
    });
  },
);

const UNRECORDED = [
  { what: "what it prints", command: PRINTS_MUCH, runs: true },
  { what: "what is typed", command: `: ${BEYOND_A_PAGE}`, runs: false },
];

Deno.test(
  "a session ends when its output or input can no longer be recorded (strict), and the next one works after space is freed (needs root)",
  { ignore },
  async () => {
    await using disk = await TinyDisk.mount("size=64k");
    await withRecordings({ folder: disk.folder, strict: true }, async (scene) => {
      const { client, stage } = scene;
      for (const { what, command, runs } of UNRECORDED) {
        const id = await client.open({ mode: "shell" });
        assert.equal((await client.exec(id, "echo before")).isError, false);
        fill(`${disk.folder}/filler`);
        const file = `${stage.init.folder}/ran-${id}`;
        const failed = await client.exec(id, `touch ${file}; ${command}`);
        assert.equal(failed.isError, true, what);
        assert.match(failed.text, /^session recording failed \(strict mode\): \w+$/);
        assert.ok(!JSON.stringify(failed).includes("xxx"), "what is not recorded is not shown");
        assert.equal(await Deno.stat(file).then(() => true, () => false), runs);
        const record = await lastRecord(scene, "error");
        assert.deepEqual([record["session_id"], record["err"]], [id, failed.text]);
        assert.equal(
          (await client.exec(id, "true")).text,
          "session execution: a command of this session could not be recorded; " +
            "close this session and open a new one",
        );
        assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
        await assertClosed(scene, `${disk.folder}/${id}.cast`, "the recording is not complete");

        makeRoom(`${disk.folder}/filler`);
        const next = await client.open({ mode: "shell" });
        assert.equal((await client.exec(next, PRINTS_MUCH)).isError, false);
        await client.call("ssh_session_close", { session_id: next });
        await assertClosed(scene, `${disk.folder}/${next}.cast`, undefined);
      }
    });
  },
);

diskTest(
  "a session continues when it can't be recorded any more (best effort), and the log says so",
  async () => {
    await using disk = await TinyDisk.mount("size=64k");
    await withRecordings({ folder: disk.folder, strict: false }, async (scene) => {
      const { client, mcp } = scene;
      const id = await client.open({ mode: "pty" });
      fill(`${disk.folder}/filler`);
      const shown = await client.exec(id, PRINTS_MUCH);
      assert.equal(shown.structured["stdout"], `${BEYOND_A_PAGE}\n`);
      assert.match(mcp.log, /session recording failed/);
      makeRoom(`${disk.folder}/filler`);
      assert.equal((await client.exec(id, "echo after")).isError, false);
      assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
      const path = `${disk.folder}/${id}.cast`;
      await assertClosed(scene, path, "the recording is not complete");
      assert.match(await Deno.readTextFile(path), /"i", "echo after\\n"/);
    });
  },
);

const withFolder = share<SessionScene & { readonly folder: string }>(async (use) => {
  await using folder = await createFolder();
  await withRecordings(
    { folder: folder.path, strict: false },
    (scene) => use({ ...scene, folder: folder.path }),
  );
});

Deno.test("the recording contains all output until the session is closed, and its digest equals the one in the log", () =>
  withFolder(async (scene) => {
    const { client, folder, mcp } = scene;
    // Output during the closing of the file is not deterministic.
    for (let round = 0; round < 2; round += 1) {
      const id = await client.open({ mode: "shell" });
      const file = `${folder}/pid${round}`;
      const running = client.exec(
        id,
        `printf out; printf err >&2; sleep 0.5; echo $$ > ${file}; sleep 1000`,
      );
      await readPid(file);
      assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
      assert.equal((await running).text, `session "${id}" has ended`);
      await assertClosed(scene, `${folder}/${id}.cast`, undefined);
      assert.match(await Deno.readTextFile(`${folder}/${id}.cast`), /"o", "out"\].*\n.*"e", "err"\]\n$/);
    }
    assert.doesNotMatch(mcp.log, /session recording failed/);
  }));

Deno.test.each([{ mode: "shell" }, { mode: "pty" }])(
  "the recording of a session in mode $mode contains no line of a private key split over several packets",
  ({ mode }) =>
    withFolder(async ({ client, folder }) => {
      const id = await client.open({ mode });
      const slowly = [
        "a",
        "-----BEGIN OPENSSH PRIV",
        "ATE KEY-----\\n",
        "b3BlbnNz\\naC1rZ",
        "XktdjE\\n-----END OPENSSH PRI",
      ];
      const command = [...slowly, "VATE KEY-----\\nafter\\n"].map((part) => `printf -- '${part}'`).join(
        "; sleep 0.2; ",
      );
      const shown = await client.exec(id, command);
      assert.match(String(shown.structured["stdout"]), /b3BlbnNz\r?\naC1rZXktdjE\r?\n/);
      await client.call("ssh_session_close", { session_id: id });
      const events = (await Deno.readTextFile(`${folder}/${id}.cast`)).trimEnd().split("\n").slice(1)
        .map((line) => JSON.parse(line) as readonly [number, string, string]);
      const output = events.filter(([, type]) => type === "o").map(([, , data]) => data).join("");
      assert.equal(output.replaceAll("\r", ""), "a[REDACTED:private-key-block]\nafter\n");
    }),
);

/** Asserts that the log contains the digest of a readable recording and the expected fields. */
async function assertClosed(scene: SessionScene, path: string, warning: string | undefined): Promise<void> {
  const closed = await lastRecord(scene, "session_close");
  const bytes = await Deno.readFile(path);
  const digest = createHash("sha256").update(bytes).digest("hex");
  assert.deepEqual([closed["body_sha256"], closed["warning"]], [digest, warning]);
  for (const line of new TextDecoder().decode(bytes).trimEnd().split("\n")) JSON.parse(line);
}
