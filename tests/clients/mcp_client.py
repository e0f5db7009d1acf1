"""A client of the Model Context Protocol that nobody here wrote: the `mcp` package.

mcp_client.py MODE URL            over HTTP, with the key in MCP_KEY
mcp_client.py MODE COMMAND ARG…   over stdin and stdout of that command

MODE is `legacy`, `auto` or a revision. Prints one JSON object for each thing that it did; waits
for a line on stdin where the test has something to do first.
"""

import json
import os
import sys
from contextlib import AsyncExitStack

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def say(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


async def wait():
    line = await anyio.to_thread.run_sync(sys.stdin.readline)
    assert line, "the test has gone"


def result(called):
    text = "".join(getattr(block, "text", "") for block in called.content)
    return {"isError": called.is_error, "structured": called.structured_content, "text": text}


async def listed(client):
    names, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return names


async def changed(client, notified):
    if client.protocol_version >= "2026":
        async with client.listen(tools_list_changed=True) as events:
            say("listening")
            await anext(aiter(events))
    else:
        # The stream on which the server speaks is opened beside the first request.
        say("listening")
        await notified.wait()


async def scenario(client, notified):
    say("connected", version=client.protocol_version, server=client.server_info and client.server_info.name)
    say("listed", tools=await listed(client))
    say("called", **result(await client.call_tool("hello", {"name": "Ada"})))
    say("wrong", **result(await client.call_tool("hello", {"name": 7})))
    say("failed", **result(await client.call_tool("trap", {"kind": "unreachable"})))
    try:
        await client.call_tool("__proto__", {})
    except MCPError as error:
        say("unknown", code=error.error.code)
    with anyio.fail_after(60):
        await changed(client, notified)
    say("changed", tools=await listed(client))
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "slow-host-call", {"ms": 60_000})
        await wait()
        group.cancel_scope.cancel()
    say("cancelled")
    say("again", **result(await client.call_tool("hello", {"name": "Ada"})))


async def main():
    mode, target = sys.argv[1], sys.argv[2:]
    notified = anyio.Event()

    async def on_message(message):
        if "ToolListChanged" in repr(message):
            notified.set()

    async with AsyncExitStack() as stack:
        if target[0].startswith("http"):
            headers = {"Authorization": "Bearer " + os.environ["MCP_KEY"]}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=120))
            server = streamable_http_client(target[0], http_client=http)
        else:
            environment = {name: value for name, value in os.environ.items() if name.startswith(("SKILLVISOR_", "HOME"))}
            server = StdioServerParameters(command=target[0], args=target[1:], env=environment)
        client = await stack.enter_async_context(Client(server, mode=mode, message_handler=on_message))
        await scenario(client, notified)
    say("closed")


anyio.run(main)
