"""Echoes, and asks who does: streams at port 7000, TLS at 7001, datagrams at 7000, by asyncio."""

import asyncio
import os
import signal
import ssl
import sys

SERVER = os.environ["SERVER"]


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


async def serve():
    loop = asyncio.get_running_loop()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain("cert.pem", "key.pem")
    transport, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=("0.0.0.0", 7000))
    plain = await asyncio.start_server(echo, None, 7000)
    secure = await asyncio.start_server(echo, "0.0.0.0", 7001, ssl=tls)
    end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()
    for server in plain, secure:
        server.close()
    transport.close()


async def one(content, port, tls=None):
    reader, writer = await asyncio.open_connection(SERVER, port, ssl=tls)

    async def send():
        writer.write(content)
        await writer.drain()

    sending = asyncio.create_task(send())
    back = await reader.readexactly(len(content))
    await sending
    writer.close()
    await writer.wait_closed()
    return back == content


class Asking(asyncio.DatagramProtocol):
    def __init__(self):
        self.back = asyncio.Queue()

    def datagram_received(self, data, address):
        self.back.put_nowait(data)


async def ask():
    content = open("content", "rb").read()
    parts = [content[n * 1000 : n * 1000 + 100_000] for n in range(100)]
    print("streams", sum(await asyncio.gather(*(one(part, 7000) for part in parts))))
    tls = ssl.create_default_context(cafile="cert.pem")
    print("tls", sum(await asyncio.gather(*(one(part, 7001, tls) for part in parts[:10]))))
    loop = asyncio.get_running_loop()
    transport, asking = await loop.create_datagram_endpoint(Asking, remote_addr=(SERVER, 7000))
    right = 0
    for n in range(50):
        transport.sendto(content[: n * 25 + 1])
        right += await asyncio.wait_for(asking.back.get(), 5) == content[: n * 25 + 1]
    print("datagrams", right)
    transport.close()


asyncio.run(serve() if sys.argv[1] == "serve" else ask())
