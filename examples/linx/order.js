// An endpoint with logic: validates the request, computes a total, sets a business key.
export function POST(request) {
  const order = request.json();
  if (!Array.isArray(order?.lines) || order.lines.length === 0) {
    throw Response.json({ message: "an order has lines" }, { status: 422 });
  }
  const total = order.lines.reduce((sum, line) => sum + line.quantity * line.price, 0);
  tracker.key("order", order.id);
  return { message: "Received", order: order.id, total, free: total >= request.config.free };
}
