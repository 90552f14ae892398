/** The versions of the hosts in a PostgreSQL database. */
import { createHash } from "node:crypto";
import { inEpoch } from "@gateway/shared/instances/postgres_link";
import {
  checkStorable,
  insertRow,
  readInteger,
  readText,
  readTime,
  type Row,
  selectAsBytes,
} from "@gateway/shared/state/columns";
import type { PostgresAccess, Query } from "@gateway/shared/state/postgres_access";
import { POSTGRES_SCHEMA } from "./postgres_migrations.ts";
import type { PolicyChange, PolicyVersions, SharedDecisions } from "./store.ts";

const CHANGE = selectAsBytes(["made_by", "change"], ["version", "made_at"]);
/** The document last: it is sent only where it is another than the reader knows. */
const NEWEST = `SELECT version, convert_to(sha256, 'UTF8') AS sha256,
    convert_to(CASE WHEN sha256 = $1 THEN '' ELSE document END, 'UTF8') AS document
  FROM policy_versions ORDER BY version DESC LIMIT 1`;

/** What a document is known by; lower-case hex. */
export function digestOf(document: string): string {
  return createHash("sha256").update(document).digest("hex");
}

/** The newest version, without its document where that is known. */
export async function readNewestPolicy(
  query: Query,
  known: string,
): Promise<Pick<SharedDecisions, "policy">> {
  const [row] = await query(NEWEST, [known]);
  if (row === undefined) return {};
  const [version, sha256] = [readInteger(row, "version"), readText(row, "sha256")];
  return { policy: { version, sha256, ...(sha256 !== known && { document: readText(row, "document") }) } };
}

/** The versions of the signers of one database. */
export class PostgresPolicyVersions implements PolicyVersions {
  readonly #access: PostgresAccess;

  constructor(access: PostgresAccess) {
    this.#access = access;
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
        const { policy: newest } = await readNewestPolicy(query, base?.sha256 ?? "");
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
        return true;
      })
    );
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
