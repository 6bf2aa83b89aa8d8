#!/bin/sh
# Takes filters out of the installation's ConfigMap, or puts them back: removeNode, addNode, removeBinding, addBinding.
set -eu
case "$1" in
  *Node) filters='[Node,*,*][Node/*,*,*]' ;;
  *Binding) filters='[Pod/binding,*,*]' ;;
  *) exit 2 ;;
esac
now=$(kubectl get configmap kyverno -n kyverno -o jsonpath='{.data.resourceFilters}')
kept=$(FILTERS="$filters" NOW="$now" python3 - "$1" <<'PYTHON'
import json, os, re, sys

wanted = re.findall(r"\[[^]]*\]", os.environ["FILTERS"])
now = [f for f in re.findall(r"\[[^]]*\]", os.environ["NOW"]) if f not in wanted]
print(json.dumps({"data": {"resourceFilters": "\n".join(now + (wanted if sys.argv[1].startswith("add") else []))}}))
PYTHON
)
kubectl patch configmap kyverno -n kyverno --type merge -p "$kept"
