// The service `order`, in JavaScript.
export function POST(request) {
  const order = request.json();
  const total = order.lines.reduce((sum, line) => sum + line.quantity * line.price, 0);
  return { order: order.id, total, free: total >= 50 };
}
