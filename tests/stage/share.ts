/** Runs a test on a scene. */
export type Around<T> = (test: (scene: T) => Promise<void>) => Promise<void>;

/**
 * Shares one scene between the tests of a file, because starting services takes longer than most tests. The first test
 * starts the scene. It stops after the last test of the file.
 */
export function share<T>(open: Around<T>): Around<T> {
  const over = Promise.withResolvers<void>();
  let started: Promise<T> | undefined;
  let ended: Promise<void> | undefined;
  Deno.test.afterAll(async () => {
    over.resolve();
    await ended;
  });
  const start = () =>
    new Promise<T>((resolve, reject) => {
      ended = open(async (scene) => {
        resolve(scene);
        await over.promise;
      });
      ended.catch(reject);
    });
  return async (test) => await test(await (started ??= start()));
}
