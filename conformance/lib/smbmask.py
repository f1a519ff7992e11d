"""Stands between an SMB client and a server and takes out of requests what the two servers of a comparison are known to
treat differently, so that the rest can be compared.

Used by `conformance/gentest`, once for each server. Only requests that are neither signed nor sealed are looked at, and
only by `change`, a function from one message to the message that is sent on.
"""

import socket
import struct
import threading

CREATE, QUERY_INFO, SET_INFO = 5, 16, 17


class Mask:
    """Listens at `at` and forwards to `to`, until the process ends. Addresses are (host, port)."""

    def __init__(self, at, to, change):
        self._to, self._change = to, change
        self._listener = socket.create_server(at)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(self._to)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self._replies, args=(server, client), daemon=True).start()

    def _requests(self, client, server):
        with client.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                message = stream.read(int.from_bytes(head[1:], "big"))
                if message[:4] == b"\xfeSMB":
                    message = bytes(self._change(bytearray(message)))
                try:
                    server.sendall(len(message).to_bytes(4, "big") + message)
                except OSError:
                    break
        shut(server)

    @staticmethod
    def _replies(server, client):
        try:
            while data := server.recv(1 << 16):
                client.sendall(data)
        except OSError:
            pass
        shut(client)


def shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def command(message):
    """Which command a request is."""
    return struct.unpack_from("<H", message, 12)[0]
