import { parseCertificateFor } from "./certificate_auth.ts";
import { type ConnectOptions, connectOver, type SshConnection } from "./connect.ts";
import type { EphemeralKey } from "./ephemeral_key.ts";
import { atAddress, atBastion } from "./failures.ts";
import { parseHostPin } from "./host_pin.ts";
import type { SshBounds } from "./limits.ts";
import { connectTcp, connectThrough, type HostAddress, parseHostAddress } from "./transport.ts";

/** One host on the way, and what it takes to log in to it. */
export interface HopLogin {
  /** The logical name, for error texts. */
  readonly name: string;
  /** `host:port`, as the host before it is to reach it */
  readonly addr: string;
  /** The pinned host key, as a line of authorized_keys or known_hosts. */
  readonly hostKey: string;
  readonly user: string;
  /** The certificate for `key`, as a line. */
  readonly certificate: string;
  readonly key: EphemeralKey;
}

/** The outermost bastion first, the target last. */
export type HopLogins = readonly [HopLogin, ...HopLogin[]];

/**
 * Connects to the last of the hops through all the others: each is dialled by the one before it, shows its own
 * pinned key and is logged in to with its own certificate, and no bastion can read what passes through it.
 *
 * @returns the connection to the last one; it is lost with any of the others, and closing it closes all
 * @throws {AppError} `upstream_failure` with a text that begins with `connection: `, or `canceled` when the signal
 * is aborted; nothing is left open then
 */
export async function connectRoute(hops: HopLogins, bounds: SshBounds): Promise<SshConnection> {
  // Whatever is wrong with any of them is known before the first connection.
  const [first, ...others] = legsOf(hops);
  let reached = await extend(undefined, first, bounds);
  for (const leg of others) reached = await extend(reached, leg, bounds);
  return reached;
}

/** A hop whose texts have been read. */
interface Leg extends Pick<ConnectOptions, "pin" | "login"> {
  readonly address: HostAddress;
  /** The bastion's name; `undefined` for the target. */
  readonly bastion: string | undefined;
}

function legsOf([first, ...others]: HopLogins): readonly [Leg, ...Leg[]] {
  const isTarget = (index: number) => index === others.length;
  return [readLeg(first, isTarget(0)), ...others.map((hop, index) => readLeg(hop, isTarget(index + 1)))];
}

function readLeg(hop: HopLogin, isTarget: boolean): Leg {
  const { user, key } = hop;
  const bastion = isTarget ? undefined : hop.name;
  try {
    const certificate = parseCertificateFor(key, hop.certificate);
    return {
      bastion,
      pin: parseHostPin(hop.hostKey, hop.name),
      address: parseHostAddress(hop.addr),
      login: { user, key, certificate },
    };
  } catch (error) {
    throw bastion === undefined ? error : atBastion(bastion, error);
  }
}

/** Goes one hop further. When that fails, what has been reached is closed. */
async function extend(
  reached: SshConnection | undefined,
  { address, pin, login, bastion }: Leg,
  bounds: SshBounds,
): Promise<SshConnection> {
  try {
    const transport = reached === undefined
      ? await connectTcp(address, bounds)
      : await connectThrough(reached, address, bounds);
    const connection = await connectOver(transport, { ...bounds, pin, login, carrierLost: reached?.lost });
    return reached === undefined ? connection : carriedBy(reached, connection);
  } catch (cause) {
    await reached?.close();
    const error = atAddress(address, cause);
    throw bastion === undefined ? error : atBastion(bastion, error);
  }
}

function carriedBy(carrier: SshConnection, { client, lost, close }: SshConnection): SshConnection {
  return {
    client,
    lost: AbortSignal.any([lost, carrier.lost]),
    async close() {
      await close();
      await carrier.close();
    },
  };
}
