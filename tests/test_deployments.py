"""The examples for Kubernetes and compose: valid by their schemas, with our commands and settings, and least rights."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mpfedxgb.federation.settings import RoleSettings
from patience import patience
from support.commands import read_words
from test_readme import ROOT

DEPLOY = ROOT / "docs" / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def resources(path: Path) -> list[dict[str, Any]]:
    """Return the resources in a manifest."""
    return list(yaml.safe_load_all(path.read_text()))


def of_kind(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return those of a kind."""
    return [resource for resource in resources(path) if resource["kind"] == kind]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_kubernetes_takes_the_manifests(path: Path) -> None:
    """Every key and value is of the schema of the newest version that the checker knows."""
    checker = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed (100 MB)")
    latest = checker.latest_version()
    answers = [checker.validate(resource, latest, strict=True) for resource in resources(path)]  # raises what is wrong
    assert len(answers) >= 4


@pytest.mark.skipif(importlib.util.find_spec("check_jsonschema") is None, reason="check-jsonschema is not installed")
def test_compose_takes_the_file() -> None:
    """Every key and value is of the schema of the Compose specification."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(  # noqa: S603 # our own words
        [*command, str(DEPLOY / "compose.yaml")], capture_output=True, text=True, timeout=patience(60.0), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_fits_itself_and_the_program(path: Path) -> None:
    """The settings are a role's, the command is one, what settings name is mounted, and ports are the role's own."""
    (config,), (deployment,) = of_kind(path, "ConfigMap"), of_kind(path, "Deployment")
    ((name, text),) = config["data"].items()
    settings = RoleSettings.from_dict(tomllib.loads(text), "/settings")
    role, pod = settings.role.name, deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, read = read_words(*_first_and_rest(container["args"]))
    assert command.name == ("coordinator" if settings.is_coordinator else "participant")
    assert (str(read["settings"]), read["http"]) == (f"/settings/{name}", "0.0.0.0:8080")
    assert settings.is_coordinator or read["serve"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert {mount["name"] for mount in pod["volumes"]} == set(mounts)
    writable = [mount["mountPath"] for mount in mounts.values() if not mount.get("readOnly")]
    assert writable == ["/data", "/cache", "/tmp"]  # noqa: S108 # in a container
    assert "NUMBA_CACHE_DIR=/cache" in (DEPLOY / "Containerfile").read_text()
    tls = settings.tls
    assert tls is not None
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    made = re.findall(r"create secret generic (\S+) (.+)", path.read_text())
    assert {name for name, _ in made} == set(secrets.values())
    for file in (tls.ca, tls.certificate, tls.key):
        assert f"--from-file={file.relative_to('/tls')}" in made[0][1]
    assert settings.serve.token_file == Path("/http/token")
    assert all(str(folder).startswith("/data") for _, folder in settings.outputs())
    listen = settings.network.listen
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == ({"role": listen.port} if listen else {}) | {"http": 8080}
    services = {port["targetPort"] for service in of_kind(path, "Service") for port in service["spec"]["ports"]}
    assert services == ({"role"} if listen else set()) | ({"http"} if settings.is_active else set())
    (policy,) = of_kind(path, "NetworkPolicy")
    allowed = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert allowed - {53} == {address.port for address in settings.peers().values()}
    assert deployment["metadata"]["name"] == role
    for resource in resources(path):
        assert resource["metadata"]["labels"] == {"app": "mpfedxgb", "role": role}


def _first_and_rest(words: list[str]) -> tuple[str, list[str]]:
    return words[0], words[1:]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_pod_has_least_rights(path: Path) -> None:
    """Not root, nothing to write on but volumes, no capabilities, no token of the cluster; one process, probed."""
    (deployment,) = of_kind(path, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]["type"]) == (1, "Recreate")
    assert pod["securityContext"]["runAsNonRoot"]
    assert str(pod["securityContext"]["runAsUser"]) in (DEPLOY / "Containerfile").read_text()
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"]["path"] == container["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
    for service in of_kind(path, "Service"):  # a role is ready once others have reached it
        is_for_roles = service["spec"]["ports"][0]["name"] == "role"
        assert service["spec"].get("publishNotReadyAddresses", False) == is_for_roles


def test_compose_fits_the_program() -> None:
    """Commands are ours, for serving and for training; every service has least rights and folders of its own."""
    text = (DEPLOY / "compose.yaml").read_text()
    head = re.findall(r"mpfedxgb (init .+)", text)[0].split()
    participants = read_words(head[0], head[1:])[1]["participants"].split(",")
    services = yaml.safe_load(text)["services"]
    assert list(services) == ["coordinator", *participants]
    for name, service in services.items():
        for do in ("--serve", "--train"):
            words = [do if word == "${DO:---serve}" else word for word in service["command"]]
            _, read = read_words(*_first_and_rest(words))
            assert (str(read["settings"]), read["http"]) == (f"/role/{name}.toml", "8080")
            assert name == "coordinator" or read[do.removeprefix("--")]
        assert service["volumes"] == [f"./loans/{name}:/role", f"{name}-cache:/cache"]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["user"].split(":")[0] in (DEPLOY / "Containerfile").read_text()
