// A context of JavaScript: reads what to run, evaluates it as a console does (names may be declared
// again, `await` is allowed at the top), says what came of it.
'use strict'
{
const fs = require('fs')
const path = require('path')
const util = require('util')
const vm = require('vm')
const { createRequire } = require('module')
const { pathToFileURL } = require('url')
const { Session } = require('inspector')
const { Worker } = require('worker_threads')

const [orders, said] = process.argv.slice(-3, -1).map(Number)
const language = process.argv.at(-1)
const longest = 15 << 20
const strip = require('module').stripTypeScriptTypes
let count = 0
let current = null

function send(message) {
  let line = Buffer.from(JSON.stringify(message) + '\n')
  if (line.length > longest) return false
  while (line.length) {
    try {
      line = line.subarray(fs.writeSync(said, line))
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
    }
  }
  return true
}

// What a value looks like, by MIME type.
const methods = {
  _toHtml: 'text/html',
  _toSvg: 'image/svg+xml',
  _toPng: 'image/png',
  _toJpeg: 'image/jpeg',
  _toMarkdown: 'text/markdown',
  _toLatex: 'text/latex',
  _toJson: 'application/json',
}

function forms(value) {
  let bundle = { 'text/plain': typeof value === 'string' ? `'${value}'` : util.inspect(value) }
  if (value === null || typeof value !== 'object') return bundle
  try {
    const own = value[Symbol.for('Jupyter.display')] ?? value._toMime
    if (typeof own === 'function') bundle = { ...bundle, ...own.call(value) }
    for (const [method, kind] of Object.entries(methods)) {
      if (typeof value[method] === 'function') bundle[kind] = value[method]()
    }
  } catch (error) {
    console.error(error)
  }
  for (const [kind, form] of Object.entries(bundle)) {
    if (ArrayBuffer.isView(form)) bundle[kind] = Buffer.from(form.buffer, form.byteOffset, form.byteLength).toString('base64')
  }
  return bundle
}

function publish(bundle, main) {
  let sent = false
  try {
    sent = send({ result: bundle, main })
  } catch {}
  if (!sent) {
    console.error('a result is too long to be shown, or is not what JSON has')
    const text = String(bundle['text/plain'] ?? '').slice(0, 100_000)
    send({ result: { 'text/plain': text }, main })
  }
}

function hidden(name, value) {
  Object.defineProperty(globalThis, name, { value, enumerable: false, configurable: true, writable: true })
}

const here = () => createRequire(path.join(process.cwd(), 'cell.js'))
const load = async (name) => {
  if (/^(node|data|file|https?):/.test(name)) return import(name)
  try {
    const found = here().resolve(name)
    return await import(path.isAbsolute(found) ? pathToFileURL(found).href : found)
  } catch (error) {
    if (error.code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') throw error
    return import(name)
  }
}
const display = (value) => publish(forms(value), false)
hidden('require', Object.assign((name) => here()(name), { resolve: (name) => here().resolve(name) }))
hidden('__import', load)
hidden('display', display)
hidden('$$', {
  html: (data) => publish({ 'text/html': data }, false),
  svg: (data) => publish({ 'image/svg+xml': data }, false),
  png: (data) => publish({ 'image/png': data }, false),
  jpeg: (data) => publish({ 'image/jpeg': data }, false),
  markdown: (data) => publish({ 'text/markdown': data }, false),
  json: (data) => publish({ 'application/json': data }, false),
  mime: (bundle) => publish(bundle, false),
  display,
})
delete globalThis.module
delete globalThis.exports
delete globalThis.__filename
delete globalThis.__dirname

// Modules cannot be imported by a console: the statement becomes a call.
function importing(code) {
  const statement = /^([ \t]*)import\s+(?:([\w$*{}\s,]+?)\s+from\s+)?(['"])([^'"\n]+)\3[ \t]*;?/gm
  return code
    .replace(statement, (_, indent, names, quote, from) => {
      const call = `await __import(${quote}${from}${quote})`
      if (!names) return `${indent}${call};`
      const parts = []
      const braces = names.match(/\{([^}]*)\}/)
      const rest = names.replace(/\{[^}]*\}/, '').split(',').map((it) => it.trim()).filter(Boolean)
      for (const name of rest) {
        const all = name.match(/^\*\s+as\s+([\w$]+)$/)
        parts.push(all ? `${all[1]} = ${call}` : `{ default: ${name} } = ${call}`)
      }
      if (braces) parts.push(`{${braces[1].replace(/([\w$]+)\s+as\s+([\w$]+)/g, '$1: $2')}} = ${call}`)
      return `${indent}let ${parts.join(', ')};`
    })
    .replace(/\bimport\s*\(/g, '__import(')
}

const session = new Session()
session.connect()
const post = (method, parameters) =>
  new Promise((resolve, reject) =>
    session.post(method, parameters, (error, result) => (error ? reject(error) : resolve(result))))

// The value itself, not what the console says of it.
let taken
hidden('__taken', (value) => { taken = value })
async function valueOf(remote) {
  if (remote.objectId) {
    const functionDeclaration = 'function () { "use strict"; __taken(this) }'
    await post('Runtime.callFunctionOn', { objectId: remote.objectId, functionDeclaration })
    await post('Runtime.releaseObject', { objectId: remote.objectId })
    const value = taken
    taken = undefined
    return value
  }
  if ('unserializableValue' in remote) {
    const text = remote.unserializableValue
    return /^-?\d+n$/.test(text) ? BigInt(text.slice(0, -1)) : Number(text)
  }
  return remote.subtype === 'null' ? null : remote.value
}

function complaint(error) {
  if (!(error instanceof Error) && !(error && typeof error.stack === 'string')) {
    const text = typeof error === 'string' ? error : util.inspect(error)
    return { name: 'Error', value: text, traceback: `Uncaught ${text}` }
  }
  const ours = /\(node:|at node:|\[eval\]|__import|at new Promise \(<anonymous>\)/
  const stack = String(error.stack).split('\n').filter((it) => !(/^\s+at /.test(it) && ours.test(it)))
  return { name: String(error.name), value: String(error.message), traceback: stack.join('\n') }
}

// The number of the run that is going on, for the thread that stops what never ends.
const busy = new Int32Array(new SharedArrayBuffer(4))

// What looks like an object is one, not a block.
function expression(code) {
  if (!/^\s*\{/.test(code) || /;\s*$/.test(code)) return code
  try {
    new vm.Script(`(${code}\n)`)
    return `(${code}\n)`
  } catch {
    return code
  }
}

async function evaluate(code) {
  if (language === 'typescript') {
    if (!strip) throw unsupported()
    code = strip(code)
  }
  code = importing(expression(code)) + `\n//# sourceURL=cell-${count}.js`
  const parameters = { expression: code, replMode: true, awaitPromise: true }
  const { result, exceptionDetails } = await post('Runtime.evaluate', parameters)
  if (exceptionDetails) throw await valueOf(exceptionDetails.exception ?? { value: exceptionDetails.text })
  return valueOf(result)
}

async function run({ code, env }) {
  send({ count: ++count })
  const before = Object.keys(env).map((name) => [name, process.env[name]])
  Object.assign(process.env, env)
  Atomics.store(busy, 0, count)
  try {
    const interrupted = new Promise((_, reject) => { current = reject })
    const value = await Promise.race([evaluate(code), interrupted])
    if (value !== undefined) publish(forms(value), true)
  } catch (error) {
    send({ error: complaint(error?.code === 'ERR_INSPECTOR_COMMAND' ? interruption() : error) })
  }
  Atomics.store(busy, 0, 0)
  current = null
  for (const [name, value] of before) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  send({ done: true })
}

function told(name, message) {
  return Object.assign(new Error(message), { name, stack: `${name}: ${message}` })
}
const interruption = () => told('Interrupted', 'the execution was stopped')
const unsupported = () =>
  told('Unsupported', `TypeScript needs Node.js 22.13 or later; this sandbox has ${process.version}`)

process.on('SIGINT', () => {})
process.on('exit', () => session.disconnect())
process.on('uncaughtException', (error) => console.error(error))
process.on('unhandledRejection', (error) => console.error('Uncaught (in promise)', error))

// Orders are read by another thread: a loop that never ends would not hear that it is to stop.
const reader = `
const net = require('net')
const { parentPort, workerData } = require('worker_threads')
const { Session } = require('inspector')
let text = ''
new net.Socket({ fd: workerData.orders, readable: true, writable: false })
  .on('data', (data) => {
    text += data.toString('latin1')
    const lines = text.split('\\n')
    text = lines.pop()
    for (const line of lines) {
      const order = JSON.parse(Buffer.from(line, 'latin1').toString())
      parentPort.postMessage(order)
      const running = Atomics.load(workerData.busy, 0)
      if (order.interrupt && running) {
        setTimeout(() => {
          if (Atomics.load(workerData.busy, 0) !== running) return
          const session = new Session()
          session.connectToMainThread()
          session.post('Runtime.terminateExecution', () => session.disconnect())
        }, 100)
      }
    }
  })
  .on('end', () => process.kill(process.pid, 'SIGKILL'))
`
new Worker(reader, { eval: true, workerData: { orders, busy }, stdin: false }).on('message', (order) => {
  if (order.interrupt) current?.(interruption())
  else run(order)
})
}
