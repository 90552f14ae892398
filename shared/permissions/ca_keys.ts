/**
 * What the holder of CA keys needs, wherever they are kept.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { caKeyFiles, caKeyPermissions } from "./ca_keys.ts";
 *
 * const agent = { type: "agent", socket: "/run/ca.sock", public_key_path: "ca.pub" } as const;
 * const settings = { ca_key: "pki/ssh_ca", ca_keys: { prod: agent } };
 * assert.deepEqual(caKeyFiles(settings), { ca_key: "pki/ssh_ca", "ca_keys.prod": "ca.pub" });
 * assert.deepEqual(caKeyPermissions(settings, "/srv").net, ["unix:/run/ca.sock"]);
 * ```
 *
 * @module
 */
import { resolve } from "node:path";
import { type CaKeyConfig, type CaKeySettings, planCaKeys } from "../ca/model.ts";
import { AppError } from "../errors.ts";
import type { UsedFile } from "../exposed_files.ts";
import { formatKeyPath } from "../key_path.ts";
import { urlPermissions } from "./address.ts";
import { mergeSets, type PermissionSet } from "./set.ts";

/** Where an application signs in for a key vault. */
const VAULT_SIGN_IN = "login.microsoftonline.com:443";
/** Where a machine in the cloud gets its own identity. */
const CLOUD_IDENTITY = "169.254.169.254:80";

/**
 * What the keys that are not files need: the agent's socket, or the vault and where to sign in for it.
 *
 * @param workingFolder the absolute folder that relative paths start from
 * @throws {AppError} `invalid_config` when the config names what no exact permission can be given for
 */
export function caKeyPermissions(config: CaKeySettings, workingFolder: string): PermissionSet {
  const ring = planCaKeys(config);
  if (ring === undefined) return {};
  return mergeSets(...[ring.fallback, ...ring.byGroup.values()].map((key) => caKey(key, workingFolder)));
}

/** The key files, by the config key that names them. */
export function caKeyFiles(config: CaKeySettings): Readonly<Record<string, string>> {
  const ring = planCaKeys(config);
  if (ring === undefined) return {};
  const byGroup = [...ring.byGroup].map(([group, key]) => [formatKeyPath(["ca_keys", group]), key] as const);
  return Object.fromEntries([["ca_key", ring.fallback] as const, ...byGroup].flatMap(([name, key]) => {
    if (key.type === "akv") return [];
    return [[name, key.type === "pem" ? key.path : key.public_key_path]];
  }));
}

/** What gives its holder the CA keys, by the config key that names it: key files, and the sockets of agents. */
export function caKeyHolders(config: CaKeySettings): readonly UsedFile[] {
  const ring = planCaKeys(config);
  if (ring === undefined) return [];
  const byGroup = [...ring.byGroup].map(([group, key]) => [formatKeyPath(["ca_keys", group]), key] as const);
  return [["ca_key", ring.fallback] as const, ...byGroup].flatMap(([name, key]): readonly UsedFile[] => {
    switch (key.type) {
      case "pem":
        return [{ key: name, path: key.path, use: "secret" }];
      case "agent":
        return [{ key: `${name}.socket`, path: key.socket, use: "relied_on" }];
      case "akv":
        return [];
      default:
        return key satisfies never;
    }
  });
}

function caKey(key: CaKeyConfig, workingFolder: string): PermissionSet {
  const at = (path: string) => resolve(workingFolder, path);
  switch (key.type) {
    case "pem":
      return {};
    case "agent": {
      if (key.socket === "") {
        const what = "an exact permission can't be given for whatever SSH_AUTH_SOCK will name";
        throw new AppError("invalid_config", `Cannot use a CA key of type agent without socket: ${what}`);
      }
      const socket = at(key.socket);
      return { read: [socket], write: [socket], net: [`unix:${socket}`] };
    }
    case "akv": {
      const { credential } = key;
      return {
        net: [...urlPermissions(key.vault_url), credential === undefined ? CLOUD_IDENTITY : VAULT_SIGN_IN],
        sys: ["osRelease"],
        ...(credential === undefined ? {} : { env: [credential.client_secret_env] }),
      };
    }
    default:
      return key satisfies never;
  }
}
