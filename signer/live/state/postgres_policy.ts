/** The versions of the hosts in a PostgreSQL database. */
import { createHash } from "node:crypto";
import { inEpoch } from "@gateway/shared/instances";
import {
  checkStorable,
  insertRow,
  type Query,
  readInteger,
  readText,
  readTime,
  type Row,
  selectAsBytes,
} from "@gateway/shared/state";
import type { PostgresAccess } from "@gateway/shared/state/postgres_access";
import { POSTGRES_SCHEMA } from "./postgres_migrations.ts";
import type { PolicyChange, PolicyVersions, SharedDecisions, StoredDocument } from "../store.ts";

const CHANGE = selectAsBytes(["made_by", "change"], ["version", "made_at"]);
/** The document last: it is sent only where it is another than the reader knows. */
const DOCUMENT = `convert_to(sha256, 'UTF8') AS sha256,
    convert_to(CASE WHEN sha256 = $1 OR sha256 = $2 THEN '' ELSE document END, 'UTF8') AS document`;
const NEWEST = `SELECT version, ${DOCUMENT} FROM policy_versions ORDER BY version DESC LIMIT 1`;
const PROPOSAL = `SELECT ${DOCUMENT} FROM policy_proposals`;
/** Of those that are entered: who is gone is waited for until the others have noticed. */
const PREPARED = `SELECT (SELECT count(*) FROM policy_proposals WHERE sha256 = $1) AS proposals,
  (SELECT count(*) FROM instances WHERE prepared <> $1 AND name <> $2) AS others`;

/** What a document is known by; lower-case hex. */
export function digestOf(document: string): string {
  return createHash("sha256").update(document).digest("hex");
}

/** The newest version, without its document where that is known. */
async function readNewest(query: Query, known: readonly string[]): Promise<Pick<SharedDecisions, "policy">> {
  const [row] = await query(NEWEST, twoOf(known));
  return row === undefined
    ? {}
    : { policy: { version: readInteger(row, "version"), ...readHosts(row, known) } };
}

export async function readPolicies(
  query: Query,
  known: readonly string[],
): Promise<Pick<SharedDecisions, "policy" | "proposal">> {
  const [[row], newest] = await Promise.all([query(PROPOSAL, twoOf(known)), readNewest(query, known)]);
  return { ...newest, ...(row !== undefined && { proposal: readHosts(row, known) }) };
}

function twoOf([first = "", second = ""]: readonly string[]): readonly string[] {
  return [first, second];
}

function readHosts(row: Row, known: readonly string[]): StoredDocument {
  const sha256 = readText(row, "sha256");
  return { sha256, ...(!known.includes(sha256) && { document: readText(row, "document") }) };
}

/** The versions of the signers of one database. */
export class PostgresPolicyVersions implements PolicyVersions {
  readonly #access: PostgresAccess;
  readonly #instance: string;

  constructor(access: PostgresAccess, instance: string) {
    this.#access = access;
    this.#instance = instance;
  }

  list(): Promise<readonly PolicyChange[]> {
    return this.#access.read(async (query) =>
      (await query(`SELECT ${CHANGE} FROM policy_versions ORDER BY version DESC`)).map(readChange)
    );
  }

  find(version: number): Promise<(PolicyChange & { readonly document: string }) | undefined> {
    return this.#access.read(async (query) => {
      const select = `SELECT ${CHANGE}, ${
        selectAsBytes(["document"], [])
      } FROM policy_versions WHERE version = $1`;
      const [row] = await query(select, [version]);
      return row && { ...readChange(row), document: readText(row, "document") };
    });
  }

  async add(
    { base, document, madeBy, change, madeAt }: Parameters<PolicyVersions["add"]>[0],
  ): Promise<boolean> {
    checkStorable([document, madeBy, change]);
    return await this.#access.change((query) =>
      // Its number is taken first: of two that add at once the other one sees what the first has added.
      inEpoch(query, { topic: "state", schema: POSTGRES_SCHEMA.name }, async () => {
        const { policy: newest } = await readNewest(query, [base?.sha256 ?? ""]);
        if (newest?.version !== base?.version || newest?.sha256 !== base?.sha256) return false;
        const { text, parameters } = insertRow("policy_versions", {
          version: (base?.version ?? 0) + 1,
          document,
          sha256: digestOf(document),
          made_by: madeBy,
          change,
          made_at: Math.floor(madeAt / 1000),
        });
        await query(text, parameters);
        await query("DELETE FROM policy_proposals");
        return true;
      })
    );
  }

  async propose(document: string): Promise<void> {
    checkStorable([document]);
    const { text, parameters } = insertRow("policy_proposals", { document, sha256: digestOf(document) });
    await this.#access.change((query) =>
      inEpoch(query, { topic: "state", schema: POSTGRES_SCHEMA.name }, async () => {
        await query("DELETE FROM policy_proposals");
        await query(text, parameters);
      })
    );
  }

  async announcePrepared(sha256: string): Promise<void> {
    const text = "UPDATE instances SET prepared = $1 WHERE name = $2";
    await this.#access.change((query) => query(text, [sha256, this.#instance]));
  }

  async findPrepared(sha256: string): Promise<"all" | "some" | "replaced"> {
    const [row] = await this.#access.read((query) => query(PREPARED, [sha256, this.#instance]));
    if (row === undefined || readInteger(row, "proposals") === 0) return "replaced";
    return readInteger(row, "others") === 0 ? "all" : "some";
  }
}

function readChange(row: Row): PolicyChange {
  return {
    version: readInteger(row, "version"),
    madeBy: readText(row, "made_by"),
    change: readText(row, "change"),
    madeAt: readTime(row, "made_at", 1000),
  };
}
