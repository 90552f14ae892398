import { systemClock } from "@gateway/shared/clock";
import { PostgresAccess } from "@gateway/shared/state/postgres_access";
import type { PostgresSchema } from "@gateway/shared/state";

/** The start of a newer program that stays compatible with earlier ones: it adds a column to tables. */
export async function upgradeTables(
  state_db: string,
  schema: PostgresSchema,
  tables: readonly string[],
): Promise<void> {
  const added = tables.map((table) => `ALTER TABLE ${table} ADD COLUMN note text`).join(";");
  const newer = { ...schema, migrations: [...schema.migrations, added] };
  const settings = { state_db, state_db_password_file: "", state_db_ca: "" };
  await (await PostgresAccess.open(newer, { settings, clock: systemClock, warn() {} })).close();
}
