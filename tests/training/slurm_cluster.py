"""A Slurm cluster of two nodes with one CPU each, all on the loopback of this machine, from Debian's packages."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")

CONFIGURATION = """\
ClusterName=cptlaw
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdTimeout=5
KillWait=2
SchedulerParameters=batch_sched_delay=1,sched_interval=2,requeue_delay=1
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={first} CPUs=1 RealMemory=8000
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={second} CPUs=1 RealMemory=8000
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing():
    """Return why a cluster cannot be started here, or nothing."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"Slurm is not installed ({', '.join(absent)}); apt-get install slurmctld slurmd slurm-client munge"
    return None if os.geteuid() == 0 else "a Slurm cluster of its own can only be started by root"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class SlurmCluster:
    """Starts the daemons on entering and stops them on leaving."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.configuration = folder / "slurm.conf"

    def __enter__(self):
        folder = self.folder
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o400)
        controller, first, second = free_ports(3)
        text = CONFIGURATION.format(folder=folder, controller=controller, first=first, second=second)
        self.configuration.write_text(text)
        files = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        places = [f"--{option}={folder}/munge.{ending}" for option, ending in files.items()]
        self._call("munged", "--force", *places)
        self._call("slurmctld", "-f", str(self.configuration))
        for node in ("n1", "n2"):
            self._call("slurmd", "-f", str(self.configuration), "-N", node)
        deadline = time.monotonic() + 30
        while self._call("sinfo", "-h", "-o", "%t").split() != ["idle"]:
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()
            time.sleep(0.5)
        return self

    def __exit__(self, *_):
        self._call("scancel", "--user=root", check=False)
        time.sleep(1)
        for pid in (*self._processes("n1"), *self._processes("n2")):
            _kill(pid)
        for name in ("slurmd-n1.pid", "slurmd-n2.pid", "slurmctld.pid", "munge.pid"):
            _kill(_pid(self.folder / name), signal.SIGTERM)

    def busy_node(self):
        """Return the node that runs a job."""
        return self._call("squeue", "-h", "-t", "running", "-o", "%N").split()[0]

    def lose(self, node):
        """Kill all processes of a node at once, as a power cut does."""
        pids = [_pid(self.folder / f"slurmd-{node}.pid"), *self._processes(node)]
        for pid in pids:
            _kill(pid)
        return len(pids)

    def _processes(self, node):
        """Return the processes of the jobs on a node, and the daemons that watch over them."""
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                ours = {f"SLURM_CONF={self.configuration}".encode(), f"SLURMD_NODENAME={node}".encode()}
                if ours <= set(variables):
                    found.add(int(entry.name))
                    found |= {parent for parent in _parents(entry) if b"slurmstepd" in _command(parent)}
        return found - {os.getpid()}

    def _call(self, *command, check=True):
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run(command, env=environment, check=check, capture_output=True, text=True).stdout


def _parents(entry):
    return {int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])}


def _command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _pid(path):
    return int(path.read_text()) if path.exists() else None


def _kill(pid, number=signal.SIGKILL):
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
