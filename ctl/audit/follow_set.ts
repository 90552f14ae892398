import { every } from "@gateway/shared/clock";
import { followLog, type FollowOptions } from "./follow.ts";
import { listLogSet } from "./list_log_set.ts";

const LOOK_SECONDS = 1;

/** Follows a log and those beside it, as {@linkcode followLog} does; of one that begins later, every line. */
export async function followSet(options: FollowOptions): Promise<void> {
  const { path, clock } = options;
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, ...(options.signal === undefined ? [] : [options.signal])]);
  const followed = new Map<string, Promise<void>>();
  const follow = async (lines: number) => {
    for (const log of await listLogSet(path)) {
      if (followed.has(log)) continue;
      const following = followLog({ ...options, path: log, lines, signal });
      following.catch(() => failed.abort());
      followed.set(log, following);
    }
  };
  await follow(options.lines);
  await every({ clock, seconds: LOOK_SECONDS, signal }, () => follow(Infinity));
  await Promise.all(followed.values());
}
