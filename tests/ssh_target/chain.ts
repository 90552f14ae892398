import { type Clock, systemClock } from "@gateway/shared/clock";
import { BASTION_COMMAND } from "@gateway/shared/policy";
import type { SshLimits } from "../../broker/ssh/failures.ts";
import type { HopLogin, HopLogins } from "../../broker/ssh/connect.ts";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { createTestCa } from "./certificates.ts";
import { PATIENT_LIMITS } from "./patient_limits.ts";
import type { SshTarget } from "./ssh_target.ts";
import { currentUser, startSshTarget } from "./target.ts";
import { type Printed, printedBy } from "./printed.ts";
import { share } from "../stage/share.ts";

export interface ChainRequest {
  /** Replaces properties of a hop. */
  readonly change?: (hop: HopLogin, index: number) => HopLogin;
  readonly clock?: Clock;
  readonly limits?: Partial<SshLimits>;
  readonly signal?: AbortSignal;
  readonly pty?: boolean;
}

/** Hosts that are each reached through the previous one. */
export interface Chain {
  readonly targets: readonly SshTarget[];
  readonly dir: string;
  run(command: string, request?: ChainRequest): Promise<Printed>;
  /** A certificate for a key that only this hop accepts. */
  certify(publicKeyLine: string, index: number, extensions?: readonly string[]): Promise<string>;
}

/** Starts this many hosts, each with its own principal, passes them to a test and stops them. */
export async function withChain(
  kind: SshTarget["kind"],
  count: number,
  test: (chain: Chain) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "ssh-chain-" });
  const ca = createTestCa();
  const targets: SshTarget[] = [];
  const certify: Chain["certify"] = (line, index, extensions = extensionsOf(index, count)) => {
    const criticalOptions = index === count - 1 ? {} : { "force-command": BASTION_COMMAND };
    return ca.certify(line, { principals: [principalOf(index)], criticalOptions, extensions });
  };
  try {
    for (let index = 0; index < count; index += 1) {
      const own = `${dir}/${index}`;
      await Deno.mkdir(own);
      const principals = { [currentUser()]: [principalOf(index)] };
      targets.push(
        await startSshTarget({ caPublicKeyLine: ca.publicKeyLine, principals, dir: own, forceKind: kind }),
      );
    }
    await test({
      targets,
      dir,
      certify,
      run: (command, request) => run({ targets, certify }, command, request),
    });
  } finally {
    await Promise.all(targets.map((target) => target.close()));
    await Deno.remove(dir, { recursive: true });
  }
}

/** Like {@linkcode withChain}, but a file's tests share one chain of each kind and length up to 4. */
export function shareChains(): typeof withChain {
  const open = (kind: SshTarget["kind"]) =>
    [1, 2, 3, 4].map((count) => share<Chain>((use) => withChain(kind, count, use)));
  const chains = { openssh: open("openssh"), embedded: open("embedded") };
  return async (kind, count, test) => await chains[kind][count - 1]?.(test);
}

async function run(
  { targets, certify }: Pick<Chain, "targets" | "certify">,
  command: string,
  { change = (hop) => hop, clock = systemClock, limits, signal, pty = false }: ChainRequest = {},
): Promise<Printed> {
  const hops = await Promise.all(targets.map(async ({ port, hostKeyLine, user }, index) => {
    const key = createEphemeralKey();
    const certificate = await certify(key.publicKeyLine, index);
    const addr = `127.0.0.1:${port}`;
    return change({ name: `hop${index}`, addr, hostKey: hostKeyLine, user, certificate, key }, index);
  }));
  return printedBy(
    await runCommand({
      clock,
      hops: atLeastOne(hops),
      command,
      pty,
      limits: { ...PATIENT_LIMITS, ...limits },
      ...(signal === undefined ? {} : { signal }),
    }),
  );
}

function atLeastOne([first, ...others]: readonly HopLogin[]): HopLogins {
  if (first === undefined) throw new RangeError("A chain has at least one hop");
  return [first, ...others];
}

function principalOf(index: number): string {
  return `host:hop${index}`;
}

/** The permissions that the signer grants: forwarding for a bastion, a terminal for the target. */
function extensionsOf(index: number, count: number): readonly string[] {
  return index === count - 1 ? ["permit-pty"] : ["permit-port-forwarding"];
}
