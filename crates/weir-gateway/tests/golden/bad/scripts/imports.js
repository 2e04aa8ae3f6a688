import { a } from "./missing.js";
export default () => a;
