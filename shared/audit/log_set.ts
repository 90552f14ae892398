/**
 * Logs of several processes with one config: `audit.log`, and beside it `audit-2.log`, `audit-3.log` … for those that
 * were started while another one had the names before. Each is a log and a chain of its own, with rotated files of
 * its own.
 *
 * @module
 */
import { basename, dirname, extname, join } from "node:path";
import { sortSegments } from "./segments.ts";

/** As many processes may have logs beside each other. */
export const MAX_LOGS = 64;

/** The path of the nth log of a set, from 1, which is that of the config. */
export function nthLog(path: string, number: number): string {
  if (number === 1) return path;
  const extension = extname(path);
  return join(dirname(path), `${basename(path, extension)}-${number}${extension}`);
}

/** The paths of the logs of a set that are there, or of which a rotated file is there, among the names of its folder. */
export function logsOfSet(path: string, names: readonly string[]): readonly string[] {
  const numbers = Array.from({ length: MAX_LOGS }, (_, index) => index + 1);
  return numbers.map((number) => nthLog(path, number)).filter((log) => {
    const name = basename(log);
    return names.includes(name) || sortSegments(name, names).length > 0;
  });
}
