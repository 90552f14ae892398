/**
 * Storage: SQLite and PostgreSQL access, columns, schemas.
 *
 * @module
 */

export { ChangeLock } from "./change_lock.ts";
export {
  checkStorable,
  insertInto,
  insertRow,
  type Parameters,
  readFlag,
  readInteger,
  readStrings,
  readText,
  readTime,
  type Row,
  type RowReader,
  selectAsBytes,
  selectColumns,
  showText,
  type StateWarner,
} from "./columns.ts";
export type { PostgresDatabase, Query } from "./postgres_access.ts";
export { migrate, type PostgresSchema, SAY_OLDEST } from "./postgres_schema.ts";
export {
  DATABASE_ACCESS_SHAPE,
  describeStateDb,
  findStateProblems,
  isPostgresUrl,
  stateFiles,
  type StateSettings,
} from "./postgres_settings.ts";
export type { StateSchema } from "./schema.ts";
export { SqliteAccess, type StateFile } from "./sqlite_access.ts";
