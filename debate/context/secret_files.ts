/** Files that no tool and no collector may read, in any directory. */

/** File names. `*` matches any text, and case is ignored. */
const FILES = [
  ...".env .env.* .netrc _netrc .pgpass .my.cnf .npmrc .pypirc .htpasswd .git-credentials .vault-token".split(
    " ",
  ),
  ...["pem", "key", "p12", "pfx", "jks", "keystore", "kdbx", "ppk", "gpg", "asc"].map((type) => `*.${type}`),
  ...["rsa", "dsa", "ecdsa", "ed25519", "ecdsa_sk", "ed25519_sk"].map((type) => `id_${type}`),
  ..."shadow shadow- gshadow gshadow- environ kcore mem credentials credentials.json credentials.toml".split(
    " ",
  ),
  ..."assist_token *.tfstate *.tfstate.backup".split(" "),
];

const DIRECTORIES = [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", "gcloud", "secrets"];

const FILE = anyOf(FILES);
const DIRECTORY = anyOf(DIRECTORIES);

const HARMLESS = /\.(?:example|sample|template|dist|pub)$/i;

/** Whether a path names a secret file, or a file in a secret directory. */
export function isSecretFile(path: string): boolean {
  const parts = path.split("/").filter((part) => part !== "");
  const name = parts.at(-1) ?? "";
  if (parts.some((part) => DIRECTORY.test(part))) return true;
  return FILE.test(name) && !HARMLESS.test(name);
}

/**
 * Options of GNU `grep -r` that skip secret files. They also skip harmless examples, because the last matching pattern
 * wins.
 */
export const GREP_EXCLUSIONS: readonly string[] = [
  ...FILES.map((name) => `--exclude=${anyCase(name)}`),
  ...DIRECTORIES.map((name) => `--exclude-dir=${anyCase(name)}`),
];

function anyOf(names: readonly string[]): RegExp {
  const patterns = names.map((name) => name.replaceAll(".", "\\.").replaceAll("*", ".*"));
  return new RegExp(`^(?:${patterns.join("|")})$`, "is");
}

function anyCase(name: string): string {
  return name.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
}

export async function resolveRoots(paths: readonly string[]): Promise<readonly string[]> {
  const real = await Promise.all(paths.map((path) => realPath(path)));
  return real.filter((path) => path !== undefined);
}

/** Resolves all links. Returns the real path if it is within a root; `undefined` otherwise. */
export async function findInside(path: string, roots: readonly string[]): Promise<string | undefined> {
  const real = await realPath(path);
  return real !== undefined && roots.some((root) => isWithin(real, root)) ? real : undefined;
}

/** Whether a real path is a directory or within it. */
export function isWithin(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith("/") ? root : `${root}/`);
}

async function realPath(path: string): Promise<string | undefined> {
  if (path.includes("\0")) return undefined;
  try {
    return await Deno.realPath(path);
  } catch {
    return undefined;
  }
}
