"""``thesmos serve`` says in one line why it cannot start, and serves over TLS when it can."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.config import Names
from runtime.controllers.webhookconfig import address
from runtime.webhook.operationflags import IGNORED, told
from runtime.webhook.serve import ServeProblem, add_arguments, settings_of

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def settings(*words: str) -> object:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return settings_of(parser.parse_args(words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to serve"),
        (("--bundle", "x", "--kubeconfig", "y"), "without a cluster"),
        (("--in-cluster", "--kubeconfig", "y"), "exclude each other"),
        (("--kubeconfig", "y"), "--server-ip"),
        (("--bundle", "x", "--tls-cert", "c"), "go together"),
    ],
)
def test_flags_that_make_no_sense(words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ServeProblem, match=said):
        settings(*words)


@pytest.mark.parametrize(
    ("words", "registry"),
    [
        ((), None),
        (("--defaultRegistry", "ghcr.io"), "ghcr.io"),
        (("--defaultRegistry", "ghcr.io", "--enableDefaultRegistryMutation=false"), ""),
        (("--enableDefaultRegistryMutation=true",), None),
    ],
)
def test_the_default_registry(words: tuple[str, ...], registry: str | None) -> None:
    assert settings("--bundle", "x", *words).registry == registry  # type: ignore[attr-defined]


def test_flags_of_kyverno_are_taken() -> None:
    found = settings(
        "--in-cluster",
        "--webhookServerPort=9444",
        "--servicePort=8443",
        "--webhookTimeout=20",
        "--loggingFormat=json",
        "--v=4",
        "--forceFailurePolicyIgnore=true",
        "--exceptionNamespace=exceptions",
    )
    assert found.port == 9444  # type: ignore[attr-defined]
    assert found.service_port == 8443  # type: ignore[attr-defined]
    assert found.timeout == 20  # type: ignore[attr-defined]
    assert found.log_format == "json"  # type: ignore[attr-defined]
    assert found.force_failure_policy_ignore is True  # type: ignore[attr-defined]
    assert found.exception_namespaces == ("exceptions",)  # type: ignore[attr-defined]
    assert found.names == Names()  # type: ignore[attr-defined]


def test_a_pod_of_a_cluster_needs_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert settings().in_cluster is True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "word", ["--port=x", "--port=70000", "--webhookTimeout=31", "--forceFailurePolicyIgnore=maybe"]
)
def test_values_that_are_none_end_with_two(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--bundle", "x", word]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_bad_inputs_end_with_one_line_and_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.thb").write_bytes(b"no bundle")
    (tmp_path / "cut.thb").write_bytes(b"THB1")
    for words, said in (
        (["--bundle", str(tmp_path / "missing.thb")], "no such file"),
        (["--bundle", str(tmp_path / "no.thb")], "is no bundle"),
        (["--bundle", str(tmp_path / "cut.thb")], "cut.thb: "),
        (["--policies", str(tmp_path / "missing.yaml")], "no such file"),
        (
            ["--policies", str(EXAMPLES / "policies"), "--tls-cert", "missing", "--tls-key", "missing"],
            "missing: no such",
        ),
        (["--policies", str(EXAMPLES / "policies"), "--port", "0", "--ca-out", str(tmp_path / "no" / "ca")], "no such"),
        (["--kubeconfig", str(tmp_path / "missing"), "--server-ip", "127.0.0.1"], "missing: no such file"),
    ):
        assert main(["serve", *words]) == 2, words
        error = capsys.readouterr().err
        assert error.startswith("thesmos serve: "), error
        assert said in error
        assert error.count("\n") == 1, error


def test_a_port_in_use_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["serve", "--policies", str(EXAMPLES / "policies"), "--host", "127.0.0.1", "--port", port]
        assert main(words) == 2
    assert f"cannot listen on 127.0.0.1:{port}: address already in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("server", "want"),
    [
        ("192.0.2.7", "192.0.2.7:9443"),
        ("192.0.2.7:1", "192.0.2.7:1"),
        ("host.example.com", "host.example.com:9443"),
        ("host.example.com:1", "host.example.com:1"),
        ("2001:db8::1", "[2001:db8::1]:9443"),
        ("[2001:db8::1]:1", "[2001:db8::1]:1"),
    ],
)
def test_addresses_of_the_server(server: str, want: str) -> None:
    assert address(server, 9443) == want


def test_a_process_serves_over_tls_and_ends_politely(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    command = [sys.executable, "-m", "runtime.cli.main", "serve", "--policies", str(EXAMPLES / "policies")]
    command += ["--host", "127.0.0.1", "--port", "0", "--ca-out", str(ca), "--loggingFormat=json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=EXAMPLES.parent
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            assert line.startswith("serving 4 policies on https://127.0.0.1:"), line
            port = line.rsplit(":", 1)[1].strip()
            context = ssl.create_default_context(cafile=str(ca))
            url = f"https://localhost:{port}/health/readiness"
            with urllib.request.urlopen(url, context=context, timeout=10) as answer:
                assert answer.read() == b"ok\n"
            time.sleep(0.1)
        finally:
            os.kill(server.pid, signal.SIGTERM)
        assert server.wait(30) == 0
        assert server.stderr is not None
        log = server.stderr.read()
    assert '"logger":"thesmos.serve"' in log
    assert "Traceback" not in log


def test_flags_of_operation() -> None:
    found = settings(
        "--in-cluster",
        "--leaderElectionRetryPeriod=3s",
        "--caSecretName=my-ca",
        "--tlsSecretName=my-pair",
        "--tlsKeyAlgorithm=RSA",
        "--renewBefore=48h",
        "--disableCertManagerController=true",
        "--autoUpdateWebhooks=false",
        "--excludeBootstrapResources",
        "--protectManagedResources",
        "--enablePolicyException=false",
        "--drain-seconds=7",
    )
    assert found.leader_retry == 3.0  # type: ignore[attr-defined]
    assert (found.ca_secret, found.tls_secret) == ("my-ca", "my-pair")  # type: ignore[attr-defined]
    assert found.key_algorithm == "RSA"  # type: ignore[attr-defined]
    assert found.renew_before == 48 * 3600  # type: ignore[attr-defined]
    assert not found.own_certificates  # type: ignore[attr-defined]
    assert not found.auto_update_webhooks  # type: ignore[attr-defined]
    assert found.exclude_bootstrap  # type: ignore[attr-defined]
    assert found.protect_managed  # type: ignore[attr-defined]
    assert not found.exceptions_count  # type: ignore[attr-defined]
    assert found.drain_seconds == 7.0  # type: ignore[attr-defined]


def test_flags_that_do_nothing_are_taken_and_told() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = ["--genWorkers=10", "--profile", "--clientRateLimitQPS", "300"]
    args = parser.parse_args(["--in-cluster", *given])
    assert settings_of(args) == settings("--in-cluster")
    assert [line.partition(" ")[0] for line in told(args)] == ["--genWorkers", "--profile", "--clientRateLimitQPS"]
    for flag, _ in IGNORED:
        parser.parse_args([f"{flag}=1"])


def test_the_environment_of_kyvernos_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("KYVERNO_SVC", "policies"),
        ("KYVERNO_SERVICEACCOUNT_NAME", "robot"),
        ("INIT_CONFIG", "settings"),
        ("KYVERNO_POD_NAME", "kyverno-abc"),
    ):
        monkeypatch.setenv(name, value)
    found = settings("--in-cluster")
    assert found.names.server_name == "policies.kyverno.svc"  # type: ignore[attr-defined]
    assert found.names.user == "system:serviceaccount:kyverno:robot"  # type: ignore[attr-defined]
    assert found.names.config_map == "settings"  # type: ignore[attr-defined]
    assert found.identity == "kyverno-abc"  # type: ignore[attr-defined]
    # Names of webhooks and configurations stay those that people look for.
    assert found.names.webhook("validate") == "validate.kyverno.svc"  # type: ignore[attr-defined]


# Every flag of Kyverno's controllers that its manifests and documentation name, with a value it may have there.
KYVERNO_FLAGS = """
--autoUpdateWebhooks=true --forceFailurePolicyIgnore=false --excludeBootstrapResources=false --webhookServerPort=9443
--servicePort=443 --webhookTimeout=10 --webhookRegistrationTimeout=120s --autoDeleteWebhooks=false
--protectManagedResources=false --renewBefore=360h --tlsKeyAlgorithm=RSA --caSecretName=ca --tlsSecretName=tls
--disableCertManagerController=false --leaderElectionRetryPeriod=2s --v=2 --loggingFormat=json
--loggingtsFormat=default --disableLogColor=false --dumpPayload=false --dumpPatches=false --clientRateLimitQPS=300
--clientRateLimitBurst=300 --eventsRateLimitQPS=1000 --eventsRateLimitBurst=2000 --resyncPeriod=15m --crdWatcher=false
--maxQueuedEvents=1000 --maxAuditWorkers=8 --maxAuditCapacity=1000 --genWorkers=10 --apiCallTimeout=30s
--maxAPICallResponseLength=2000000 --allowHTTPInNamespacedPolicies=false --httpBlocklist=169.254.169.254
--httpAllowlist=https://example.org --enableConfigMapCaching=true --enableDeferredLoading=true --autogenV2=false
--generateValidatingAdmissionPolicy=true --generateMutatingAdmissionPolicy=false --imageVerifyCacheEnabled=true
--imageVerifyCacheMaxSize=1000 --imageVerifyCacheTTLDuration=60m --registryCredentialHelpers=default,google
--imagePullSecrets=regcred --allowInsecureRegistry=false --enableTuf=false --tufMirror=https://example.org
--tufRoot=root.json --profile=false --profilePort=6060 --admissionReports=true --aggregateReports=true
--policyReports=true --validatingAdmissionPolicyReports=true --mutatingAdmissionPolicyReports=false
--enableReporting=validate,mutate,mutateExisting,generate,imageVerify --allowedResults=pass,fail,error,warn,skip
--backgroundScan=true --backgroundScanInterval=1h --backgroundScanWorkers=2 --skipResourceFilters=true
--maxAdmissionReports=1000 --maxBackgroundReports=10000 --openreportsEnabled=false --omitEvents=PolicyApplied
--enablePolicyException=true --exceptionNamespace=* --ttlReconciliationInterval=1m --metricsPort=8000
--otelConfig=prometheus --otelCollector=collector --transportCreds= --disableMetrics=false --enableTracing=false
--tracingAddress=collector --tracingPort=4317 --tracingCreds= --backgroundServiceAccountName=a
--reportsServiceAccountName=b --cleanupServerHost=kyverno-cleanup-controller --cleanupServerPort=9443
"""


def test_every_flag_of_kyverno_is_taken() -> None:
    assert settings("--in-cluster", *KYVERNO_FLAGS.split())
