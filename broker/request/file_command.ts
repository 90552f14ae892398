import { isUnsafe, quoteText, singleQuote } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";

const MODE = /^[0-7]{3,4}$/;

/**
 * The command that writes its stdin to a file. Command policies and rules on the hosts are written against this
 * text: it stays as it is.
 *
 * @param mode octal digits for chmod; empty leaves the mode as it is
 */
export function putCommand(path: string, mode: string): string {
  const quoted = singleQuote(path);
  return `cat > ${quoted}${mode === "" ? "" : ` && chmod ${mode} ${quoted}`}`;
}

/**
 * The command that prints a file, and one byte beyond the limit where there is more. Command policies are written
 * against this text, too.
 */
export function getCommand(path: string, maxBytes: number): string {
  return `head -c ${maxBytes + 1} < ${singleQuote(path)}`;
}

/**
 * Refuses a path that would break the audit record of the transfer, whose fields are divided by blanks, or that
 * cannot be written down exactly.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkPath(path: string): void {
  if (path === "") throw badRequest("path is required");
  if (path.includes("\0")) throw badRequest("path contains null bytes");
  if (/[\r\n]/.test(path)) throw badRequest("path contains newline characters");
  if (!path.isWellFormed()) throw badRequest("path is not well-formed Unicode");
  if (isUnsafe(path)) throw badRequest("path contains whitespace or control characters");
  const [folder, network = ""] = absoluteParts(path);
  if (folder === "dev" && ["tcp", "udp"].includes(network)) {
    throw badRequest(`path is in /dev/${network}, which is a network connection to some shells`);
  }
}

/**
 * The folder of the kernel that a path is in, such as `/proc`. What stands there is devices and switches: a read may
 * never end, a write changes the machine. Where symbolic links lead is not known here.
 */
export function findKernelFolder(path: string): string | undefined {
  const [first = ""] = absoluteParts(path);
  return ["dev", "proc", "sys"].includes(first) ? `/${first}` : undefined;
}

/** The parts of a path below `/`. Where a relative one climbs, it counts where it would lead from there. */
function absoluteParts(path: string): readonly string[] {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return path.startsWith("/") || path.split("/").includes("..") ? parts : [];
}

/**
 * Refuses what is not a mode, and a path that chmod would take for an option.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkMode(mode: string, path: string): void {
  if (mode === "") return;
  if (!MODE.test(mode)) throw badRequest(`invalid mode ${quoteText(mode)} (expect 3-4 octal digits)`);
  if (path.startsWith("-")) throw badRequest('path begins with "-": with a mode, write it as "./-…"');
}

/** What the caller has to mend. */
export function badRequest(text: string): AppError {
  return new AppError("invalid_request", `bad request: ${text}`);
}
