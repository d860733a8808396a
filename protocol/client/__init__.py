"""A Kafka client without sockets: it turns requests into bytes, and bytes into responses.

Adapters carry the bytes: a blocking one for administration and tests, one on asyncio and one on
epoll for the load generators.
"""
