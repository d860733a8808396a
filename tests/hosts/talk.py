"""A program that talks over a network, by which tests see what a network does.

``listen`` prints each datagram and sends it back; it also answers each TCP connection, when it has
been read to its end, with the number of its bytes and their digest. The others talk to it:
``send ADDRESS,ADDRESS... TEXT...``, ``ping ADDRESS COUNT`` (prints the milliseconds of each round
trip), ``push ADDRESS BYTES`` (prints the milliseconds, and whether all of it arrived) and ``hold
ADDRESS``, which says what becomes of a connection. It uses nothing but the standard library.
"""

import hashlib
import random
import socket
import sys
import threading
import time

PORT = 7000
SO_RCVBUFFORCE = 33
SILENCE_S = 180.0


def say(*words: object) -> None:
    """Print a line at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def listen() -> None:
    """Answer until killed."""
    threading.Thread(target=answer_connections, daemon=True).start()
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sink:
        sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
        sink.bind(("::", PORT))
        say("listening")
        while True:
            text, sender = sink.recvfrom(2000)
            if not text.startswith(b"ping"):
                say(text.decode())
            sink.sendto(text, sender)


def answer_connections() -> None:
    """Read connections one after the other."""
    with socket.create_server(
        ("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=16
    ) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=digest, args=(connection,), daemon=True).start()


def digest(connection: socket.socket) -> None:
    """Read a connection to its end and answer."""
    with connection:
        read, seen = hashlib.sha256(), 0
        while piece := connection.recv(1 << 16):
            read.update(piece)
            seen += len(piece)
        connection.sendall(f"{seen} {read.hexdigest()}".encode())


def send(addresses: str, *texts: str) -> None:
    """Send datagrams; commas separate several addresses."""
    with socket.socket(family_of(addresses), socket.SOCK_DGRAM) as source:
        for address in addresses.split(","):
            for text in texts:
                source.sendto(text.encode(), (address, PORT))


def ping(address: str, count: str) -> None:
    """Print the milliseconds of round trips, one after the other."""
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as source:
        source.settimeout(SILENCE_S)
        for number in range(int(count)):
            began = time.monotonic()
            source.sendto(f"ping {number}".encode(), (address, PORT))
            source.recv(2000)
            say((time.monotonic() - began) * 1000)


def push(address: str, size: str) -> None:
    """Send bytes over a connection; print the milliseconds until they were read, and the answer."""
    sent = random.Random(1).randbytes(int(size))
    began = time.monotonic()
    with socket.create_connection((address, PORT), timeout=SILENCE_S) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(2000).decode()
    say((time.monotonic() - began) * 1000, answer == f"{size} {hashlib.sha256(sent).hexdigest()}")


def hold(address: str) -> None:
    """Connect; at each line of the input say whether anything came, then send and wait for it."""
    with socket.create_connection((address, PORT)) as connection:
        say("connected")
        sys.stdin.readline()
        connection.setblocking(False)
        try:
            say(f"received {connection.recv(1)!r}")
        except OSError as error:
            say(type(error).__name__)
        sys.stdin.readline()
        connection.settimeout(SILENCE_S)
        try:
            connection.sendall(b"are you there?")
            say(f"received {connection.recv(1)!r}")
        except OSError as error:
            say(type(error).__name__)


def family_of(address: str) -> int:
    """Return the address family."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


if __name__ == "__main__":
    {each.__name__: each for each in (listen, send, ping, push, hold)}[sys.argv[1]](*sys.argv[2:])
