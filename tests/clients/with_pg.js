// Uses a server as programs with node-postgres do. Where it is comes from the environment, as for psql.

const assert = require("node:assert/strict");
const { once } = require("node:events");
const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const { Client, Pool } = require("pg");
const { from, to } = require("pg-copy-streams");

async function connect(options) {
  const client = new Client(options);
  await client.connect();
  return client;
}

async function queries(client) {
  const sum = await client.query("SELECT $1::int + 1 AS sum", [41]);
  assert.equal(sum.rows[0].sum, 42);
  for (let number = 0; number < 10; number++) {
    const named = { name: "named", text: "SELECT $1::text || 'ä' AS text", values: [number] };
    assert.equal((await client.query(named)).rows[0].text, `${number}ä`);
  }
}

async function transactions(client) {
  await client.query("CREATE TEMP TABLE node_rows (number int, line text)");
  await client.query("BEGIN");
  await client.query("INSERT INTO node_rows VALUES (1, 'lost')");
  await assert.rejects(client.query("SELECT 1/0"), { code: "22012" });
  await client.query("ROLLBACK");
  assert.equal((await client.query("SELECT * FROM node_rows")).rowCount, 0);
}

async function copies(client) {
  const lines = Array.from({ length: 10_000 }, (_, number) => `${number}\t${"x".repeat(100)}\n`);
  await pipeline(Readable.from(lines), client.query(from("COPY node_rows FROM STDIN")));
  let count = 0;
  for await (const chunk of client.query(to("COPY node_rows TO STDOUT"))) {
    count += chunk.toString().split("\n").length - 1;
  }
  assert.equal(count, 10_000);
}

async function notices(client) {
  const [[notice]] = await Promise.all([
    once(client, "notice"),
    client.query("DO $$ BEGIN RAISE NOTICE 'have a look'; END $$"),
  ]);
  assert.equal(notice.message, "have a look");
}

async function notifications(listener) {
  const speaker = await connect();
  await listener.query("LISTEN news");
  const [[notification]] = await Promise.all([
    once(listener, "notification"),
    speaker.query("NOTIFY news, 'extra'"),
  ]);
  assert.equal(notification.payload, "extra");
  await speaker.end();
}

async function cancel(client) {
  const sleep = assert.rejects(client.query("SELECT pg_sleep(20)"), { code: "57014" });
  const observer = await connect();
  const sleepers = "SELECT * FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
  while ((await observer.query(sleepers)).rowCount === 0);
  await observer.end();
  new Client().cancel(client, client._getActiveQuery?.() ?? client.activeQuery);
  await sleep;
  assert.equal((await client.query("SELECT 'goes on' AS text")).rows[0].text, "goes on");
}

async function options() {
  const client = await connect({ application_name: "with node", options: "-c work_mem=6MB" });
  assert.equal((await client.query("SHOW application_name")).rows[0].application_name, "with node");
  assert.equal((await client.query("SHOW work_mem")).rows[0].work_mem, "6MB");
  await client.end();
}

async function pool() {
  const connections = new Pool({ max: 4 });
  const queries = Array.from({ length: 50 }, (_, n) => connections.query("SELECT $1::int AS n", [n]));
  (await Promise.all(queries)).forEach((result, n) => assert.equal(result.rows[0].n, n));
  await connections.end();
}

async function main() {
  const client = await connect();
  await queries(client);
  await transactions(client);
  await copies(client);
  await notices(client);
  await notifications(client);
  await cancel(client);
  await client.end();
  await options();
  await pool();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
