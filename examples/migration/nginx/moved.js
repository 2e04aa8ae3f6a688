// rewrite ^/old/(.*)$ /api/$1 permanent
export default (request) =>
  new Response(null, { status: 301, headers: { location: `/api/${request.params["*"]}` } });
