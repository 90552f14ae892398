import { systemClock } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { userInfo } from "node:os";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { readProcFile } from "../stage/proc_file.ts";
import { createTestCa, PRINCIPAL } from "./certificates.ts";
import { createHostKey } from "./host_key.ts";
import { createOpensshTarget, findSshd } from "./openssh.ts";
import { PATIENT_LIMITS } from "./patient_limits.ts";
import { createFolder } from "../stage/folder.ts";

/** The capabilities that root's sshd needs to accept a login: DAC_OVERRIDE, SETGID, SETUID, SYS_CHROOT. */
const NEEDED_CAPABILITIES = [1n, 6n, 7n, 18n];

/** The reason why tests and demo cannot use this machine's sshd, or empty if they can. */
export const SSHD_PROBLEM: string = await whyNot();

async function whyNot(): Promise<string> {
  const sshd = findSshd();
  if (sshd === undefined) return "sshd is not installed";
  await using dir = await createFolder();
  return await whyNoLogin(sshd, dir.path);
}

/** Starts sshd and logs in, the only reliable check. If no obstacle is known, runs only sshd's own check. */
async function whyNoLogin(sshd: string, dir: string): Promise<string> {
  if (await isWholeRoot()) return await whyNoStart(sshd, dir);
  const [ca, key, user] = [createTestCa(), createEphemeralKey(), userInfo().username];
  const options = { caPublicKeyLine: ca.publicKeyLine, principals: { [user]: [PRINCIPAL] }, dir };
  try {
    const target = await createOpensshTarget(sshd, user, options);
    try {
      const hop = { name: "probe", addr: `127.0.0.1:${target.port}`, hostKey: target.hostKeyLine, user, key };
      await runCommand({
        clock: systemClock,
        hops: [{ ...hop, certificate: await ca.certify(key.publicKeyLine) }],
        command: "exit 0",
        pty: false,
        limits: PATIENT_LIMITS,
      });
      return "";
    } finally {
      await target.close();
    }
  } catch (error) {
    return `${sshd} lets nobody in: ${await lastFailure(dir) ?? errorText(error)}`;
  }
}

/** Problems reported by sshd's own check, such as a missing account. */
async function whyNoStart(sshd: string, dir: string): Promise<string> {
  try {
    await Deno.mkdir("/run/sshd", { recursive: true, mode: 0o755 });
    const path = `${dir}/sshd_config`;
    await Deno.writeTextFile(path, `HostKey ${dir}/host_key\n`);
    await Deno.writeTextFile(`${dir}/host_key`, createHostKey().pem, { mode: 0o600 });
    const { success, stderr } = await new Deno.Command(sshd, { args: ["-t", "-f", path], stdout: "null" })
      .output();
    return success ? "" : `${sshd} can't start: ${oneLine(new TextDecoder().decode(stderr))}`;
  } catch (error) {
    return `${sshd} can't start: ${errorText(error)}`;
  }
}

/** Whether this is the machine's root with all capabilities that sshd needs as root. */
async function isWholeRoot(): Promise<boolean> {
  if (Deno.uid() !== 0) return false;
  const [, effective = "0"] = /^CapEff:\s*([0-9a-f]+)$/m.exec(await readProcFile("/proc/self/status")) ?? [];
  const capabilities = BigInt(`0x${effective}`);
  const mayAll = NEEDED_CAPABILITIES.every((bit) => (capabilities >> bit & 1n) === 1n);
  return mayAll && /^\s*0\s+0\s+4294967295\s*$/.test(await readProcFile("/proc/self/uid_map"));
}

/** The last line of sshd's log with an error. */
async function lastFailure(dir: string): Promise<string | undefined> {
  const log = await Deno.readTextFile(`${dir}/sshd.log`).catch(() => "");
  return log.split("\n").findLast((line) => /fatal|error|failed|not exist|denied|not permitted/i.test(line))
    ?.trim();
}

function oneLine(text: string): string {
  return text.trim().replaceAll(/\s*[\r\n]+\s*/g, "; ");
}
