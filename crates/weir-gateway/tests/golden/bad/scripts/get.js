export const GET = () => 1;
