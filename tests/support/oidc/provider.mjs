// An OpenID Connect provider with one client and one user, whom it logs in without a page.
//
//   node provider.mjs PORT CERTIFICATE KEY CLIENT_SECRET HOST
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { Provider } from "oidc-provider";

const [port, certificate, key, secret, host] = process.argv.slice(2);

const provider = new Provider(`https://localhost:${port}`, {
  clients: [
    {
      client_id: "shop",
      client_secret: secret,
      grant_types: ["authorization_code", "refresh_token"],
      post_logout_redirect_uris: [`https://${host}/`],
      redirect_uris: [`https://${host}/oauth2/callback`],
      token_endpoint_auth_method: "client_secret_post",
    },
  ],
  claims: { openid: ["sub", "role"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["tests"] },
  features: { devInteractions: { enabled: false } },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, role: "buyer" }) }),
  interactions: { url: (_, { uid }) => `/login/${uid}` },
  issueRefreshToken: () => true,
  async loadExistingGrant({ oidc }) {
    const grant = new oidc.provider.Grant({
      accountId: oidc.session.accountId,
      clientId: oidc.client.clientId,
    });
    grant.addOIDCScope("openid");
    await grant.save();
    return grant;
  },
  pkce: { required: () => true },
});

const answer = provider.callback();
createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (request, response) =>
  request.url.startsWith("/login/")
    ? provider.interactionFinished(request, response, { login: { accountId: "ann" } })
    : answer(request, response),
).listen(Number(port), "127.0.0.1");
