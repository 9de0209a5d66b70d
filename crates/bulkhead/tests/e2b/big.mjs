// A file of many MiB goes up as a stream, comes down as a stream, and is the same.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { Sandbox } from 'e2b'

let left = Number(process.argv[2])
const block = new Uint8Array(1 << 20).map((_, at) => at % 251)
const expected = createHash('sha256')
const source = new ReadableStream({
  pull(out) {
    if (left-- === 0) return out.close()
    expected.update(block)
    out.enqueue(block)
  },
})

const room = await Sandbox.create({ timeoutMs: 600_000 })
await room.files.write('big', source, { requestTimeoutMs: 500_000, useOctetStream: true })
const inside = (await room.commands.run('sha256sum big', { timeoutMs: 300_000 })).stdout.split(' ')[0]
assert.equal(inside, expected.digest('hex'))
const heard = createHash('sha256')
for await (const chunk of await room.files.read('big', { format: 'stream', requestTimeoutMs: 500_000 })) {
  heard.update(chunk)
}
assert.equal(heard.digest('hex'), inside)
assert.equal(await room.kill(), true)
console.log('all well')
