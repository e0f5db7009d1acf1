// A client of the Model Context Protocol that nobody here wrote: `@modelcontextprotocol/sdk`.
//
// mcp_client.mjs URL            over HTTP, with the key in MCP_KEY
// mcp_client.mjs COMMAND ARG…   over stdin and stdout of that command
//
// Prints one JSON object for each thing that it did; waits for a line on stdin where the test
// has something to do first. MCP_SDK is the folder in which the package is installed.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const require = createRequire(`${process.env.MCP_SDK}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');
const { ToolListChangedNotificationSchema } = await load('types.js');

const say = (step, what = {}) => process.stdout.write(JSON.stringify({ step, ...what }) + '\n');
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const result = (called) => ({
  isError: called.isError === true,
  structured: called.structuredContent ?? null,
  text: called.content.map((block) => block.text ?? '').join(''),
});

const target = process.argv.slice(2);
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(SKILLVISOR_|HOME)/.test(name)));
const transport = target[0].startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target[0]), {
      requestInit: { headers: { Authorization: `Bearer ${process.env.MCP_KEY}` } },
    })
  : new StdioClientTransport({ command: target[0], args: target.slice(1), env: environment });

const client = new Client({ name: 'test', version: '1.0.0' });
const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
await client.connect(transport);

const listed = async () => {
  const names = [];
  for (let cursor; ; ) {
    const page = await client.listTools({ cursor });
    names.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
    if (cursor === undefined) return names;
  }
};
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

say('connected', { version: transport.protocolVersion ?? null, server: client.getServerVersion().name });
say('listed', { tools: await listed() });
say('called', result(await call('hello', { name: 'Ada' })));
say('wrong', result(await call('hello', { name: 7 })));
say('failed', result(await call('trap', { kind: 'unreachable' })));
await call('__proto__', {}).catch((error) => say('unknown', { code: error.code }));
say('listening');
await changed;
say('changed', { tools: await listed() });
const stop = new AbortController();
const spinning = call('slow-host-call', { ms: 60_000 }, { signal: stop.signal }).catch(() => {});
await lines.next();
stop.abort();
await spinning;
say('cancelled');
say('again', result(await call('hello', { name: 'Ada' })));
await client.close();
say('closed');
process.exit(0);
