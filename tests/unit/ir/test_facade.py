"""The facade: documents in, bundle and figures out; bad policies end in diagnostics, never in an exception."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from compiler import CompileResult, Options, compile_policies, load_documents
from compiler.bundle_writer import KeyProblem, signer_from_pem
from compiler.diagnostics import Reporter
from compiler.dynamic import make_imports
from compiler.pipeline import PASSES, optimise
from vm.bundle import BundleError, Ed25519Signer, Trust, read_bundle
from vm.verify import verify

POLICY = """apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: require-team
spec:
  rules:
    - name: check-team
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        message: The label team is required
        pattern: {metadata: {labels: {team: "?*"}}}
"""
OTHER = POLICY.replace("require-team", "require-owner").replace("team", "owner")


def _compile(text: str, **options: object) -> CompileResult:
    reporter = Reporter()
    documents = load_documents(text, "policy.yaml", reporter)
    assert not reporter.failed
    return compile_policies(documents, options=replace(Options(), **options))  # type: ignore[arg-type]


def _bundle(result: CompileResult) -> bytes:
    assert result.bundle is not None, result.diagnostics
    return result.bundle


def test_a_bundle_verifies_and_holds_the_policies() -> None:
    module = verify(read_bundle(_bundle(_compile(f"{POLICY}---\n{OTHER}"))), make_imports())
    assert [p.name for p in module.policies] == ["require-team", "require-owner"]
    assert [r.name for r in module.policies[0].rules] == [
        "check-team",
        "autogen-check-team",
        "autogen-cronjob-check-team",
    ]
    assert module.debug is not None
    assert [name for name, _ in module.header.sources] == ["policy.yaml"]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_same_source_gives_the_same_bytes(level: int) -> None:
    assert _compile(POLICY, level=level).bundle == _compile(POLICY, level=level).bundle


def test_stripping_takes_the_debug_section_alone() -> None:
    whole = read_bundle(_bundle(_compile(POLICY))).module
    stripped = read_bundle(_bundle(_compile(POLICY, strip=True))).module
    assert whole.debug is not None
    assert stripped.debug is None
    assert replace(whole, debug=None) == stripped


def test_a_signed_bundle_is_read_with_its_key_and_no_other() -> None:
    signer, stranger = Ed25519Signer("k1", bytes(range(32))), Ed25519Signer("k1", bytes(32))
    bundle = _bundle(_compile(POLICY, sign=signer))
    assert read_bundle(bundle, trust=Trust({"k1": signer.public_key()})).key_id == "k1"
    with pytest.raises(BundleError):
        read_bundle(bundle, trust=Trust({"k1": stranger.public_key()}))


def test_a_key_in_pem_form_signs() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    signer = signer_from_pem(private.private_bytes(*form), "release")
    assert signer.key_id == "release"
    assert signer.sign(b"digest") == private.sign(b"digest")
    with pytest.raises(KeyProblem, match="no ed25519 key"):
        signer_from_pem(ec.generate_private_key(ec.SECP256R1()).private_bytes(*form), "release")
    with pytest.raises(KeyProblem, match="no private key"):
        signer_from_pem(b"-----BEGIN NONSENSE-----", "release")


def test_figures() -> None:
    result = _compile(f"{POLICY}---\n{OTHER}")
    stats = result.stats
    assert [(p.name, p.rules) for p in stats.policies] == [("require-team", 3), ("require-owner", 3)]
    assert stats.bundle_bytes == len(_bundle(result))
    assert list(stats.stages) == ["schema", "lower", "optimise", "emit", "write", "verify"]
    assert list(stats.passes) == [step.name for step in PASSES]
    assert all(p.code_bytes > 50 and p.seconds > 0 for p in stats.policies)
    assert abs(sum(p.seconds for p in stats.policies) - stats.seconds) < 1e-6


def test_code_that_the_verifier_refuses_is_an_error_of_its_policy() -> None:
    entry = "{name: same, apiCall: {urlPath: /x, method: POST, data: [{key: a, value: '{{ request.namespace }}'}]}}"
    rule = f"""
    - name: deep
      match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
      context: [{", ".join([entry] * 31)}]
      validate: {{deny: {{conditions: {{all: [{{key: '{{{{ same }}}}', operator: Equals, value: a}}]}}}}}}
"""
    text = f"{POLICY}---\n{OTHER.partition('    - name')[0]}{rule}"
    result = _compile(text)
    assert result.bundle is None
    (found,) = [d for d in result.diagnostics if d.severity == "error"]
    assert (found.code, found.span and found.span.line) == ("T2001", POLICY.count("\n") + 2)
    assert "would build more than 128 containers around one another" in found.message


def test_an_observer_sees_every_pass() -> None:
    seen: list[str] = []
    _compile(POLICY, observer=lambda name, module, seconds: seen.append(f"{name} {len(module.policies)}"))
    assert seen == [f"{step.name} 1" for step in PASSES]


def test_levels_choose_passes() -> None:
    result = _compile(POLICY, level=1)
    assert list(result.stats.passes) == [step.name for step in PASSES if step.level <= 1]
    assert _compile(POLICY, level=0).stats.passes == {}
    with pytest.raises(ValueError, match="there is no level 3"):
        optimise(None, 3)  # type: ignore[arg-type]


def test_a_refused_policy_refuses_the_bundle() -> None:
    result = _compile(f"{POLICY}---\n{OTHER.replace('pattern:', 'patern:')}")
    assert result.bundle is None
    assert [d.code for d in result.diagnostics if d.severity == "error"] == ["T0201"]


def test_strict_makes_errors_of_warnings() -> None:
    text = POLICY.replace("spec:\n", "spec:\n  validationFailureAction: Enforce\n")
    assert _compile(text).bundle is not None
    strict = _compile(text, strict=True)
    assert strict.bundle is None
    assert {d.severity for d in strict.diagnostics} == {"error"}


def test_a_policy_that_needs_too_much_code_is_refused_at_its_place() -> None:
    conditions = [f'{{key: "{{{{ request.object.spec.k{i} }}}}", operator: Equals, value: {i}}}' for i in range(1500)]
    deny = f"{{deny: {{conditions: {{all: [{', '.join(conditions)}]}}}}}}"
    result = _compile(re.sub(r"validate:.*", f"validate: {deny}", POLICY, flags=re.DOTALL))
    assert result.bundle is None
    (problem,) = result.diagnostics
    assert problem.code == "T2001"
    assert "more than" in problem.message
    assert problem.span is not None
    assert problem.span.file == "policy.yaml"


def test_a_policy_that_nests_too_deeply_is_refused() -> None:
    keys = ", ".join(f'k{i}: "{{{{ request.object.metadata.labels.l{i} }}}}"' for i in range(900))
    result = _compile(POLICY.replace('team: "?*"', keys))
    assert result.bundle is None
    assert [d.code for d in result.diagnostics] == ["T2001"]
