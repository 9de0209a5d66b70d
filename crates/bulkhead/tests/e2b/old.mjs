// The first generation of the SDK, which knows a server only by its domain and over TLS.
import assert from 'node:assert'
import dns from 'node:dns'

const lookUp = dns.lookup
dns.lookup = (host, ...rest) =>
  lookUp(host.endsWith('.rooms.test') ? '127.0.0.1' : host, ...rest)

const { Sandbox } = await import('e2b')

const room = await Sandbox.create({ timeoutMs: 60_000, envs: { FOO: 'bar' } })
const said = await room.commands.run('echo $FOO; echo oops >&2')
assert.deepEqual([said.stdout, said.stderr, said.exitCode], ['bar\n', 'oops\n', 0])
await room.files.write('dir/note.txt', 'kept')
assert.equal(await room.files.read('dir/note.txt'), 'kept')
const again = await Sandbox.connect(room.sandboxId)
assert(await again.files.exists('dir/note.txt'))
assert.match(room.getHost(8000), /^8000-.*\.rooms\.test:\d+$/)
await room.kill()
assert(!(await Sandbox.list()).some((it) => it.sandboxId === room.sandboxId))
console.log('all well')
