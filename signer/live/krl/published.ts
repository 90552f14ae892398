import type { EnvelopeKey } from "@gateway/shared/envelope";
import { concatBytes } from "@gateway/shared/text";
import { armorSshsig, signSshsig } from "@gateway/shared/ssh";
import { KRL_NAMESPACE } from "@gateway/shared/wire";

const DOMAIN = new TextEncoder().encode(`${KRL_NAMESPACE}\0`);

/** One version of the revocation list, and its signatures, each made when it is first asked for. */
export class PublishedList {
  readonly version: number;
  /** As `RevokedKeys` of sshd_config(5) reads it. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #detached = new WeakMap<EnvelopeKey, string>();
  readonly #armored = new WeakMap<EnvelopeKey, string>();

  constructor(version: number, bytes: Uint8Array<ArrayBuffer>) {
    this.version = version;
    this.bytes = bytes;
  }

  /** Base64 of the Ed25519 signature over the domain, a NUL, and the list. */
  detachedSignature(key: EnvelopeKey): string {
    return once(this.#detached, key, () => key.sign(concatBytes([DOMAIN, this.bytes])).toBase64());
  }

  armoredSignature(key: EnvelopeKey): string {
    return once(this.#armored, key, () => armorSshsig(signSshsig(key.ssh, KRL_NAMESPACE, this.bytes)));
  }
}

function once(made: WeakMap<EnvelopeKey, string>, key: EnvelopeKey, make: () => string): string {
  const known = made.get(key);
  if (known !== undefined) return known;
  const text = make();
  made.set(key, text);
  return text;
}
