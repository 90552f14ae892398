import { systemClock } from "@gateway/shared/clock";
import type { CertificateFields } from "@gateway/shared/ssh";
import { createEphemeralKey, type EphemeralKey } from "../../broker/ssh/login.ts";
import type { SshLimits } from "../../broker/ssh/failures.ts";
import { runCommand, type RunCommandOptions } from "../../broker/ssh/run_command.ts";
import { PATIENT_LIMITS } from "./patient_limits.ts";
import { createTestCa, PRINCIPAL, type TestCa } from "./certificates.ts";
import type { SshTarget } from "./ssh_target.ts";
import { currentUser, startSshTarget } from "./target.ts";
import { type Printed, printedBy } from "./printed.ts";
import { createFolder } from "../stage/folder.ts";
import { share } from "../stage/share.ts";

export interface SceneRequest
  extends Partial<Pick<RunCommandOptions, "pty" | "signal" | "stdin" | "stopsAtStdinEnd">> {
  readonly user?: string;
  readonly fields?: Partial<CertificateFields>;
  readonly limits?: Partial<SshLimits>;
  /** A CA in place of the one that the target trusts. */
  readonly ca?: TestCa;
  readonly hostKey?: string;
  /** The key to certify and to sign with. */
  readonly key?: EphemeralKey;
}

/** A target with functions to run commands on it. */
export interface Scene {
  readonly target: SshTarget;
  /** A directory that is removed at the end. */
  readonly dir: string;
  /** A certificate that the target accepts. */
  certify(publicKeyLine: string): Promise<string>;
  run(command: string, request?: SceneRequest): Promise<Printed>;
}

/** Starts a target, runs a test on it and stops it. */
export async function withTarget(
  kind: SshTarget["kind"],
  test: (scene: Scene) => Promise<void>,
): Promise<void> {
  await using dir = await createFolder();
  const ca = createTestCa();
  const principals = { [currentUser()]: [PRINCIPAL] };
  const target = await startSshTarget({
    caPublicKeyLine: ca.publicKeyLine,
    principals,
    dir: dir.path,
    forceKind: kind,
  });
  try {
    await test({
      target,
      dir: dir.path,
      certify: (line) => ca.certify(line),
      run: (command, request) => run(target, ca, command, request),
    });
  } finally {
    await target.close();
  }
}

/** Like {@linkcode withTarget}, but shares one target of each kind between a file's tests. */
export function shareTargets(): typeof withTarget {
  const openssh = share<Scene>((use) => withTarget("openssh", use));
  const embedded = share<Scene>((use) => withTarget("embedded", use));
  return (kind, test) => (kind === "openssh" ? openssh : embedded)(test);
}

async function run(
  target: SshTarget,
  trusted: TestCa,
  command: string,
  request: SceneRequest = {},
): Promise<Printed> {
  const { fields, limits, ca = trusted, hostKey = target.hostKeyLine, key = createEphemeralKey(), signal } =
    request;
  return printedBy(
    await runCommand({
      clock: systemClock,
      hops: [{
        name: "target",
        addr: `127.0.0.1:${target.port}`,
        hostKey,
        user: request.user ?? target.user,
        certificate: await ca.certify(key.publicKeyLine, fields),
        key,
      }],
      command,
      pty: request.pty ?? false,
      stopsAtStdinEnd: request.stopsAtStdinEnd ?? false,
      limits: { ...PATIENT_LIMITS, ...limits },
      ...(request.stdin === undefined ? {} : { stdin: request.stdin }),
      ...(signal === undefined ? {} : { signal }),
    }),
  );
}
