"""A standalone Spark on hosts: its master on one of them, and a worker with one core on others."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.hosts.host import TMP, NamespaceHost, Running
from bench.hosts.waiting import HostError, patient

PORT = 7077
WORKER_SILENT_S = int(patient(30))
"""After so long a worker that its master does not hear is lost, with its tasks."""

SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""How Spark's processes run: they do little, and all hosts share this machine's processors."""

DAEMON_MEMORY, PROGRAM_MEMORY = "192m", "512m"
PYTHON_MEMORY = "2g"
"""How much a Python process of Spark holds before it writes to its disk."""


class SparkOnHosts:
    """Spark with its master on ``master``; programs are submitted there, too."""

    def __init__(self, master: NamespaceHost, workers: Sequence[NamespaceHost]) -> None:
        self.master = master
        self.workers = workers
        self._running: list[Running] = []

    @property
    def address(self) -> str:
        """What ``spark-submit --master`` is given."""
        return f"spark://{self.master.ip}:{PORT}"

    def start(self) -> None:
        """Start its processes; who submits a program waits until they are there."""
        self._daemon(self.master, "master.Master", "--port", str(PORT))
        for host in self.workers:
            self._daemon(host, "worker.Worker", "--cores", "1", "--memory", "1g", self.address)

    def submit(self, program: Path, *words: str) -> Running:
        """Start a program that uses one core of each worker."""
        settings = {
            "spark.driver.host": self.master.ip,
            "spark.driver.memory": PROGRAM_MEMORY,
            "spark.driver.extraJavaOptions": SMALL,
            "spark.executor.memory": PROGRAM_MEMORY,
            "spark.executor.extraJavaOptions": SMALL,
            "spark.python.worker.memory": PYTHON_MEMORY,
            "spark.ui.enabled": "false",
        }
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = ("spark-submit", "--master", self.address, *given, str(program), *words)
        return self.master.popen(*command, env=self.environment(self.master))

    def check(self) -> None:
        """Raise HostError if one of its processes has ended."""
        for running in self._running:
            if running.process.poll() is not None:
                said = running.stderr.read_text().strip().splitlines()
                raise HostError(f"Spark has ended: {''.join(said[-1:])}")

    def _daemon(self, host: NamespaceHost, name: str, *words: str) -> None:
        where = ("--host", host.ip, "--webui-port", "0")
        command = ("spark-class", f"org.apache.spark.deploy.{name}", *where, *words)
        self._running.append(host.popen(*command, env=self.environment(host)))

    def environment(self, host: NamespaceHost) -> dict[str, str]:
        """Return the variables of Spark's programs on a host."""
        python = shutil.which("python", path=host.environment()["PATH"])
        assert python is not None
        return {
            "PYSPARK_PYTHON": python,
            "SPARK_LOCAL_IP": host.ip,
            "SPARK_LOCAL_HOSTNAME": host.ip,
            "SPARK_LOCAL_DIRS": str(TMP / "spark"),
            "SPARK_WORKER_DIR": str(TMP / "spark-work"),
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": f"{SMALL} -Dspark.worker.timeout={WORKER_SILENT_S}",
        }
