import { AppError, errorText } from "@gateway/shared/errors";

/**
 * Reads a file that the operator named.
 *
 * @throws {AppError} `not_found` or `invalid_config`, with the path and why
 */
export async function readOperatorFile(path: string, what: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await Deno.readFile(path);
  } catch (cause) {
    const head = `Cannot read ${what} ${JSON.stringify(path)}`;
    if (cause instanceof Deno.errors.NotFound) {
      throw new AppError("not_found", `${head}: no such file`, { cause });
    }
    if (cause instanceof Deno.errors.PermissionDenied) {
      throw new AppError("invalid_config", `${head}: the file's mode does not let this user read it`, {
        cause,
      });
    }
    throw new AppError(
      "invalid_config",
      `${head}: ${errorText(cause)}`,
      { cause },
    );
  }
}
