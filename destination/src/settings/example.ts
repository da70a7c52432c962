/**
 * Complete settings to start with. They forward to `hookline-destination listen`, which listens on port 4000 of this
 * machine by default. With the admin token, dead letters can be replayed.
 */
export function exampleSettings(
  writeKey: string,
  sharedSecret: string,
  adminToken: string,
): string {
  return `{
  "listen": "127.0.0.1:3300",
  "adminListen": "127.0.0.1:3301",
  "sources": [{ "name": "web", "writeKey": "${writeKey}" }],
  "destinations": [
    {
      "name": "local",
      "sources": ["web"],
      "sharedSecret": "${sharedSecret}",
      "webhooks": [{ "url": "http://127.0.0.1:4000/" }]
    }
  ],
  "allowNetworks": ["127.0.0.1"],
  "adminToken": "${adminToken}"
}
`
}
