/**
 * Storage: SQLite and PostgreSQL access, columns, schemas.
 *
 * @module
 */

export { ChangeLock } from "./change_lock.ts";
export {
  checkStorable,
  type Column,
  flagColumn,
  integerColumn,
  listColumn,
  type Parameters,
  readFlag,
  readInteger,
  readStrings,
  readText,
  readTime,
  type Row,
  type RowReader,
  showText,
  type StateWarner,
  Table,
  textColumn,
  timeColumn,
  wordColumn,
} from "./columns.ts";
export {
  deleteFrom,
  type Dialect,
  insertInto,
  insertRow,
  insertRows,
  POSTGRES,
  selectAsBytes,
  selectColumns,
  SQLITE,
  type Statement,
  type Steps,
} from "./sql.ts";
export { Durable } from "./durable.ts";
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
