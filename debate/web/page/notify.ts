import { readChoice, storeChoice } from "./stored.ts";

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
export function notify(
  { id, title }: { readonly id: string; readonly title: string },
  what: string,
  text: string,
) {
  const key = `${id} ${what}`;
  if (key === told) return;
  told = key;
  if (!document.hidden || !wantsNotice()) return;
  const notification = new Notification(title, { body: text, tag: id });
  notification.onclick = () => {
    focus();
    notification.close();
  };
}
