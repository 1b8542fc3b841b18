// Servers that answer as an API server and as a scheduler do, with what a test gives them.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer as createPlain } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";

function listen(t, server) {
  t.after(() => server.closeAllConnections() ?? server.close());
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
}

// cluster is an API server with lists of objects by their paths; it returns the kubeconfig for it.
export async function cluster(t, dir, objects = {}) {
  const server = createPlain((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const answers = { "/api": { kind: "APIVersions", versions: ["v1"] }, "/apis": { kind: "APIGroupList", apiVersion: "v1", groups: [] } };
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(answers[path] ?? { kind: "List", apiVersion: "v1", metadata: {}, items: objects[path] ?? [] }));
  });
  const port = await listen(t, server);
  const file = join(dir, `kubeconfig-${port}`);
  writeFileSync(file, JSON.stringify({
    apiVersion: "v1", kind: "Config", "current-context": "c", contexts: [{ name: "c", context: { cluster: "c" } }],
    clusters: [{ name: "c", cluster: { server: `http://127.0.0.1:${port}` } }],
  }));
  return file;
}

// scheduler is a scheduler's secure port that answers with lines of decisions; it returns its URL.
export async function scheduler(t, dir, lines) {
  const [key, certificate] = [join(dir, "key.pem"), join(dir, "certificate.pem")];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", certificate], { stdio: "ignore" });
  const server = createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (request, response) => {
    response.statusCode = request.url === "/debug/reprieve/decisions" ? 200 : 404;
    response.end(response.statusCode === 200 ? lines : "");
  });
  return `https://127.0.0.1:${await listen(t, server)}`;
}
