"""Which roles a user holds, from the bindings of the cluster: what ``roles`` and ``clusterRoles`` of a rule ask for.

Watchers call :meth:`Bindings.note`; the webhook calls :meth:`Bindings.roles` for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runtime.k8s.client import Object
from runtime.k8s.watch import Change, key_of
from runtime.request import service_account

Subject = tuple[str, str]
"""(``User`` or ``Group``, name), or (``ServiceAccount``, ``namespace/name``)."""

Roles = tuple[tuple[str, ...], tuple[str, ...]]

MOST_USERS: Final = 1024
"""Users whose roles are kept until a binding changes: the same few do most of what is done in a cluster."""


class Bindings:
    """RoleBindings and ClusterRoleBindings, indexed by subject."""

    def __init__(self) -> None:
        self._held: dict[Subject, dict[tuple[str, str, str], tuple[str, str]]] = {}
        self._subjects: dict[tuple[str, str, str], tuple[Subject, ...]] = {}
        self._known: dict[tuple[str, tuple[str, ...]], Roles] = {}

    def note(self, change: Change, obj: Object) -> None:
        """Takes in a binding as a watcher saw it."""
        self._known.clear()
        namespace, name = key_of(obj)
        key = (str(obj.get("kind")), namespace, name)
        for subject in self._subjects.pop(key, ()):
            self._held.get(subject, {}).pop(key, None)
        if change == "deleted":
            return
        role = obj.get("roleRef") or {}
        if role.get("kind") == "ClusterRole":
            held = ("cluster", str(role.get("name")))
        else:
            # Kyverno names a Role with its namespace, since names alone are not unique.
            held = ("role", f"{namespace}:{role.get('name')}")
        subjects = tuple(_subject(s, namespace) for s in obj.get("subjects") or () if isinstance(s, dict))
        self._subjects[key] = subjects
        for subject in subjects:
            self._held.setdefault(subject, {})[key] = held

    def roles(self, user: Mapping[str, Any]) -> Roles:
        """(roles as ``namespace:name``, cluster roles) that are bound to a user of an admission request."""
        username, given = str(user.get("username") or ""), user.get("groups")
        groups = tuple(map(str, given)) if isinstance(given, list) else ()
        known = self._known.get((username, groups))
        if known is None:
            if len(self._known) >= MOST_USERS:
                self._known.clear()
            known = self._known[username, groups] = self._roles(username, groups)
        return known

    def _roles(self, username: str, groups: tuple[str, ...]) -> Roles:
        subjects: list[Subject] = [("User", username)]
        namespace, account = service_account(username)
        if account:
            subjects.append(("ServiceAccount", f"{namespace}/{account}"))
        subjects += [("Group", group) for group in groups]
        roles: dict[str, None] = {}
        cluster: dict[str, None] = {}
        for subject in subjects:
            for kind, name in self._held.get(subject, {}).values():
                (cluster if kind == "cluster" else roles)[name] = None
        return tuple(roles), tuple(cluster)


def slim(obj: Object) -> Object:
    """A binding without what is not read, since clusters have thousands."""
    metadata = obj.get("metadata") or {}
    kept = {k: metadata.get(k) for k in ("name", "namespace", "resourceVersion")}
    return {"kind": obj.get("kind"), "metadata": kept, "roleRef": obj.get("roleRef"), "subjects": obj.get("subjects")}


def _subject(subject: Mapping[str, Any], namespace: str) -> Subject:
    kind, name = str(subject.get("kind")), str(subject.get("name"))
    if kind == "ServiceAccount":
        return kind, f"{subject.get('namespace') or namespace}/{name}"
    return kind, name
