"""A bare SMB 2.1 client that sends exactly the bytes it is told to, for hostile stories and for idle connections.

It signs nothing and checks little: what it must get right is the login (NTLM by pyspnego) and the message ids. It is not
a client anyone should use for files.
"""

import os
import socket
import struct

import spnego

NEGOTIATE, SESSION_SETUP, LOGOFF, TREE_CONNECT, TREE_DISCONNECT, CREATE, CLOSE, FLUSH, READ, WRITE, LOCK, IOCTL = range(12)
CANCEL, ECHO, QUERY_DIRECTORY, CHANGE_NOTIFY, QUERY_INFO, SET_INFO, OPLOCK_BREAK = range(12, 19)

SUCCESS = 0
MORE_PROCESSING = 0xC0000016
PENDING = 0x103
HEADER = struct.Struct("<4sHHIHHIIQIIQ16s")
OPEN, CREATE_NEW, OPEN_IF = 1, 2, 3
DIRECTORY, NOT_DIRECTORY, DELETE_ON_CLOSE = 0x1, 0x40, 0x1000


class Closed(Exception):
    """The server closed the connection."""


class Reply:
    """One reply: its header's fields and its body (after the header)."""

    def __init__(self, message):
        fields = HEADER.unpack_from(message)
        assert fields[0] == b"\xfeSMB", f"not SMB2: {message[:4]!r}"
        _, _, _, self.status, self.command, self.credits, self.flags, self.next, self.message_id, _, self.tree_id, self.session_id, _ = fields
        self.body = message[64:]

    def __repr__(self):
        return f"Reply(command {self.command}, status {self.status:#010x})"


class RawClient:
    def __init__(self, host, port, timeout=20.0, receive_buffer=None):
        self.host, self.port, self.timeout = host, port, timeout
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.message_id, self.credits, self.session_id, self.tree_id = 0, 1, 0, 0

    def close(self):
        self.socket.close()

    # bytes

    def send_bytes(self, data):
        """As they are. A connection the server has closed meanwhile is Closed."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    @staticmethod
    def framed(message, length=None):
        return struct.pack(">I", len(message) if length is None else length) + message

    def receive(self):
        """The next reply, whatever it answers."""
        length = struct.unpack(">I", self._exactly(4))[0]
        return Reply(self._exactly(length))

    def _exactly(self, count):
        got = bytearray()
        while len(got) < count:
            try:
                part = self.socket.recv(count - len(got))
            except ConnectionResetError:
                raise Closed from None
            if not part:
                raise Closed
            got += part
        return bytes(got)

    # messages

    def message(self, command, body, charge=1, credits=64, flags=0, next_command=0, session_id=None, tree_id=None):
        """A whole message with the next message id."""
        head = HEADER.pack(
            b"\xfeSMB", 64, charge, 0, command, credits, flags, next_command, self.message_id, 0xFEFF,
            self.tree_id if tree_id is None else tree_id, self.session_id if session_id is None else session_id, bytes(16),
        )  # fmt: skip
        self.message_id += max(charge, 1)
        self.credits -= max(charge, 1)
        return head + body

    def call(self, command, body, **header):
        """Send one request and wait for its final reply."""
        self.send_bytes(self.framed(self.message(command, body, **header)))
        reply = self.receive()
        self.credits += reply.credits
        while reply.status == PENDING:
            reply = self.receive()
            self.credits += reply.credits
        return reply

    # the way in

    def negotiate(self, dialects=(0x0202, 0x0210)):
        body = struct.pack("<HHHHI16sQ", 36, len(dialects), 1, 0, 0x4, os.urandom(16), 0)
        return self.call(NEGOTIATE, body + struct.pack(f"<{len(dialects)}H", *dialects), charge=0)

    @staticmethod
    def setup_body(token):
        return struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, len(token), 0) + token

    def login(self, user, password):
        """SESSION_SETUP until the server is content; the last reply."""
        context = spnego.client(user, password, hostname=self.host, service="cifs", protocol="ntlm")
        token = context.step()
        while True:
            reply = self.call(SESSION_SETUP, self.setup_body(token))
            if reply.status != MORE_PROCESSING:
                return reply
            self.session_id = reply.session_id
            offset, length = struct.unpack_from("<HH", reply.body, 4)
            token = context.step(reply.body[offset - 64 : offset - 64 + length])

    def tree_connect(self, path):
        name = path.encode("utf-16-le")
        reply = self.call(TREE_CONNECT, struct.pack("<HHHH", 9, 0, 72, len(name)) + name)
        if reply.status == SUCCESS:
            self.tree_id = reply.tree_id
        return reply

    def enter(self, target):
        """Negotiate, log in and connect to the target's share."""
        assert self.negotiate().status == SUCCESS
        reply = self.login(target.user, target.password)
        assert reply.status == SUCCESS, reply
        reply = self.tree_connect(rf"\\{target.host}\{target.share}")
        assert reply.status == SUCCESS, reply
        return self

    # files

    def create_body(self, name, disposition=OPEN, access=0x12019F, options=0):
        """`name` is text, or bytes that need not be UTF-16 at all."""
        raw = name if isinstance(name, bytes) else name.encode("utf-16-le", "surrogatepass")
        fixed = struct.pack("<HBBIQQIIIIIHHII", 57, 0, 0, 2, 0, 0, access, 0, 7, disposition, options, 120, len(raw), 0, 0)
        return fixed + (raw or b"\0")

    def create(self, name, **more):
        """(status, file id or None)."""
        reply = self.call(CREATE, self.create_body(name, **more))
        return reply.status, reply.body[64:80] if reply.status == SUCCESS else None

    def close_file(self, file_id):
        return self.call(CLOSE, struct.pack("<HHI16s", 24, 0, 0, file_id)).status

    @staticmethod
    def read_body(file_id, offset, length):
        return struct.pack("<HBBIQ16sIIIHH", 49, 0, 0, length, offset, file_id, 0, 0, 0, 0, 0) + b"\0"

    @staticmethod
    def write_body(file_id, offset, data):
        return struct.pack("<HHIQ16sIIHHI", 49, 112, len(data), offset, file_id, 0, 0, 0, 0, 0) + data

    def set_info(self, file_id, info_class, data, kind=1):
        body = struct.pack("<HBBIHHI16s", 33, kind, info_class, len(data), 96, 0, 0, file_id) + data
        return self.call(SET_INFO, body).status

    def query_directory(self, file_id, pattern, length=65536, info_class=37, flags=1):
        raw = pattern if isinstance(pattern, bytes) else pattern.encode("utf-16-le")
        body = struct.pack("<HBBI16sHHI", 33, info_class, flags, 0, file_id, 96, len(raw), length) + (raw or b"\0")
        return self.call(QUERY_DIRECTORY, body)

    def echo(self):
        return self.call(ECHO, struct.pack("<HH", 4, 0)).status
