// E2B's JavaScript SDK as it is, against the server.
import assert from 'node:assert/strict'
import {
  AuthenticationError, CommandExitError, FileNotFoundError, InvalidArgumentError, Sandbox, SandboxError,
} from 'e2b'

const room = await Sandbox.create({ timeoutMs: 120_000, envs: { FOO: 'bar' } })
const ran = await room.commands.run('echo $FOO; echo err >&2')
assert.deepEqual([ran.stdout, ran.stderr, ran.exitCode], ['bar\n', 'err\n', 0])
await assert.rejects(room.commands.run('exit 3'), CommandExitError)

// Who nobody in a sandbox is, and what no sandbox has.
await assert.rejects(room.commands.run('id', { user: 'root' }), InvalidArgumentError)
await assert.rejects(room.commands.run('id', { user: 'stranger' }), AuthenticationError)
assert.equal((await room.commands.run('whoami; echo $USER', { user: 'user' })).stdout.split('\n')[1], 'user')
const asked = Date.now()
await assert.rejects(Sandbox.create({ mcp: { duckduckgo: {} } }), SandboxError)
assert.ok(Date.now() - asked < 10_000)

const cat = await room.commands.run('cat', { background: true, stdin: true })
await room.commands.sendStdin(cat.pid, 'typed\n')
await room.commands.closeStdin(cat.pid)
assert.equal((await cat.wait()).stdout, 'typed\n')

await room.files.write('dir/file', 'text')
assert.equal(await room.files.read('dir/file'), 'text')
await assert.rejects(room.files.read('none'), FileNotFoundError)
assert.deepEqual((await room.files.list('dir')).map((it) => it.name), ['file'])
const noted = await room.files.write('noted', 'x', { metadata: { who: 'me' } })
assert.deepEqual(noted.metadata, { who: 'me' })
assert.deepEqual((await room.files.getInfo('noted')).metadata, { who: 'me' })
const events = []
const watch = await room.files.watchDir('dir', (event) => events.push(event.type))
await room.files.write('dir/new', 'x')
for (let wait = 0; events.length < 2 && wait < 100; wait++) {
  await new Promise((done) => setTimeout(done, 20))
}
assert.equal(events[0], 'create')
await watch.stop()

let said = ''
const terminal = await room.pty.create({
  cols: 80,
  rows: 24,
  onData: (data) => { said += new TextDecoder().decode(data) },
})
await room.pty.sendInput(terminal.pid, new TextEncoder().encode('echo $((6 * 7)); exit\n'))
await terminal.wait()
assert.match(said, /42/)

assert.equal(await room.isRunning(), true)
assert.equal(await room.kill(), true)
assert.equal(await room.isRunning(), false)
console.log('all well')
