"""Leases tell the last replica; bindings tell the roles of a user."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime.config import Names
from runtime.controllers.rbac import Bindings, slim
from runtime.controllers.replicas import Replicas
from runtime.k8s.resources import LEASE
from tests.unit.runtime.fake_api import FakeApi

NAMES = Names()


def test_the_last_one_knows_that_it_is() -> None:
    async def main() -> None:
        api = FakeApi()
        one, two = Replicas(api, NAMES, "host-a"), Replicas(api, NAMES, "host-b")
        await one.renew()
        await two.renew()
        await one.renew()
        assert not await one.leave()
        assert await two.leave()
        assert not api.objects[LEASE.plural]

    asyncio.run(main())


def test_a_lease_that_ended_counts_as_gone() -> None:
    async def main() -> None:
        api = FakeApi()
        one, two = Replicas(api, NAMES, "host-a"), Replicas(api, NAMES, "host-b")
        await one.renew()
        await two.renew()
        (lease,) = [x for x in api.objects[LEASE.plural].values() if x["spec"]["holderIdentity"] == "host-b"]
        lease["spec"]["renewTime"] = "2020-01-01T00:00:00.000000Z"
        assert await one.leave()

    asyncio.run(main())


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
