"""Stand-ins for programs of others that a test cannot run for real: each takes only what its manual lists.

They know the subcommands and options that the pages use, refuse any other, and hand over a real dump. What they cannot
prove is that a provider still does what its manual says.
"""

from __future__ import annotations

import stat
import sys
import textwrap
from pathlib import Path

AWS = """
    # docs.aws.amazon.com/cli: elasticache create-snapshot, describe-snapshots, copy-snapshot; s3 cp
    import json, pathlib, shutil, sys
    words, state = sys.argv[1:], pathlib.Path(".aws-state.json")
    known = json.loads(state.read_text()) if state.exists() else {"snapshots": [], "objects": []}
    options = {
        "create-snapshot": {"--replication-group-id", "--snapshot-name"},
        "describe-snapshots": {"--snapshot-name", "--query", "--output"},
        "copy-snapshot": {"--source-snapshot-name", "--target-snapshot-name", "--target-bucket"},
    }
    if words[0] == "elasticache":
        given = dict(zip(words[2::2], words[3::2], strict=True))
        assert set(given) <= options[words[1]], given
        if words[1] == "create-snapshot":
            known["snapshots"].append(given["--snapshot-name"])
        elif words[1] == "describe-snapshots":
            assert given["--snapshot-name"] in known["snapshots"] and given["--query"] == "Snapshots[0].SnapshotStatus"
            print("available")
        else:
            assert given["--source-snapshot-name"] in known["snapshots"]
            known["objects"].append(f"s3://{given['--target-bucket']}/{given['--target-snapshot-name']}-0001.rdb")
        state.write_text(json.dumps(known))
    else:
        verb, service, source, target = words[1], words[0], *words[2:]
        assert (service, verb) == ("s3", "cp") and source in known["objects"], words
        shutil.copy(DUMP, pathlib.Path(target) / source.rpartition("/")[2])
"""
GCLOUD = """
    # cloud.google.com/sdk/gcloud/reference: redis instances export, storage cp
    import pathlib, shutil, sys
    words, state = sys.argv[1:], pathlib.Path(".gcloud-state")
    if words[:3] == ["redis", "instances", "export"]:
        target, instance, region = words[3:]
        assert target.startswith("gs://") and target.endswith(".rdb") and region.startswith("--region="), words
        state.write_text(target)
    else:
        assert words[:2] == ["storage", "cp"] and words[2] == state.read_text(), words
        shutil.copy(DUMP, pathlib.Path(words[3]) / words[2].rpartition("/")[2])
"""
KUBECTL = """
    # kubernetes.io/docs/reference/kubectl: exec POD -n NS -c CONTAINER -- COMMAND, cp; the pod is this machine
    import os, shutil, subprocess, sys
    words = sys.argv[1:]
    options = {}
    while len(words) > 1 and words[1] in ("-n", "-c"):
        options[words[1]] = words[2]
        del words[1:3]
    if words[0] == "exec":
        pod, rest = words[1], words[2:]
        while rest[0] in ("-n", "-c"):
            options[rest[0]] = rest[1]
            rest = rest[2:]
        assert rest[0] == "--" and set(options) == {"-n", "-c"}, sys.argv
        sys.exit(subprocess.run(rest[1:], env={**os.environ, "REDIS_PASSWORD": "secret"}).returncode)
    assert words[0] == "cp" and set(options) == {"-n", "-c"}, sys.argv
    pod, path = words[1].split(":")
    shutil.copy(path.replace("/data/", DATA + "/"), words[2])
"""
REDIS_CLI = """
    # The real redis-cli, only that the server is one of ours, without a password: names of hosts are left out.
    import os, sys
    words = sys.argv[1:]
    while "-h" in words:
        del words[words.index("-h") : words.index("-h") + 2]
    os.environ.pop("REDISCLI_AUTH", None)
    os.execv(REAL, [REAL, "-s", SOCKET, *words])
"""
PYTHON = """
    # The real Python, only that the server is one of ours, without TLS.
    import os, sys
    words = [f"127.0.0.1:{PORT}" if w.endswith(".upstash.example") else w for w in sys.argv[1:] if w != "--tls"]
    os.execv(sys.executable, [sys.executable, *words])
"""


def put(folder: Path, name: str, program: str, **facts: object) -> None:
    """Writes a stand-in as an executable file."""
    folder.mkdir(exist_ok=True)
    known = "\n".join(f"{key} = {value!r}" for key, value in facts.items())
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{known}\n{textwrap.dedent(program)}", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
