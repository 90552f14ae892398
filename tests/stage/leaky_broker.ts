import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { signResponse } from "@gateway/shared/wire";
import { createEphemeralKey, type EphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { PATIENT_LIMITS } from "../ssh_target/patient_limits.ts";
import { printedBy } from "../ssh_target/printed.ts";
import { HOST, post, type Stage } from "./stage.ts";

/** Result of {@linkcode logIn} after the host has rejected the certificate. */
export const LOGIN_REFUSED = /^connection: the host refused the certificate$/;

/** Credentials that an attacker steals from a broker: a session certificate and its key. */
export interface Loot {
  readonly certificate: string;
  readonly serial: bigint;
  readonly key: EphemeralKey;
}

/** Obtains a session certificate for an end user, with its key, like a compromised broker. */
export async function steal(
  stage: Stage,
  endUser: string,
  through: "signer" | "control_plane" = "signer",
): Promise<Loot> {
  const key = createEphemeralKey();
  const broker = through === "signer"
    ? await stage.signerClient("broker")
    : await stage.controlPlaneClient("broker");
  const body = {
    host: HOST,
    role: "target",
    purpose: "session",
    session_mode: "exec",
    end_user: endUser,
    public_key: key.publicKeyLine,
  };
  const { status, text, body: answer } = await post(broker, "/v1/sign", body);
  assert.equal(status, 200, text);
  const { certificate, serial } = signResponse.parse(answer);
  assert.ok(certificate !== undefined && serial !== undefined);
  return { certificate, serial, key };
}

/** Logs in with stolen credentials and returns the result. */
export async function logIn({ target }: Stage, { certificate, key }: Loot): Promise<string> {
  const login = {
    name: HOST,
    addr: `127.0.0.1:${target.port}`,
    hostKey: target.hostKeyLine,
    user: target.user,
  };
  try {
    const hops = [{ ...login, certificate, key }] as const;
    const { stdout } = printedBy(
      await runCommand({ clock: systemClock, hops, command: "echo in", pty: false, limits: PATIENT_LIMITS }),
    );
    return new TextDecoder().decode(stdout).trim();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
