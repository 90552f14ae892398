import { parsePemCaKey } from "@gateway/shared/ca/pem";
import type { BrokerFrontend } from "@gateway/broker/permissions";
import { encodeOpensshPrivateKey, formatPublicKey } from "@gateway/shared/ssh";
import { createCertificateAuthority, issueLeaf, type X509Authority } from "../../ctl/identities/x509.ts";
import { PRINCIPAL } from "../ssh_target/certificates.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { currentUser, startSshTarget } from "../ssh_target/target.ts";
import { recordsOf } from "../stage/audit.ts";
import { freePort } from "../stage/free_port.ts";
import { brokerCommand, type ServiceCommand } from "../stage/service_command.ts";

/** A broker without a signer. It has its own CA key, policy and host. */
export class LocalScene implements AsyncDisposable {
  readonly dir: string;
  readonly pki: X509Authority;
  readonly target: SshTarget;
  readonly listen: string;

  private constructor(parts: Pick<LocalScene, "dir" | "pki" | "target" | "listen">) {
    this.dir = parts.dir;
    this.pki = parts.pki;
    this.target = parts.target;
    this.listen = parts.listen;
  }

  /**
   * @param host keys of the host besides its coordinates and principal
   * @param keys keys of the config besides the usual ones
   */
  static async create(host: object = {}, keys: object = {}): Promise<LocalScene> {
    const dir = await Deno.makeTempDir({ prefix: "local-scene-" });
    for (const folder of ["target", "audit"]) await Deno.mkdir(`${dir}/${folder}`);
    const caKey = encodeOpensshPrivateKey(crypto.getRandomValues(new Uint8Array(32)), "local CA");
    await Deno.writeTextFile(`${dir}/ssh_ca`, caKey, { mode: 0o600 });
    const { algorithm, publicKey } = parsePemCaKey(caKey);
    await Deno.writeTextFile(`${dir}/ssh_ca.pub`, formatPublicKey(algorithm, publicKey));
    const target = await startSshTarget({
      caPublicKeyLine: formatPublicKey(algorithm, publicKey),
      principals: { [currentUser()]: [PRINCIPAL] },
      dir: `${dir}/target`,
    });
    const pki = await createCertificateAuthority({ commonName: "test CA" });
    const leaf = await issueLeaf(pki, {
      subject: "CN=broker",
      usage: "server",
      subjectAltNames: ["127.0.0.1"],
    });
    await Deno.writeTextFile(`${dir}/server.crt`, leaf.certPem);
    await Deno.writeTextFile(`${dir}/server.key`, leaf.keyPem, { mode: 0o600 });
    await Deno.writeTextFile(`${dir}/client_ca.crt`, pki.certPem);
    await Deno.writeFile(`${dir}/audit.seed`, crypto.getRandomValues(new Uint8Array(32)), { mode: 0o600 });
    const listen = `127.0.0.1:${freePort()}`;
    const config = {
      listen,
      server_cert: `${dir}/server.crt`,
      server_key: `${dir}/server.key`,
      client_ca: `${dir}/client_ca.crt`,
      ca_key: `${dir}/ssh_ca`,
      audit_log: `${dir}/audit/audit.log`,
      audit_key: `${dir}/audit.seed`,
      monitor_listen: `127.0.0.1:${freePort()}`,
      source_address: "127.0.0.1",
      hosts: {
        web01: {
          addr: `127.0.0.1:${target.port}`,
          user: target.user,
          host_key: target.hostKeyLine,
          principal: PRINCIPAL,
          ...host,
        },
      },
      ...keys,
    };
    await Deno.writeTextFile(`${dir}/config.json`, JSON.stringify(config));
    return new LocalScene({ dir, pki, target, listen });
  }

  get configPath(): string {
    return `${this.dir}/config.json`;
  }

  command(frontend: BrokerFrontend): Promise<ServiceCommand> {
    return brokerCommand(this.configPath, frontend);
  }

  /** The audit records, each reduced to these keys. */
  async records(...keys: readonly string[]): Promise<readonly (readonly unknown[])[]> {
    return (await recordsOf(`${this.dir}/audit/audit.log`)).map((record) => keys.map((key) => record[key]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.target.close();
    await Deno.remove(this.dir, { recursive: true });
  }
}
