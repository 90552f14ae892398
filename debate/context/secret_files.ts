/**
 * Files that hold secrets by their nature: no tool and no collector reads them, wherever they lie.
 *
 * @module
 */

const NAMES =
  /^(?:\.env(?:\..+)?|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|gpg|asc)|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc|\.htpasswd|\.git-credentials|\.vault-token|shadow-?|gshadow-?|environ|kcore|mem|credentials(?:\.json|\.toml)?|assist_token|.*\.tfstate(?:\.backup)?)$/i;

const FOLDERS = /^(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|gcloud|secrets)$/i;

/** Examples are made to be read. */
const HARMLESS = /\.(?:example|sample|template|dist|pub)$/i;

/** Whether a path names such a file, or one in such a folder. */
export function isSecretFile(path: string): boolean {
  const parts = path.split("/").filter((part) => part !== "");
  const name = parts.at(-1) ?? "";
  if (parts.some((part) => FOLDERS.test(part))) return true;
  return NAMES.test(name) && !HARMLESS.test(name);
}
