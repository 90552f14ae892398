import type { CaKey } from "@gateway/shared/ca";
import { AppError, errorText } from "@gateway/shared/errors";
import { type OwnHost, runOverSsh } from "../over_ssh.ts";
import { type EnrolOptions, formatEnrolScript } from "./script.ts";
import { tryLogin } from "./try_login.ts";

/** What is carried out on which host. */
interface CarryOut {
  readonly name: string;
  readonly host: OwnHost & { readonly user: string };
  /** Whom to log in as, root or who may become root. */
  readonly login: string;
  readonly options: EnrolOptions;
  /** With what a login is tried; absent: none is. */
  readonly key: CaKey | undefined;
}

interface CarriedOut {
  readonly done: boolean;
  readonly tried: boolean;
  readonly lines: readonly string[];
}

const SEE_LOG = "its sshd wrote why: journalctl -t sshd -n 20, or its auth log, there";
/** So long a change waits to be kept: whoever is cut off by it can't undo it. */
export const CONFIRM_SECONDS = 120;

/**
 * Changes what a host trusts, tries a login, and has the change taken back where that fails; the host does so by itself
 * where nobody tells it to keep it.
 */
export async function carryOut({ name, host, login, options, key }: CarryOut): Promise<CarriedOut> {
  const onHost = (options: EnrolOptions) =>
    runOverSsh(name, host, { script: `${formatEnrolScript(options).join("\n")}\n`, login });
  const tried = options.mode === "add" && key !== undefined;
  const { code, lines } = await onHost({ ...options, ...tried && { confirmSeconds: CONFIRM_SECONDS } });
  if (code !== 0 || !tried) return { done: code === 0, tried: false, lines };
  try {
    await tryLogin({ name, host, principal: options.principal, caKey: key });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const undone = await onHost({ ...options, mode: "undo" });
    const back = undone.code === 0
      ? "everything was taken back"
      : `the host takes everything back by itself within ${CONFIRM_SECONDS} seconds`;
    return { done: false, tried, lines: [errorText(error), SEE_LOG, back] };
  }
  const kept = await onHost({ ...options, mode: "keep" });
  const said = `a certificate for ${options.principal} logged in as ${host.user}`;
  return { done: kept.code === 0, tried, lines: [...lines, ...kept.lines, said] };
}
