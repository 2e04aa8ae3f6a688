// filter mediator: an order without an id is rejected.
export default (request) => {
  if (request.json().id === undefined) {
    return Response.json({ message: "an order has an id" }, { status: 422 });
  }
};
