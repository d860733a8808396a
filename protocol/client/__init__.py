"""A Kafka client without sockets: requests in, bytes out; bytes in, answers out.

Adapters carry the bytes: a blocking one for administration and tests, one on asyncio and one on
epoll for the load generators.
"""
