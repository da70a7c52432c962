/**
 * Settings that work as they stand, to start from: they forward to `hookline-destination listen`, which
 * this machine has at port 4000.
 */
export function exampleSettings(writeKey: string, sharedSecret: string): string {
  return `{
  "listen": "127.0.0.1:3300",
  "sources": [{ "name": "web", "writeKey": "${writeKey}" }],
  "destinations": [
    {
      "name": "local",
      "sources": ["web"],
      "sharedSecret": "${sharedSecret}",
      "webhooks": [{ "url": "http://127.0.0.1:4000/" }]
    }
  ],
  "allowNetworks": ["127.0.0.1"]
}
`
}
