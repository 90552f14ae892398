/**
 * The exact permissions of a signer, from its config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signerConfig } from "@gateway/shared/config/signer";
 * import { signerPermissions } from "@gateway/shared/permissions/signer";
 *
 * const config = signerConfig.parse({
 *   listen: "127.0.0.1:9443",
 *   server_cert: "pki/signer.crt",
 *   server_key: "pki/signer.key",
 *   client_ca: "pki/mtls_ca.crt",
 *   ca_key: "pki/ssh_ca",
 *   audit_log: "log/audit.log",
 *   audit_key: "audit.seed",
 * });
 * const set = signerPermissions(config, { configPath: "signer.json", workingFolder: "/srv" });
 * assert.deepEqual(set.net, ["127.0.0.1:9443"]);
 * assert.deepEqual(set.write, ["/srv/log"]);
 * ```
 *
 * @module
 */
import type { SignerConfig } from "../config/signer.ts";
import { resolve } from "node:path";
import { editPath } from "../config/edit_path.ts";
import { AppError } from "../errors.ts";
import type { CaKeyConfig } from "../ca/model.ts";
import { planCaKeys } from "../ca/select.ts";
import { listenPermissions, urlPermissions } from "./address.ts";
import { filePermissions } from "./audit_folder.ts";
import { mergeSets, type PermissionSet } from "./set.ts";

/** Where a service's config file lies, and where its relative paths start. */
export interface ServiceLocation {
  /** The config file; relative to `workingFolder` when not absolute. */
  readonly configPath: string;
  /** The absolute working folder of the process. */
  readonly workingFolder: string;
}

/**
 * The files the config names, read-only; the audit log's folder; the state database; the listeners. Where admins
 * may edit the policy over HTTP also the config file itself and the file that replaces it. Where a CA key is in an
 * agent or a vault, that one's address; where end users' tokens are verified, their issuer's. No other outbound
 * connection, no child process, no environment.
 *
 * @throws {AppError} `invalid_config` when the config names what no exact permission can be given for
 */
export function signerPermissions(config: SignerConfig, location: ServiceLocation): PermissionSet {
  return mergeSets(
    filePermissions({
      workingFolder: location.workingFolder,
      auditLog: config.audit_log,
      files: {
        "the config": location.configPath,
        server_cert: config.server_cert,
        server_key: config.server_key,
        client_ca: config.client_ca,
        audit_key: config.audit_key,
        ...caKeyFiles(config),
      },
    }),
    caKeys(config, location),
    endUsers(config),
    stateFile(config, location),
    configEdits(config, location),
    { net: [...listenPermissions(config.listen), ...listenPermissions(config.monitor_listen)] },
    { ignoreEnv: "all" },
  );
}

/** SQLite's own files beside the database are below what Deno looks at. */
function stateFile({ state_db }: SignerConfig, { workingFolder }: ServiceLocation): PermissionSet {
  if (state_db === "") return {};
  const path = resolve(workingFolder, state_db);
  return { read: [path], write: [path] };
}

function configEdits({ reload_callers }: SignerConfig, location: ServiceLocation): PermissionSet {
  if (reload_callers.length === 0) return {};
  const path = resolve(location.workingFolder, location.configPath);
  return { read: [editPath(path)], write: [path, editPath(path)] };
}

/** Where an application signs in for a key vault. */
const VAULT_SIGN_IN = "login.microsoftonline.com:443";
/** Where a machine in the cloud gets its own identity. */
const CLOUD_IDENTITY = "169.254.169.254:80";

function caKeys(config: SignerConfig, { workingFolder }: ServiceLocation): PermissionSet {
  const ring = planCaKeys(config);
  if (ring === undefined) return {};
  return mergeSets(...[ring.fallback, ...ring.byGroup.values()].map((key) => caKey(key, workingFolder)));
}

/** The key files, by the config key that names them. */
function caKeyFiles(config: SignerConfig): Readonly<Record<string, string>> {
  const ring = planCaKeys(config);
  if (ring === undefined) return {};
  const named: readonly (readonly [string, CaKeyConfig])[] = [["ca_key", ring.fallback], ...ring.byGroup];
  return Object.fromEntries(named.flatMap(([name, key]) => {
    if (key.type === "akv") return [];
    return [[
      name === "ca_key" ? name : `ca_keys.${name}`,
      key.type === "pem" ? key.path : key.public_key_path,
    ]];
  }));
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

/** The host of the issuer's keys is not in the config; where it is another one, the load error names it. */
function endUsers({ end_user_oidc: oidc }: SignerConfig): PermissionSet {
  return oidc === undefined ? {} : { net: urlPermissions(oidc.issuer) };
}
