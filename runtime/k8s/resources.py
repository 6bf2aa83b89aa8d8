"""The resources that Thesmos itself reads and writes; everything else is found by discovery."""

from __future__ import annotations

from typing import Final

from runtime.k8s.client import Resource

CLUSTER_POLICY: Final = Resource("kyverno.io", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)
POLICY: Final = Resource("kyverno.io", "v1", "policies", "Policy")
EXCEPTION: Final = Resource("kyverno.io", "v2", "policyexceptions", "PolicyException")
"""Whatever version exceptions were written in: the schema of v2 holds the fields of all, the guide's too."""
CLUSTER_CLEANUP_POLICY: Final = Resource(
    "kyverno.io", "v2", "clustercleanuppolicies", "ClusterCleanupPolicy", namespaced=False
)
CLEANUP_POLICY: Final = Resource("kyverno.io", "v2", "cleanuppolicies", "CleanupPolicy")

UPDATE_REQUEST: Final = Resource("kyverno.io", "v2", "updaterequests", "UpdateRequest")

NAMESPACE: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ACCESS_REVIEW: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
CONFIG_MAP: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRET: Final = Resource("", "v1", "secrets", "Secret")
LEASE: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRD: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
ROLE_BINDING: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
