"""Several hosts on one machine, for drills and tests: Linux namespaces on one bridge, with faults.

``with NamespaceHosts(3, directory) as hosts:`` gives hosts that share the machine's kernel, its
files and nothing else: each has its own addresses, host name, processes, ``/tmp`` and ``/dev/shm``.
Programs are started on them, and links and hosts fail as their user says::

    one, two, three = hosts
    two.popen("python", "-m", "rollcall", "up")
    hosts.delay(three, 200, jitter_ms=50)
    hosts.cut(one)
    hosts.vanish(two)
    hosts.come_back(two, empty=True)
    hosts.heal()

Tests use the fixture ``new_hosts`` (:mod:`tests.hosts.conftest`), which skips where hosts are not
possible and says why in one sentence.
"""
