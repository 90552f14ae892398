// `deno task pages` creates these files. Types can be checked before it.
declare module "*.bundle.js" {
  const text: string;
  export default text;
}
