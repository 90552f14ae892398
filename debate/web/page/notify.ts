import { nameOf } from "./run_list.ts";
import { readChoice, storeChoice } from "./stored.ts";
import type { RunView } from "./views.ts";

const KEY = "notify";
let told: string | undefined;

/** Whether this browser has notifications. */
export const CAN_NOTIFY = globalThis.Notification !== undefined;

export function wantsNotice(): boolean {
  return CAN_NOTIFY && Notification.permission === "granted" && readChoice(KEY) === "yes";
}

/** Stores the choice, and requests the permission of the browser for it. Returns whether the browser allows it. */
export async function chooseNotice(isWanted: boolean): Promise<boolean> {
  const may = isWanted && await Notification.requestPermission() === "granted";
  storeChoice(KEY, may ? "yes" : "no");
  return may;
}

/** Notifies a user of another tab, once for each `what`. */
export function notify(run: RunView, what: string, text: string): void {
  const key = `${run.run_id} ${what}`;
  if (key === told) return;
  told = key;
  if (!document.hidden || !wantsNotice()) return;
  const notification = new Notification(nameOf(run), { body: text, tag: run.run_id });
  notification.onclick = () => {
    focus();
    notification.close();
  };
}
