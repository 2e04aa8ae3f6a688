import { total } from "../prices.js";
export const GET = (request) => total(request.config);
export async function PUT() {}
