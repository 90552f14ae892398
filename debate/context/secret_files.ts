/** Files that no tool and no collector may read, in any directory. */

/** File names. `*` matches any text, and case is ignored. */
const FILES = [
  ...[
    // Programs and their accounts
    ".env* *.env .netrc* _netrc .curlrc .wgetrc .rhosts .msmtprc .fetchmailrc sasl_passwd*",
    ".git-credentials* .npmrc* .yarnrc .yarnrc.yml .pypirc pip.conf nuget.config gradle.properties settings-security.xml",
    ".pgpass* pgpass.conf .my.cnf* .mylogin.cnf debian.cnf .erlang.cookie .s3cfg .boto .passwd-s3fs rclone.conf",
    ".dockercfg auth.json kubeconfig* *.kubeconfig k3s.yaml admin.conf super-admin.conf kubelet.conf .vault-token .vault_pass* vault_pass* *.ovpn *.nmconnection",
    "credentials credentials.* credentials-* *-credentials.json *_credentials.json kaggle.json .smbcredentials",
    "secrets.* secret.* service-account*.json service_account*.json serviceaccount*.json *.tfvars *.tfvars.json",
    "wp-config.php database.yml sftp-config.json sitemanager.xml logins.json wallet.dat .*_history assist_token",
    "*.tfstate *.tfstate.backup .terraformrc terraform.rc",
    // Keys
    "*.pem *.key *.p8 *.pk8 *.p12 *.pkcs12 *.pfx *.jks *.keystore *.keytab *.kdb *.kdbx *.ppk *.gpg *.asc *.agekey",
    "id_rsa* id_dsa* id_ecdsa* id_ed25519* id_xmss* ssh_host_*_key secring.* *.keychain *.keychain-db",
    // The system
    "shadow shadow- gshadow gshadow- opasswd .htpasswd* htpasswd* *-secrets *.secrets wpa_supplicant*.conf",
    "environ kcore mem",
  ].flatMap((names) => names.split(" ")),
];

const DIRECTORIES =
  ".ssh .gnupg .aws .azure .oci .aliyun .kube .docker gcloud .gcloud doctl secrets .secrets .password-store wireguard gh serviceaccount"
    .split(" ");

const FILE = anyOf(FILES);
const DIRECTORY = anyOf(DIRECTORIES);

/** Examples, public keys, and program and document files. */
const HARMLESS =
  /\.(?:example|sample|template|dist|pub|[cm]?[jt]sx?|py|go|rs|rb|java|kt|cs|c|cc|cpp|h|md|rst)$/i;

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
