import assert from "node:assert/strict";
import { encodeKrl, type Krl, SerialSet } from "../../shared/ssh/wire_format.ts";
import { createTestCa } from "../ssh_target/certificates.ts";
import { createHostKey } from "../ssh_target/host_key.ts";
import { mustOrMayUseSshKeygen } from "../stage/ssh_keygen.ts";

const ignore = !mustOrMayUseSshKeygen();
const LARGEST = 2n ** 64n - 1n;
const EMPTY: Krl = {
  version: 9n,
  generatedAt: 1_700_000_000,
  comment: "gateway",
  serials: new SerialSet(),
  keyIds: [],
};

Deno.test({ name: "ssh-keygen -Q finds exactly what encodeKrl() revokes", ignore }, async () => {
  const dir = await Deno.makeTempDir({ prefix: "krl-" });
  try {
    const ca = createTestCa();
    const certify = async (name: string, serial: bigint, keyId: string) => {
      await Deno.writeTextFile(`${dir}/${name}`, await ca.certify(createHostKey().line, { serial, keyId }));
    };
    await certify("one", 1n, "agent=a host=web01 role=target t=1");
    await certify("largest", LARGEST, "agent=a host=web01 role=target t=2");
    await certify("named", 7n, "agent=ä host=web01 role=target t=3 elev=sudo -n");
    await certify("free", LARGEST - 1n, "agent=a host=web01 role=target t=4");
    const revokedBy = async (krl: Krl) => {
      await Deno.writeFile(`${dir}/krl`, encodeKrl(krl));
      const names = ["one", "largest", "named", "free"];
      const results = await Promise.all(names.map((name) => query(`${dir}/krl`, `${dir}/${name}`)));
      return names.filter((_, index) => results[index]);
    };
    assert.deepEqual(await revokedBy(EMPTY), []);
    assert.deepEqual(await revokedBy({ ...EMPTY, serials: SerialSet.of([LARGEST, 1n]) }), ["one", "largest"]);
    assert.deepEqual(
      await revokedBy({
        ...EMPTY,
        serials: SerialSet.of([1n]),
        keyIds: ["agent=ä host=web01 role=target t=3 elev=sudo -n"],
      }),
      [
        "one",
        "named",
      ],
    );
    const many = Array.from({ length: 100_000 }, (_, index) => BigInt(index) * 2n + 8n);
    assert.deepEqual(await revokedBy({ ...EMPTY, serials: SerialSet.of([...many, LARGEST]) }), ["largest"]);
    const shown = await keygen(["-Q", "-l", "-f", `${dir}/krl`]);
    assert.match(shown.text, /^# KRL version 9$/m);
    assert.match(shown.text, /^# Generated at 20231114T\d{6}$/m);
    assert.match(shown.text, /^# Comment: gateway$/m);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

/** Whether ssh-keygen says that a list revokes a certificate. */
async function query(list: string, certificate: string): Promise<boolean> {
  const { code, text } = await keygen(["-Q", "-f", list, certificate]);
  assert.match(text, /: (ok|REVOKED)$/m);
  assert.equal(code, text.includes("REVOKED") ? 1 : 0);
  return code === 1;
}

async function keygen(args: readonly string[]): Promise<{ readonly code: number; readonly text: string }> {
  const { code, stdout, stderr } = await new Deno.Command("ssh-keygen", {
    args: [...args],
    env: { TZ: "UTC" },
  }).output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}
