/** How long {@linkcode poll} waits for what. */
export interface PollOptions {
  /** What is waited for, for the message. */
  readonly what: string;
  /** After how long it counts as hanging; by default a minute, which also suffices where the machine is busy. */
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Asks again and again until the answer is yes; for other processes, which nothing here can wait on. */
export async function poll(isDone: () => boolean | Promise<boolean>, options: PollOptions): Promise<void> {
  const { what, timeoutMs = 60_000, intervalMs = 10, signal } = options;
  const deadline = performance.now() + timeoutMs;
  while (!(await isDone())) {
    signal?.throwIfAborted();
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}
