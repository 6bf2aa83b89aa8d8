"""A webhook that does nothing, in aiohttp and as plain as can be: it decodes a review and allows it. What it costs a
request is what any webhook in Python costs at least; ``bench.through`` compares with it.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
from pathlib import Path

import orjson
from aiohttp import web


async def review(request: web.Request) -> web.Response:
    asked = orjson.loads(await request.read())
    answer = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": asked["request"]["uid"], "allowed": True},
    }
    return web.Response(body=orjson.dumps(answer), content_type="application/json")


async def health(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.do_nothing", description=__doc__)
    parser.add_argument("--cert", type=Path, required=True, help="certificate and key, one file")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(args.cert)
    app = web.Application()
    app.add_routes([web.post("/validate", review), web.get("/health", health)])
    loop = None
    if sys.platform != "win32":
        import uvloop

        loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)
    web.run_app(app, host="127.0.0.1", port=args.port, ssl_context=context, access_log=None, print=None, loop=loop)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
