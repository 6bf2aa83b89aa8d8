"""Bindings tell the roles of a user."""

from __future__ import annotations

from typing import Any

from runtime.controllers.rbac import Bindings, slim


def binding(name: str, role: str, subjects: list[Any], namespace: str = "", kind: str = "ClusterRole") -> Any:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    bound = "RoleBinding" if namespace else "ClusterRoleBinding"
    return slim({"kind": bound, "metadata": metadata, "roleRef": {"kind": kind, "name": role}, "subjects": subjects})


def test_roles_of_users_groups_and_service_accounts() -> None:
    bindings = Bindings()
    bindings.note("added", binding("a", "admin", [{"kind": "User", "name": "jane"}]))
    bindings.note("added", binding("b", "edit", [{"kind": "Group", "name": "dev"}], "shop"))
    bindings.note("added", binding("c", "deployer", [{"kind": "ServiceAccount", "name": "ci"}], "shop", "Role"))
    assert bindings.roles({"username": "jane", "groups": ["dev", "other"]}) == ((), ("admin", "edit"))
    assert bindings.roles({"username": "system:serviceaccount:shop:ci"}) == (("shop:deployer",), ())
    assert bindings.roles({"username": "joe", "groups": None}) == ((), ())
    bindings.note("changed", binding("a", "view", [{"kind": "User", "name": "joe"}]))
    assert bindings.roles({"username": "jane"}) == ((), ())
    assert bindings.roles({"username": "joe"}) == ((), ("view",))
    bindings.note("deleted", binding("a", "view", []))
    assert bindings.roles({"username": "joe"}) == ((), ())
