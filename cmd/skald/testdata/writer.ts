// Writes the outbox as any TypeScript service would: plain INSERTs with parameters, in the transaction of its own rows.
import pg from "pg";

const { KEY: key, DOC: doc, URL: connectionString } = process.env;
const client = new pg.Client({ connectionString });
await client.connect();
await client.query("BEGIN");
await client.query("INSERT INTO skald_outbox (topic, key, type, data) VALUES ($1, $2, $3, $4)", ["orders", key, "json", doc]);
await client.query("INSERT INTO skald_outbox (topic, type, data) VALUES ($1, $2, $3)", ["orders", "nokey", doc]);
await client.query(
  "INSERT INTO skald_outbox (topic, key_bytes, type, content_type, data_bytes, headers) VALUES ($1, $2, $3, $4, $5, $6)",
  ["orders", Buffer.from([0xff, 0x00, 0x6b]), "binary", "application/octet-stream", Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
    JSON.stringify([["a", Buffer.from([0]).toString("base64")]])], // an array as such would be PostgreSQL's
);
await client.query("INSERT INTO skald_outbox (topic, key, type) VALUES ($1, $2, $3)", ["orders", key, "tombstone"]);
await client.query("COMMIT");
await client.end();
