/**
 * Storage: SQLite and PostgreSQL access, columns, schemas.
 *
 * @module
 */

export {
  checkStorable,
  type Column,
  columnsOf,
  deleteFrom,
  type Dialect,
  flagColumn,
  insertInto,
  insertRow,
  insertRows,
  integerColumn,
  listColumn,
  type Parameters,
  POSTGRES,
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
  SQLITE,
  type Statement,
  type StateWarner,
  type Steps,
  Table,
  textColumn,
  timeColumn,
  wordColumn,
} from "./columns.ts";
export { ChangeLock, Durable } from "./durable.ts";
export type { PostgresDatabase, Query } from "./postgres_access.ts";
export { ADD_OLDEST_COLUMN, migrate, type PostgresSchema } from "./postgres_schema.ts";
export {
  DATABASE_ACCESS_SHAPE,
  describeStateDb,
  findStateProblems,
  isPostgresUrl,
  stateFiles,
  type StateSettings,
} from "./postgres_settings.ts";
export { SqliteAccess, type StateFile, type StateSchema } from "./sqlite_access.ts";
