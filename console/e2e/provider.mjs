// A real identity provider (oidc-provider) on a free port, for tests of the sign-in:
//   node e2e/provider.mjs REDIRECT_BASE…
// prints one line of JSON with the issuer once it serves. Any login name is an account; its groups are the
// part after `+` of the name: `ann+weir-admins` is a member of `weir-admins`.

import { createServer } from "node:http";
import Provider from "oidc-provider";

export const CLIENT = { id: "weir", secret: "a secret of the client with : and &" };

/** Starts it for redirects to these origins; `close` stops it. */
export async function provide(origins) {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: origins.map((origin) => `${origin}/v1/oidc/callback`),
        post_logout_redirect_uris: origins.map((origin) => `${origin}/console/`),
        grant_types: ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
      },
    ],
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    // In the ID token, as most providers have them.
    conformIdTokenClaims: false,
    cookies: { keys: ["a key for tests"] },
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    pkce: { required: () => false },
    ttl: { DeviceCode: 120 },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: id.split("+")[0], groups: id.split("+").slice(1) }),
    }),
  });
  server.on("request", provider.callback());
  return { issuer, close: () => new Promise((resolve) => server.close(resolve)) };
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const { issuer } = await provide(process.argv.slice(2));
  console.log(JSON.stringify({ ready: true, issuer }));
}
