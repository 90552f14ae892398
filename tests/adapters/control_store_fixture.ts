import { DatabaseSync } from "node:sqlite";
import { errorText } from "@gateway/shared/errors";
import { systemClock } from "@gateway/shared/clock";
import { openPostgresControlStore } from "../../control_plane/state/postgres.ts";
import { openSqliteControlStore } from "../../control_plane/state/sqlite.ts";
import type { ControlStore } from "../../control_plane/state/store.ts";

export function openShared(state_db: string, warnings: string[] = []) {
  return openPostgresControlStore({
    settings: { state_db, state_db_password_file: "", state_db_ca: "" },
    clock: systemClock,
    warn: (message, { id, subject, error }) =>
      void warnings.push(`${message}: ${String(id ?? subject)}: ${errorText(error)}`),
  });
}

export class ControlFolder implements Disposable {
  readonly folder: string = Deno.makeTempDirSync({ prefix: "control-state-" });
  readonly path: string = `${this.folder}/control-plane.db`;
  readonly warnings: string[] = [];

  open(lockWaitMs = 100): ControlStore {
    const warn = (message: string, { id, subject, error }: Readonly<Record<string, unknown>>) =>
      this.warnings.push(`${message}: ${id ?? subject}: ${errorText(error)}`);
    return openSqliteControlStore({ path: this.path, warn, lockWaitMs });
  }

  /** Runs statements on the file as another program would. */
  exec(sql: string): void {
    const database = new DatabaseSync(this.path);
    try {
      database.exec(sql);
    } finally {
      database.close();
    }
  }

  query(sql: string): readonly Record<string, unknown>[] {
    const database = new DatabaseSync(this.path);
    try {
      return database.prepare(sql).all().map((row) => ({ ...row }));
    } finally {
      database.close();
    }
  }

  /** The bytes of all files in the directory: the database and its log. */
  bytes(): string {
    return [...Deno.readDirSync(this.folder)]
      .map(({ name }) => new TextDecoder("latin1").decode(Deno.readFileSync(`${this.folder}/${name}`)))
      .join("\n");
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}
