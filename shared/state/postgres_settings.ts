/**
 * The keys of a config that say where its state is.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { findStateProblems } from "@gateway/shared/state/postgres_settings";
 *
 * const settings = { state_db: "postgres://db/gateway", state_db_password_file: "", state_db_ca: "" };
 * assert.deepEqual(findStateProblems(settings), [["state_db", "it names no user"]]);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { AppError } from "../errors.ts";
import type { UsedFile } from "../exposed_files.ts";
import { describeTarget, isPostgresUrl, parsePostgresUrl } from "./postgres_url.ts";

/** What of a config says where the state is. */
export interface StateSettings {
  /** A file, the URL of a PostgreSQL database, or empty. */
  readonly state_db: string;
  /** Holds the password; empty: it is in the URL, or there is none. */
  readonly state_db_password_file: string;
  /** PEM file with the CAs of the database; empty: those of the machine. */
  readonly state_db_ca: string;
}

/** Members of a config's schema: how a database in `state_db` is used. */
export const DATABASE_ACCESS_SHAPE: Readonly<
  Record<"state_db_password_file" | "state_db_ca", z.ZodType<string>>
> = {
  state_db_password_file: z.string().default("").describe(
    "file with the password of the database in state_db, read for each connection; empty means none",
  ),
  state_db_ca: z.string().default("").describe(
    "PEM file, the CAs that certificates of the database are checked by; empty means the machine's",
  ),
};

/** What is wrong with such keys, by key; nothing of a URL is repeated. */
export function findStateProblems(
  settings: StateSettings,
): readonly (readonly [keyof StateSettings, string])[] {
  const { state_db, state_db_password_file, state_db_ca } = settings;
  if (!isPostgresUrl(state_db)) {
    const without = "is for a state_db that is a postgres: URL";
    return [
      ...(state_db_password_file === "" ? [] : [["state_db_password_file", without] as const]),
      ...(state_db_ca === "" ? [] : [["state_db_ca", without] as const]),
    ];
  }
  try {
    const { password, hosts } = parsePostgresUrl(state_db);
    if (password !== "" && state_db_password_file !== "") {
      return [["state_db_password_file", "is set, and the URL in state_db has a password as well"]];
    }
    if (state_db_ca !== "" && !hosts.some((host) => host.kind === "tcp" && host.tls)) {
      return [["state_db_ca", "is set, and no host of state_db is used with TLS"]];
    }
    return [];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return [["state_db", error.message.replace(/^Cannot use state_db: /, "")]];
  }
}

/** What is used, as a log may show it: without a password. */
export function describeStateDb(stateDb: string): string {
  return isPostgresUrl(stateDb) ? describeTarget(parsePostgresUrl(stateDb)) : stateDb;
}

/** Its files that other users of the machine must not read or write. */
export function stateFiles(
  { state_db, state_db_password_file, state_db_ca }: StateSettings,
): readonly UsedFile[] {
  return [
    { key: "state_db", path: isPostgresUrl(state_db) ? "" : state_db, use: "relied_on" },
    { key: "state_db_password_file", path: state_db_password_file, use: "secret" },
    { key: "state_db_ca", path: state_db_ca, use: "relied_on" },
  ];
}
