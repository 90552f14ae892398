/**
 * What a service needs for its state.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { statePermissions } from "@gateway/shared/permissions/state";
 *
 * const settings = { state_db: "postgres://app@db:5433/gateway", state_db_password_file: "/etc/pw", state_db_ca: "" };
 * assert.deepEqual(statePermissions(settings, "/"), { net: ["db:5433"], read: ["/etc/pw"], write: [] });
 * ```
 *
 * @module
 */
import { resolve } from "node:path";
import type { StateSettings } from "../state/postgres_settings.ts";
import { describeHost, isPostgresUrl, parsePostgresUrl } from "../state/postgres_url.ts";
import { stateFilePermissions } from "./files.ts";
import type { PermissionSet } from "./set.ts";

/**
 * What the state needs: the file; or the database's address or socket, and the files for it.
 *
 * @param workingFolder the absolute folder that relative paths start from
 */
export function statePermissions(settings: StateSettings, workingFolder: string): PermissionSet {
  const { state_db, state_db_password_file, state_db_ca } = settings;
  if (!isPostgresUrl(state_db)) return stateFilePermissions(state_db, workingFolder);
  const { hosts } = parsePostgresUrl(state_db);
  const sockets = hosts.flatMap((host) => host.kind === "socket" ? [host.path] : []);
  const files = [state_db_password_file, state_db_ca].filter((path) => path !== "");
  return {
    net: hosts.map((host) => host.kind === "socket" ? `unix:${host.path}` : describeHost(host)),
    read: [...files.map((path) => resolve(workingFolder, path)), ...sockets],
    write: sockets,
  };
}
