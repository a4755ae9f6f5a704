// memjs (npm), a client of the binary protocol, against a server on 127.0.0.1: arguments are its port, and user and password where clients log in.
//
// Prints "memjs: all is well" at the end; anything unexpected throws.

const assert = require('assert');
const memjs = require('memjs');

const [port, username, password] = process.argv.slice(2);
// Seconds for an answer: a machine that is busy with other tests is slow.
const PATIENCE = 30;

const client = (username, password) =>
  memjs.Client.create(`127.0.0.1:${port}`, {
    username, password, retries: 1, timeout: PATIENCE, conntimeout: PATIENCE, logger: { log() {} },
  });

async function text(c, key) {
  const { value } = await c.get(key);
  return value === null ? null : value.toString();
}

async function main() {
  if (username) {
    const wrong = client(username, password + 'x');
    await assert.rejects(wrong.set('k', 'v', {}));
    wrong.close();
  }
  const c = client(username, password);
  await new Promise((resolve, reject) => c.flush((error) => (error ? reject(error) : resolve())));
  assert.equal(await text(c, 'absent'), null);
  for (const value of ['hello', '', 'END\r\n', 'x'.repeat(300000)]) {
    assert.equal(await c.set('k', value, { expires: 100 }), true);
    assert.equal(await text(c, 'k'), value);
  }
  assert.equal(await c.add('k', 'other', {}), false);
  assert.equal(await c.add('fresh', 'b', {}), true);
  assert.equal(await c.replace('fresh', 'bb', {}), true);
  assert.equal(await c.replace('nothing', 'x', {}), false);
  assert.equal(await c.append('fresh', 'c'), true);
  assert.equal(await text(c, 'fresh'), 'bbc');
  const keys = [...Array(200).keys()].map((i) => `many${i}`);
  await Promise.all(keys.map((key) => c.set(key, `value of ${key}`, {})));
  const values = await Promise.all(keys.map((key) => text(c, key)));
  assert.deepEqual(values, keys.map((key) => `value of ${key}`));
  assert.equal((await c.increment('count', 5, { initial: 7 })).value, 7);
  assert.equal((await c.increment('count', 5, {})).value, 12);
  assert.equal((await c.decrement('count', 20, {})).value, 0);
  assert.equal(await c.touch('count', 100), true);
  assert.equal(await c.delete('fresh'), true);
  assert.equal(await c.delete('fresh'), false);
  const stats = await new Promise((resolve, reject) => c.stats((error, _, stats) => (error ? reject(error) : resolve(stats))));
  assert.ok(Number(stats.curr_connections) > 0);
  await new Promise((resolve, reject) => c.flush((error) => (error ? reject(error) : resolve())));
  assert.equal(await text(c, 'k'), null);
  c.close();
  console.log('memjs: all is well');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
