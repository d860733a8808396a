"""Rollcall, a Kafka consumer-group coordinator cluster: the name by which it is installed.

In the repository the packages lie beside this one. In the wheel they lie below it, as
``rollcall.protocol``, ``rollcall.storage`` and so on (``docs/decisions/wheel.md``).
"""
