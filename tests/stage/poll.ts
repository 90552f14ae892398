/** Options of {@linkcode poll}. */
export interface PollOptions {
  /** The awaited event, for the error message. */
  readonly what: string;
  /** Timeout; one minute by default, which also suffices on a busy machine. */
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Polls a condition until it is true. Use it for other processes, which send no event. */
export async function poll(isDone: () => boolean | Promise<boolean>, options: PollOptions): Promise<void> {
  const { what, timeoutMs = 60_000, intervalMs = 10, signal } = options;
  const deadline = performance.now() + timeoutMs;
  while (!(await isDone())) {
    signal?.throwIfAborted();
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}
