import type { LogFields, ServiceLogger } from "@gateway/shared/service";

/** One call of a {@linkcode RecordingLogger}. */
export interface LogCall {
  readonly level: "info" | "warn" | "error";
  readonly message: string;
  readonly fields: LogFields;
}

export class RecordingLogger implements ServiceLogger {
  readonly calls: LogCall[] = [];

  info(message: string, fields: LogFields = {}): void {
    this.calls.push({ level: "info", message, fields });
  }

  warn(message: string, fields: LogFields = {}): void {
    this.calls.push({ level: "warn", message, fields });
  }

  error(message: string, fields: LogFields = {}): void {
    this.calls.push({ level: "error", message, fields });
  }
}
