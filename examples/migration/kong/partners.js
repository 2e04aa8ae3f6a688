// Plugin acl: allow [partners]
const partners = ["acme"];

export default (request) => {
  if (!partners.includes(request.principal.consumer)) {
    return Response.json({ message: "You cannot consume this service" }, { status: 403 });
  }
};
