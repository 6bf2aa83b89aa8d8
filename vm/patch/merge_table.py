"""Which lists of the kinds of Kubernetes v1.36.3 merge by element: made by ``make kinds``.

``TYPES``: for each type the fields that lead to merging lists: another type, or a pair of the keys of a list and the
type of its elements (empty for one without merging lists; no keys: a set of scalars). ``KINDS``: the types of kinds, by
group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TYPES: Final[Mapping[str, Mapping[str, str | tuple[tuple[str, ...], str]]]] = {
    "admissionregistration.v1.MutatingAdmissionPolicy": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "admissionregistration.v1.MutatingAdmissionPolicySpec",
    },
    "admissionregistration.v1.MutatingAdmissionPolicyBinding": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "admissionregistration.v1.MutatingAdmissionPolicySpec": {
        "matchConditions": (("name",), ""),
    },
    "admissionregistration.v1.MutatingWebhook": {
        "matchConditions": (("name",), ""),
    },
    "admissionregistration.v1.MutatingWebhookConfiguration": {
        "metadata": "meta.v1.ObjectMeta",
        "webhooks": (("name",), "admissionregistration.v1.MutatingWebhook"),
    },
    "admissionregistration.v1.ValidatingAdmissionPolicy": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "admissionregistration.v1.ValidatingAdmissionPolicySpec",
    },
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": {
        "matchConditions": (("name",), ""),
        "variables": (("name",), ""),
    },
    "admissionregistration.v1.ValidatingWebhook": {
        "matchConditions": (("name",), ""),
    },
    "admissionregistration.v1.ValidatingWebhookConfiguration": {
        "metadata": "meta.v1.ObjectMeta",
        "webhooks": (("name",), "admissionregistration.v1.ValidatingWebhook"),
    },
    "apiextensions.v1.CustomResourceDefinition": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "apiregistration.v1.APIService": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "apiregistration.v1.APIServiceStatus",
    },
    "apiregistration.v1.APIServiceStatus": {
        "conditions": (("type",), ""),
    },
    "apps.v1.ControllerRevision": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "apps.v1.DaemonSet": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "apps.v1.DaemonSetSpec",
        "status": "apps.v1.DaemonSetStatus",
    },
    "apps.v1.DaemonSetSpec": {
        "template": "core.v1.PodTemplateSpec",
    },
    "apps.v1.DaemonSetStatus": {
        "conditions": (("type",), ""),
    },
    "apps.v1.Deployment": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "apps.v1.DeploymentSpec",
        "status": "apps.v1.DeploymentStatus",
    },
    "apps.v1.DeploymentSpec": {
        "template": "core.v1.PodTemplateSpec",
    },
    "apps.v1.DeploymentStatus": {
        "conditions": (("type",), ""),
    },
    "apps.v1.ReplicaSet": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "apps.v1.ReplicaSetSpec",
        "status": "apps.v1.ReplicaSetStatus",
    },
    "apps.v1.ReplicaSetSpec": {
        "template": "core.v1.PodTemplateSpec",
    },
    "apps.v1.ReplicaSetStatus": {
        "conditions": (("type",), ""),
    },
    "apps.v1.StatefulSet": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "apps.v1.StatefulSetSpec",
        "status": "apps.v1.StatefulSetStatus",
    },
    "apps.v1.StatefulSetSpec": {
        "template": "core.v1.PodTemplateSpec",
    },
    "apps.v1.StatefulSetStatus": {
        "conditions": (("type",), ""),
    },
    "authentication.v1.SelfSubjectReview": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "authentication.v1.TokenReview": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "authorization.v1.LocalSubjectAccessReview": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "authorization.v1.SelfSubjectAccessReview": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "authorization.v1.SelfSubjectRulesReview": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "authorization.v1.SubjectAccessReview": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "autoscaling.v2.HorizontalPodAutoscaler": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "autoscaling.v2.HorizontalPodAutoscalerStatus",
    },
    "autoscaling.v2.HorizontalPodAutoscalerStatus": {
        "conditions": (("type",), ""),
    },
    "batch.v1.CronJob": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "batch.v1.CronJobSpec",
    },
    "batch.v1.CronJobSpec": {
        "jobTemplate": "batch.v1.JobTemplateSpec",
    },
    "batch.v1.Job": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "batch.v1.JobSpec",
        "status": "batch.v1.JobStatus",
    },
    "batch.v1.JobSpec": {
        "template": "core.v1.PodTemplateSpec",
    },
    "batch.v1.JobStatus": {
        "conditions": (("type",), ""),
    },
    "batch.v1.JobTemplateSpec": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "batch.v1.JobSpec",
    },
    "certificates.v1.CertificateSigningRequest": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "coordination.v1.Lease": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.Binding": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.ComponentStatus": {
        "conditions": (("type",), ""),
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.ConfigMap": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.Container": {
        "env": (("name",), ""),
        "ports": (("containerPort", "protocol"), ""),
        "volumeDevices": (("devicePath",), ""),
        "volumeMounts": (("mountPath",), ""),
    },
    "core.v1.Endpoints": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.EphemeralContainer": {
        "env": (("name",), ""),
        "ports": (("containerPort", "protocol"), ""),
        "volumeDevices": (("devicePath",), ""),
        "volumeMounts": (("mountPath",), ""),
    },
    "core.v1.EphemeralVolumeSource": {
        "volumeClaimTemplate": "core.v1.PersistentVolumeClaimTemplate",
    },
    "core.v1.Event": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.LimitRange": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.Namespace": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "core.v1.NamespaceStatus",
    },
    "core.v1.NamespaceStatus": {
        "conditions": (("type",), ""),
    },
    "core.v1.Node": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "core.v1.NodeSpec",
        "status": "core.v1.NodeStatus",
    },
    "core.v1.NodeSpec": {
        "podCIDRs": ((), ""),
    },
    "core.v1.NodeStatus": {
        "addresses": (("type",), ""),
        "conditions": (("type",), ""),
    },
    "core.v1.PersistentVolume": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.PersistentVolumeClaim": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "core.v1.PersistentVolumeClaimStatus",
    },
    "core.v1.PersistentVolumeClaimStatus": {
        "conditions": (("type",), ""),
    },
    "core.v1.PersistentVolumeClaimTemplate": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.Pod": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "core.v1.PodSpec",
        "status": "core.v1.PodStatus",
    },
    "core.v1.PodSpec": {
        "containers": (("name",), "core.v1.Container"),
        "ephemeralContainers": (("name",), "core.v1.EphemeralContainer"),
        "hostAliases": (("ip",), ""),
        "imagePullSecrets": (("name",), ""),
        "initContainers": (("name",), "core.v1.Container"),
        "resourceClaims": (("name",), ""),
        "schedulingGates": (("name",), ""),
        "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"), ""),
        "volumes": (("name",), "core.v1.Volume"),
    },
    "core.v1.PodStatus": {
        "conditions": (("type",), ""),
        "hostIPs": (("ip",), ""),
        "podIPs": (("ip",), ""),
        "resourceClaimStatuses": (("name",), ""),
    },
    "core.v1.PodTemplate": {
        "metadata": "meta.v1.ObjectMeta",
        "template": "core.v1.PodTemplateSpec",
    },
    "core.v1.PodTemplateSpec": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "core.v1.PodSpec",
    },
    "core.v1.ReplicationController": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "core.v1.ReplicationControllerSpec",
        "status": "core.v1.ReplicationControllerStatus",
    },
    "core.v1.ReplicationControllerSpec": {
        "template": "core.v1.PodTemplateSpec",
    },
    "core.v1.ReplicationControllerStatus": {
        "conditions": (("type",), ""),
    },
    "core.v1.ResourceQuota": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.Secret": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "core.v1.Service": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "core.v1.ServiceSpec",
        "status": "core.v1.ServiceStatus",
    },
    "core.v1.ServiceAccount": {
        "metadata": "meta.v1.ObjectMeta",
        "secrets": (("name",), ""),
    },
    "core.v1.ServiceSpec": {
        "ports": (("port", "protocol"), ""),
    },
    "core.v1.ServiceStatus": {
        "conditions": (("type",), ""),
    },
    "core.v1.Volume": {
        "ephemeral": "core.v1.EphemeralVolumeSource",
    },
    "discovery.v1.EndpointSlice": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "events.v1.Event": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "flowcontrol.v1.FlowSchema": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "flowcontrol.v1.FlowSchemaStatus",
    },
    "flowcontrol.v1.FlowSchemaStatus": {
        "conditions": (("type",), ""),
    },
    "flowcontrol.v1.PriorityLevelConfiguration": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "flowcontrol.v1.PriorityLevelConfigurationStatus",
    },
    "flowcontrol.v1.PriorityLevelConfigurationStatus": {
        "conditions": (("type",), ""),
    },
    "meta.v1.ObjectMeta": {
        "finalizers": ((), ""),
        "ownerReferences": (("uid",), ""),
    },
    "networking.v1.IPAddress": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "networking.v1.Ingress": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "networking.v1.IngressClass": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "networking.v1.NetworkPolicy": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "networking.v1.ServiceCIDR": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "networking.v1.ServiceCIDRStatus",
    },
    "networking.v1.ServiceCIDRStatus": {
        "conditions": (("type",), ""),
    },
    "node.v1.RuntimeClass": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "policy.v1.PodDisruptionBudget": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "policy.v1.PodDisruptionBudgetStatus",
    },
    "policy.v1.PodDisruptionBudgetStatus": {
        "conditions": (("type",), ""),
    },
    "rbac.v1.ClusterRole": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "rbac.v1.ClusterRoleBinding": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "rbac.v1.Role": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "rbac.v1.RoleBinding": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "resource.v1.DeviceClass": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "resource.v1.ResourceClaim": {
        "metadata": "meta.v1.ObjectMeta",
        "status": "resource.v1.ResourceClaimStatus",
    },
    "resource.v1.ResourceClaimStatus": {
        "reservedFor": (("uid",), ""),
    },
    "resource.v1.ResourceClaimTemplate": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "resource.v1.ResourceClaimTemplateSpec",
    },
    "resource.v1.ResourceClaimTemplateSpec": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "resource.v1.ResourceSlice": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "scheduling.v1.PriorityClass": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "storage.v1.CSIDriver": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "storage.v1.CSINode": {
        "metadata": "meta.v1.ObjectMeta",
        "spec": "storage.v1.CSINodeSpec",
    },
    "storage.v1.CSINodeSpec": {
        "drivers": (("name",), ""),
    },
    "storage.v1.CSIStorageCapacity": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "storage.v1.StorageClass": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "storage.v1.VolumeAttachment": {
        "metadata": "meta.v1.ObjectMeta",
    },
    "storage.v1.VolumeAttributesClass": {
        "metadata": "meta.v1.ObjectMeta",
    },
}

KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        "Binding": "core.v1.Binding",
        "ComponentStatus": "core.v1.ComponentStatus",
        "ConfigMap": "core.v1.ConfigMap",
        "Endpoints": "core.v1.Endpoints",
        "Event": "core.v1.Event",
        "LimitRange": "core.v1.LimitRange",
        "Namespace": "core.v1.Namespace",
        "Node": "core.v1.Node",
        "PersistentVolume": "core.v1.PersistentVolume",
        "PersistentVolumeClaim": "core.v1.PersistentVolumeClaim",
        "Pod": "core.v1.Pod",
        "PodTemplate": "core.v1.PodTemplate",
        "ReplicationController": "core.v1.ReplicationController",
        "ResourceQuota": "core.v1.ResourceQuota",
        "Secret": "core.v1.Secret",
        "Service": "core.v1.Service",
        "ServiceAccount": "core.v1.ServiceAccount",
    },
    "admissionregistration.k8s.io": {
        "MutatingAdmissionPolicy": "admissionregistration.v1.MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding": "admissionregistration.v1.MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration": "admissionregistration.v1.MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy": "admissionregistration.v1.ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding": "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration": "admissionregistration.v1.ValidatingWebhookConfiguration",
    },
    "apiextensions.k8s.io": {
        "CustomResourceDefinition": "apiextensions.v1.CustomResourceDefinition",
    },
    "apiregistration.k8s.io": {
        "APIService": "apiregistration.v1.APIService",
    },
    "apps": {
        "ControllerRevision": "apps.v1.ControllerRevision",
        "DaemonSet": "apps.v1.DaemonSet",
        "Deployment": "apps.v1.Deployment",
        "ReplicaSet": "apps.v1.ReplicaSet",
        "StatefulSet": "apps.v1.StatefulSet",
    },
    "authentication.k8s.io": {
        "SelfSubjectReview": "authentication.v1.SelfSubjectReview",
        "TokenReview": "authentication.v1.TokenReview",
    },
    "authorization.k8s.io": {
        "LocalSubjectAccessReview": "authorization.v1.LocalSubjectAccessReview",
        "SelfSubjectAccessReview": "authorization.v1.SelfSubjectAccessReview",
        "SelfSubjectRulesReview": "authorization.v1.SelfSubjectRulesReview",
        "SubjectAccessReview": "authorization.v1.SubjectAccessReview",
    },
    "autoscaling": {
        "HorizontalPodAutoscaler": "autoscaling.v2.HorizontalPodAutoscaler",
    },
    "batch": {
        "CronJob": "batch.v1.CronJob",
        "Job": "batch.v1.Job",
    },
    "certificates.k8s.io": {
        "CertificateSigningRequest": "certificates.v1.CertificateSigningRequest",
    },
    "coordination.k8s.io": {
        "Lease": "coordination.v1.Lease",
    },
    "discovery.k8s.io": {
        "EndpointSlice": "discovery.v1.EndpointSlice",
    },
    "events.k8s.io": {
        "Event": "events.v1.Event",
    },
    "flowcontrol.apiserver.k8s.io": {
        "FlowSchema": "flowcontrol.v1.FlowSchema",
        "PriorityLevelConfiguration": "flowcontrol.v1.PriorityLevelConfiguration",
    },
    "networking.k8s.io": {
        "IPAddress": "networking.v1.IPAddress",
        "Ingress": "networking.v1.Ingress",
        "IngressClass": "networking.v1.IngressClass",
        "NetworkPolicy": "networking.v1.NetworkPolicy",
        "ServiceCIDR": "networking.v1.ServiceCIDR",
    },
    "node.k8s.io": {
        "RuntimeClass": "node.v1.RuntimeClass",
    },
    "policy": {
        "PodDisruptionBudget": "policy.v1.PodDisruptionBudget",
    },
    "rbac.authorization.k8s.io": {
        "ClusterRole": "rbac.v1.ClusterRole",
        "ClusterRoleBinding": "rbac.v1.ClusterRoleBinding",
        "Role": "rbac.v1.Role",
        "RoleBinding": "rbac.v1.RoleBinding",
    },
    "resource.k8s.io": {
        "DeviceClass": "resource.v1.DeviceClass",
        "ResourceClaim": "resource.v1.ResourceClaim",
        "ResourceClaimTemplate": "resource.v1.ResourceClaimTemplate",
        "ResourceSlice": "resource.v1.ResourceSlice",
    },
    "scheduling.k8s.io": {
        "PriorityClass": "scheduling.v1.PriorityClass",
    },
    "storage.k8s.io": {
        "CSIDriver": "storage.v1.CSIDriver",
        "CSINode": "storage.v1.CSINode",
        "CSIStorageCapacity": "storage.v1.CSIStorageCapacity",
        "StorageClass": "storage.v1.StorageClass",
        "VolumeAttachment": "storage.v1.VolumeAttachment",
        "VolumeAttributesClass": "storage.v1.VolumeAttributesClass",
    },
}
