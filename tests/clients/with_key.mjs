// Stands before a server and adds the key that a client cannot be told of: the conformance suite.
//
// with_key.mjs URL    with the key in MCP_KEY; prints its own address, and ends with stdin

import http from 'node:http';

const target = new URL(process.argv[2]);
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${process.env.MCP_KEY}` };
  const { method, url: path } = request;
  const onward = http.request({ host: target.hostname, port: target.port, path, method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  request.pipe(onward);
  response.on('close', () => onward.destroy());
  onward.on('error', () => response.destroy());
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
process.stdin.resume().on('end', () => process.exit(0));
