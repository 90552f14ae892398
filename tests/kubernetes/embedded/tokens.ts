import { generateKeyPair, jwtVerify, SignJWT } from "@panva/jose";
import { isObject } from "./field_set.ts";
import type { User } from "./rbac.ts";
import { resource } from "./resources.ts";
import { ApiFailure, badRequest, invalid, notFound } from "./status.ts";
import type { Store, StoredObject } from "./store.ts";

const ISSUER = "https://kubernetes.default.svc";
const MIN_SECONDS = 600;
const MAX_SECONDS = 2 ** 32;

export interface MintedToken {
  readonly id: string;
  readonly answer: unknown;
}

/** Issues and identifies tokens of ServiceAccounts. */
export interface TokenIssuer {
  /** @throws {ApiFailure} if the request is invalid */
  mint(account: StoredObject, body: Readonly<Record<string, unknown>>): Promise<MintedToken>;
  /** The owner of a token; undefined for an invalid or expired token. */
  verify(token: string): Promise<User | undefined>;
}

export async function createTokenIssuer(store: Store, now: () => number): Promise<TokenIssuer> {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  return {
    mint: async (account, body) => {
      const spec = isObject(body.spec) ? body.spec : {};
      const { expirationSeconds = 3600, audiences = [ISSUER], boundObjectRef = null } = spec;
      const seconds = checkSeconds(expirationSeconds);
      const { namespace = "", name, uid } = account.metadata;
      const bound = boundObjectRef === null ? {} : boundTo(store, namespace, boundObjectRef);
      const [issuedAt, id] = [Math.floor(now() / 1000), crypto.randomUUID()];
      const claims = { namespace, ...bound, serviceaccount: { name, uid } };
      const token = await new SignJWT({ "kubernetes.io": claims })
        .setProtectedHeader({ alg: "ES256" }).setIssuer(ISSUER).setSubject(
          `system:serviceaccount:${namespace}:${name}`,
        )
        .setAudience(audiences as string[]).setJti(id).setIssuedAt(issuedAt).setNotBefore(issuedAt)
        .setExpirationTime(issuedAt + seconds).sign(privateKey);
      const answer = {
        kind: "TokenRequest",
        apiVersion: "authentication.k8s.io/v1",
        metadata: { name, namespace, uid, creationTimestamp: timestamp(issuedAt) },
        spec: { audiences, expirationSeconds: seconds, boundObjectRef },
        status: { token, expirationTimestamp: timestamp(issuedAt + seconds) },
      };
      return { id, answer };
    },
    verify: async (token) => {
      const verified = await jwtVerify(token, publicKey, {
        issuer: ISSUER,
        audience: ISSUER,
        algorithms: ["ES256"],
        currentDate: new Date(now()),
      }).catch(() => undefined);
      return verified === undefined ? undefined : userOf(store, verified.payload);
    },
  };
}

/** The time of an object, without fractions of a second. */
export function timestamp(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
}

function checkSeconds(value: unknown): number {
  const refuse = (message: string) =>
    invalid({ group: "authentication.k8s.io", kind: "TokenRequest", name: "" }, {
      reason: "FieldValueInvalid",
      message: `Invalid value: ${value}: ${message}`,
      field: "spec.expirationSeconds",
    });
  if (typeof value !== "number" || !Number.isInteger(value)) {
    throw badRequest("expirationSeconds is no integer");
  }
  if (value < MIN_SECONDS) throw refuse("may not specify a duration less than 10 minutes");
  if (value > MAX_SECONDS) throw refuse("may not specify a duration larger than 2^32 seconds");
  return value;
}

/** The claim of the object that the token is bound to, which must exist. */
function boundTo(store: Store, namespace: string, ref: unknown): Readonly<Record<string, unknown>> {
  const { apiVersion, kind, name = "", uid = "" } = isObject(ref) ? ref : {};
  const type = kind === "Secret" ? resource("secrets") : kind === "Pod" ? resource("pods") : undefined;
  if (apiVersion !== "v1" || type === undefined) {
    throw badRequest(`cannot bind token to object of type ${groupKind(String(apiVersion), String(kind))}`);
  }
  if (name === "") throw badRequest("Name parameter required.");
  const object = store.get(type, namespace, String(name));
  if (object === undefined) throw notFound(type, String(name));
  if (uid !== "" && uid !== object.metadata.uid) {
    throw new ApiFailure(
      409,
      "Conflict",
      `Operation cannot be fulfilled on ${kind} "${name}": the UID in the bound object reference (${uid}) does not ` +
        "match the UID in record. The object might have been deleted and then recreated",
      { name, kind },
    );
  }
  return { [String(kind).toLowerCase()]: { name, uid: object.metadata.uid } };
}

/** For example `/v1, Kind=ConfigMap`. */
export function groupKind(apiVersion: string, kind: string): string {
  return `${apiVersion.includes("/") ? apiVersion : `/${apiVersion}`}, Kind=${kind}`;
}

/** The account, if it and the object that the token is bound to still exist unchanged. */
function userOf(store: Store, payload: Readonly<Record<string, unknown>>): User | undefined {
  const claims = payload["kubernetes.io"];
  if (!isObject(claims) || !isObject(claims.serviceaccount)) return undefined;
  const { namespace, serviceaccount, secret, pod } = claims;
  const isThere = (plural: string, object: unknown) => {
    if (!isObject(object)) return object === undefined;
    return store.get(resource(plural), String(namespace), String(object.name))?.metadata.uid === object.uid;
  };
  if (!isThere("serviceaccounts", serviceaccount) || !isThere("secrets", secret) || !isThere("pods", pod)) {
    return undefined;
  }
  return {
    username: `system:serviceaccount:${namespace}:${serviceaccount.name}`,
    uid: String(serviceaccount.uid),
    groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
    extra: { "authentication.kubernetes.io/credential-id": [`JTI=${payload.jti}`] },
  };
}
