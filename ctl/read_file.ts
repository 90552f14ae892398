import { AppError } from "@gateway/shared/errors";
import { describeReadFailure, readRegularFile } from "@gateway/shared/files";

/**
 * Reads a file that the operator named.
 *
 * @throws {AppError} `not_found` or `invalid_config`, with the path and why
 */
export async function readOperatorFile(path: string, what: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await readRegularFile(path);
  } catch (cause) {
    const code = cause instanceof Deno.errors.NotFound ? "not_found" : "invalid_config";
    throw new AppError(code, `Cannot read ${what} ${JSON.stringify(path)}: ${describeReadFailure(cause)}`, {
      cause,
    });
  }
}
