// E2B's code interpreter for JavaScript as it is, against the server.
import assert from 'node:assert/strict'
import { Sandbox, NotFoundError, TimeoutError } from '@e2b/code-interpreter'

const room = await Sandbox.create({ timeoutMs: 120_000, envs: { FROM_ROOM: 'room' } })
const out = []
const ran = await room.runCode('x = 41\nprint("hi")\nx + 1', { onStdout: (it) => out.push(it.line) })
assert.deepEqual([ran.text, ran.logs.stdout, out], ['42', ['hi\n'], ['hi\n']])
assert.equal(ran.executionCount, 1)
assert.equal((await room.runCode('x')).text, '41')

const results = []
await room.runCode('from IPython.display import HTML\nHTML("<b>")', { onResult: (it) => results.push(it) })
assert.deepEqual([results[0].html, results[0].isMainResult, results[0].extra], ['<b>', true, {}])

const errors = []
const failed = await room.runCode('1/0', { onError: (it) => errors.push(it.name) })
assert.deepEqual([failed.error.name, errors], ['ZeroDivisionError', ['ZeroDivisionError']])
assert.match(failed.error.traceback, /ZeroDivisionError: division by zero/)

assert.equal((await room.runCode('const a = 1; a + 1', { language: 'js' })).text, '2')
assert.deepEqual((await room.runCode('echo $WHAT', { language: 'bash', envs: { WHAT: 'x' } })).logs.stdout, ['x\n'])
assert.equal((await room.runCode('import os; os.environ["FROM_ROOM"]')).text, 'room')

const context = await room.createCodeContext({ cwd: '/tmp', language: 'python' })
assert.equal(context.cwd, '/tmp')
assert.equal((await room.runCode('import os; y = 1; os.getcwd()', { context })).text, '/tmp')
assert.equal((await room.listCodeContexts()).at(-1).id, context.id)
await room.restartCodeContext(context)
assert.equal((await room.runCode('y', { context })).error.name, 'NameError')
await room.removeCodeContext(context)
await assert.rejects(room.runCode('1', { context }), NotFoundError)

await assert.rejects(room.runCode('while True: pass', { timeoutMs: 1000 }), TimeoutError)
assert.equal((await room.runCode('x')).text, '41')

const running = room.runCode('import time; time.sleep(100)')
running.catch(() => {})
await new Promise((done) => setTimeout(done, 300))
await room.kill()
await assert.rejects(running, TimeoutError)
console.log('all well')
// A timer of a call that failed is never cleared by the SDK.
process.exit(0)
