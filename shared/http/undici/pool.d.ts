export { Pool as default } from "undici";
