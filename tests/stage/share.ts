/** A way to run tests on something that is set up around them. */
export type Around<T> = (test: (scene: T) => Promise<void>) => Promise<void>;

/**
 * Has the tests of a file share one scene, because starting services costs more than most tests. The first test starts
 * the scene; it ends after the last test of the file.
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
